"""Whatever the bytes are, the result is a message or an error that says where and why."""

import itertools
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardinal import avro
from cardinal.errors import (
    BadAvroNumber,
    BadCount,
    BadFlag,
    BadText,
    CardinalError,
    LongKey,
    MalformedMessage,
    RepeatedKey,
    ShortKey,
    TrailingFieldBytes,
    TruncatedMessage,
    UnknownType,
)
from cardinal.message_codec import decode, encode
from cardinal.messages import Batch, Entry, Message, SubBatchMessage
from tests.cardinal import made

HASH, ID = b"h" * 32, b"i" * 32
HEADLESS = b"\x02\x02\x01" + bytes(32)  # number 1, weight 1, parent
NOTHING = b"\x00\x00\x00" + bytes(32)  # of an entry: no value, no count, not deleted, no id


@pytest.mark.parametrize(
    ("key", "error", "offset", "reason"),
    [
        (b"", ShortKey, 0, "the key is empty"),
        (b"\x03", ShortKey, 1, "inside its hash"),
        (b"\x00" + HASH[:4], ShortKey, 5, "inside its hash"),
        (b"\x04" + HASH[:31], ShortKey, 32, "inside its hash"),
        (b"\x05", ShortKey, 1, "inside its hash"),
        (b"\x01" + HASH, ShortKey, 33, "inside its id"),
        (b"\x02" + HASH + ID[:31], ShortKey, 64, "inside its id"),
        (b"\x02" + HASH + ID, ShortKey, 65, "inside its index"),
        (b"\x02" + HASH + ID + b"\x80", ShortKey, 65, "inside a number"),
        (b"\x02" + HASH + ID + b"\x01", BadAvroNumber, 65, "the index -1"),
        (b"\x02" + HASH + ID + b"\x80" * 11, BadAvroNumber, 65, "more than 10 bytes"),
        (b"\x02" + HASH + ID + b"\x80\x80\x80\x80\x10", BadAvroNumber, 65, "more than 32 bits"),
        (b"\x02" + HASH + ID + b"\x00\x00", LongKey, 66, "1 bytes after the index"),
        (b"\x00" + HASH + b"more", LongKey, 33, "4 bytes after"),
        (b"\x01" + HASH + ID + b"x", LongKey, 65, "1 bytes after"),
        (b"\x06" + HASH + b"x", LongKey, 33, "1 bytes after"),
        (b"\x03" + HASH + b"a\xff", BadText, 34, "not UTF-8"),
        (b"\x04" + HASH + b"\xed\xa0\x80", BadText, 33, "not UTF-8"),
        (b"\x07" + HASH, UnknownType, 0, "no message has the type 07"),
        (b"\xfe", UnknownType, 0, "no message has the type fe"),
    ],
)
def test_given_an_invalid_key_when_decoded_then_the_error_says_where_and_why(
    key: bytes, error: type[MalformedMessage], offset: int, reason: str
) -> None:
    with pytest.raises(error, match=reason) as caught:
        decode(key, b"\x00")
    assert (caught.value.offset, caught.value.part) == (offset, "key")
    assert str(caught.value).startswith(f"key, byte {offset}: ")


