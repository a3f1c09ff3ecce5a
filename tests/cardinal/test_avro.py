"""Avro's binary encoding: the reference's numbers, fastavro as the judge, blocks in any split."""

import io

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cardinal import avro
from cardinal.errors import (
    BadAvroNumber,
    BadCount,
    BadText,
    MalformedMessage,
    RepeatedKey,
    TruncatedMessage,
)
from tests.cardinal import vectors

NUMBERS = vectors.load("avro_int")
longs = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize("one", NUMBERS["vectors"], ids=lambda one: one["int"])
def test_given_a_number_of_the_reference_when_read_and_written_then_it_is_the_same(
    one: dict[str, object],
) -> None:
    data = bytes.fromhex(str(one["avro_hex"]))
    assert avro.long(data, 0) == avro.integer(data, 0) == (one["int"], len(data))
    assert avro.write_long(int(str(one["int"]))) == data


@given(longs)
def test_given_any_number_when_written_then_fastavro_reads_it_and_writes_the_same(
    number: int,
) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, {"type": "long"}, number)
    assert avro.write_long(number) == out.getvalue()
    assert avro.long(b"x" + out.getvalue() + b"y", 1) == (number, 1 + len(out.getvalue()))


@pytest.mark.parametrize(
    ("data", "error", "offset"),
    [
        (b"", TruncatedMessage, 0),
        (b"\x80", TruncatedMessage, 0),
        (b"\xff" * 9, TruncatedMessage, 0),
        (b"\xff" * 9 + b"\x02", BadAvroNumber, 0),
        (b"\xff" * 10, BadAvroNumber, 0),
        (b"\x80" * 40 + b"\x00", BadAvroNumber, 0),
    ],
)
def test_given_bytes_that_are_no_number_when_read_then_the_error_says_where(
    data: bytes, error: type[MalformedMessage], offset: int
) -> None:
    for read in (avro.long, avro.integer):
        with pytest.raises(error) as caught:
            read(data, 0)
        assert caught.value.offset == offset


def test_given_a_number_with_idle_bytes_when_read_then_it_is_taken_as_all_readers_do() -> None:
    assert avro.long(b"\x84\x80\x00", 0) == (2, 3)
    assert fastavro.schemaless_reader(io.BytesIO(b"\x84\x80\x00"), {"type": "long"}, None) == 2


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 2**62])
def test_given_a_number_of_more_than_32_bits_when_an_int_is_read_then_it_is_refused(
    number: int,
) -> None:
    with pytest.raises(BadAvroNumber, match="32 bits"):
        avro.integer(avro.write_long(number), 0)


def test_given_an_int_of_six_bytes_when_read_then_it_is_refused() -> None:
    with pytest.raises(BadAvroNumber, match="32 bits"):
        avro.integer(b"\x80\x80\x80\x80\x80\x00", 0)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 8191, 8192, 100_000])
def test_given_bytes_of_any_length_when_read_then_they_and_their_end_are_found(size: int) -> None:
    data = avro.write_octets(b"x" * size)
    assert avro.octets(data + b"y", 0) == (b"x" * size, len(data))
    assert avro.text(data + b"y", 0) == ("x" * size, len(data))
    for cut in {1, len(data) // 2, len(data) - 1} - {len(data), 0}:
        with pytest.raises(TruncatedMessage) as caught:
            avro.octets(data[:cut], 0)
        assert caught.value.offset == 0
        with pytest.raises(TruncatedMessage):
            avro.text(data[:cut], 0)


@pytest.mark.parametrize(
    ("data", "offset", "reason"),
    [
        (b"\x04\xff\xff", 1, "invalid start byte"),
        (b"\x08a\xed\xa0", 0, "4 bytes, of which 3"),
        (b"\x08a\xed\xa0\x80", 2, "invalid continuation byte"),
        (b"\x04a\xc3", 2, "unexpected end of data"),
        (b"\x01", 0, "text of -1 bytes"),
        (b"", 0, "a number is missing"),
    ],
)
def test_given_bytes_that_are_no_text_when_read_then_the_error_says_where(
    data: bytes, offset: int, reason: str
) -> None:
    with pytest.raises((BadText, BadCount, TruncatedMessage), match=reason) as caught:
        avro.text(data, 0)
    assert caught.value.offset == offset


def blocks(entries: list[bytes], cuts: list[int], sized: list[bool]) -> bytes:
    """The entries in blocks that end at the cuts, each with its size in bytes or without."""
    out, first = b"", 0
    borders = sorted({cut % (len(entries) + 1) for cut in cuts} | {len(entries)})
    for number, last in enumerate(border for border in borders if border):
        body = b"".join(entries[first:last])
        count = last - first
        if sized[number % len(sized)] if sized else False:
            out += avro.write_long(-count) + avro.write_long(len(body)) + body
        else:
            out += avro.write_long(count) + body
        first = last
    return out + avro.END


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=80), max_size=12),
    st.lists(st.integers(0, 100), max_size=4),
    st.lists(st.booleans(), max_size=4),
)
def test_given_an_array_in_any_blocks_when_read_then_it_is_the_same(
    texts: list[str], cuts: list[int], sized: list[bool]
) -> None:
    data = blocks([avro.write_octets(one.encode()) for one in texts], cuts, sized)
    schema = fastavro.parse_schema({"type": "array", "items": "string"})
    assert avro.texts(data, 0) == (texts, len(data))
    assert fastavro.schemaless_reader(io.BytesIO(data), schema, None) == texts


