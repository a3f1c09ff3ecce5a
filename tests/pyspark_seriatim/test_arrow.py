"""Chunks of columns as Arrow batches: the same rows, with the wanted columns and size."""

import re
import struct
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_seriatim import arrow
from pyspark_seriatim.client import Chunk
from pyspark_seriatim.errors import BrokerError
from sequencer.journal.columns import Collector
from sequencer.journal.record import RecordBatch
from seriatim.client.chunk_columns import Columns

SALT = 77
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HEADERS = pa.map_(pa.string(), pa.list_(pa.field("element", pa.string())))
SCHEMA = pa.schema(
    [
        ("sequence", pa.int64()),
        ("subject", pa.string()),
        ("payload", pa.binary()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("reply", pa.string()),
        ("headers", HEADERS),
    ]
)
Message = tuple[bytes, bytes, bytes, bytes]  # subject, reply, headers, payload


def columns_of(messages: list[Message], first: int = 1) -> Columns:
    """Messages as a broker would answer them, each 1.5 us after the one before."""
    batch = RecordBatch(SALT, 1)
    for number, (subject, reply, headers, payload) in enumerate(messages, first):
        batch.append_message(number, 1_500 * number, subject, reply, headers, payload)
    collector = Collector(SALT, 1 << 20, 1 << 30)
    collector.start_range(first, first + len(messages) - 1, None)
    store = bytearray(batch.view())
    collector.collect(store, 0, len(store))
    return Columns(collector.chunk())


def chunks_of(sizes: list[int], payload: bytes = b"p") -> list[Chunk]:
    made, first = [], 1
    for size in sizes:
        columns = columns_of([(b"a.b", b"", b"", payload)] * size, first)
        first += size
        made.append(Chunk(columns, first, (), 96 + size * (40 + len(payload))))
    return made


def block(*lines: bytes) -> bytes:
    return b"".join(line + b"\r\n" for line in (b"NATS/1.0", *lines, b"")) if lines else b""


def expected(number: int, message: Message) -> dict[str, Any]:
    """The row of a message, worked out by a loop."""
    subject, reply, headers, payload = message
    found: dict[str, list[str]] = {}
    for line in headers.decode("utf-8", "replace").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if name and colon:
            found.setdefault(name, []).append(value.strip(" \t"))
    return {
        "sequence": number,
        "subject": subject.decode("utf-8", "replace"),
        "payload": payload,
        "timestamp": EPOCH + timedelta(microseconds=1_500 * number // 1000),
        "reply": reply.decode("utf-8", "replace") if reply else None,
        "headers": found,
    }


def rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    found = batch.to_pylist()
    for row in found:
        if row.get("headers") is not None:
            names = [name for name, _ in row["headers"]]
            assert len(set(names)) == len(names), "a map has each name once"
            row["headers"] = dict(row["headers"])
    return list(found)


subjects = st.sampled_from(
    [b"a", b"orders.eu", "gr\u00fc\u00df.e".encode(), b"\xff.x", b"a\xe2\x82.b"]
)
names = st.sampled_from([b"A", b"Nats-Msg-Id", b"colour", b"\xff"])
header_values = st.sampled_from([b" 1", b"", b"a:b", b" \t spaced \t ", "\u00e9".encode(), b"\xfe"])
lines = st.lists(
    st.builds(lambda name, value: name + b":" + value, names, header_values), max_size=5
)
messages = st.tuples(
    subjects,
    st.sampled_from([b"", b"_INBOX.1", b"\xff"]),
    st.one_of(st.just(b""), lines.map(lambda some: block(*some) or block(b"X:1"))),
    st.binary(max_size=40),
)


@given(pieces=st.lists(st.lists(messages, min_size=1, max_size=12), min_size=1, max_size=4))
def test_given_any_messages_when_made_a_batch_then_it_has_the_rows_of_a_loop(
    pieces: list[list[Message]],
) -> None:
    made, wanted, first = [], [], 1
    for piece in pieces:
        made.append(columns_of(piece, first))
        wanted += [expected(first + at, message) for at, message in enumerate(piece)]
        first += len(piece)
    batch = arrow.to_batch(made, SCHEMA)
    batch.validate(full=True)
    assert batch.schema.equals(SCHEMA)
    assert rows(batch) == wanted


@given(
    sizes=st.lists(st.integers(0, 30), max_size=12),
    rows_max=st.integers(1, 50),
    bytes_max=st.integers(100, 3_000),
)
def test_given_chunks_of_any_size_when_made_batches_then_none_is_too_large_and_none_is_missing(
    sizes: list[int], rows_max: int, bytes_max: int
) -> None:
    schema = pa.schema([SCHEMA.field("sequence"), SCHEMA.field("payload")])
    made = list(arrow.batches(chunks_of(sizes), schema, rows_max, bytes_max))
    numbers = [number for batch in made for number in batch["sequence"].to_pylist()]
    assert numbers == list(range(1, sum(sizes) + 1))
    assert all(0 < batch.num_rows <= rows_max for batch in made)
    # Never more batches than if each were filled with whole chunks, and a long one cut by itself.
    assert all(
        before.num_rows + after.num_rows > min(rows_max, bytes_max // 41 - 3) - 30
        for before, after in pairwise(made)
    )


def test_given_one_chunk_when_made_a_batch_then_its_payloads_are_not_copied() -> None:
    columns = columns_of([(b"a", b"", b"", b"payload")] * 3)
    batch = arrow.to_batch([columns], SCHEMA)
    data = pa.py_buffer(columns.payloads.data)
    assert batch["payload"].buffers()[2].address == data.address
    assert batch["sequence"].buffers()[1].address == pa.py_buffer(columns.numbers).address


@pytest.mark.parametrize(
    "order", [["payload", "sequence"], ["timestamp"], ["headers", "subject"], []]
)
def test_given_some_columns_in_any_order_when_made_a_batch_then_it_has_just_these(
    order: list[str],
) -> None:
    schema = pa.schema([SCHEMA.field(name) for name in order])
    message = (b"a", b"", block(b"A: 1"), b"p")
    batch = arrow.to_batch([columns_of([message] * 2)], schema)
    assert batch.schema.equals(schema)
    assert batch.num_rows == 2
    wanted = expected(1, message)
    assert rows(batch)[0] == {name: wanted[name] for name in order}


def test_given_a_pattern_when_made_a_batch_then_whole_subjects_match() -> None:
    match = arrow.SubjectMatch(r"orders\.(eu|us)")
    some = [b"orders.eu", b"orders.eux", b"xorders.us", b"orders.us", b"orders.eu"]
    columns = columns_of([(subject, b"", b"", b"") for subject in some])
    assert rows(arrow.to_batch([columns], SCHEMA.remove(5), match))[0]["subject"] == "orders.eu"
    only = pa.schema([SCHEMA.field("sequence")])
    assert arrow.to_batch([columns], only, match)["sequence"].to_pylist() == [1, 4, 5]
    assert arrow.to_batch([columns], pa.schema([]), match).num_rows == 3
    assert arrow.first_match(columns, arrow.SubjectMatch("x.*")) == 3
    assert arrow.first_match(columns, arrow.SubjectMatch("y.*")) == 0


def test_given_a_status_in_headers_when_made_a_map_then_it_is_no_header() -> None:
    headers = b"NATS/1.0 503 No: one\r\nA:1\r\n\r\n"
    batch = arrow.to_batch([columns_of([(b"a", b"", headers, b"")])], SCHEMA)
    assert batch["headers"].to_pylist() == [[("A", ["1"])]]


def test_given_offsets_that_point_outside_when_made_a_batch_then_it_is_refused() -> None:
    data = bytearray(columns_of([(b"a", b"", b"", b"payload")] * 3)._chunk)
    offset, size = struct.unpack_from("<II", data, 16 + 8 * 8)
    assert size == 16, "the offsets of three payloads"
    struct.pack_into("<i", data, offset + 4, 1 << 30)
    with pytest.raises(BrokerError, match=re.escape("$SEQ.READ: a chunk is damaged: ")):
        arrow.to_batch([Columns(data)], SCHEMA)


def test_given_a_schema_of_ours_then_it_is_just_what_spark_wants() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructField, StructType

    from pyspark_seriatim.reading import TYPES, arrow_schema

    for nullable in (True, False):
        schema = StructType([StructField(name, kind, nullable) for name, kind in TYPES.items()])
        assert arrow_schema(schema).equals(to_arrow_schema(schema, timezone="UTC"))
        assert nullable is False or arrow_schema(schema).equals(SCHEMA)
