"""The meaning of a client's bytes, from the protocol's description only: slow, plain, complete.

It judges parser/machine.py, so it shares nothing with it: no table, no states, no spans. `step`
looks at all bytes from the beginning of an operation and says what they are: an `Op`, a `Fault`, or
None if more bytes are needed. Its result depends only on the bytes, not on how they were cut, so it
can judge any chunking.
"""

import re
from typing import NamedTuple

BLANKED = (b"PUB", b"HPUB", b"SUB", b"UNSUB", b"-ERR")  # at least one blank must follow
LOOSE = (b"CONNECT", b"INFO")  # no blank need follow
BARE = (b"PING", b"PONG", b"+OK")  # the rest is ignored, up to the line feed
VERBS = (*BLANKED, *LOOSE, *BARE)
VERB_MAX = 7  # bytes of the longest verb, CONNECT
SIZE = re.compile(rb"[0-9]{1,9}\Z")


class Op(NamedTuple):
    """One whole operation and where the next begins."""

    verb: str
    end: int
    subject: bytes = b""  # or an UNSUB's sid, or the text of CONNECT and INFO
    reply: bytes = b""  # or a SUB's queue
    digits: bytes = b""  # the size as written, a SUB's sid, an UNSUB's max
    header_digits: bytes = b""
    headers: bytes = b""
    payload: bytes = b""


class Fault(NamedTuple):
    """The reason why a client is disconnected: the name of the error's class."""

    name: str
    subject: bytes = b""  # of a message whose payload does not end


class Limits(NamedTuple):
    """The limits that were announced to the client."""

    max_control_line: int
    max_payload: int
    headers: bool


def step(data: bytes, at: int, limits: Limits) -> Op | Fault | None:
    """Return the operation that begins at `at`."""
    rest = data[at : at + VERB_MAX]
    verb = next((verb for verb in VERBS if rest[: len(verb)].upper() == verb), None)
    if verb is None:
        begun = any(verb.startswith(rest.upper()) for verb in VERBS)
        return None if begun else Fault("UnknownOperation")
    after = at + len(verb)
    if verb in BARE:
        line_end = data.find(b"\n", after)
        return None if line_end < 0 else Op(verb.decode(), line_end + 1)
    if verb in BLANKED and after < len(data) and data[after] not in b" \t":
        return Fault("UnknownOperation")
    start = after
    while start < len(data) and data[start] in b" \t":
        start += 1
    if start == len(data):
        return None
    return _line(verb.decode(), data, start, limits)


def _line(verb: str, data: bytes, start: int, limits: Limits) -> Op | Fault | None:
    """Parse the arguments; their first byte belongs to them whatever it is."""
    line_end = data.find(b"\n", start + 1)
    text = data[start:line_end] if line_end >= 0 else data[start:]
    if text.endswith(b"\r"):
        text = text[:-1]
    if len(text) > limits.max_control_line:
        return Fault("ControlLineTooLong")
    if line_end < 0:
        return None
    after = line_end + 1
    if verb in ("CONNECT", "INFO"):
        return Op(verb, after, text)
    if verb == "-ERR":
        return Fault("PeerError")
    if verb in ("SUB", "UNSUB"):
        return _subscription(verb, re.findall(rb"[^ \t\r\n]+", text), after)
    return _message(verb, re.findall(rb"[^ \t]+", text), data, after, limits)


def _subscription(verb: str, words: list[bytes], after: int) -> Op | Fault:
    if verb == "UNSUB":
        if len(words) == 1:
            return Op(verb, after, words[0])
        if len(words) == 2:
            return Op(verb, after, words[0], digits=words[1])
    elif len(words) == 2:
        return Op(verb, after, words[0], digits=words[1])
    elif len(words) == 3:
        return Op(verb, after, words[0], words[1], words[2])
    return Fault("BadArguments")


def _message(
    verb: str, words: list[bytes], data: bytes, body: int, limits: Limits
) -> Op | Fault | None:
    numbers = 1
    if verb == "HPUB":
        if not limits.headers:
            return Fault("HeadersNotAgreed")
        numbers = 2
    if len(words) - numbers not in (1, 2):
        return Fault("BadArguments")
    if not all(SIZE.match(word) for word in words[-numbers:]):
        return Fault("BadArguments")
    size = int(words[-1])
    header_size = int(words[-2]) if numbers == 2 else 0
    if header_size > size:
        return Fault("BadArguments")
    if size > limits.max_payload:
        return Fault("PayloadTooLarge")
    end = body + size
    if not b"\r\n".startswith(data[end : end + 2]):
        return Fault("PayloadUnended", words[0])
    if len(data) < end + 2:
        return None
    return Op(
        verb,
        end + 2,
        words[0],
        words[1] if len(words) - numbers == 2 else b"",
        words[-1],
        words[-2] if numbers == 2 else b"",
        data[body : body + header_size],
        data[body + header_size : end],
    )


def read(data: bytes, limits: Limits) -> tuple[list[Op], Fault | None]:
    """Return all whole operations of a stream, and the fault that ends it, if any."""
    ops: list[Op] = []
    at = 0
    while at < len(data):
        found = step(data, at, limits)
        if found is None:
            break
        if isinstance(found, Fault):
            return ops, found
        ops.append(found)
        at = found.end
    return ops, None
