"""What staging writes down: JSON in one line, behind its own checksum.

    1c291ca3 {"application":"query-1","batch":7}

A line that a crash has torn is told from a whole one by its checksum.
"""

import json
from typing import Any
from zlib import crc32

DIGITS = 8  # of the checksum


def seal(fields: dict[str, Any]) -> bytes:
    """One line, with its end."""
    text = json.dumps(fields, separators=(",", ":")).encode()
    return b"%08x %b\n" % (crc32(text), text)


def unseal(line: bytes) -> dict[str, Any] | None:
    """What a line says, with or without its end; None where it is damaged or torn."""
    word, _, text = line.rstrip(b"\n").partition(b" ")
    if len(word) != DIGITS or word != b"%08x" % crc32(text):
        return None
    fields = json.loads(text)
    return fields if isinstance(fields, dict) else None
