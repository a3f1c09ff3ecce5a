"""Frames between members: each to the byte, cut anywhere, and malformed in every way."""

import json
import struct
from itertools import pairwise
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.replica import member_messages as m
from sequencer.replica import member_wire
from sequencer.replica.errors import BadFrame
from sequencer.replica.member_wire import (
    FRAME_MAX,
    KEPT_MAX,
    SHORT_MAX,
    FrameReader,
    encode_message,
)
from sequencer.replica.view import View
from tests.sequencer.replica.forwarding import Published, record_of
from tests.support.depth import examples

ID, OTHER = "1141c2c3a6b8558d", "00000000000000ff"
VIEW = View(ID, 7, OTHER, 41, (OTHER, ID), 2, 1, 1, 1)
VIEW_JSON = (
    b'{"format":1,"journal":"1141c2c3a6b8558d","epoch":7,"coordinator":"00000000000000ff",'
    b'"run":41,"members":["00000000000000ff","1141c2c3a6b8558d"],"min_in_sync":2,"stream":1,'
    b'"first":1,"protocol":1}'
)
RECORD = record_of(Published(5 << 32 | 1, 3, b"hello"), 9, 1000, 7)
NOTE = m.Note(3, 7, "DONE", {"rows": 2})

# Each message, its type, and its body: a change of the format is seen here.
FRAMES: list[tuple[Any, int, str | bytes]] = [
    (
        m.Hello((1, 2), "c1", ID, OTHER, 41, "always", 7, ((0, 1), (7, 9)), 12, ((6, 1),), 4),
        1,
        "0100 0200 29000000 07000000 01 000000 8d55b8a6c3c24111 ff00000000000000"
        "0c00000000000000 0400000000000000 02000000 01000000"
        "00000000 0100000000000000 07000000 0900000000000000 06000000 0100000000000000 6331",
    ),
    (
        m.Welcome(7, 88, VIEW, 11, 12, 6, True, 0x5EA1, 4),
        2,
        bytes.fromhex(
            "07000000 06000000 5800000000000000 0b00000000000000 0c00000000000000"
            "0400000000000000 a15e0000 01 000000"
        )
        + VIEW_JSON,
    ),
    (m.NotCoordinator("why", 88, None), 3, "5800000000000000 0300 776879"),
    (m.NotCoordinator("", 88, VIEW), 3, bytes.fromhex("5800000000000000 0000") + VIEW_JSON),
    (
        m.Data(7, 8, 2, m.Records(9, 9, 6, RECORD)),
        4,
        bytes.fromhex(
            "07000000 06000000 0800000000000000 02000000000000000900000000000000 0900000000000000"
        )
        + RECORD,
    ),
    (
        m.Data(7, 8, 2, None),
        4,
        "07000000 00000000 0800000000000000 0200000000000000 0000000000000000 0000000000000000",
    ),
    (
        m.Ack(7, 9, 2, 3, 55, 0x12345678),
        5,
        "07000000 78563412 0900000000000000 0200000000000000 0300000000000000 3700000000000000",
    ),
    (m.Forward(7, RECORD), 6, bytes.fromhex("07000000 00000000") + RECORD),
    (
        m.AlreadyNumbered(5 << 32 | 1, 3, 9),
        7,
        "0100000005000000 0300000000000000 0900000000000000",
    ),
    (
        m.Pulse(7, 55, 9, 2, 88, VIEW, 3),
        8,
        bytes.fromhex(
            "07000000 03000000 3700000000000000 0900000000000000 02000000000000005800000000000000"
        )
        + VIEW_JSON,
    ),
    (
        m.Notes(7, 2, (NOTE,)),
        9,
        bytes.fromhex("07000000 01000000 0200000000000000 0300000000000000 07000000 0400")
        + b"DONE\x0a\0\0\0"
        + b'{"rows":2}',
    ),
    (
        m.StagePiece(7, "app", 4, "p0", 100, b"rows"),
        10,
        "07000000 00000000 0400000000000000 6400000000000000 0300 617070 0200 7030 726f7773",
    ),
    (
        m.StageFetch(7, "app", 4, "p0", 100),
        11,
        "07000000 00000000 0400000000000000 6400000000000000 0300 617070 0200 7030",
    ),
    (
        m.StageDrop(7, "app", 4, "p0"),
        12,
        "07000000 00000000 0400000000000000 0000000000000000 0300 617070 0200 7030",
    ),
    (
        m.MemberRequest(3, "STAGE", {"a": "b"}, b"rows"),
        13,
        bytes.fromhex("0300000000000000 00000000 00000000 0500") + b'STAGE\x09\0\0\0{"a":"b"}rows',
    ),
    (
        m.MemberReply(3, 503, {}, b"again"),
        14,
        bytes.fromhex("0300000000000000 f7010000 00000000") + b"\x02\0\0\0{}again",
    ),
    (m.HandOver(88, VIEW), 15, bytes.fromhex("5800000000000000") + VIEW_JSON),
    (m.DirectHello("c1", OTHER, 41), 18, "ff00000000000000 29000000 00000000 6331"),
    (m.DirectMessages(b"some"), 19, "736f6d65"),
    (m.DirectHeard(((5, 1),)), 20, "0500000000000000 01000000 00000000"),
    (m.Leave(7), 16, "07000000 00000000"),
    (
        m.Takers(7, ((b"a.*", b"g", 2), (b"b", b"h", 0))),
        17,
        "07000000 02000000 0300 612e2a 0100 67 02000000 0100 62 0100 68 00000000",
    ),
]
ENCODED = [b"".join(encode_message(message)) for message, _, _ in FRAMES]


