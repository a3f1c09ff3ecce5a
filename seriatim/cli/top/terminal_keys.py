"""Keys: the bytes that a terminal sends for them, taken apart."""

import codecs
from typing import Final

ESCAPE: Final = "\x1b"
# What follows ESC [ or ESC O, as xterm, the Linux console, screen and tmux send it.
SEQUENCES: Final = {
    **{"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end"},
    **{"1~": "home", "4~": "end", "5~": "pgup", "6~": "pgdn", "7~": "home", "8~": "end"},
}
CONTROLS: Final = {
    **{"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace"},
    **{"\x15": "clear", "\x0c": "redraw", "\x06": "pgdn", "\x02": "pgup"},
}
SEQUENCE_MAX: Final = 16  # characters; no key has more


class TerminalKeys:
    """Takes what was read, and returns the keys: a character, or the name of a key.

    An ESC that ends what was read may be the key or the beginning of a sequence: `flush` says that
    nothing has followed it.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._left = ""

    @property
    def is_open(self) -> bool:
        """True if a sequence has begun, and not ended."""
        return bool(self._left)

    def feed(self, data: bytes) -> list[str]:
        """Return the keys that are complete."""
        text, found = self._left + self._decoder.decode(data), []
        while text:
            key, length = _first(text)
            if not length:
                break
            text = text[length:]
            if key:
                found.append(key)
        self._left = text
        return found

    def flush(self) -> list[str]:
        """Return the key that a lone ESC is; drop the beginning of anything else."""
        left, self._left = self._left, ""
        return ["escape"] if left == ESCAPE else []


def _first(text: str) -> tuple[str, int]:
    """Return the first key, empty if it is none that we use, and its length; 0: not complete."""
    if text[0] != ESCAPE:
        one = text[0]
        return CONTROLS.get(one, one if one.isprintable() else ""), 1
    if len(text) == 1:
        return "", 0
    if text[1] not in "[O":
        return "escape", 1
    for at, one in enumerate(text[2 : 2 + SEQUENCE_MAX], 2):
        if "@" <= one <= "~":
            return SEQUENCES.get(text[2 : at + 1], ""), at + 1
    return ("", len(text)) if len(text) >= 2 + SEQUENCE_MAX else ("", 0)
