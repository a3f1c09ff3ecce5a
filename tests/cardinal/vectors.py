"""The reference's vectors, and what tests make of them."""

import json
from typing import Any

from tests.support.places import VECTORS


def load(name: str) -> Any:
    return json.loads((VECTORS / f"cardinal_{name}.json").read_text())


def unhex(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))
