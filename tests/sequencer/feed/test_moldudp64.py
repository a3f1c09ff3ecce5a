"""MoldUDP64: the bytes that an independent dissector has read, sessions, and the filter's holes."""

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.feed.errors import CodecError
from sequencer.feed.feed import Feed
from sequencer.feed.feed_codec import DATA, END, HEARTBEAT
from sequencer.feed.feed_message import FeedMessage
from sequencer.feed.moldudp64 import MoldUDP64Codec, parse_request, request, session_name
from tests.sequencer.feed.test_codec import batch_of
from tests.support.datagrams import read_or_refused
from tests.support.multicast import Ear, mouth, new_group
from tests.support.places import VECTORS

FILE = VECTORS / "moldudp64_soupbintcp.json"
CASES = {
    one["name"]: bytes.fromhex(one["hex"]) for one in json.loads(FILE.read_text())["moldudp64"]
}
SESSION = b"SESSION001"
NUMBER_MAX = 2**63 - 1
ALL = 2**63 - 1
payloads = st.lists(st.binary(max_size=100), min_size=1, max_size=20)
firsts = st.integers(1, NUMBER_MAX - 19)


def opened(filtered: bool = False) -> MoldUDP64Codec:
    codec = MoldUDP64Codec(filtered)
    codec.session = SESSION
    return codec


def head(first: int, count: int) -> bytes:
    return SESSION + struct.pack(">QH", first, count)


def test_given_the_vectors_then_ours_are_the_same_bytes() -> None:
    codec = opened()
    two = [FeedMessage(1, b"hello"), FeedMessage(2, b"")]
    assert {
        "data 2 msgs": codec.datagram(two, 0),
        "one msg seq 88485": codec.datagram([FeedMessage(88485, b"hello world")], 88484),
        "heartbeat next=3": codec.heartbeat(2, 3),
        "end of session next=3": codec.end(2, 3),
        "request seq 5 count 10": request(SESSION, 5, 10),
    } == CASES
    assert codec.decode(CASES["data 2 msgs"]).messages == two
    assert parse_request(CASES["request seq 5 count 10"]) == (SESSION, 5, 10)


@given(firsts, payloads)
def test_given_messages_then_a_datagram_is_their_blocks_under_the_first_number(
    first: int, texts: list[bytes]
) -> None:
    codec = opened()
    messages = [FeedMessage(first + at, text) for at, text in enumerate(texts)]
    blocks = b"".join(struct.pack(">H", len(text)) + text for text in texts)
    datagram = head(first, len(texts)) + blocks
    assert codec.datagram(messages, first - 1) == datagram
    packet = codec.decode(datagram)
    assert packet.messages == messages
    assert (packet.kind, packet.session) == (DATA, SESSION)
    assert (packet.previous, packet.after) == (first - 1, first + len(texts))
    kept = [one for one in messages if one.payload]
    packet = opened(filtered=True).decode(datagram)
    assert packet.messages == kept, "a block of length 0 is a number that was left out"
    assert (packet.previous, packet.after) == (first - 1, first + len(texts))


def test_given_a_heartbeat_and_an_end_then_they_say_what_comes_next() -> None:
    codec = opened()
    for datagram, kind in ((codec.heartbeat(5, 9), HEARTBEAT), (codec.end(5, 9), END)):
        packet = codec.decode(datagram)
        assert (packet.kind, packet.previous, packet.after, packet.messages) == (kind, 8, 9, [])
        assert packet.session == SESSION


def test_given_a_journal_and_its_epochs_then_sessions_are_brothers_and_each_is_its_own() -> None:
    names = [session_name("00c0ffee00c0ffee", epoch) for epoch in range(1, 1025)]
    assert {len(name) for name in names} == {10}
    assert len(set(names)) == 1024
    assert {name[:8] for name in names} == {b"DFT7RI5Z"}
    assert all(name.isalnum() for name in names)
    assert session_name("00c0ffee00c0ffef", 1)[:8] != b"DFT7RI5Z"
    assert names[0] == b"DFT7RI5ZAB"
    assert session_name("00c0ffee00c0ffee", 1025) == names[0], "the epoch modulo 1024"
    codec = MoldUDP64Codec()
    codec.open("00c0ffee00c0ffee", 1)
    assert codec.session == codec.decode(codec.heartbeat(0, 1)).session == names[0]


