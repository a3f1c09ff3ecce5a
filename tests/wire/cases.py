"""The table of byte scripts that any NATS server answers in the same way: what a case is.

A script is sent on a new connection, followed by a PING, and the answer is read up to the last PONG
or to the close. `half_close` scripts are followed by the end of our sending side instead, for what
must not be answered yet.
"""

import re
from dataclasses import dataclass

PING_LINE = re.compile(rb"^ping", re.IGNORECASE | re.MULTILINE)

QUIET = b'CONNECT {"verbose":false,"pedantic":false}\r\n'
LOUD = b'CONNECT {"verbose":true,"pedantic":false}\r\n'
STRICT = b'CONNECT {"verbose":false,"pedantic":true}\r\n'
DEAF = b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\n'
HEADS = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
ASKER = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
DEAF_ASKER = (
    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,'
    b'"echo":false}\r\n'
)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    script: bytes
    half_close: bool = False
    limits: str = "default"
    # nats-server answers this one otherwise when it comes in pieces; the answer to the whole holds
    uneven: bool = False
    inner_pings: int = 0  # lines of the script that look like a PING and are payload

    @property
    def bytes_to_send(self) -> bytes:
        return self.script if self.half_close else self.script + b"PING\r\n"

    @property
    def pongs(self) -> int:
        """How many PONGs end the answer, unless the connection closes before."""
        if self.half_close:
            return 1 << 30
        return len(PING_LINE.findall(self.bytes_to_send)) - self.inner_pings

    def __str__(self) -> str:
        return self.name


def shown(text: bytes) -> str:
    """A short, printable, unique-enough name made of the bytes themselves."""
    name = repr(text)[2:-1]
    return name if len(name) <= 60 else f"{name[:40]}...{name[-12:]}[{len(text)}]"


def each(prefix: bytes, *scripts: bytes, suffix: bytes = b"", about: str = "") -> list[Case]:
    """One case for each script, between the same prefix and suffix, named by its bytes."""
    lead = f"{about}: " if about else ""
    return [Case(lead + shown(text), prefix + text + suffix) for text in scripts]


def waiting(prefix: bytes, *scripts: bytes, about: str = "unfinished") -> list[Case]:
    """Scripts that end before anything can be answered."""
    return [Case(f"{about}: {shown(text)}", prefix + text, half_close=True) for text in scripts]
