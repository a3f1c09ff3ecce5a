"""How an assembler handles malformed bytes, and how much it keeps."""

import gc
import itertools
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardinal.assembler import Assembler, Dropped, Evicted
from cardinal.block import Block
from cardinal.errors import (
    BadAvroNumber,
    BadText,
    CardinalError,
    IndexTooHigh,
    NotAnnounced,
    NotCounted,
    ShortKey,
    TruncatedMessage,
    UnknownType,
)
from cardinal.message_codec import encode
from cardinal.messages import (
    Delete,
    Entry,
    Message,
    SubBatchHeader,
    SubBatchMessage,
    Update,
)
from cardinal.pending import BLOCK_BYTES, EACH_BYTES, SUB_BATCH_BYTES
from tests.cardinal import made
from tests.cardinal.stream import Row, batch, named, rows

B, ID = named("b"), named("id")
WHOLE = rows([batch({"a/": Entry(count=1), "s": Entry(sub_batch=ID)})])
REST = rows([Update(B, "a/1", b""), SubBatchHeader(B, ID, 1), SubBatchMessage(B, ID, 0, ["d"], {})])


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (b"", b"", ShortKey),
        (b"\x03" + bytes(4), b"", ShortKey),
        (b"\x00" + bytes(31), b"", ShortKey),
        (b"\x09" + B, b"", UnknownType),
        (b"\x00" + B, b"\x01\x02\x03", BadAvroNumber),
        (b"\x00" + B, b"\x02\x02\x03", TruncatedMessage),
        (b"\x01" + B + ID, b"\x01", BadAvroNumber),
        (b"\x02" + B + ID + b"\x00", b"\x02", CardinalError),
        (b"\x02" + B + ID + b"\x80", b"\x00\x00", ShortKey),
        (b"\x05" + B, b"\x01", BadAvroNumber),
    ],
)
def test_given_a_malformed_message_when_fed_then_it_is_reported_and_hides_no_right_one(
    key: bytes, value: bytes, error: type[CardinalError]
) -> None:
    assembler = Assembler()
    (dropped,) = assembler.feed([(key, value, 4)], "topic")
    assert isinstance(dropped, Dropped)
    assert isinstance(dropped.error, error)
    assert (dropped.key, dropped.source, dropped.offset) == (key, "topic", 4)
    assert str(dropped).startswith(f"topic 4: {type(dropped.error).__name__}: ")
    assert (assembler.dropped, assembler.pending_bytes) == (1, 0)
    assert not assembler.pending
    (block,) = assembler.feed(WHOLE + REST)
    assert isinstance(block, Block)


@pytest.mark.parametrize(
    ("row", "error"),
    [
        (Update(B, "b/1", b""), NotCounted),
        (SubBatchHeader(B, named("x"), 1), NotAnnounced),
        (SubBatchMessage(B, named("x"), 0, [], {}), NotAnnounced),
        (SubBatchMessage(B, ID, 1, [], {}), IndexTooHigh),
    ],
)
def test_given_a_message_without_a_place_when_fed_at_any_time_then_it_is_reported(
    row: SubBatchMessage | SubBatchHeader | Update, error: type[CardinalError]
) -> None:
    for order in itertools.permutations([*WHOLE, *REST[1:], *rows([row])]):
        assembler = Assembler()
        events = assembler.feed([*order, REST[0]])
        assert sorted(type(event).__name__ for event in events) == ["Block", "Dropped"]
        (dropped,) = (event for event in events if isinstance(event, Dropped))
        assert type(dropped.error) is error
        assert (assembler.dropped, assembler.pending_bytes) == (1, 0)


def test_given_a_key_that_is_not_text_when_counted_then_it_is_reported() -> None:
    bad = (b"\x03" + B + b"a/\xff", b"", 9)
    events = Assembler().feed([bad, *WHOLE, *REST])
    assert [type(event) for event in events] == [Dropped, Block]
    (dropped,) = (event for event in events if isinstance(event, Dropped))
    assert isinstance(dropped.error, BadText)
    assert dropped.error.offset == 35


def test_given_a_huge_header_count_when_fed_then_nothing_is_allocated_by_it() -> None:
    assembler = Assembler()
    assembler.feed(rows([SubBatchHeader(B, ID, 2**31 - 1)]))
    assert assembler.pending_bytes == BLOCK_BYTES + SUB_BATCH_BYTES