def plain(message: Any) -> Any:
    """The message with bytes for views of them."""
    if isinstance(message, memoryview):
        return bytes(message)
    if isinstance(message, tuple) and hasattr(message, "_fields"):
        return type(message)(*map(plain, message))
    return message


def read(data: bytes) -> list[Any]:
    return [plain(message) for message in FrameReader().feed(data)]


def read_slowly(reader: FrameReader, data: bytes, size: int = 999) -> list[Any]:
    found: list[Any] = []
    for at in range(0, len(data), size):
        found += [plain(message) for message in reader.feed(data[at : at + size])]
    return found


def read_in_place(data: bytes, size: int) -> list[Any]:
    """As a connection reads: the rest of a frame where it belongs."""
    reader, found, at = FrameReader(), [], 0
    while at < len(data):
        room = reader.room()
        if room is None:
            some = data[at : at + size]
            found += [plain(message) for message in reader.feed(some)]
        else:
            some = data[at : at + min(size, len(room))]
            room[: len(some)] = some
            found += [plain(message) for message in reader.filled(len(some))]
        at += len(some)
    return found


def frame(number: int, body: bytes) -> bytes:
    return struct.pack("<IBBH", len(body), number, 0, 0) + body


def test_given_the_messages_between_members_then_each_has_an_example() -> None:
    sent = {type(message) for message, _, _ in FRAMES}
    assert {kind.message for kind in member_wire._KINDS.values()} == sent
    assert {number for _, number, _ in FRAMES} == set(range(1, 21)) == set(member_wire._KINDS)
    for message in sent:
        assert set(get_type_hints(message)) == set(message._fields)


@pytest.mark.parametrize(("message", "number", "body"), FRAMES)
def test_given_a_message_then_its_frame_is_known_to_the_byte(
    message: Any, number: int, body: str | bytes
) -> None:
    wanted = bytes.fromhex(body) if isinstance(body, str) else body
    data = b"".join(encode_message(message))
    assert data == frame(number, wanted)
    assert read(data) == [message]


def test_given_records_then_they_are_not_copied_on_either_side() -> None:
    view = memoryview(RECORD)
    pieces = encode_message(m.Forward(7, view))
    assert pieces[1] is view
    data = b"".join(pieces)
    (forward,) = FrameReader().feed(data)
    assert forward.data.obj is data


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 64, 1000])
def test_given_frames_in_pieces_then_the_messages_are_the_same(size: int) -> None:
    found = read_slowly(FrameReader(), b"".join(ENCODED), size)
    assert found == [message for message, _, _ in FRAMES]


