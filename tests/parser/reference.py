"""The wire as a few regular expressions: slow, whole streams only, and easy to believe.

Written from the protocol's rules, apart from the byte machine, so that it can judge it.
"""

import re
from dataclasses import dataclass, field

from tests.parser.reading import Said

REST = re.compile(rb"(?is)(PING|PONG|\+OK)[^\n]*(\n?)")
VERB = re.compile(rb"(?is)(?:(CONNECT|INFO)[ \t]*|(PUB|HPUB|SUB|UNSUB|-ERR)[ \t]+)(?=[^ \t])")
VERBS = (b"CONNECT", b"INFO", b"PUB", b"HPUB", b"SUB", b"UNSUB", b"-ERR", b"PING", b"PONG", b"+OK")
SIZE = re.compile(rb"[0-9]{1,9}\Z")
REST_NAMES = {b"PING": "PING", b"PONG": "PONG", b"+OK": "IGNORED"}


def digest(subject: bytes) -> int:
    """FNV-1a, 32 bits."""
    value = 0x811C9DC5
    for byte in subject:
        value = (value ^ byte) * 0x01000193 % (1 << 32)
    return value


@dataclass
class Reference:
    """Reads one stream. `found` are its operations; the last may be a fault."""

    line_max: int = 4096
    payload_max: int = 1 << 20
    headers: bool = True
    found: list[Said] = field(default_factory=list)

    def read(self, wire: bytes) -> list[Said]:
        at = 0
        while at < len(wire):
            step = self._operation(wire[at:])
            if step is None:
                break
            at += step
        return self.found

    def _fault(self, name: str) -> int | None:
        self.found.append(Said(f"FAULT {name}"))
        return None

    def _operation(self, rest: bytes) -> int | None:
        """How long the operation is; None if it is not whole, or a fault."""
        simple = REST.match(rest)
        if simple:
            if not simple[2]:
                return None
            self.found.append(Said(REST_NAMES[simple[1].upper()]))
            return simple.end()
        verb = VERB.match(rest)
        if verb is None:
            start = rest.rstrip(b" \t").upper()
            begins = start + b"$" if len(start) < len(rest) else start  # `$`: a blank ended it
            if not any((word + b"$").startswith(begins) for word in VERBS):
                return self._fault("UnknownOperation")
            return None
        return self._line((verb[1] or verb[2]).upper(), rest, verb.end())

    def _line(self, verb: bytes, rest: bytes, start: int) -> int | None:
        end = rest.find(b"\n", start + 1)
        line = rest[start:] if end < 0 else rest[start:end]
        line = line.removesuffix(b"\r")
        if len(line) > self.line_max:
            return self._fault("ControlLineTooLong")
        if end < 0:
            return None
        if verb in (b"PUB", b"HPUB"):
            return self._publish(verb, line, rest, end + 1)
        if verb == b"-ERR":
            return self._fault("PeerError")
        if verb in (b"CONNECT", b"INFO"):
            self.found.append(Said(verb.decode(), (line,)))
            return end + 1
        words = re.findall(rb"[^ \t\r\n]+", line)
        least, most = (2, 3) if verb == b"SUB" else (1, 2)
        if not least <= len(words) <= most:
            return self._fault("BadArguments")
        middle = words[1] if len(words) == 3 else b""
        last = words[-1] if len(words) > 1 else b""
        self.found.append(Said(verb.decode(), (words[0], middle, last)))
        return end + 1

    def _publish(self, verb: bytes, line: bytes, rest: bytes, body: int) -> int | None:
        if verb == b"HPUB" and not self.headers:
            return self._fault("HeadersNotAgreed")
        words = re.findall(rb"[^ \t]+", line)
        sizes = 1 if verb == b"PUB" else 2
        if not 1 + sizes <= len(words) <= 2 + sizes:
            return self._fault("BadArguments")
        numbers = words[-sizes:]
        if not all(SIZE.match(number) for number in numbers):
            return self._fault("BadArguments")
        size = int(numbers[-1])
        header_size = int(numbers[0]) if sizes == 2 else 0
        if header_size > size:
            return self._fault("BadArguments")
        if size > self.payload_max:
            return self._fault("PayloadTooLarge")
        end = body + size
        if not b"\r\n".startswith(rest[end : end + 2]):
            return self._fault("PayloadUnended")
        if len(rest) < end + 2:
            return None
        reply = words[1] if len(words) == 2 + sizes else b""
        self.found.append(
            Said(
                verb.decode(),
                (words[0], reply, *numbers),
                rest[body:end],
                header_size,
                digest(words[0]),
            )
        )
        return end + 2
