"""Reads and writes datagrams slowly, from docs/multicast.md; shares nothing with the codecs."""

import re
import struct
from collections.abc import Callable
from typing import NamedTuple

DATA, HEARTBEAT, END = "data", "heartbeat", "end"
NUMBER_MAX = (1 << 63) - 1
LENGTH = re.compile(rb"(0|[1-9][0-9]*):")
NUMBER = re.compile(rb"[1-9][0-9]*")
HEAD = struct.Struct(">4sBBHQQQI")
RECORD = struct.Struct(">IQQIH")
MOLD = struct.Struct(">10sQH")
BLOCK = struct.Struct(">H")


class Refused(Exception):
    """Bytes that are not a datagram of this codec."""


class Said(NamedTuple):
    """A message: the fields that the codec carries."""

    number: int
    payload: bytes
    subject: bytes = b""
    headers: bytes = b""
    time: int = 0


class Told(NamedTuple):
    """The content of a datagram; `previous` is None if the codec does not carry it."""

    kind: str
    messages: list[Said]
    previous: int | None
    after: int
    session: bytes = b""


def need(condition: object) -> None:
    if not condition:
        raise Refused


def be_number(number: int) -> None:
    need(1 <= number <= NUMBER_MAX)


# Netstrings


def netstring(text: bytes) -> tuple[bytes, bytes]:
    """Split off the first netstring: return its content, and the rest."""
    length = LENGTH.match(text)
    need(length)
    assert length is not None
    end = length.end() + int(length[1][:9])
    need(len(length[1]) < 7 and text[end : end + 1] == b",")
    return text[length.end() : end], text[end + 1 :]


def read_netstrings(datagram: bytes, subjects: bool) -> Told:
    messages, rest = [], datagram
    while rest:
        frame, rest = netstring(rest)
        number, frame = netstring(frame)
        need(NUMBER.fullmatch(number))
        be_number(int(number))
        payload, frame = netstring(frame)
        subject = b""
        if subjects:
            subject, frame = netstring(frame)
        need(frame == b"")
        messages.append(Said(int(number), payload, subject))
    need(messages)
    kind, last = DATA, messages[-1].number
    if subjects and any(one.subject.startswith(b"$SEQ.") for one in messages):
        kinds = {b"$SEQ.NEXT": HEARTBEAT, b"$SEQ.END": END}
        need(len(messages) == 1 and not messages[0].payload and messages[0].subject in kinds)
        return Told(kinds[messages[0].subject], [], None, last)
    return Told(kind, messages, None, last + 1)


def write_netstrings(messages: list[Said], subjects: bool) -> bytes:
    def wrap(text: bytes) -> bytes:
        return b"%d:%b," % (len(text), text)

    return b"".join(
        wrap(wrap(b"%d" % one.number) + wrap(one.payload) + (subjects * wrap(one.subject)))
        for one in messages
    )


# Binary


def read_binary(datagram: bytes) -> Told:
    need(len(datagram) >= HEAD.size)
    magic, version, kind, count, journal, previous, after, epoch = HEAD.unpack_from(datagram)
    need(magic == b"SERI" and version == 1 and kind <= 2)
    need((kind == 0) == (count > 0))
    need(previous < after <= NUMBER_MAX + 1)
    messages, rest = [], datagram[HEAD.size :]
    for _ in range(count):
        need(len(rest) >= RECORD.size)
        size, number, time, header_size, subject_size = RECORD.unpack_from(rest)
        need(RECORD.size + header_size + subject_size <= size <= len(rest))
        be_number(number)
        text, rest = rest[RECORD.size : size], rest[size:]
        subject, text = text[:subject_size], text[subject_size:]
        messages.append(Said(number, text[header_size:], subject, text[:header_size], time))
    need(rest == b"")
    numbers = [previous, *(one.number for one in messages)]
    need(numbers == sorted(set(numbers)))
    need(kind != 0 or numbers[-1] + 1 == after)
    session = b"%016x-%d" % (journal, epoch)
    return Told((DATA, HEARTBEAT, END)[kind], messages, previous, after, session)


def write_binary(messages: list[Said], previous: int, journal: int, epoch: int) -> bytes:
    after = messages[-1].number + 1
    text = HEAD.pack(b"SERI", 1, 0, len(messages), journal, previous, after, epoch)
    for one in messages:
        spans = one.subject + one.headers + one.payload
        sizes = (len(one.headers), len(one.subject))
        text += RECORD.pack(RECORD.size + len(spans), one.number, one.time, *sizes) + spans
    return text


# MoldUDP64


def read_mold(datagram: bytes, filtered: bool) -> Told:
    need(len(datagram) >= MOLD.size)
    session, first, count = MOLD.unpack_from(datagram)
    rest = datagram[MOLD.size :]
    need(first > 0)
    if count in (0, 0xFFFF):
        need(rest == b"" and first <= NUMBER_MAX + 1)
        return Told(END if count else HEARTBEAT, [], first - 1, first, session)
    be_number(first + count - 1)
    messages = []
    for number in range(first, first + count):
        need(len(rest) >= BLOCK.size)
        (size,) = BLOCK.unpack_from(rest)
        need(len(rest) >= BLOCK.size + size)
        if size or not filtered:
            messages.append(Said(number, rest[BLOCK.size : BLOCK.size + size]))
        rest = rest[BLOCK.size + size :]
    need(rest == b"")
    return Told(DATA, messages, first - 1, first + count, session)


def write_mold(messages: list[Said], session: bytes) -> bytes:
    blocks = b"".join(BLOCK.pack(len(one.payload)) + one.payload for one in messages)
    return MOLD.pack(session, messages[0].number, len(messages)) + blocks


def read_request(datagram: bytes) -> tuple[bytes, int, int]:
    need(len(datagram) == MOLD.size)
    session, first, count = MOLD.unpack(datagram)
    be_number(first)
    need(count > 0)
    return session, first, count


READERS: list[Callable[[bytes], Told]] = [
    lambda datagram: read_netstrings(datagram, False),
    lambda datagram: read_netstrings(datagram, True),
    read_binary,
    lambda datagram: read_mold(datagram, False),
    lambda datagram: read_mold(datagram, True),
]