def test_given_a_feed_with_a_filter_then_what_it_leaves_out_has_its_place() -> None:
    group = new_group()
    sent = [
        FeedMessage(number, b"%d" % number, b"a" if number % 3 else b"b") for number in range(1, 31)
    ]
    with Ear(group) as ear, mouth(group) as speaker:
        feed = Feed(
            opened(),
            speaker,
            datagram_max=65507,
            packing=60,
            matches=lambda subject: subject == b"a",
        )
        batch = batch_of(*sent)
        feed.add_records(bytearray(batch.view()), batch.end)
        feed.flush(ALL)
        packets = [opened(filtered=True).decode(datagram) for datagram in ear.rest()]
    assert len(packets) == 3
    assert [one.previous for one in packets] == [0, *(one.after - 1 for one in packets[:-1])]
    assert packets[-1].after == 31
    found = [(one.number, one.payload) for packet in packets for one in packet.messages]
    assert found == [(one.number, one.payload) for one in sent if one.subject == b"a"]
    assert feed.skipped == 10


WRONG = {
    "nothing": (b"", 0, "20 bytes: cut off"),
    "half a head": (head(1, 0)[:19], 19, "cut off"),
    "number 0": (head(0, 0), 10, "0 is not a valid message number"),
    "a number too large": (head(2**63 + 1, 0), 10, "is not a valid message number"),
    "numbers that grow too large": (
        head(NUMBER_MAX, 2) + bytes(4),
        10,
        "is not a valid message number",
    ),
    "bytes behind a heartbeat": (head(1, 0) + b"\0", 20, "after a heartbeat"),
    "bytes behind the end": (head(1, 0xFFFF) + b"\0\0", 20, "the end of the session"),
    "no block": (head(1, 1), 20, "1 blocks are missing"),
    "half a length": (head(1, 2) + b"\0\1x\0", 23, "1 blocks are missing"),
    "a block cut off": (head(1, 1) + b"\0\5four", 20, "1 bytes later: cut off"),
    "one block too many": (head(1, 1) + b"\0\1x\0\1y", 23, "3 bytes after"),
}


@pytest.mark.parametrize("name", WRONG)
def test_given_a_wrong_datagram_then_it_is_refused_with_the_place_and_the_reason(
    name: str,
) -> None:
    datagram, offset, reason = WRONG[name]
    with pytest.raises(CodecError, match=reason) as caught:
        opened().decode(datagram)
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("datagram", "offset", "reason"),
    [
        (b"", 0, "20 bytes"),
        (head(1, 1)[:19], 19, "20 bytes"),
        (head(1, 1) + b"x", 20, "20 bytes"),
        (head(0, 1), 10, "0 is not a valid message number"),
        (head(2**63, 1), 10, "is not a valid message number"),
        (head(1, 0), 18, "a request for 0 messages"),
    ],
)
def test_given_a_wrong_request_then_it_is_refused_too(
    datagram: bytes, offset: int, reason: str
) -> None:
    with pytest.raises(CodecError, match=reason) as caught:
        parse_request(datagram)
    assert caught.value.offset == offset


def test_given_what_no_datagram_can_be_then_it_is_a_defect() -> None:
    with pytest.raises(AssertionError, match="does not send messages that long"):
        opened().datagram([FeedMessage(1, bytes(65536))], 0)
    with pytest.raises(AssertionError, match="are contiguous"):
        opened().datagram([FeedMessage(1, b"x"), FeedMessage(3, b"x")], 0)
    with pytest.raises(AssertionError, match="10 characters"):
        request(b"short", 1, 1)


def test_given_a_datagram_cut_off_anywhere_then_it_is_refused() -> None:
    codec = opened()
    datagram = codec.datagram(
        [FeedMessage(1, b"one"), FeedMessage(2, b""), FeedMessage(3, b"three")], 0
    )
    for size in range(len(datagram)):
        with pytest.raises(CodecError):
            codec.decode(datagram[:size])


@given(firsts, payloads, st.data())
def test_given_any_byte_changed_then_what_is_read_fills_the_datagram_or_it_is_refused(
    first: int, texts: list[bytes], data: st.DataObject
) -> None:
    codec = opened()
    messages = [FeedMessage(first + at, text) for at, text in enumerate(texts)]
    datagram = bytearray(codec.datagram(messages, 0))
    at = data.draw(st.integers(0, len(datagram) - 1))
    datagram[at] ^= data.draw(st.integers(1, 255))
    packet = read_or_refused(codec.decode, bytes(datagram))
    if packet is None:
        return
    if packet.messages:
        assert sum(2 + len(one.payload) for one in packet.messages) == len(datagram) - 20
    assert packet.after == packet.previous + 1 + len(packet.messages)


@given(st.binary(max_size=60))
def test_given_any_bytes_after_a_good_beginning_then_nothing_but_a_codec_error_comes(
    data: bytes,
) -> None:
    for datagram in (data, SESSION + data, head(1, 2) + data):
        for read in (opened().decode, opened(filtered=True).decode, parse_request):
            read_or_refused(read, datagram)