@given(cuts=st.lists(st.integers(0, sum(map(len, ENCODED))), max_size=12))
@settings(max_examples=examples(100))
def test_given_any_cuts_then_the_messages_are_the_same(cuts: list[int]) -> None:
    reader, whole, found = FrameReader(), b"".join(ENCODED), []
    places = [0, *sorted(cuts), len(whole)]
    for start, stop in pairwise(places):
        chunk = bytearray(whole[start:stop])  # a buffer that its owner fills again
        found += [plain(message) for message in reader.feed(chunk)]
        chunk[:] = bytes(len(chunk))
    assert found == [message for message, _, _ in FRAMES]


@pytest.mark.parametrize("at", range(len(ENCODED)))
def test_given_a_cut_at_each_byte_then_a_message_comes_with_its_last_byte(at: int) -> None:
    for cut in range(len(ENCODED[at])):
        reader = FrameReader()
        assert list(reader.feed(ENCODED[at][:cut])) == []
        assert [plain(one) for one in reader.feed(ENCODED[at][cut:])] == [FRAMES[at][0]]


def test_given_several_answers_in_a_frame_then_each_comes() -> None:
    answers = [m.AlreadyNumbered(n, n, n) for n in (1, 2, 3)]
    body = b"".join(b"".join(encode_message(answer))[8:] for answer in answers)
    assert read(frame(7, body)) == answers


@pytest.mark.parametrize("at", range(len(ENCODED)))
def test_given_a_body_that_is_shorter_or_longer_then_it_is_refused_or_another_message(
    at: int,
) -> None:
    message, number, _ = FRAMES[at]
    body = ENCODED[at][8:]
    for cut in range(len(body)):
        for changed in (body[:cut], body + body[: cut + 1]):
            try:
                (found,) = read(frame(number, changed))
            except (BadFrame, ValueError):
                continue  # ValueError: several answers
            assert type(found) is type(message)
            assert found != message


BIG = struct.pack("<Q", 1 << 63)
EPOCH = struct.pack("<II", 7, 0)
DEEP = b"[" * 100_000


def data_frame(of: int, first: int, last: int, size: int) -> bytes:
    return frame(4, struct.pack("<IIQQQQ", 7, of, 0, 0, first, last) + bytes(size))


def view_frame(**changed: Any) -> bytes:
    fields = {**json.loads(VIEW_JSON), **changed}
    return frame(15, bytes(8) + json.dumps(fields).encode())


def hello(epochs: bytes, count: int, run: int = 41, sync: int = 1, low: int = 1) -> bytes:
    fields = struct.pack("<HHIIB3xQQQQII", low, 2, run, 7, sync, 1, 2, 3, 4, count, 0)
    return frame(1, fields + epochs)


def epoch(number: int, first: int) -> bytes:
    return struct.pack("<IQ", number, first)


