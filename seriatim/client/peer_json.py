"""Reads the JSON of a peer, which may be anything."""

import json
from typing import Any

Data = bytes | bytearray | memoryview


def read_json(data: Data) -> Any:
    """Return what JSON says. Raises `ValueError`, also if it nests too deep for Python."""
    try:
        return json.loads(bytes(data))
    except RecursionError:
        raise ValueError("the JSON nests too deep") from None


def read_object(data: Data) -> dict[str, Any]:
    """Return an object of JSON. Raises `ValueError` for anything else."""
    found = read_json(data)
    if not isinstance(found, dict):
        raise ValueError("the JSON is not an object")
    return found