def test_given_old_blocks_when_time_passes_then_they_are_evicted_with_what_they_lack() -> None:
    assembler = Assembler(age_max=10)
    assembler.feed([*WHOLE, REST[1]], "t", now=100.0)
    assembler.feed(rows([Update(named("c"), "a/1", b"12")], 5), "t", now=105.0)
    assert assembler.expire(110.0) == []
    (first,) = assembler.expire(110.5)
    assert isinstance(first, Evicted)
    assert (first.hash, first.number, first.why, first.messages) == (B, 7, "age", 2)
    assert str(first.missing) == "1 of 'a/', 1 of sub-batch 0x" + ID.hex()
    assert first.token == {"t": 0}
    assert "block 7 given up (age), with 2 of its messages; missing: 1 of 'a/'" in str(first)
    (second,) = assembler.feed([], "t", now=116.0)
    assert isinstance(second, Evicted)
    assert second.bytes == BLOCK_BYTES + 2 * 36 + 2 + EACH_BYTES
    assert "missing: its Batch" in str(second)
    assert assembler.pending_bytes == 0
    assert assembler.missing(B) is None


def test_given_too_many_blocks_when_fed_then_the_oldest_are_evicted() -> None:
    assembler = Assembler(blocks_max=3)
    events = assembler.feed(rows(Update(named(n), "k", b"") for n in range(5)))
    assert [(e.hash, e.why) for e in events if isinstance(e, Evicted)] == [
        (named(0), "count"),
        (named(1), "count"),
    ]
    assert list(assembler.pending) == [named(2), named(3), named(4)]


def test_given_too_many_bytes_when_fed_then_the_oldest_are_evicted() -> None:
    assembler = Assembler(bytes_max=15_000)
    some = [Update(named(n), f"k{m}", b"v" * 100) for n in range(10) for m in range(10)]
    events = assembler.feed(rows(some))
    assert [e.why for e in events if isinstance(e, Evicted)] == ["bytes"] * 7
    assert assembler.pending_bytes == sum(b.measure() for b in assembler.pending.values())
    assert 0 < assembler.pending_bytes <= 15_000


def wide(at: int, entry: Callable[[int], Entry]) -> Message:
    """A Batch of 300 entries, and one that will not be there."""
    entries = {f"a/{at}/{n}/": entry(at * 300 + n) for n in range(300)}
    return batch({"never": Entry(count=1)} | entries, f"{at}")


