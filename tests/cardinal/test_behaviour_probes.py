"""What the reference was seen to do with invalid or strange input, and what we do with it.

Every probe of the reference is here, by its name. If it does what the specification says, we do
the same; if it panics, hangs, leaks or loses something, our behaviour is documented.
"""

from collections.abc import Callable
from typing import Any

import pytest

from cardinal.assembler import Assembler, Dropped
from cardinal.block import Block
from cardinal.errors import (
    BadAvroNumber,
    CardinalError,
    IndexTooHigh,
    InvalidBatch,
    NotCounted,
    NotEncodable,
    PrefixConflict,
    SchemaError,
    ShortKey,
    UnknownBatch,
    UnknownType,
)
from cardinal.message_codec import encode
from cardinal.messages import NO_ID, Delete, Entry, Message, SubBatchHeader, SubBatchMessage, Update
from cardinal.producer import Producer
from cardinal.schema import Schema
from cardinal.token import format_token
from tests.cardinal import vectors
from tests.cardinal.stream import batch, flat, named

PROBES = {probe["case"]: probe for probe in vectors.load("behaviour_probes")}
B, P, ID = named("b"), named("p"), named("id")
OTHER: list[Message] = [
    batch({"a/": Entry(count=1), "s": Entry(sub_batch=ID)}),
    Update(B, "a/1", b""),
]
REST: list[Message] = [SubBatchHeader(B, ID, 1), SubBatchMessage(B, ID, 0, [], {})]


def made(**of_block: Any) -> Producer:
    """A producer that has made a block of a schema in which `a/` is counted."""
    producer = Producer(Schema({"a/": "x"}, default="d"))
    place: dict[str, Any] = {"number": 1, "hash": B, "parent": P, "weight": 1}
    producer.block(**place | of_block)
    return producer


def send_twice() -> None:
    producer = made(batches={"s": ID})
    producer.sub_batch(B, ID)
    producer.sub_batch(B, ID)


# What a producer is asked, and what it says: None if it does it.
PRODUCED: dict[str, tuple[Callable[[], Any], type[CardinalError] | None]] = {
    "overlapping prefixes a/ and a/b": (
        lambda: Schema({"a/": "x", "a/b": "y"}, "d"),
        SchemaError,
    ),
    "overlap only visible as regex: a/.* and a/b": (
        lambda: Schema({"a/.*": "x", "a/b": "y"}, "d"),
        SchemaError,  # there, luck says which of them wins
    ),
    "bad regex": (lambda: Schema({"[": "x"}, "d"), SchemaError),
    "subbatch id zero": (lambda: made(batches={"s": NO_ID}), InvalidBatch),
    "subbatch prefix equals an unmatched update key": (
        lambda: made(updates={"s": b"1"}, batches={"s": ID}),
        PrefixConflict,
    ),
    "subbatch prefix equals a counted prefix": (
        lambda: made(updates={"a/1": b"1"}, batches={"a/": ID}),
        PrefixConflict,
    ),
    "same key updated and deleted, matched prefix": (
        lambda: made(updates={"a/1": b"1"}, deletes=["a/1"]),
        None,
    ),
    "same key updated and deleted, unmatched (delete wins silently)": (
        lambda: made(updates={"k": b"1"}, deletes=["k"]),
        PrefixConflict,  # there, the value is lost
    ),
    "SendBatch unknown": (lambda: made().sub_batch(B, ID), UnknownBatch),
    "SendBatch empty": (lambda: made(batches={"s": ID}).sub_batch(B, ID), None),
    "SendBatch twice": (send_twice, UnknownBatch),
    "negative weight -> abs": (lambda: made(weight=-1), NotEncodable),  # there, its sign is lost
    "negative number": (lambda: made(number=-1), NotEncodable),  # there, it is sent
}

# Messages that a consumer gets, and why it drops one. There, most of them are its end.
DROPPED: dict[str, tuple[bytes, bytes, type[CardinalError]]] = {
    "SubBatchMsg index 9 of 1": (*encode(SubBatchMessage(B, ID, 9, [], {})), IndexTooHigh),
    "SubBatchHeader negative count": (b"\x01" + B + ID, b"\x01", BadAvroNumber),
    "short key (5 bytes)": (b"\x03" + bytes(4), b"", ShortKey),
    "empty key": (b"", b"", ShortKey),
    "garbage Batch value": (b"\x00" + B, b"\x01\x02\x03", BadAvroNumber),  # there, it is taken
    "unknown type 9 for unknown block": (b"\x09" + named("?"), b"", UnknownType),
    "BatchMsg key with a leading slash and no matching prefix": (
        *encode(Update(B, "/nothing", b"")),
        NotCounted,
    ),
}