MALFORMED = [
    (b"\0\0\0\0\0\0\0\0", "there is no frame of type 0"),
    (b"\0\0\0\0\x15\0\0\0", "there is no frame of type 21"),
    (b"\0\0\0\0\x05\1\0\0", "ACK: the flags are 1 and 0, not 0"),
    (b"\0\0\0\0\x05\0\0\2", "ACK: the flags are 0 and 512, not 0"),
    (b"\xff\xff\xff\xff\x05\0\0\0", "ACK: it has 4294967295 bytes; at most 1048576 are taken"),
    (b"\xff\xff\xff\xff\x04\0\0\0", "DATA: it has 4294967295 bytes; at most 150994944 are taken"),
    (b"\xff\xff\xff\xff\x09\0\0\0", "NOTES: it has 4294967295 bytes; at most 16777216 are taken"),
    (frame(5, b"1234"), "ACK: 40 bytes are to come at byte 0, not 4"),
    (frame(5, bytes(48)), "ACK: 8 bytes too many"),
    (frame(5, EPOCH + BIG + bytes(24)), "ACK: 9223372036854775808 is given as a number"),
    (frame(16, b""), "LEAVE: 8 bytes are to come at byte 0, not 0"),
    (frame(7, bytes(25)), "ANSWER: 25 bytes are not whole answers"),
    (frame(7, bytes(16) + BIG), "ANSWER: 9223372036854775808 is given as a number"),
    (data_frame(7, 0, 0, 8), "DATA: numbers 0 to 0 of epoch 7 in 8 bytes"),
    (data_frame(7, 2, 1, 80), "DATA: numbers 2 to 1 of epoch 7 in 80 bytes"),
    (data_frame(7, 1, 1 << 62, 80), "of epoch 7 in 80 bytes"),
    (data_frame(7, 1, 2, 80), "DATA: numbers 1 to 2 of epoch 7 in 80 bytes"),
    (data_frame(8, 1, 1, 80), "DATA: numbers 1 to 1 of epoch 8 in 80 bytes"),
    (data_frame(7, 1, 1 << 63, 80), "DATA: 9223372036854775808 is given as a number"),
    (hello(b"", 1 << 31), "HELLO: 2147483648 epochs do not fit"),
    (hello(epoch(3, 1) + epoch(3, 2), 2), r"HELLO: epoch 3 from 2 on does not follow \(3, 1\)"),
    (hello(epoch(3, 5) + epoch(4, 2), 2), r"HELLO: epoch 4 from 2 on does not follow \(3, 5\)"),
    (hello(epoch(3, 1 << 63), 1), "HELLO: epoch 3 from 9223372036854775808"),
    (hello(epoch(3, 0), 1), "HELLO: epoch 3 from 0 on does not follow"),
    (hello(b"", 0, run=1 << 31), "HELLO: protocols 1 to 2, run 2147483648, sync 1"),
    (hello(b"", 0, sync=3), "HELLO: protocols 1 to 2, run 41, sync 3"),
    (hello(b"", 0, low=3), "HELLO: protocols 3 to 2, run 41, sync 1"),
    (hello(b"\xff", 0), "HELLO: not UTF-8"),
    (frame(17, struct.pack("<II", 7, 1 << 31)), "TAKERS: 2 bytes are to come at byte 8, not 0"),
    (frame(9, struct.pack("<IIQ", 7, 1 << 31, 1)), "NOTES: 12 bytes are to come at byte 16, not 0"),
    (
        frame(9, struct.pack("<IIQQIHI", 7, 1, 1, 1, 1, 0, 2) + b"[]"),
        "NOTES: note 1 is not fields, but",
    ),
    (frame(9, struct.pack("<IIQQIHI", 7, 1, 1, 1, 1, 0, 2) + b"[}"), "NOTES: not JSON"),
    (
        frame(9, struct.pack("<IIQQIHI", 7, 1, 1, 1, 1, 0, len(DEEP)) + DEEP),
        "NOTES: not JSON",
    ),
    (frame(13, bytes(16) + b"\0\0" + struct.pack("<I", 100) + b"{}"), "REQUEST: 100 bytes are to"),
    (frame(13, bytes(16) + b"\0\0" + struct.pack("<I", 2) + b"[]"), "REQUEST: its headers are not"),
    (frame(14, bytes(16) + struct.pack("<I", 7) + b'{"a":1}'), "REPLY: its headers are not texts"),
    (frame(14, bytes(16) + struct.pack("<I", 14) + b'{"a":"\\ud800"}'), "REPLY: not JSON"),
    (
        frame(2, struct.pack("<IIQQQQIB3x", 7, 6, 1, 12, 11, 0, 0, 0) + VIEW_JSON),
        "WELCOME: common 12, base 11, anew 0",
    ),
    (
        frame(2, struct.pack("<IIQQQQIB3x", 7, 6, 1, 11, 12, 0, 0, 2) + VIEW_JSON),
        "WELCOME: common 11, base 12, anew 2",
    ),
    (frame(15, bytes(8)), "HANDOVER: not JSON"),
    (frame(15, bytes(8) + b"[]"), "HANDOVER: its view: not a view"),
    (frame(15, bytes(8) + DEEP), "HANDOVER: not JSON"),
    (view_frame(format=2), "HANDOVER: its view: its format is newer"),
    (view_frame(members=[]), r"HANDOVER: its view: its members are \(\)"),
    (view_frame(members=[1]), "HANDOVER: its view: its members are"),
    (view_frame(members=None), "HANDOVER: its view: not a view"),
    (view_frame(more=1), "HANDOVER: its view: not a view"),
    (view_frame(epoch=True), "HANDOVER: its view: its epoch is True"),
    (view_frame(epoch=1 << 32), "HANDOVER: its view: its epoch is 4294967296"),
    (view_frame(run=1 << 31), "HANDOVER: its view: its run is"),
    (view_frame(first=-1), "HANDOVER: its view: its first is -1"),
    (view_frame(min_in_sync="2"), "HANDOVER: its view: its min_in_sync is '2'"),
    (view_frame(coordinator=5), "HANDOVER: its view: its coordinator is 5"),
]