@pytest.mark.parametrize(
    ("value", "error", "offset", "reason"),
    [
        (b"", TruncatedMessage, 0, "a number is missing"),
        (b"\x01\x02\x03", BadAvroNumber, 0, "-1 is not a valid number of a block"),
        (b"\x02\x06\x01\x02", TruncatedMessage, 1, "bytes of 3 bytes, of which 2"),
        (b"\x02\x01", BadCount, 1, "bytes of -1 bytes"),
        (b"\x02\x42" + bytes(70), BadAvroNumber, 1, "a weight of 33 bytes"),
        (b"\x02\x02\x01" + bytes(31), TruncatedMessage, 3, "32 bytes, of which 31"),
        (HEADLESS, TruncatedMessage, 35, "a number is missing"),
        (HEADLESS + b"\x00x", TrailingFieldBytes, 36, "1 bytes after"),
        (HEADLESS + b"\x02", BadCount, 35, "a block of 1 entries in 0 bytes"),
        (HEADLESS + avro.write_long(2**62) + b"\x00" * 99, BadCount, 35, "in 99 bytes"),
        (HEADLESS + b"\x02\x02a" + NOTHING, TruncatedMessage, 73, "a number is missing"),
        (HEADLESS + b"\x02\x02a" + NOTHING + b"\x00", None, 0, ""),
        (HEADLESS + b"\x02\x02a\x00\x01" + NOTHING, BadAvroNumber, 39, "a count of -1"),
        (HEADLESS + b"\x02\x02a\x00\x00\x02" + NOTHING, BadFlag, 40, "02 is not a boolean"),
        (
            HEADLESS + b"\x02\x02a\x00\x00\x01" + bytes(31),
            TruncatedMessage,
            41,
            "32 bytes, of which 31",
        ),
        (
            HEADLESS + b"\x02\x02a" + b"\x42" + bytes(33),
            TruncatedMessage,
            72,
            "a number is missing",
        ),
        (HEADLESS + b"\x02\x02a" + b"\x40" + bytes(33), TruncatedMessage, 72, "no boolean"),
        (HEADLESS + b"\x02\x02\xff" + NOTHING + b"\x00", BadText, 37, "not UTF-8"),
        (
            HEADLESS + b"\x04" + (b"\x02a" + NOTHING) * 2 + b"\x00",
            RepeatedKey,
            73,
            "'a' occurs twice",
        ),
        (HEADLESS + b"\x01\x4a\x02a" + NOTHING + b"\x00", None, 0, ""),
        (
            HEADLESS + b"\x01\x4c\x02a" + NOTHING + b"\x00",
            BadCount,
            74,
            "end here, but by its size at 75",
        ),
        (
            HEADLESS + b"\x01\x48\x02a" + NOTHING + b"\x00",
            BadCount,
            74,
            "end here, but by its size at 73",
        ),
    ],
)
def test_given_an_invalid_batch_when_decoded_then_the_error_says_where_and_why(
    value: bytes, error: type[MalformedMessage] | None, offset: int, reason: str
) -> None:
    if error is None:
        assert decode(b"\x00" + HASH, value) == Batch(HASH, 1, 1, bytes(32), {"a": Entry()})
        return
    with pytest.raises(error, match=reason) as caught:
        decode(b"\x00" + HASH, value)
    assert (caught.value.offset, caught.value.part) == (offset, "value")


@pytest.mark.parametrize(
    ("kind", "value", "error", "offset"),
    [
        (1, b"", TruncatedMessage, 0),
        (1, b"\x01", BadAvroNumber, 0),
        (1, b"\x80\x80\x80\x80\x10", BadAvroNumber, 0),
        (1, b"\x02x", TrailingFieldBytes, 1),
        (2, b"", TruncatedMessage, 0),
        (2, b"\x00", TruncatedMessage, 1),
        (2, b"\x00\x00\x00", TrailingFieldBytes, 2),
        (2, b"\x00\x01\x06\x02a\x00\x00\x00", TrailingFieldBytes, 7),
        (2, b"\x00\x01\x08\x02a\x00\x00", BadCount, 6),
        (2, b"\x00\x01\x06\x02\xff\x00\x00", BadText, 4),
        (2, b"\x00\x01\x06\x02a\x02\x00", BadCount, 7),
        (2, b"\x00\x01\x06\x02a\x00", TruncatedMessage, 6),
        (2, b"\x00\x01\x06\x02a\x00\x01", TruncatedMessage, 7),
        (5, b"", TruncatedMessage, 0),
        (5, b"\x01", BadAvroNumber, 0),
        (6, b"\xff\xff\xff\xff\x0f", BadAvroNumber, 0),  # 2^31, as the reference cuts it
        (6, b"\x00\x00", TrailingFieldBytes, 1),
    ],
)
def test_given_an_invalid_value_when_decoded_then_the_error_says_where(
    kind: int, value: bytes, error: type[MalformedMessage], offset: int
) -> None:
    key = bytes([kind]) + HASH + {1: ID, 2: ID + b"\x00"}.get(kind, b"")
    with pytest.raises(error) as caught:
        decode(key, value)
    assert (caught.value.offset, caught.value.part) == (offset, "value")


