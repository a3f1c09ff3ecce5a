"""Redacts clients' input for the log: credentials are never shown.

A CONNECT that arrived whole is shown with the values of known, harmless options; all other values
are hidden. If it came in pieces, or is not valid JSON, all of it is hidden. If a line ends within
the JSON, the following lines are hidden too, because they are the rest of the CONNECT.
"""

import json
import re
from typing import Any, Final

from broker.wires.connect import SHOWN, folded
from broker.wires.go_json import Pairs, read

HIDDEN: Final = "[REDACTED]"
VERB: Final = b"connect"
LINE_MAX: Final = 64 << 10  # bytes kept of a CONNECT in pieces: no control line may be longer
# CONNECT begins a line; elsewhere, the word is in a payload, or a mistake of the client.
_CONNECT = re.compile(rb"\Aconnect|connect[ \t]*\{", re.IGNORECASE)
# Text that may be the options of a CONNECT, in a line that is not an operation.
_OPTIONS = re.compile(rb"(?<=connect)(?=.)|\{\s*(?:[\"']|\w+\s*:|\Z)", re.IGNORECASE | re.DOTALL)
# The verbs of other operations; any other word in front of an object may be a misspelt CONNECT.
_MISSPELT = re.compile(
    rb"\A[ \t]*(?!(?:pub|hpub|sub|unsub|ping|pong|info|\+ok|-err)\b)[^\s{]{0,32}[ \t]*"
    rb"(?=\{\s*(?:[\"']|\w+\s*:|\Z))",
    re.IGNORECASE | re.DOTALL,
)
BEGIN_MAX: Final = 64  # bytes kept of an incomplete line: a verb in any spelling
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


class RedactedReads:
    """The reads of one connection, redacted; a CONNECT may be split over several reads."""

    __slots__ = ("_begin", "_hiding", "_introduced", "_torn")

    def __init__(self, amid: bool = False, unserved: bytes = b"") -> None:
        """Begin with `unserved` bytes. `amid`: within an operation, which may be a CONNECT."""
        self._begin = b""  # the start of the incomplete line, from earlier reads
        self._hiding = False  # that line is a CONNECT
        self._introduced = False  # it has sent a CONNECT
        self._torn = False  # the last CONNECT was not whole in its line: the connection will close
        self.shown(VERB + b" " if amid else b"")
        self.shown(unserved)

    def shown(self, data: bytes) -> bytes:
        """Return one read, redacted for the log."""
        return b"".join(self._piece(line) for line in _LINE.findall(data))

    def _piece(self, piece: bytes) -> bytes:
        """Return a line, or the part of it that has arrived, redacted."""
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
        """Return where an object begins that may be the options of a misspelt CONNECT, or None.

        After a CONNECT, a line with only an object is usually a payload, and is shown.
        """
        found = _MISSPELT.match(line)
        if found is None or (self._introduced and not found[0].strip()):
            return None
        return found.end()


def hide(line: bytes, whole: bool = False) -> bytes:
    """Hide the values in a CONNECT line; if the line is not whole, hide all options."""
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
    """True if the JSON object of a CONNECT continues in the next line."""
    text = line[len(VERB) :].strip()
    return text.startswith(b"{") and _is_cut(text)


def _is_cut(text: bytes) -> bool:
    """True if the text is not a whole JSON value."""
    try:
        read(text.strip())
    except ValueError:
        return True
    return False


def _options(text: bytes) -> str:
    """Return the options of a CONNECT, with the values of the harmless ones."""
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
