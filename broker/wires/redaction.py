"""What clients send, for the log, without their credentials.

A CONNECT that arrived whole is shown with the values of known, harmless options. Everything else
is hidden: all other values, and everything if it came in pieces or is not valid JSON. If a line
ends within the JSON, what follows is hidden too, because it is the rest of the CONNECT.
"""

import json
import re
from typing import Any, Final

from broker.wires.connect import SHOWN, folded
from broker.wires.go_json import Pairs, read

HIDDEN: Final = "[REDACTED]"
VERB: Final = b"connect"
LINE_MAX: Final = 64 << 10  # bytes kept of a CONNECT in pieces: no control line may be longer
# CONNECT begins a line; elsewhere, the word is part of a payload or a client's mistake.
_CONNECT = re.compile(rb"\Aconnect|connect[ \t]*\{", re.IGNORECASE)
# In a line that is not an operation, what follows may be the options of a CONNECT.
_OPTIONS = re.compile(rb"(?<=connect)(?=.)|\{\s*(?:[\"']|\w+\s*:|\Z)", re.IGNORECASE | re.DOTALL)
# The verbs of other operations; any other word in front of an object may be a misspelt CONNECT.
_MISSPELT = re.compile(
    rb"\A[ \t]*(?!(?:pub|hpub|sub|unsub|ping|pong|info|\+ok|-err)\b)[^\s{]{0,32}[ \t]*"
    rb"(?=\{\s*(?:[\"']|\w+\s*:|\Z))",
    re.IGNORECASE | re.DOTALL,
)
BEGIN_MAX: Final = 64  # bytes of an incomplete line that are kept: a verb in any spelling
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


class RedactedReads:
    """The reads of one connection; a CONNECT may be cut anywhere between them."""

    __slots__ = ("_begin", "_hiding", "_introduced", "_torn")

    def __init__(self, amid: bool = False, unserved: bytes = b"") -> None:
        """`amid`: an operation has begun, which may be a CONNECT; then come `unserved` bytes."""
        self._begin = b""  # the start of the incomplete line, from earlier reads
        self._hiding = False  # that line is a CONNECT
        self._introduced = False  # it has sent a CONNECT
        self._torn = False  # a CONNECT was not whole in its line, so its connection is closed
        self.shown(VERB + b" " if amid else b"")
        self.shown(unserved)

    def shown(self, data: bytes) -> bytes:
        """Return one read as it may be logged."""
        return b"".join(self._piece(line) for line in _LINE.findall(data))

    def _piece(self, piece: bytes) -> bytes:
        """Return what may be shown of a line, or of the part that has arrived."""
        whole = piece.endswith(b"\n")
        begin, self._begin = self._begin, b""
        line = begin + piece
        if self._hiding or self._torn:
            shown = HIDDEN.encode() + piece[len(piece.rstrip(b"\r\n")) :]
        elif _CONNECT.search(line) is not None:
            shown = hide(line, whole)[len(begin) :]
            self._introduced = True
        elif (at := self._hidden_from(line)) is not None:
            rest = line[max(at, len(begin)) :]
            shown = line[len(begin) : at] + HIDDEN.encode() + rest[len(rest.rstrip(b"\r\n")) :]
            if whole:
                self._torn = not self._introduced and _is_cut(line[at:])
                return shown
        else:
            if not whole:
                self._begin = line[:BEGIN_MAX]
            return piece
        if whole:
            self._torn = self._torn or _is_torn(line)
        elif not self._torn:
            self._begin = line[:LINE_MAX]
        self._hiding = not whole
        return shown

    def _hidden_from(self, line: bytes) -> int | None:
        """Where an object begins that may be the options of a misspelt CONNECT.

        A line that is nothing but an object is usually a payload, if the client is known.
        """
        found = _MISSPELT.match(line)
        if found is None or (self._introduced and not found[0].strip()):
            return None
        return found.end()


def hide(line: bytes, whole: bool = False) -> bytes:
    """Hide the values in a CONNECT line; if it is not whole, show nothing of it."""
    found = _CONNECT.search(line)
    if found is None:
        return line
    start = found.start() + len(VERB)
    text = line[start:].rstrip(b"\r\n")
    shown = _options(text) if whole and found.start() == 0 else HIDDEN
    return line[:start] + b" " + shown.encode() + line[start + len(text) :]


def hide_object(line: bytes) -> bytes:
    """Hide a JSON object in a line that is not an operation: it may be a misspelt CONNECT."""
    found = _OPTIONS.search(line)
    return line if found is None else line[: found.start()] + HIDDEN.encode()


def _is_torn(line: bytes) -> bool:
    """Whether the JSON object of a CONNECT continues in the next line."""
    text = line[len(VERB) :].strip()
    return text.startswith(b"{") and _is_cut(text)


def _is_cut(text: bytes) -> bool:
    """Whether it is not a whole JSON value."""
    try:
        read(text.strip())
    except ValueError:
        return True
    return False


def _options(text: bytes) -> str:
    """The options of a CONNECT, with the values of the harmless ones."""
    try:
        pairs = read(text)
    except ValueError:
        return HIDDEN
    if not isinstance(pairs, Pairs):
        return HIDDEN
    return "{" + ",".join(f"{json.dumps(key)}:{_value(key, value)}" for key, value in pairs) + "}"


def _value(key: str, value: Any) -> str:
    harmless = value is None or type(value) is SHOWN.get(folded(key))
    return json.dumps(value if harmless else HIDDEN)
