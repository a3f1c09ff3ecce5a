"""Lines of JSON with a checksum in front, which staging and members write to their files.

    1c291ca3 {"application":"query-1","batch":7}

The checksum tells a whole line from one torn by a crash.
"""

import json
from typing import Any
from zlib import crc32

DIGITS = 8  # of the checksum


def seal(fields: dict[str, Any]) -> bytes:
    """Return one line, with its line end."""
    text = json.dumps(fields, separators=(",", ":")).encode()
    return b"%08x %b\n" % (crc32(text), text)


def unseal(line: bytes) -> dict[str, Any] | None:
    """Parse a line, with or without its end; None if it is damaged or torn."""
    word, _, text = line.rstrip(b"\n").partition(b" ")
    if len(word) != DIGITS or word != b"%08x" % crc32(text):
        return None
    fields = json.loads(text)
    return fields if isinstance(fields, dict) else None
