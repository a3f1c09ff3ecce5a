"""Blocks to messages: the reference's bytes, exact counts, sub-batches, reorgs, what is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardinal.errors import (
    BrokenReorg,
    InvalidBatch,
    NotEncodable,
    PrefixConflict,
    ProducerError,
    TooManyBatches,
    UnknownBatch,
)
from cardinal.message_codec import decode
from cardinal.messages import (
    NO_ID,
    Batch,
    Delete,
    Entry,
    Reorg,
    ReorgComplete,
    SubBatchHeader,
    SubBatchMessage,
    Update,
)
from cardinal.producer import Messages, Producer
from cardinal.schema import Schema
from tests.cardinal import vectors

A, B, C, ID = b"a" * 32, b"b" * 32, b"c" * 32, b"i" * 32
EXAMPLE, REGEX = vectors.load("spec_example"), vectors.load("regex_prefix")


def rows(listed: list[dict[str, str]]) -> dict[str, list[tuple[bytes, bytes]]]:
    """A vector's messages by topic."""
    found: dict[str, list[tuple[bytes, bytes]]] = {}
    for one in listed:
        row = vectors.unhex(one["key_hex"]), vectors.unhex(one["value_hex"])
        found.setdefault(one["topic"], []).append(row)
    return found


def check_block(made: Messages, vector: list[dict[str, str]], entries: dict[str, Any]) -> None:
    """The same keys and values, but for the order of a map's entries, which is free."""
    expected = rows(vector)
    assert set(made) == set(expected)
    for topic, messages in made.items():
        pairs = zip(messages, expected[topic], strict=True)
        assert all(ours == theirs or ours[0][0] == 0 for ours, theirs in pairs)
    (batch,) = (decode(*row) for some in made.values() for row in some if row[0][0] == 0)
    (theirs,) = (decode(*row) for some in expected.values() for row in some if row[0][0] == 0)
    assert batch == theirs
    assert isinstance(batch, Batch)
    assert {
        key: (one.value.hex(), one.count, one.delete) for key, one in batch.entries.items()
    } == {key: (one["value_hex"], one["count"], one["delete"]) for key, one in entries.items()}


def test_given_the_example_of_the_specification_when_made_then_its_bytes_are_the_references() -> (
    None
):
    producer = Producer(Schema({"a/": "ta", "b/": "tb", "q/": "tq"}, default="default"))
    hash = vectors.unhex("deadbeef0123456789abcdef00000000000000fedcba987654321fffffffffff")
    id = bytes(31) + b"\x01"
    updates = {"a/b": b"\x88", "q/17": b"\x12\x34", "q/18": b"\x56\x78", "x/19": b"\x99\x99"}
    made = producer.block(1337, hash, bytes(32), 9844, updates, ["b/c"], {"b/s": id})
    check_block(made, EXAMPLE["add_block"], EXAMPLE["batch_updates_decoded"])
    assert list(made)[-1] == "default", "the Batch comes last"
    made = producer.sub_batch(hash, id, deletes=["b/s/4"], updates={"b/s/5": b"\xab\xcd"})
    assert made == rows(EXAMPLE["send_batch"])


def test_given_prefixes_as_expressions_when_made_then_the_bytes_are_the_references() -> None:
    producer = Producer(Schema(REGEX["schema"], default="default"))
    hash, id = bytes(31) + b"\x01", bytes(31) + b"\xff"
    updates = {
        "foo/something": b"gnihtemos/oof",
        "bar/whatever/baz/stuff": b"data",
        "default/thing": b"defaulttopic",
    }
    deletes = ["foo/delete", "bar/delete/baz/thing", "default/delete"]
    made = producer.block(0, hash, bytes(32), 0, updates, deletes, {"state/": id})
    check_block(made, REGEX["messages"], REGEX["batch_updates_decoded"])
    made = producer.sub_batch(
        hash,
        id,
        deletes=["whatever/", "other/"],
        updates={"state/thing": b"thing!", "state/aaa": b""},
    )
    assert made == rows(REGEX["send_batch"])


def schema() -> Schema:
    return Schema({"a/": "one", "b/[0-9]+/": "two"}, default="main")


keys = st.from_regex(r"(a/|b/[0-9]{1,2}/|c/|b/)[a-cé]{0,3}", fullmatch=True)


