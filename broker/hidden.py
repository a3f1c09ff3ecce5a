"""What clients say, for the log, without their credentials.

A CONNECT that has come whole is shown with what its known, harmless options say. All else of
it is hidden: every other value, and everything of one that comes in pieces or is no JSON.
"""

import json
import re
from typing import Any, Final

from broker.go_json import Pairs, read
from broker.options import SHOWN, folded

HIDDEN: Final = "[REDACTED]"
VERB: Final = b"connect"
# A CONNECT begins a line; what looks like one elsewhere is a payload, or a client's mistake.
_CONNECT = re.compile(rb"\Aconnect|connect[ \t]*\{", re.IGNORECASE)
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


class Reads:
    """The reads of one connection, which may cut a CONNECT anywhere."""

    __slots__ = ("_begin", "_hiding")

    def __init__(self) -> None:
        self._begin = b""  # how the line that is not whole began, in earlier reads
        self._hiding = False  # it is a CONNECT

    def shown(self, data: bytes) -> bytes:
        """One read as it may be logged."""
        return b"".join(self._piece(line) for line in _LINE.findall(data))

    def _piece(self, piece: bytes) -> bytes:
        """What may be shown of a line, or of as much of it as is here."""
        whole = piece.endswith(b"\n")
        begin, self._begin = self._begin, b""
        if self._hiding:
            self._hiding = not whole
            return HIDDEN.encode() + piece[len(piece.rstrip(b"\r\n")) :]
        line = begin + piece
        if _CONNECT.search(line) is not None:
            self._hiding = not whole
            return hide(line, whole)[len(begin) :]
        if not whole:
            self._begin = line[: len(VERB)]
        return piece


def hide(line: bytes, whole: bool = False) -> bytes:
    """One line without the values of a CONNECT; of one that is not whole, nothing is shown."""
    found = _CONNECT.search(line)
    if found is None:
        return line
    start = found.start() + len(VERB)
    text = line[start:].rstrip(b"\r\n")
    shown = _options(text) if whole and found.start() == 0 else HIDDEN
    return line[:start] + b" " + shown.encode() + line[start + len(text) :]


def _options(text: bytes) -> str:
    """The options of a CONNECT, those that tell nothing secret with their values."""
    try:
        pairs = read(text)
    except ValueError:
        return HIDDEN
    if not isinstance(pairs, Pairs):
        return HIDDEN
    return "{" + ",".join(f"{json.dumps(key)}:{_value(key, value)}" for key, value in pairs) + "}"


def _value(key: str, value: Any) -> str:
    harmless = folded(key) in SHOWN and not isinstance(value, list)
    return json.dumps(value if harmless else HIDDEN)
