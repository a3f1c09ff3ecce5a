"""Keys and values of every kind: the reference's bytes, fastavro as the judge, round trips."""

from typing import Any

import pytest
from hypothesis import given

from cardinal.errors import NotEncodable
from cardinal.message_codec import decode, encode, sub_batch_content
from cardinal.messages import (
    NO_ID,
    Batch,
    Delete,
    Entry,
    Message,
    Ping,
    Reorg,
    ReorgComplete,
    SubBatchHeader,
    SubBatchMessage,
    Update,
)
from fuzz import model_cardinal as judge
from tests.cardinal import made, vectors

HASH, ID = b"h" * 32, b"i" * 32
BATCHES = vectors.load("batch_value")["vectors"]
SUB_BATCHES = vectors.load("subbatch_value")["vectors"]


def entry(one: dict[str, Any]) -> Entry:
    value, sub_batch = vectors.unhex(one["value_hex"]), vectors.unhex(one["subbatch_hex"])
    return Entry(value, one["count"], one["delete"], sub_batch)


@pytest.mark.parametrize("one", BATCHES, ids=lambda one: one["num"])
def test_given_a_batch_of_the_reference_when_decoded_and_encoded_then_it_is_the_same(
    one: dict[str, Any],
) -> None:
    if one["num"] < 0:
        return  # refused here: test_codec_malformed
    value = vectors.unhex(one["avro_hex"])
    weight = vectors.unhex(one["weight_hex"])
    batch = decode(b"\x00" + HASH, value)
    assert batch == Batch(
        HASH,
        one["num"],
        int.from_bytes(weight, "big"),
        vectors.unhex(one["parent_hex"]),
        {key: entry(fields) for key, fields in one["updates"].items()},
    )
    minimal = weight.lstrip(b"\x00")  # one vector has a zero where the producer writes nothing
    assert encode(batch) == (
        b"\x00" + HASH,
        value if weight == minimal else value[:-35] + b"\x00" + value[-33:],
    )


def test_given_250_entries_as_the_reference_wrote_them_when_decoded_then_all_are_there() -> None:
    value = vectors.unhex(vectors.load("batch_250_entries")["avro_hex"])
    batch = decode(b"\x00" + HASH, value)
    assert isinstance(batch, Batch)
    assert batch.entries == {f"k{n:03}": Entry(count=n + 1) for n in range(250)}
    assert encode(batch)[1] == value, "in the order they came, in blocks of a hundred"
    assert decode(b"\x00" + HASH, judge.written(batch)) == batch, "and in one block without a size"


@pytest.mark.parametrize("one", SUB_BATCHES, ids=lambda one: one["avro_hex"])
def test_given_a_sub_batch_message_of_the_reference_when_decoded_and_encoded_then_it_is_the_same(
    one: dict[str, Any],
) -> None:
    key, value = b"\x02" + HASH + ID + b"\x06", vectors.unhex(one["avro_hex"])
    updates = {name: vectors.unhex(hexed) for name, hexed in one["updates_hex"].items()}
    message = SubBatchMessage(HASH, ID, 3, one["delete"] or [], updates)
    assert decode(key, value) == message
    assert encode(message) == (key, value)
    assert sub_batch_content(value) == (message.deletes, updates)


@pytest.mark.parametrize("one", vectors.load("reorg")["vectors"], ids=lambda one: one["number"])
def test_given_a_reorg_of_the_reference_when_decoded_and_encoded_then_it_is_the_same(
    one: dict[str, Any],
) -> None:
    for name, kind in (("reorg", Reorg), ("done", ReorgComplete)):
        key, value = (vectors.unhex(one[f"{name}_{part}_hex"]) for part in ("key", "value"))
        assert decode(key, value) == kind(key[1:], one["number"])
        assert encode(kind(key[1:], one["number"])) == (key, value)


def test_given_a_reorg_above_31_bits_when_encoded_then_its_number_is_not_cut() -> None:
    for number in (2**31, 2**32 + 5, 2**63 - 1):
        assert decode(*encode(Reorg(HASH, number))) == Reorg(HASH, number)


@pytest.mark.parametrize(
    ("index", "suffix"),
    [(0, "00"), (63, "7e"), (64, "8001"), (8192, "808001"), (2**31 - 1, "feffffff0f")],
)
def test_given_an_index_when_encoded_then_it_stands_in_the_key_as_the_reference_puts_it(
    index: int, suffix: str
) -> None:
    message = SubBatchMessage(HASH, ID, index, [], {"a": b"x"})
    key, value = encode(message)
    assert key == b"\x02" + HASH + ID + bytes.fromhex(suffix)
    assert decode(key, value) == message