KINDS: dict[str, Callable[[int], list[Message]]] = {
    "a block of one message": lambda at: [Update(named(at), "k", b"")],
    "short updates": lambda at: [Update(named(at // 200), f"k{at}", b"v" * 9)],
    "long updates": lambda at: [Update(named(at // 200), f"k/{at:0>137}", b"v" * 300)],
    "counted updates": lambda at: [
        batch({"a": Entry(count=100), "s": Entry(sub_batch=ID)}, f"{at}"),
        *[Update(named(at), f"a/{n:0>137}", b"v" * 9) for n in range(100)],
    ],
    "counted deletes": lambda at: [
        batch({"a": Entry(count=100), "s": Entry(sub_batch=ID)}, f"{at}"),
        *[Delete(named(at), f"a/{n}") for n in range(100)],
    ],
    "counts": lambda at: [wide(at, lambda n: Entry(count=1))],
    "values": lambda at: [wide(at, lambda n: Entry(b"%d" % n))],
    "deletes": lambda at: [wide(at, lambda n: Entry(delete=True))],
    "sub-batches": lambda at: [wide(at, lambda n: Entry(sub_batch=named(n)))],
    "headers": lambda at: [SubBatchHeader(named(at // 50), named(at), 5)],
    "a message of each sub-batch": lambda at: [
        SubBatchMessage(named(at // 50), named(at), 0, [], {f"{at}": b"v" * 9})
    ],
    "many messages of a sub-batch": lambda at: [
        SubBatchMessage(named(at // 200), ID, at % 200, [], {f"{at}": b"v" * 9})
    ],
    "many deletes in a message": lambda at: [
        SubBatchMessage(named(at), ID, 0, [f"{at}/{n}" for n in range(500)], {})
    ],
    "many updates in a message": lambda at: [
        SubBatchMessage(named(at), ID, 0, [], {f"{at}/{n}": b"%d" % n for n in range(500)})
    ],
}


@pytest.mark.parametrize("kind", KINDS)
def test_given_messages_of_any_kind_when_kept_then_the_memory_they_take_is_counted(
    kind: str,
) -> None:
    assembler, at = Assembler(blocks_max=1 << 20), 0
    gc.collect()
    tracemalloc.start()
    try:
        while assembler.pending_bytes < 1 << 20:
            assert not assembler.feed(rows(KINDS[kind](at)))
            at += 1
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.3 < taken / assembler.pending_bytes < 1.3


def test_given_many_large_rows_in_one_call_when_fed_then_not_all_are_kept_until_its_end() -> None:
    assembler, most = Assembler(bytes_max=1 << 20), 0

    def watched() -> Iterator[Row]:
        nonlocal most
        for at in range(30):
            yield from rows(KINDS["sub-batches"](at))
            most = max(most, assembler.pending_bytes)

    class Rows(list[Row]):
        def __iter__(self) -> Iterator[Row]:
            return watched()

    events = assembler.feed(Rows())
    assert {type(event) for event in events} == {Evicted}
    assert 1 << 20 < most < 2.5 * (1 << 20)
    assert 0 < assembler.pending_bytes < 1 << 20
    assert assembler.pending_bytes == sum(b.measure() for b in assembler.pending.values())


def test_given_a_block_that_is_whole_then_it_says_what_was_counted_for_it() -> None:
    assembler = Assembler()
    assembler.feed([*WHOLE, *REST[:2]])
    before = assembler.pending_bytes
    (block,) = assembler.feed(REST[2:])
    assert isinstance(block, Block)
    assert before < block.size < before + 1000
    assert assembler.pending_bytes == 0


def test_given_an_evicted_block_when_all_of_it_comes_again_then_it_is_given() -> None:
    assembler = Assembler(age_max=1)
    assembler.feed([*WHOLE, *REST[:2]], now=0.0)
    assembler.expire(5.0)
    assert [type(e) for e in assembler.feed([*WHOLE, *REST], now=6.0)] == [Block]


def test_given_more_blocks_than_are_remembered_then_the_oldest_hashes_are_forgotten() -> None:
    assembler = Assembler(remember=2)

    def send(name: str) -> list[Row]:
        return rows([Update(named(name), "k", b""), batch({"k": Entry(count=1)}, name)])

    for name in "abc":
        assert len(assembler.feed(send(name), name)) == 1
    assert [len(assembler.feed(send(name), "s")) for name in "bca"] == [0, 0, 1]
    held = {name: set(heads) for name, heads in assembler._heads.items() if heads}
    kept = {head for heads in held.values() for head in heads}
    assert {head[1:] for head in kept} == {named("c"), named("a")}


def test_given_a_pending_block_when_asked_what_is_missing_then_what_came_was_counted() -> None:
    assembler = Assembler()
    some: list[Any] = [Update(B, "a/1", b""), batch({"a/": Entry(count=3)}), Update(B, "x", b"")]
    assert assembler.feed(rows(some)) == []
    assert str(assembler.missing(B)) == "2 of 'a/'"
    (dropped,) = assembler.feed([])
    assert isinstance(dropped, Dropped)


garbage = st.binary(max_size=80) | st.builds(
    lambda kind, hash, rest: bytes([kind]) + hash + rest,
    st.sampled_from([0, 1, 2, 3, 4, 5, 6, 255]),
    st.sampled_from([B, named("c")]),
    st.binary(max_size=40) | st.just(ID) | st.binary(max_size=3).map(ID.__add__),
)


@given(
    st.lists(
        st.tuples(garbage, st.binary(max_size=40), st.integers(0, 99))
        | made.messages.map(lambda message: (*encode(message), 5)),
        max_size=30,
    ),
    st.integers(0, 3),
    st.integers(0, 9000),
)
def test_given_any_bytes_when_fed_then_nothing_is_raised_and_what_is_kept_is_known(
    some: list[Row], blocks: int, size: int
) -> None:
    assembler = Assembler(blocks_max=blocks, bytes_max=size, remember=1)
    for row in some:
        assembler.feed([row, *WHOLE, *REST[:2], row])
        assert len(assembler.pending) <= blocks
        held = sum(block.measure() for block in assembler.pending.values())
        assert assembler.pending_bytes == held <= size