@given(st.dictionaries(keys, st.binary(max_size=8), max_size=20), st.sets(keys, max_size=8))
def test_given_any_block_when_made_then_its_counts_are_exact_and_nothing_is_missing(
    updates: dict[str, bytes], deletes: set[str]
) -> None:
    schema_here = schema()
    deletes -= {key for key in updates if schema_here.match(key)[1] is None}
    made = Producer(schema_here).block(7, A, B, 8, updates, sorted(deletes))
    messages = [(topic, decode(*row)) for topic, some in made.items() for row in some]
    topic, batch = messages.pop()
    assert topic == "main"
    assert isinstance(batch, Batch)
    assert (batch.hash, batch.number, batch.weight, batch.parent) == (A, 7, 8, B)
    left = {key: entry.count for key, entry in batch.entries.items() if entry.count}
    seen_updates = {
        key: one.value for key, one in batch.entries.items() if not (one.count or one.delete)
    }
    seen_deletes = {key for key, entry in batch.entries.items() if entry.delete}
    for topic, message in messages:
        assert isinstance(message, Update | Delete)
        expected_topic, prefix = schema_here.match(message.key)
        assert topic == expected_topic
        assert prefix is not None
        left[prefix] -= 1
        if isinstance(message, Update):
            seen_updates[message.key] = message.value
        else:
            seen_deletes.add(message.key)
    assert set(left.values()) <= {0}
    assert (seen_updates, seen_deletes) == (updates, deletes)


@given(st.permutations([("c/1", b"1"), ("a/1", b"1"), ("b/2/", b"2"), ("c/0", b""), ("a/2", b"")]))
def test_given_the_keys_in_any_order_when_made_then_producers_make_the_same_messages(
    pairs: list[tuple[str, bytes]],
) -> None:
    made = Producer(schema()).block(1, A, B, 1, dict(pairs), ["c/9", "a/9"])
    other = Producer(schema()).block(1, A, B, 1, dict(sorted(pairs)), ["a/9", "c/9"])
    assert {topic: sorted(some) for topic, some in made.items()} == {
        topic: sorted(some) for topic, some in other.items()
    }


def test_given_a_key_set_and_deleted_when_counted_then_both_are_sent_and_counted() -> None:
    made = Producer(schema()).block(1, A, B, 1, {"a/1": b"x"}, ["a/1", "a/1"])
    assert [decode(*row) for row in made["one"]] == [Update(A, "a/1", b"x"), Delete(A, "a/1")]
    batch = decode(*made["main"][0])
    assert isinstance(batch, Batch)
    assert batch.entries == {"a/": Entry(count=2)}


@pytest.mark.parametrize(
    ("updates", "deletes", "batches", "error", "reason"),
    [
        ({"c": b""}, ["c"], {}, PrefixConflict, "'c' is both set and deleted"),
        ({"c": b""}, [], {"c": ID}, PrefixConflict, "'c' is a sub-batch and a key of the Batch"),
        ({}, ["c"], {"c": ID}, PrefixConflict, "a key of the Batch"),
        ({"a/1": b""}, [], {"a/": ID}, PrefixConflict, "'a/' is a sub-batch and a counted prefix"),
        ({}, [], {"c": NO_ID}, InvalidBatch, "the id of the sub-batch 'c' is zero"),
        ({}, [], {"c": ID, "d": ID}, InvalidBatch, "two sub-batches of one block"),
        ({}, [], {"c": b"short"}, NotEncodable, "is not 32 bytes"),
        ({"a/1": "text"}, [], {}, NotEncodable, "is not bytes"),
        ({"c": "text"}, [], {}, NotEncodable, "is not bytes"),
        ({"a/\ud800": b""}, [], {}, NotEncodable, "is not text"),
        ({"\ud800": b""}, [], {}, NotEncodable, "is not text"),
        ({b"a/": b""}, [], {}, NotEncodable, "is not text"),
        ({}, ["a/\ud800"], {}, NotEncodable, "is not text"),
        ({}, [None], {}, NotEncodable, "is not text"),
    ],
)
def test_given_a_block_that_cannot_be_when_made_then_it_is_refused_and_announces_nothing(
    updates: Any, deletes: Any, batches: Any, error: type[Exception], reason: str
) -> None:
    producer = Producer(schema())
    with pytest.raises(error, match=reason):
        producer.block(1, A, B, 1, updates, deletes, batches)
    assert producer.announced == []


@pytest.mark.parametrize(
    "fields", [(-1, A, B, 1), (2**63, A, B, 1), (1, A, b"", 1), (1, b"x", B, 1), (1, A, B, 2**256)]
)
def test_given_a_head_out_of_range_when_made_then_it_is_refused(fields: Any) -> None:
    number, hash, parent, weight = fields
    with pytest.raises(NotEncodable):
        Producer(schema()).block(number, hash, parent, weight, {"a/1": b""}, [], {"s": ID})


