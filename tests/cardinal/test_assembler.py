"""Messages to blocks: the reference's vectors, what it never completes, sub-batches, tokens."""

import itertools
from typing import Any

import pytest

from cardinal.assembler import Assembler
from cardinal.block import Block
from cardinal.message_codec import encode
from cardinal.messages import (
    Batch,
    Delete,
    Entry,
    Ping,
    Reorg,
    ReorgComplete,
    SubBatchHeader,
    SubBatchMessage,
    Update,
)
from cardinal.producer import Producer
from cardinal.schema import Schema
from tests.cardinal import vectors
from tests.cardinal.stream import batch, flat, named, rows

B, ID = named("b"), named("id")
EXAMPLE = vectors.load("spec_example")
REGEX = vectors.load("regex_prefix")


def vector_rows(listed: list[dict[str, str]]) -> list[tuple[bytes, bytes, int]]:
    pairs = [(vectors.unhex(one["key_hex"]), vectors.unhex(one["value_hex"])) for one in listed]
    return [(key, value, offset) for offset, (key, value) in enumerate(pairs)]


@pytest.mark.parametrize("reverse", [False, True])
def test_given_the_example_of_the_specification_when_fed_then_the_block_is_whole(
    reverse: bool,
) -> None:
    some = vector_rows(EXAMPLE["add_block"] + EXAMPLE["send_batch"])
    assembler = Assembler()
    (block,) = assembler.feed(some[::-1] if reverse else some)
    assert isinstance(block, Block)
    assert (block.number, block.weight, block.parent) == (1337, 0x2674, bytes(32))
    assert block.updates == {
        "a/b": b"\x88",
        "q/17": b"\x12\x34",
        "q/18": b"\x56\x78",
        "b/s/5": b"\xab\xcd",
        "x/19": b"\x99\x99",
    }
    assert block.deletes == {"b/c", "b/s/4"}
    assert assembler.pending_bytes == 0
    assert not assembler.pending


def test_given_the_vector_of_regular_expressions_when_fed_then_the_block_is_whole() -> None:
    (block,) = Assembler().feed(vector_rows(REGEX["messages"] + REGEX["send_batch"]))
    assert isinstance(block, Block)
    assert block.updates == {
        "bar/whatever/baz/stuff": b"data",
        "default/thing": b"defaulttopic",
        "foo/something": b"gnihtemos/oof",
        "state/aaa": b"",
        "state/thing": b"thing!",
    }
    assert block.deletes == {
        *("bar/delete/baz/thing", "foo/delete", "default/delete", "whatever/", "other/")
    }


@pytest.mark.parametrize(
    ("prefix", "key"),
    [
        ("a/h", "a/hello"),
        ("a", "a/b"),
        ("a/12", "a/12/x"),
        ("trade.", "trade.AAPL"),
        ("a/h", "a/h"),
        ("/", "/leading/slash"),
        ("", "anything"),
    ],
)
def test_given_a_prefix_that_the_reference_never_completes_when_fed_then_the_block_is_whole(
    prefix: str, key: str
) -> None:
    some = rows([batch({prefix: Entry(count=1)}), Update(B, key, b"\x01")])
    for order in itertools.permutations(some):
        (block,) = Assembler().feed(order)
        assert isinstance(block, Block)
        assert block.updates == {key: b"\x01"}


def test_given_empty_values_when_fed_then_none_is_lost() -> None:
    some = rows([batch({"a/": Entry(count=1), "x": Entry()}), Update(B, "a/z", b"")])
    (block,) = Assembler().feed(some)
    assert isinstance(block, Block)
    assert block.updates == {"a/z": b"", "x": b""}


def test_given_a_key_that_is_set_and_deleted_when_fed_then_both_count() -> None:
    some = rows([batch({"a/": Entry(count=2)}), Update(B, "a/1", b"1"), Delete(B, "a/1")])
    (block,) = Assembler().feed(some)
    assert isinstance(block, Block)
    assert (block.updates, block.deletes) == ({"a/1": b"1"}, {"a/1"})


def test_given_copies_when_fed_then_the_first_counts_and_they_are_counted() -> None:
    first = rows([batch({"a/": Entry(count=2)}), Update(B, "a/1", b"")])
    copy = rows([batch({}), Update(B, "a/1", b"late"), Update(B, "a/1", b"later")])
    assembler = Assembler()
    assert assembler.feed(first + copy) == []
    (block,) = assembler.feed(rows([Update(B, "a/2", b"2"), *[Delete(B, "a/9")] * 3]))
    assert isinstance(block, Block)
    assert block.updates == {"a/1": b"", "a/2": b"2"}
    assert (assembler.duplicates, assembler.dropped) == (6, 0)


def test_given_two_producers_when_the_second_is_late_then_a_block_is_given_once() -> None:
    schema = Schema({"a/": "ta", "s/": "ts"}, default="t")
    made = [Producer(schema), Producer(schema)]
    sent = [
        flat(one.block(1, B, named("p"), 1, {"a/1": b"1"}, ["a/2"], {"s": ID}))
        + flat(one.sub_batch(B, ID, ["s/4"], {"s/5": b"5"}))
        for one in made
    ]
    assembler = Assembler()
    events = [e for pair in sent for e in assembler.feed([(*row, 0) for row in pair])]
    assert [type(event) for event in events] == [Block]
    assert assembler.duplicates == len(sent[1])


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_given_a_sub_batch_in_any_order_when_fed_then_it_is_collected(
    order: tuple[int, ...],
) -> None:
    messages: list[Any] = [
        batch({"s": Entry(sub_batch=ID)}),
        SubBatchHeader(B, ID, 2),
        SubBatchMessage(B, ID, 0, ["d"], {}),
        SubBatchMessage(B, ID, 1, [], {"u": b"1"}),
    ]
    some = rows(messages[number] for number in order)
    (block,) = Assembler().feed(some)
    assert isinstance(block, Block)
    assert (block.updates, block.deletes) == ({"u": b"1"}, {"d"})


