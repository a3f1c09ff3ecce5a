"""Escapes foreign texts for a terminal, so that no character controls it."""

import re
from typing import Final

# JSON must escape characters below a blank, but not these: DEL, and C1, whose U+009B is another
# form of ESC [.
_JSON_LEAVES: Final = re.compile("[\x7f-\x9f]")


def printable(text: str) -> str:
    """`text` in one line, with escapes for unprintable characters."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def printable_lines(text: str) -> str:
    """`text` in its lines, with escapes for the other unprintable characters."""
    return "\n".join(map(printable, text.split("\n")))


def printable_json(text: str) -> str:
    """`text`, which is JSON, with escapes for the control characters that JSON leaves."""
    return _JSON_LEAVES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