@pytest.mark.parametrize(("data", "text"), MALFORMED, ids=[text[:40] for _, text in MALFORMED])
def test_given_a_malformed_frame_then_it_says_what_is_wrong_and_nothing_more_is_read(
    data: bytes, text: str
) -> None:
    reader = FrameReader()
    messages = reader.feed(ENCODED[-2] + data + ENCODED[-2])
    assert next(messages) == m.Leave(7)
    with pytest.raises(BadFrame, match=text):
        next(messages)
    with pytest.raises(BadFrame, match=text):
        list(reader.feed(ENCODED[-2]))
    slow = FrameReader()
    with pytest.raises(BadFrame, match=text):
        read_slowly(slow, data)


def test_given_long_frames_when_they_are_received_in_place_then_they_come_as_they_were_sent() -> (
    None
):
    sent = [
        m.StagePiece(7, "a", 1, "b", 0, bytes([at]) * size)
        for at, size in enumerate((10, 100_000, KEPT_MAX - 60, KEPT_MAX, 300_000, 5))
    ]
    whole = b"".join(piece for message in sent for piece in encode_message(message))
    for size in (1000, 65_536, 1 << 20):
        assert read_in_place(whole, size) == sent


def test_given_a_large_frame_that_does_not_come_then_only_what_came_takes_memory() -> None:
    reader = FrameReader()
    assert list(reader.feed(struct.pack("<IBBH", FRAME_MAX, 10, 0, 0))) == []
    assert list(reader.feed(bytes(1000))) == []
    assert reader.held == 1008
    assert len(reader._memory) == KEPT_MAX
    assert list(reader.feed(bytes(KEPT_MAX))) == []
    assert reader.held == len(reader._memory) == KEPT_MAX + 1008


@pytest.mark.parametrize(
    ("message", "size"),
    [
        (m.StagePiece(7, "a", 1, "b", 0, bytes(FRAME_MAX)), FRAME_MAX),
        (m.Takers(7, ((b"p" * 60_000, b"g", 1),) * 18), SHORT_MAX),
    ],
)
def test_given_a_message_that_does_not_fit_then_it_is_not_sent(message: Any, size: int) -> None:
    with pytest.raises(AssertionError, match=f"more than {size}"):
        encode_message(message)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
u32, u63, u64 = (
    st.integers(0, (1 << 32) - 1),
    st.integers(0, (1 << 63) - 1),
    st.integers(0, 2**64 - 1),
)
fields = st.dictionaries(texts, st.one_of(u64, texts, st.lists(u63, max_size=3)), max_size=4)
any_messages = st.one_of(
    st.builds(m.Ack, u32, u63, u63, u64, u64, u32),
    st.builds(m.Forward, u32, st.binary(max_size=100)),
    st.builds(m.AlreadyNumbered, u64, u64, u63),
    st.builds(m.StageFetch, u32, texts, u64, texts, u63),
    st.builds(m.StagePiece, u32, texts, u64, texts, u63, st.binary(max_size=100)),
    st.builds(m.StageDrop, u32, texts, u64, texts),
    st.builds(m.MemberRequest, u64, texts, st.dictionaries(texts, texts), st.binary(max_size=100)),
    st.builds(m.MemberReply, u64, u32, st.dictionaries(texts, texts), st.binary(max_size=100)),
    st.builds(m.NotCoordinator, texts, u63, st.sampled_from([None, VIEW])),
    st.builds(
        m.Notes,
        u32,
        u63,
        st.lists(st.builds(m.Note, u63, u32, texts, fields), max_size=3).map(tuple),
    ),
    st.builds(
        m.Takers,
        u32,
        st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9), u32)).map(tuple),
    ),
)


@given(st.lists(any_messages, max_size=5), st.integers(1, 50))
@settings(max_examples=examples(200))
def test_given_any_messages_then_they_come_as_they_were_sent(sent: list[Any], size: int) -> None:
    whole = b"".join(piece for message in sent for piece in encode_message(message))
    assert read_slowly(FrameReader(), whole, size) == sent
    assert read_in_place(whole, size) == sent
