"""The reference's vectors, and what tests make of them."""

import json
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).resolve().parent.parent / "vectors"


def load(name: str) -> Any:
    return json.loads((VECTORS / f"cardinal_{name}.json").read_text())


def unhex(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))
