"""Datagrams for the feed's codecs: refused with a position, or read as documented.

    0-127   bytes            each codec reads the same bytes; re-requests are read from them, too
    128-255 codec message... messages written by one codec; it reads its own, also truncated

A message is `step subject payload time`: the distance to its number, and sizes.
"""

from collections.abc import Callable
from typing import TypeVar

from fuzz.model_feed import (
    READERS,
    Refused,
    Said,
    Told,
    read_request,
    write_binary,
    write_mold,
    write_netstrings,
)
from fuzz.supply import Supply
from sequencer.feed import feed_codec as codecs
from sequencer.feed.binary import BinaryCodec
from sequencer.feed.errors import CodecError
from sequencer.feed.feed_codec import Codec, Packet
from sequencer.feed.feed_message import FeedMessage
from sequencer.feed.moldudp64 import MoldUDP64Codec, parse_request, session_name
from sequencer.feed.netstrings import NetstringCodec, NetstringSubjectCodec

Read = TypeVar("Read")

MAX_LEN = 512
WRITE_FROM = 128
JOURNAL, EPOCH = "00c0ffee00c0ffee", 3
KINDS = {codecs.DATA: "data", codecs.HEARTBEAT: "heartbeat", codecs.END: "end"}
FIRSTS = (1, 9, 2**32 - 2, 2**63 - 130)
SIZES = (0, 1, 2, 9, 10, 99, 100, 255, 256, 999, 1000, 9999, 65_535)
SUBJECTS = (b"a", b"orders.eu", b"", b"x" * 99, b"x" * 100, b"9:a,")
HEADERS = (b"", b"NATS/1.0\r\n\r\n")
DATAGRAM_MAX = 1 << 18
CUTS = 40


def opened(made: Codec) -> Codec:
    made.open(JOURNAL, EPOCH)
    return made


def all_codecs() -> list[Codec]:
    """The codecs, in the order of the model's readers."""
    made = [NetstringCodec(), NetstringSubjectCodec(), BinaryCodec()]
    return [opened(one) for one in (*made, MoldUDP64Codec(False), MoldUDP64Codec(True))]


def told_of(packet: Packet) -> Told:
    messages = [
        Said(one.number, one.payload, one.subject, one.headers, one.time) for one in packet.messages
    ]
    previous = None if packet.previous == -1 else packet.previous
    return Told(KINDS[packet.kind], messages, previous, packet.after, packet.session)


def read_slowly(read: Callable[[bytes], Read], datagram: bytes) -> Read | None:
    """The model's result; None if it refuses."""
    try:
        return read(datagram)
    except Refused:
        return None


def read_here(read: Callable[[bytes], Read], datagram: bytes) -> Read | None:
    """The codec's result; None if it refuses, with a position in the datagram and a reason."""
    try:
        return read(datagram)
    except CodecError as caught:
        error = caught
    assert 0 <= error.offset <= len(datagram)
    assert error.reason
    return None


def check_reading(which: int, codec: Codec, datagram: bytes) -> Told | None:
    """Read a datagram, compare with the model, and return the content."""
    packet = read_here(codec.decode, datagram)
    told = told_of(packet) if packet is not None else None
    assert told == read_slowly(READERS[which], datagram), codec
    return told


def check_request(datagram: bytes) -> None:
    assert read_here(parse_request, datagram) == read_slowly(read_request, datagram)


def messages_of(supply: Supply, contiguous: bool) -> list[Said]:
    """The messages that the input describes, limited in total length."""
    number = FIRSTS[supply.take() % len(FIRSTS)]
    messages, size = list[Said](), 0
    while (supply or not messages) and len(messages) < 30:
        step, subject, payload, time = (supply.take() for _ in range(4))
        text = bytes([65 + len(messages)]) * SIZES[payload % len(SIZES)]
        size += len(text)
        if size > DATAGRAM_MAX:
            break
        headers = HEADERS[subject >> 7]
        subject_text = SUBJECTS[subject % len(SUBJECTS)]
        messages.append(Said(number, text, subject_text, headers, time << 56 | time))
        number += 1 if contiguous else 1 + (step >> 6)
    return messages


def write(which: int, messages: list[Said], previous: int) -> bytes:
    if which < 2:
        return write_netstrings(messages, which == 1)
    if which == 2:
        return write_binary(messages, previous, int(JOURNAL, 16), EPOCH)
    return write_mold(messages, session_name(JOURNAL, EPOCH))


def check_writing(supply: Supply) -> None:
    which = supply.take() % len(READERS)
    codec = all_codecs()[which]
    messages = messages_of(supply, codec.contiguous)
    previous = messages[0].number - 1
    given = [FeedMessage(m.number, m.payload, m.subject, m.headers, m.time) for m in messages]
    datagram = codec.datagram(given, previous)
    assert datagram == write(which, messages, previous)
    told = check_reading(which, codec, datagram)
    assert told is not None
    assert told.after == messages[-1].number + 1
    for at in range(min(len(datagram), CUTS)):
        check_reading(which, codec, datagram[:at])
        check_reading(which, codec, datagram[: len(datagram) - at - 1])
    for text in (codec.heartbeat(previous, previous + 2), codec.end(previous, previous + 2)):
        if text:
            said = check_reading(which, codec, text)
            assert said is not None
            assert said.after == previous + 2


def check(data: bytes) -> None:
    """Run one input."""
    supply = Supply(data)
    if supply.take() >= WRITE_FROM:
        check_writing(supply)
        return
    datagram = supply.rest()
    for which, codec in enumerate(all_codecs()):
        check_reading(which, codec, datagram)
    check_request(datagram)