# Messages and where they stood; what of the block is not as there.
A_1, A_2 = Update(B, "a/1", b"\x01"), Update(B, "a/2", b"\x02")
CONSUMED: dict[str, tuple[list[tuple[Message, str, int]], dict[str, Any]]] = {
    "inline (unmatched) update with empty value: value is lost": (
        [(batch({"k": Entry()}, number=2), "t:0", 10)],
        {"values": {"k": ""}},  # an entry of nothing is an empty value
    ),
    "BatchMsg with empty value: kept as empty": (
        [
            (batch({"a/": Entry(count=1)}, number=3), "t:0", 10),
            (Update(B, "a/z", b""), "t:0", 11),
        ],
        {},
    ),
    "untracked prefix: block completes at the Batch message with nothing in it": (
        [(batch({"untracked/": Entry(count=1)}, number=4), "t:0", 10)],
        {},
    ),
    "same key updated and deleted: both appear": (
        [
            (batch({"a/": Entry(count=2)}, number=5), "t:0", 10),
            (A_1, "t:0", 11),
            (Delete(B, "a/1"), "t:0", 12),
        ],
        {},
    ),
    "BatchMsgs (x:0 offsets 100,101) before Batch (d:0 offset 7)": (
        [
            (A_1, "x:0", 100),
            (A_2, "x:0", 101),
            (batch({"a/": Entry(count=2)}, number=6), "d:0", 7),
        ],
        {},
    ),
}

# A prefix and a key: a block of it is whole for us, whether or not it ever is there.
COUNTED: dict[str, tuple[str, str, str | None]] = {
    "producer prefix 'a/h', key 'a/hello' (prefix not at a path boundary)": (
        "a/h",
        "a/hello",
        "a/h",
    ),
    "producer prefix 'a', key 'a/b'": ("a", "a/b", "a"),
    "producer prefix 'a/[0-9]+', key 'a/12/x'": ("a/[0-9]+", "a/12/x", "a/12"),
    "producer prefix 'trade\\\\.', key 'trade.AAPL' (NATS-style)": (
        r"trade\.",
        "trade.AAPL",
        "trade.",
    ),
    "producer prefix 'a/|b/', key 'zb/1'": ("a/|b/", "zb/1", None),  # anchored as a whole
    "producer prefix 'a/h', key exactly 'a/h'": ("a/h", "a/h", "a/h"),
}


def test_given_the_probes_of_the_reference_then_each_is_answered_here() -> None:
    ours = [*PRODUCED, *DROPPED, *CONSUMED, *COUNTED]
    assert sorted(ours) == sorted(PROBES)


@pytest.mark.parametrize("case", PRODUCED)
def test_given_what_a_producer_may_be_asked_when_asked_then_it_is_done_or_refused(
    case: str,
) -> None:
    ask, error = PRODUCED[case]
    if error is None:
        assert PROBES[case]["error"] == "<nil>"
        ask()
        return
    with pytest.raises(error):
        ask()


@pytest.mark.parametrize("case", DROPPED)
def test_given_what_ends_a_consumer_there_when_fed_at_any_time_then_it_hides_nothing(
    case: str,
) -> None:
    key, value, error = DROPPED[case]
    good = [(*encode(one), offset) for offset, one in enumerate([*OTHER, *REST])]
    for at in range(len(good)):
        events = Assembler().feed([*good[:at], (key, value, 7), *good[at:]])
        dropped = [type(event.error) for event in events if isinstance(event, Dropped)]
        assert len(events) == len(dropped) + 1, "the block is given all the same"
        copy = at > 0 and key[:1] == b"\x00"  # of a Batch, which is not looked at again
        assert dropped == ([] if copy else [error])


@pytest.mark.parametrize("case", CONSUMED)
def test_given_messages_that_make_a_block_there_when_fed_then_they_make_this_one(
    case: str,
) -> None:
    messages, differs = CONSUMED[case]
    assembler = Assembler(lambda key: not key.startswith("untracked"))
    found = [
        event
        for message, source, offset in messages
        for event in assembler.feed([(*encode(message), offset)], source)
    ]
    (block,) = found
    assert isinstance(block, Block)
    assert {
        "number": block.number,
        "deletes": sorted(block.deletes),
        "values": {key: value.hex() for key, value in block.updates.items()},
        "resumption": format_token(block.token),
    } == PROBES[case]["emitted"] | differs


@pytest.mark.parametrize("case", COUNTED)
def test_given_a_prefix_and_a_key_when_a_block_is_made_of_it_then_it_is_whole_again(
    case: str,
) -> None:
    pattern, key, prefix = COUNTED[case]
    schema = Schema({pattern: "x"}, default="d")
    assert schema.match(key) == ("x" if prefix else "d", prefix)
    rows = flat(Producer(schema).block(7, B, P, 7, {key: b"\x01"}))
    assert len(rows) == (1 if prefix is None else 2)
    (block,) = Assembler().feed([(*row, offset) for offset, row in enumerate(rows)])
    assert isinstance(block, Block)
    assert block.updates == {key: b"\x01"}
