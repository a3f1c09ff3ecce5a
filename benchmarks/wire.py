r"""The bytes on the wire: those of a publisher and, exactly, those that a subscriber must receive.

The server's frame replaces the payload by:

    netstring   L:w:number,m:payload,,                          in a MSG
    header      NATS/1.0 with a line `Nats-Sequence: number`    in an HMSG
    stamp       the same, with the time in a second line        in an HMSG
    none        the payload itself                              in a MSG   (nats-server)

Lengths grow with the digits of the number. A fresh broker numbers 1..N, so the bytes of a whole run
are known before it begins, whatever the order in which publishers are served. Only times are not;
they have one length.
"""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from benchmarks.errors import BenchmarkError

Frame = Literal["netstring", "header", "stamp", "none"]

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"name":"benchmark"}\r\n'
LOGIN = CONNECT.replace(b"{", b'{"user":"bench","pass":"bench",')
PING = b"PING\r\n"
PONG = b"PONG\r\n"
BLOCK_BYTES = 256 * 1024  # fits in the cache, and is one system call for many messages

MESSAGE_LINE = re.compile(rb"H?MSG (\S+) (\S+) (?:\S+ ){0,2}(\d+)\r\n")
NETSTRING_NUMBER = re.compile(rb"\d+:\d+:(\d+),")
HEADER_NUMBER = re.compile(rb"NATS/1\.0\r\nNats-Sequence: (\d+)\r\n")
STAMP_TIME = re.compile(
    rb"NATS/1\.0\r\nNats-Sequence: \d+\r\nNats-Time-Stamp: ([-0-9T:.]{29}Z)\r\n"
)
SOME_TIME = b"2026-01-31T12:00:00.123456789Z"


HEADERS = b"NATS/1.0\r\nOrder: 17\r\nFrom: me\r\n\r\n"  # of 33 bytes


def payload_of(size: int) -> bytes:
    """Make a payload of `size` bytes that cannot be mistaken for protocol."""
    return (b"0123456789abcdef" * (size // 16 + 1))[:size]


def publication(subject: bytes, payload: bytes, headers: bytes = b"") -> bytes:
    """Return one PUB operation; with headers, one HPUB."""
    if headers:
        sizes = (len(headers), len(headers) + len(payload))
        return b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, *sizes, headers, payload)
    return b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)


class Block(NamedTuple):
    """The data of one publisher: `data`, with `messages` in it, sent `repeats` times."""

    data: bytes
    messages: int
    repeats: int


def publications(
    subjects: Sequence[bytes], payload: bytes, messages: int, headers: bytes = b""
) -> Block:
    """Return a block for sending `messages` in total, or slightly fewer, so that it divides evenly.

    Every subject occurs equally often in it, and at least once.
    """
    once = b"".join([publication(subject, payload, headers) for subject in subjects])
    rounds = max(1, messages // len(subjects))
    repeats = min(rounds, -(-rounds * len(once) // BLOCK_BYTES))
    rounds_each = rounds // repeats
    return Block(once * rounds_each, len(subjects) * rounds_each, repeats)


def body(
    frame: Frame, number: int, payload: bytes, headers: bytes = b"", time: bytes = SOME_TIME
) -> bytes:
    """Return the bytes that a subscriber receives in place of the payload, headers first."""
    if frame in ("header", "stamp"):
        first, rest = (headers or b"NATS/1.0\r\n\r\n").split(b"\r\n", 1)
        fields = b"Nats-Sequence: %d\r\n" % number
        fields += b"Nats-Time-Stamp: %b\r\n" % time if frame == "stamp" else b""
        return b"%b\r\n%b%b%b" % (first, fields, rest, payload)
    if headers:
        return headers + body(frame, number, payload)
    if frame == "netstring":
        digits = b"%d" % number
        inner = b"%d:%b,%d:%b," % (len(digits), digits, len(payload), payload)
        return b"%d:%b," % (len(inner), inner)
    return payload


def message(
    frame: Frame, subject: bytes, sid: bytes, number: int, payload: bytes, headers: bytes = b""
) -> bytes:
    """Return one whole message exactly as it must reach a subscriber."""
    content = body(frame, number, payload, headers)
    in_header = frame in ("header", "stamp")
    if in_header or headers:
        of_headers = len(content) - len(payload) if in_header else len(headers)
        sizes = b"%d %d" % (of_headers, len(content))
        return b"HMSG %b %b %b\r\n%b\r\n" % (subject, sid, sizes, content)
    return b"MSG %b %b %d\r\n%b\r\n" % (subject, sid, len(content), content)


def stream_bytes(
    frame: Frame, subjects: Sequence[bytes], sid: bytes, payload: bytes, messages: int,
    headers: bytes = b"",
) -> int:  # fmt: skip
    """Return the length of messages 1..`messages`, spread evenly over `subjects`."""
    assert messages % len(subjects) == 0, "a block holds every subject equally often"
    total = sum(map(len, subjects)) * (messages // len(subjects))
    first = 1
    while first <= messages:
        last = min(first * 10 - 1, messages)  # the last number with as many digits as `first`
        total += (last - first + 1) * len(message(frame, b"", sid, first, payload, headers))
        first *= 10
    return total


def digits(first: int, last: int) -> int:
    """Return how many digits the numbers `first`..`last` have in total."""
    total = 0
    while first <= last:
        end = min(last, 10 ** len(str(first)) - 1)  # the last one as long as `first`
        total += (end - first + 1) * len(str(first))
        first = end + 1
    return total


def number_in(frame: Frame, content: bytes, headers: bytes = b"") -> int:
    """Return the number in a received body; 0 if the frame has none."""
    if frame == "none":
        return 0
    pattern = NETSTRING_NUMBER if frame == "netstring" else HEADER_NUMBER
    found = pattern.match(content, len(headers) if frame == "netstring" else 0)
    if not found:
        raise BenchmarkError(f"expected the frame {frame}, got {content[:60]!r}")
    return int(found[1])


def time_in(content: bytes) -> bytes:
    """Return the time in a received body, which cannot be known beforehand."""
    found = STAMP_TIME.match(content)
    return found[1] if found else SOME_TIME


def numbers_of(frame: Frame, data: bytes, payload: bytes, headers: bytes = b"") -> list[int]:
    """Check every whole message in `data` and return their numbers; PING and PONG are skipped.

    `data` begins with an operation and may end within one.
    """
    numbers: list[int] = []
    at = 0
    while at < len(data):
        if data.startswith((PING, PONG), at):
            at += len(PING)
            continue
        line = MESSAGE_LINE.match(data, at)
        if not line:
            if b"\r\n" in data[at:]:
                raise BenchmarkError(f"expected a message, got {data[at : at + 60]!r}")
            break
        end = line.end() + int(line[3])
        if len(data) < end + 2:
            break
        content = data[line.end() : end]
        number = number_in(frame, content, headers)
        time = time_in(content) if frame == "stamp" else SOME_TIME
        wanted = body(frame, number, payload, headers, time)
        if content != wanted or data[end : end + 2] != b"\r\n":
            raise BenchmarkError(f"a damaged message after number {number}: {content[:60]!r}")
        numbers.append(number)
        at = end + 2
    return numbers


def from_next_message(data: bytes) -> bytes:
    """Return `data` from the first message that begins in it, possibly empty."""
    found = re.search(rb"\r\n(?=H?MSG )", data)
    return data[found.end() :] if found else b""