@pytest.mark.parametrize(
    ("message", "key", "value"),
    [
        (SubBatchHeader(HASH, ID, 0), b"\x01" + HASH + ID, b"\x00"),
        (SubBatchHeader(HASH, ID, 1337), b"\x01" + HASH + ID, b"\xf2\x14"),
        (Update(HASH, "a/b", b"\x88"), b"\x03" + HASH + b"a/b", b"\x88"),
        (Update(HASH, "é", b""), b"\x03" + HASH + b"\xc3\xa9", b""),
        (Update(HASH, "", b"x"), b"\x03" + HASH, b"x"),
        (Delete(HASH, "b/c"), b"\x04" + HASH + b"b/c", b""),
        (Ping(ID, b"now"), b"\xff" + ID, b"now"),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, bytes) else "",
)
def test_given_a_message_when_encoded_and_decoded_then_its_bytes_are_these(
    message: Message, key: bytes, value: bytes
) -> None:
    assert encode(message) == (key, value)
    assert decode(key, value) == message


def test_given_a_delete_with_a_value_when_decoded_then_the_value_means_nothing() -> None:
    assert decode(b"\x04" + HASH + b"b/c", b"\x56\x78") == Delete(HASH, "b/c")


@given(made.messages)
def test_given_any_message_when_encoded_then_it_decodes_to_itself(message: Message) -> None:
    key, value = encode(message)
    found = decode(key, value)
    assert found == message
    assert encode(found) == (key, value)


@given(made.batches | made.sub_batch_messages)
def test_given_any_avro_when_fastavro_reads_or_writes_it_then_both_understand_each_other(
    message: Batch | SubBatchMessage,
) -> None:
    key, value = encode(message)
    assert judge.read(type(message), value) == judge.fields(message)
    assert decode(key, judge.written(message)) == message


@pytest.mark.parametrize("size", [0, 1, 62, 63, 64, 65, 4000, 8190, 8191, 8192, 9000, 70_000])
@pytest.mark.parametrize("key_size", [1, 63, 64, 137, 9000])
def test_given_one_update_of_any_size_when_decoded_then_the_short_cut_changes_nothing(
    size: int, key_size: int
) -> None:
    message = SubBatchMessage(HASH, ID, 0, [], {"k" * key_size: b"x" * size})
    _, value = encode(message)
    assert sub_batch_content(value) == ([], message.updates)
    assert sub_batch_content(judge.written(message)) == ([], message.updates)


@pytest.mark.parametrize(
    "message",
    [
        Update(b"short", "a", b""),
        Update(HASH, "\ud800", b""),
        Update(HASH, b"a", b""),  # type: ignore[arg-type]
        Update(HASH, "a", "text"),  # type: ignore[arg-type]
        Delete(HASH, None),  # type: ignore[arg-type]
        SubBatchHeader(HASH, ID, -1),
        SubBatchHeader(HASH, ID, 2**31),
        SubBatchHeader(HASH, b"", 1),
        SubBatchMessage(HASH, ID, -1, [], {}),
        SubBatchMessage(HASH, ID, 0, ["\udfff"], {}),
        SubBatchMessage(HASH, ID, 0, [], {"a": None}),  # type: ignore[dict-item]
        Reorg(HASH, -1),
        Reorg(HASH, 2**63),
        ReorgComplete(HASH, True),
        Batch(HASH, 2**63, 0, HASH, {}),
        Batch(HASH, 0, -1, HASH, {}),
        Batch(HASH, 0, 2**256, HASH, {}),
        Batch(HASH, 0, 0, HASH[:31], {}),
        Batch(HASH, 0, 0, HASH, {"a": Entry(count=-1)}),
        Batch(HASH, 0, 0, HASH, {"a": Entry(sub_batch=b"")}),
        "no message",
    ],
    ids=repr,
)
def test_given_a_field_out_of_its_range_when_encoded_then_it_is_refused(message: Message) -> None:
    with pytest.raises(NotEncodable):
        encode(message)


def test_given_an_entry_without_a_sub_batch_when_decoded_then_its_id_is_the_empty_one() -> None:
    batch = decode(*encode(Batch(HASH, 1, 1, ID, {"a": Entry(b""), "b": Entry(delete=True)})))
    assert isinstance(batch, Batch)
    assert {one.sub_batch for one in batch.entries.values()} == {NO_ID}
