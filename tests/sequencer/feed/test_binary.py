"""The binary codec: whole messages, what the filter left out, and every bad byte refused."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.feed.binary import BinaryCodec
from sequencer.feed.errors import CodecError
from sequencer.feed.feed_codec import DATA, END, HEARTBEAT
from sequencer.feed.feed_message import FeedMessage
from tests.support.datagrams import read_or_refused

JOURNAL, EPOCH = "00c0ffee00c0ffee", 3
HEAD = struct.Struct(">4sBBHQQQI")
RECORD = struct.Struct(">IQQIH")
NUMBER_MAX = 2**63 - 1
messages_of_any_kind = st.lists(
    st.builds(
        FeedMessage,
        st.integers(1, NUMBER_MAX),
        st.binary(max_size=100),
        st.binary(min_size=1, max_size=30),
        st.sampled_from([b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\nA: b\r\n\r\n"]),
        st.integers(0, 2**64 - 1),
    ),
    min_size=1,
    unique_by=lambda message: message.number,
).map(lambda messages: sorted(messages, key=lambda message: message.number))


def opened() -> BinaryCodec:
    codec = BinaryCodec()
    codec.open(JOURNAL, EPOCH)
    return codec


def head(kind: int, count: int, previous: int, after: int) -> bytes:
    return HEAD.pack(b"SERI", 1, kind, count, int(JOURNAL, 16), previous, after, EPOCH)


def record(number: int, payload: bytes, subject: bytes = b"a", headers: bytes = b"") -> bytes:
    size = RECORD.size + len(subject + headers + payload)
    fields = RECORD.pack(size, number, 0, len(headers), len(subject))
    return fields + subject + headers + payload


@given(messages_of_any_kind)
def test_given_messages_then_a_datagram_has_all_of_them_as_drawn(
    messages: list[FeedMessage],
) -> None:
    codec = opened()
    previous = messages[0].number - 1
    datagram = codec.datagram(messages, previous)
    after = messages[-1].number + 1
    drawn = head(0, len(messages), previous, after)
    for one in messages:
        size = RECORD.size + len(one.subject + one.headers + one.payload)
        drawn += RECORD.pack(size, one.number, one.time, len(one.headers), len(one.subject))
        drawn += one.subject + one.headers + one.payload
    assert datagram == drawn
    packet = codec.decode(datagram)
    assert packet.messages == messages
    assert (packet.kind, packet.previous, packet.after) == (DATA, previous, after)
    assert packet.session == b"00c0ffee00c0ffee-3"


def test_given_no_message_for_long_then_heartbeat_and_end_say_what_comes_next() -> None:
    codec = opened()
    assert codec.heartbeat(7, 9) == head(1, 0, 7, 9)
    assert codec.end(7, 9) == head(2, 0, 7, 9)
    for datagram, kind in ((codec.heartbeat(7, 9), HEARTBEAT), (codec.end(7, 9), END)):
        packet = codec.decode(datagram)
        assert (packet.kind, packet.previous, packet.after, packet.messages) == (kind, 7, 9, [])
        assert packet.session == b"00c0ffee00c0ffee-3"


WRONG = {
    "nothing": (b"", 0, "36 bytes: cut off"),
    "half a head": (head(1, 0, 0, 1)[:20], 20, "cut off"),
    "another's": (b"SEQI" + head(1, 0, 0, 1)[4:], 0, "does not begin with 'SERI'"),
    "a later version": (b"SERI\2" + head(1, 0, 0, 1)[5:], 4, "version 2"),
    "an unknown kind": (head(3, 0, 0, 1), 5, "kind 3"),
    "data without messages": (head(0, 0, 0, 1), 6, "data must have messages"),
    "a heartbeat with one": (head(1, 1, 0, 2) + record(1, b"x"), 6, "other kinds must not"),
    "numbers backwards": (head(1, 0, 9, 9), 16, "9 is not a valid next number after 9"),
    "numbers too large": (head(1, 0, 9, 2**63 + 1), 16, "is not a valid next number"),
    "a record cut off": (head(0, 1, 0, 2) + record(1, b"x")[:-1], 36, "1 bytes later"),
    "half a record's head": (head(0, 1, 0, 2) + record(1, b"x")[:20], 36, "26 bytes: cut off"),
    "one record too few": (head(0, 2, 0, 3) + record(1, b"x"), 64, "26 bytes: cut off"),
    "one record too many": (
        head(0, 1, 0, 2) + record(1, b"x") + record(2, b"y"),
        64,
        "28 bytes after",
    ),
    "a record that holds more than its size": (
        head(0, 1, 0, 2) + RECORD.pack(27, 1, 0, 1, 1) + b"x",
        36,
        "shorter than its parts",
    ),
    "headers of 4 GiB": (
        head(0, 1, 0, 2) + RECORD.pack(27, 1, 0, 2**32 - 1, 1) + b"x",
        36,
        "shorter than its parts",
    ),
    "a record of 4 GiB": (
        head(0, 1, 0, 2) + RECORD.pack(2**32 - 1, 1, 0, 0, 1) + b"x",
        36,
        "later: cut off",
    ),
    "a record shorter than its head": (
        head(0, 1, 0, 2) + RECORD.pack(25, 1, 0, 0, 0),
        36,
        "shorter than its parts",
    ),
    "a number again": (
        head(0, 2, 0, 2) + record(1, b"x") + record(1, b"y"),
        68,
        "number 1 after number 1",
    ),
    "a number too large": (head(0, 1, 0, 2) + record(2**63, b"x"), 40, "number 92233720368547"),
    "a number before the datagram's": (head(0, 1, 5, 6) + record(5, b"x"), 40, "after number 5"),
    "more than was said": (head(0, 1, 0, 3) + record(1, b"x"), 24, "3 does not follow"),
    "less than was said": (head(0, 1, 0, 2) + record(2, b"x"), 24, "2 does not follow"),
}


@pytest.mark.parametrize("name", WRONG)
def test_given_a_wrong_datagram_then_it_is_refused_with_the_place_and_the_reason(
    name: str,
) -> None:
    datagram, offset, reason = WRONG[name]
    with pytest.raises(CodecError, match=reason) as caught:
        opened().decode(datagram)
    assert caught.value.offset == offset


def test_given_a_datagram_cut_off_anywhere_then_it_is_refused() -> None:
    codec = opened()
    datagram = codec.datagram([FeedMessage(5, b"one", b"a"), FeedMessage(8, b"", b"b.c", b"h")], 3)
    for size in range(len(datagram)):
        with pytest.raises(CodecError):
            codec.decode(datagram[:size])


@given(messages_of_any_kind, st.data())
def test_given_any_byte_changed_then_what_is_read_is_in_order_or_refused(
    messages: list[FeedMessage], data: st.DataObject
) -> None:
    codec = opened()
    datagram = bytearray(codec.datagram(messages, messages[0].number - 1))
    at = data.draw(st.integers(0, len(datagram) - 1))
    datagram[at] ^= data.draw(st.integers(1, 255))
    packet = read_or_refused(codec.decode, bytes(datagram))
    if packet is None:
        return
    numbers = [packet.previous, *(one.number for one in packet.messages), packet.after]
    assert numbers == sorted(set(numbers))
    assert len(packet.messages) == len(messages)


@given(st.binary(max_size=120))
def test_given_any_bytes_after_a_good_beginning_then_nothing_but_a_codec_error_comes(
    data: bytes,
) -> None:
    for datagram in (data, b"SERI\1" + data, head(0, 1, 0, 2) + data):
        read_or_refused(opened().decode, datagram)