def outcome(key: bytes, value: bytes) -> Message | None:
    """The message, or None after an error that points into what it speaks of."""
    try:
        return decode(key, value)
    except MalformedMessage as caught:
        error = caught
    assert 0 <= error.offset <= len(key if error.part == "key" else value)
    assert error.reason
    return None


@given(made.messages, st.data())
def test_given_a_message_cut_anywhere_when_decoded_then_it_is_refused_or_a_shorter_one(
    message: Message, data: st.DataObject
) -> None:
    key, value = encode(message)
    cut = data.draw(st.integers(0, max(len(value) - 1, 0)))
    found = outcome(key, value[:cut])
    avro_kind = key[0] not in (3, 4, 0xFF)
    assert found is None or not avro_kind or cut == len(value)
    outcome(key[: data.draw(st.integers(0, len(key)))], value)


@given(made.messages, st.data())
def test_given_damaged_bytes_when_decoded_then_nothing_worse_than_an_error_happens(
    message: Message, data: st.DataObject
) -> None:
    key, value = (bytearray(part) for part in encode(message))
    for _ in range(data.draw(st.integers(1, 4))):
        part = data.draw(st.sampled_from([part for part in (key, value) if part]))
        part[data.draw(st.integers(0, len(part) - 1))] = data.draw(st.integers(0, 255))
    found = outcome(bytes(key), bytes(value))
    if found is not None:
        assert decode(*encode(found)) == found, "what was taken can be said again"


@given(st.integers(0, 8), st.binary(max_size=80), st.binary(max_size=120))
def test_given_any_bytes_when_decoded_then_the_outcome_is_a_message_or_a_typed_error(
    kind: int, rest: bytes, value: bytes
) -> None:
    outcome(bytes([kind]) + rest, value)
    outcome(rest, value)


@given(st.binary(max_size=12), st.sampled_from([b"\x00\x01", b"", b"\x01"]))
def test_given_any_sub_batch_message_when_decoded_then_the_short_cut_is_not_to_be_seen(
    rest: bytes, start: bytes
) -> None:
    value = start + rest
    try:
        deletes, at = avro.texts(value, 0)
        updates, at = avro.octets_map(value, at)
    except MalformedMessage:
        at = -1
    found = outcome(b"\x02" + HASH + ID + b"\x00", value)
    if at == len(value):
        assert found == SubBatchMessage(HASH, ID, 0, deletes, updates)
    else:
        assert found is None


def test_given_every_short_sub_batch_when_decoded_then_the_short_cut_is_not_to_be_seen() -> None:
    few = [0, 1, 2, 4, 6, 8, 0x61, 0x80, 0x84]
    for tail in itertools.product(few, repeat=4):
        value = b"\x00\x01\x08\x02" + bytes(tail)
        try:
            updates, at = avro.octets_map(value, 1)
        except MalformedMessage:
            at = -1
        found = outcome(b"\x02" + HASH + ID + b"\x00", value)
        assert (found is not None) == (at == len(value)), value.hex()
        assert found is None or found == SubBatchMessage(HASH, ID, 0, [], updates)


def test_given_an_error_when_pickled_and_unpickled_then_it_is_the_same() -> None:
    with pytest.raises(CardinalError) as caught:
        decode(b"\x09", b"")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is UnknownType
    assert str(again) == str(caught.value)