def test_given_sub_batches_when_sent_then_each_is_known_once_and_by_its_block() -> None:
    producer = Producer(schema())
    producer.block(1, A, B, 1, batches={"a/s": ID, "s": C})
    producer.block(1, C, B, 1, batches={"a/s": ID})  # a competing block, the same id
    assert producer.announced == [(A, ID), (A, C), (C, ID)]
    assert producer.sub_batch(A, ID) == {"one": [(b"\x01" + A + ID, b"\x00")]}
    with pytest.raises(UnknownBatch):
        producer.sub_batch(A, ID)
    with pytest.raises(UnknownBatch):
        producer.sub_batch(B, ID)
    made = producer.sub_batch(C, ID, ["x", "y", "x"], {"b": b"2", "a": b"1"})
    assert [decode(*row) for row in made["one"]] == [
        SubBatchHeader(C, ID, 3),
        SubBatchMessage(C, ID, 0, ["x", "y"], {}),
        SubBatchMessage(C, ID, 1, [], {"a": b"1"}),
        SubBatchMessage(C, ID, 2, [], {"b": b"2"}),
    ]
    producer.forget(A)
    assert producer.announced == []


def test_given_deletes_of_a_sub_batch_as_a_set_when_sent_then_all_producers_make_the_same() -> None:
    made = []
    for names in (range(50), reversed(range(50))):
        producer = Producer(schema())
        producer.block(1, A, B, 1, batches={"s": ID})
        made.append(producer.sub_batch(A, ID, deletes={f"s/{one}" for one in names}))
    assert made[0] == made[1]
    (message,) = [decode(*row) for row in made[0]["main"][1:]]
    assert isinstance(message, SubBatchMessage)
    assert message.deletes == sorted(message.deletes)


def test_given_a_sub_batch_that_cannot_be_encoded_when_sent_then_it_can_be_sent_again() -> None:
    producer = Producer(schema())
    producer.block(1, A, B, 1, batches={"s": ID})
    with pytest.raises(NotEncodable):
        producer.sub_batch(A, ID, updates={"\ud800": b""})
    assert producer.sub_batch(A, ID) == {"main": [(b"\x01" + A + ID, b"\x00")]}


def test_given_too_many_sub_batches_when_announced_then_one_more_is_refused() -> None:
    producer = Producer(schema(), batches_max=2)
    producer.block(1, A, B, 1, batches={"s": ID, "t": A})
    with pytest.raises(TooManyBatches, match="2 sub-batches were announced and not sent"):
        producer.block(2, B, A, 2, batches={"s": ID})
    producer.sub_batch(A, ID)
    producer.block(2, B, A, 2, batches={"s": ID})


def test_given_a_reorg_when_made_then_all_of_it_is_in_order_on_a_channel_of_its_own() -> None:
    producer = Producer(schema())
    channel = producer.reorg(5, A, weight=6, head=C)
    assert channel.topic == "reorg.6161616161616161-6363636363636363"
    made = [
        channel.begin(),
        channel.block(6, B, A, 6, {"a/1": b"x", "c": b"y"}, batches={"s": ID}),
        channel.sub_batch(B, ID, updates={"s/1": b"z"}),
        channel.block(7, C, B, 7, deletes=["b/7/x"]),
        channel.complete(),
    ]
    assert [list(one) for one in made] == [[channel.topic]] * 5
    messages = [decode(*row) for one in made for row in one[channel.topic]]
    assert messages[0] == Reorg(A, 5)
    assert messages[-1] == ReorgComplete(A, 5)
    assert [type(one).__name__ for one in messages[1:-1]] == [
        "Update",
        "Batch",
        "SubBatchHeader",
        "SubBatchMessage",
        "Delete",
        "Batch",
    ]
    assert producer.reorg(5, A, 6, B).topic != channel.topic


def test_given_what_does_not_belong_on_a_channel_when_made_then_it_is_refused() -> None:
    channel = Producer(schema()).reorg(5, A, weight=7, head=C)
    with pytest.raises(BrokenReorg, match="block 7 has another parent"):
        channel.block(7, C, B, 7)
    channel.block(6, B, A, 6, batches={"s": ID})
    with pytest.raises(BrokenReorg, match="the head of the reorg was not sent"):
        channel.complete()
    channel.block(7, C, B, 7)
    with pytest.raises(BrokenReorg, match="block 8 comes after the head"):
        channel.block(8, ID, C, 8)
    with pytest.raises(BrokenReorg, match="no block is heavier than those it replaces"):
        channel.complete()
    channel.weight = 6
    with pytest.raises(BrokenReorg, match="1 sub-batches were not sent"):
        channel.complete()
    channel.sub_batch(B, ID)
    assert list(channel.complete()) == [channel.topic]
    assert issubclass(BrokenReorg, ProducerError)