def test_given_an_empty_sub_batch_when_its_header_comes_then_it_is_whole() -> None:
    assembler = Assembler()
    assert assembler.feed(rows([batch({"s": Entry(sub_batch=ID)})])) == []
    (block,) = assembler.feed(rows([SubBatchHeader(B, ID, 0)]))
    assert isinstance(block, Block)


def test_given_competing_blocks_with_one_id_when_fed_then_their_sub_batches_are_apart() -> None:
    entries = {"s": Entry(sub_batch=ID)}
    messages: list[Any] = [
        message
        for name in "bc"
        for message in (
            batch(entries, name),
            SubBatchHeader(named(name), ID, 1),
            SubBatchMessage(named(name), ID, 0, [], {"key": name.encode()}),
        )
    ]
    blocks = Assembler().feed(rows(messages[::2] + messages[1::2]))
    assert {b.hash: b.updates["key"] for b in blocks if isinstance(b, Block)} == {
        named("b"): b"b",
        named("c"): b"c",
    }


def test_given_one_key_in_several_places_when_fed_in_any_order_then_the_same_one_wins() -> None:
    messages: list[Any] = [
        batch({"k": Entry(b"0"), "l": Entry(count=1), "s": Entry(sub_batch=ID)}),
        SubBatchHeader(B, ID, 2),
        SubBatchMessage(B, ID, 1, [], {"k": b"2", "l": b"2"}),
        SubBatchMessage(B, ID, 0, [], {"k": b"1", "l": b"1"}),
        Update(B, "l", b"3"),
    ]
    for order in itertools.permutations(messages):
        (block,) = Assembler().feed(rows(order))
        assert isinstance(block, Block)
        assert block.updates == {"k": b"2", "l": b"3"}


def test_given_what_is_not_tracked_when_fed_then_it_neither_counts_nor_is_waited_for() -> None:
    other = named("other")
    entries = {
        "a/": Entry(count=1),
        "u/": Entry(count=5),
        "ux": Entry(b"inline"),
        "ud": Entry(delete=True),
        "us": Entry(sub_batch=other),
    }
    messages: list[Any] = [
        SubBatchMessage(B, other, 0, [], {"us/1": b""}),
        Update(B, "u/1", b""),
        batch(entries),
        SubBatchHeader(B, other, 1),
        SubBatchMessage(B, other, 7, [], {"us/2": b""}),
        Update(B, "u/2", b""),
        Delete(B, "a/1"),
    ]
    assembler = Assembler(lambda key: not key.startswith("u"))
    (block,) = assembler.feed(rows(messages))
    assert isinstance(block, Block)
    assert (block.updates, block.deletes) == ({}, {"a/1"})
    assert (assembler.untracked, assembler.dropped, assembler.pending_bytes) == (5, 0, 0)


def test_given_a_batch_of_untracked_things_when_it_comes_then_the_block_is_whole() -> None:
    (block,) = Assembler(lambda key: False).feed(rows([batch({"a/": Entry(count=3)})]))
    assert isinstance(block, Block)


def test_given_announcements_when_fed_then_they_are_passed_on_and_pings_are_not() -> None:
    assembler = Assembler()
    reorg, done = Reorg(B, 2**40), ReorgComplete(B, 2**40)
    assert assembler.feed(rows([reorg, Ping(B, b"now"), done])) == [reorg, done]
    assert (assembler.dropped, assembler.pending_bytes) == (0, 0)


def test_given_several_sources_when_a_block_is_whole_then_its_token_has_each_lowest() -> None:
    assembler = Assembler()
    updates = [Update(B, f"a/{n}", b"") for n in range(4)]
    assembler.feed(rows(updates[:2], 100), "x:0")
    assembler.feed([(*encode(updates[2]), 99)], "x:0")  # it comes late, from further back
    assembler.feed(rows(updates[3:], 5), "y:1")
    assembler.feed(rows([Update(named("other"), "a/1", b"")], 3), "z")
    (block,) = assembler.feed(rows([batch({"a/": Entry(count=4)})], 7), "d:0")
    assert isinstance(block, Block)
    assert block.token == {"x:0": 99, "y:1": 5, "d:0": 7}


def test_given_pending_blocks_when_asked_for_the_floor_then_none_of_them_is_cut() -> None:
    assembler = Assembler()
    assert assembler.floor("s") == 0
    assembler.feed(rows([Batch(named("x"), 1, 1, B, {"k": Entry(count=1)})], 40), "s")
    assembler.feed(rows([batch({"a/": Entry(count=1)}), Update(B, "a/1", b"")], 41), "s")
    assembler.feed(rows([Update(named("y"), "a/1", b"")], 3), "other")
    assert assembler.floor("s") == 40
    assembler.feed(rows([Update(named("x"), "k", b"")], 60), "s")
    assert assembler.floor("s") == 61


def test_given_offsets_to_skip_when_fed_then_those_messages_are_passed_by() -> None:
    poison = rows([Update(B, "a/1", b"bad")], 5)
    good = rows([Update(B, "a/1", b"good"), batch({"a/": Entry(count=1)})], 6)
    (block,) = Assembler(skip={"t:0": {5}}).feed(poison + good, "t:0")
    assert isinstance(block, Block)
    assert block.updates == {"a/1": b"good"}
