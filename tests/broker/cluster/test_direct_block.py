"""Blocks of messages without a number: each to the byte, and malformed in every way."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.cluster.direct_block import DirectBlock, DirectWalk, packed_group
from sequencer.journal.record import Walk
from sequencer.replica.errors import BadRecords
from tests.sequencer.replica.forwarding import Published, record_of
from tests.support.depth import examples

ME, OTHER = 0xAB, 0xCD
HEAD = "0300 0500 0200 0000 0c000000 0e000000 0700000000000000"
GROUPS = "ab00000000000000 0100 67 cd00000000000000 0200 6768"
BODY = b"a.breply" + b"NATS/1.0\r\n\r\n" + b"xy"
BLOCK = bytes.fromhex(HEAD + GROUPS) + BODY


Found = tuple[bytes, bytes, bytes, bytes, int, list[bytes]]


def found(data: bytes) -> list[Found]:
    """The messages of a block, as a walk shows them."""
    walk = DirectWalk(ME)
    got: list[Found] = []
    walk.attach(data, 0)
    while walk.next():
        subject = data[walk.subject : walk.subject + walk.subject_size]
        reply = data[walk.reply : walk.reply + walk.reply_size]
        header = data[walk.body : walk.payload]
        payload = data[walk.payload : walk.payload + walk.payload_size]
        got.append((subject, reply, header, payload, walk.key, list(walk.groups)))
        assert walk.number == 0
    assert walk.at == len(data)
    return got


def test_given_two_messages_when_walked_then_each_has_its_parts_and_this_members_groups() -> None:
    one = (b"a.b", b"reply", b"NATS/1.0\r\n\r\n", b"xy", 7, [b"g"])
    assert found(BLOCK + BLOCK) == [one, one]


def test_given_a_message_when_added_and_taken_then_a_walk_finds_it() -> None:
    record = record_of(Published(5, 3, b"hello"), 9, 1000, 7)
    walk = Walk(0, False)
    walk.attach(record, 0, len(record))
    assert walk.next()
    block = DirectBlock()
    chosen = packed_group(OTHER, b"others") + packed_group(ME, b"mine")
    block.add(walk, 9, 2, chosen)
    data = bytes(block.take())
    ((_, _, _, payload, key, groups),) = found(data)
    assert (payload, key, groups) == (b"hello", 9, [b"mine"])
    assert block.take() == b""


@given(st.integers(1, len(BLOCK) - 1))
def test_given_a_block_that_is_cut_when_walked_then_it_is_refused(size: int) -> None:
    with pytest.raises(BadRecords):
        found(BLOCK[:size])


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, 0), (6, 1), (8, 15), (12, 1 << 31), (4, 0xFFFF), (2, 0xFFFF)],
    ids=["no subject", "not zero", "headers", "size", "groups", "reply"],
)
def test_given_wrong_sizes_when_walked_then_they_are_refused(at: int, value: int) -> None:
    data = bytearray(BLOCK)
    struct.pack_into("<I" if at >= 8 else "<H", data, at, value)
    with pytest.raises(BadRecords):
        found(bytes(data))


@given(st.binary(max_size=200))
@settings(max_examples=examples(300))
def test_given_any_bytes_when_walked_then_they_are_messages_or_refused(data: bytes) -> None:
    try:
        got = found(data)
    except BadRecords:
        return
    assert sum(24 + sum(map(len, one[:4])) for one in got) <= len(data)
