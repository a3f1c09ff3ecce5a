"""Writes answers of JetStream's API as Go writes JSON: `<`, `>` and `&` are escaped (`\\u003e`)."""

import json
from collections.abc import Mapping
from typing import Any, Final

_ESCAPED: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def encode(fields: Mapping[str, Any]) -> bytes:
    """Write an answer."""
    text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    return text.translate(_ESCAPED).encode("utf-8", "replace")