@given(
    st.dictionaries(st.text("abé/", max_size=80), st.binary(max_size=80), max_size=12),
    st.lists(st.integers(0, 100), max_size=4),
    st.lists(st.booleans(), max_size=4),
)
def test_given_a_map_in_any_blocks_when_read_then_it_is_the_same(
    pairs: dict[str, bytes], cuts: list[int], sized: list[bool]
) -> None:
    entries = [
        avro.write_octets(key.encode()) + avro.write_octets(value) for key, value in pairs.items()
    ]
    data = blocks(entries, cuts, sized)
    schema = fastavro.parse_schema({"type": "map", "values": "bytes"})
    assert avro.octets_map(data, 0) == (pairs, len(data))
    assert fastavro.schemaless_reader(io.BytesIO(data), schema, None) == pairs


def test_given_many_entries_when_written_then_they_are_in_blocks_of_a_hundred() -> None:
    data = avro.write_blocks([avro.write_octets(b"%03d" % number) for number in range(250)])
    heads, at = [], 0
    while data[at : at + 1] != avro.END:
        count, at = avro.long(data, at)
        size, at = avro.long(data, at)
        heads.append((count, size))
        at += size
    assert heads == [(-100, 400), (-100, 400), (-50, 200)]
    assert avro.texts(data, 0)[0] == [f"{number:03}" for number in range(250)]


@pytest.mark.parametrize(
    ("data", "error", "offset", "reason"),
    [
        (b"", TruncatedMessage, 0, "a number is missing"),
        (b"\x04\x02a", TruncatedMessage, 3, "a number is missing"),
        (b"\x02\x02a", TruncatedMessage, 3, "a number is missing"),
        (avro.write_long(2**62), BadCount, 0, "a block of 4611686018427387904 entries in 0 bytes"),
        (avro.write_long(-(2**63)) + b"\x00", BadCount, 0, "9223372036854775808 entries"),
        (b"\x06\x02a", BadCount, 0, "a block of 3 entries in 2 bytes"),
        (b"\x01\x08\x02a\x00", BadCount, 1, "a block of 4 bytes, of which 3 are there"),
        (b"\x01\x06\x02ab\x00", BadCount, 4, "end here, but by its size at 5"),
        (b"\x01\x02\x02a\x00", BadCount, 4, "end here, but by its size at 3"),
        (b"\x01\x01\x02a\x00", BadCount, 1, "a block of -1 bytes"),
        (b"\x02\x02a\x80", TruncatedMessage, 3, "inside a number"),
    ],
)
def test_given_counts_and_sizes_that_lie_when_read_then_the_error_says_where(
    data: bytes, error: type[MalformedMessage], offset: int, reason: str
) -> None:
    with pytest.raises(error, match=reason) as caught:
        avro.texts(data, 0)
    assert caught.value.offset == offset


def test_given_a_key_twice_when_a_map_is_read_then_it_is_refused() -> None:
    with pytest.raises(RepeatedKey, match="'a' occurs twice in the map") as caught:
        avro.octets_map(b"\x02\x02a\x00\x02\x02a\x00\x00", 0)
    assert caught.value.offset == 5
