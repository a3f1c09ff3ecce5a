"""Records into columns: every row as it was written, and missing ones reported."""

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import cython
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.journal import columns as columns_module
from sequencer.journal.chunk import COLUMNS, END, FULL, GAP, HEAD_SIZE, left_out
from sequencer.journal.columns import Collector
from sequencer.journal.layout import BAD, MORE
from sequencer.journal.record import RecordBatch
from seriatim.client.chunk_columns import ChunkError, Columns, Row
from tests.sequencer.stores import SALT, payload_of, records, subject_of, time_of

COMPILED = not str(columns_module.__file__).endswith(".py")
text = st.binary(max_size=40)
messages = st.lists(st.tuples(text, text, text, st.binary(max_size=300)), min_size=1, max_size=40)


def collected(buffer: bytes, *, first: int = 1, rows_max: int = 100) -> Columns:
    """What one chunk takes of these records."""
    collector = Collector(SALT, rows_max)
    collector.start_range(first, 1 << 62, None)
    collector.collect(buffer, 0, len(buffer))
    return Columns(collector.chunk())


def chunks(collector: Collector, buffer: bytes, step: int) -> Iterator[Columns]:
    """All of a store, handed over in pieces of `step` bytes more each time."""
    at, stop = 0, 0
    while True:
        state = collector.collect(buffer, at, stop)
        at = collector.at
        if state == FULL or stop == len(buffer):
            yield Columns(collector.chunk())
            collector.clear()
        if state == MORE:
            if stop == len(buffer):
                return
            stop = min(stop + step, len(buffer))
        else:
            assert state == FULL


def test_given_records_when_collected_then_each_row_is_the_message() -> None:
    rows = list(collected(records(5, 15), first=5))
    assert [row.number for row in rows] == list(range(5, 16))
    headers: Any = b"NATS/1.0\r\nA: 5\r\n\r\n"
    payload: Any = payload_of(5)
    assert rows[0] == Row(5, time_of(5), subject_of(5), b"", headers, payload)
    assert rows[2].reply == b"answers"
    assert rows[1].headers == b""


def test_given_a_chunk_when_looked_at_then_every_section_begins_at_a_multiple_of_eight() -> None:
    collector = Collector(SALT)
    buffer = records(1, 9)
    collector.collect(buffer, 0, len(buffer))
    chunk = collector.chunk()
    assert struct.unpack_from("<4s3I", chunk) == (b"SQC1", 9, 0, 10)
    sections = list(struct.iter_unpack("<II", chunk[16:HEAD_SIZE]))
    assert [offset % 8 for offset, _ in sections] == [0] * 10
    assert sections[0] == (HEAD_SIZE, 72)
    assert all(a + size <= b for (a, size), (b, _) in pairwise(sections))


def test_given_a_start_and_an_end_when_collected_then_those_are_the_rows() -> None:
    collector = Collector(SALT)
    collector.start_range(3, 6, None)
    buffer = records(1, 9)
    assert collector.collect(buffer, 0, len(buffer)) == END
    assert list(Columns(collector.chunk()).numbers) == [3, 4, 5, 6]
    assert (collector.first, collector.next, collector.rows) == (3, 7, 4)
    assert collector.at == len(records(1, 6))


def test_given_more_rows_than_a_chunk_takes_when_collected_then_the_next_goes_on_there() -> None:
    collector = Collector(SALT, rows_max=4)
    found = [list(chunk.numbers) for chunk in chunks(collector, records(1, 10), 50)]
    assert found == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]


def test_given_many_bytes_when_collected_then_a_chunk_keeps_to_its_limit() -> None:
    collector = Collector(SALT, bytes_max=2000)
    buffer = records(1, 100)
    sizes: list[int] = []
    numbers: list[int] = []
    at = 0
    while collector.collect(buffer, at, len(buffer)) == FULL:
        at = collector.at
        chunk = collector.chunk()
        sizes.append(len(chunk))
        numbers += Columns(chunk).numbers
        collector.clear()
    numbers += Columns(collector.chunk()).numbers
    assert numbers == list(range(1, 101))
    assert max(sizes) <= 2000
    assert min(sizes) > 1500, "a chunk is about as full as it may be"


def test_given_one_record_longer_than_a_chunk_when_collected_then_it_is_a_chunk_alone() -> None:
    batch = RecordBatch(SALT, 1)
    for number, size in ((1, 10), (2, 100_000), (3, 10)):
        batch.append_message(number, number, b"a", b"", b"", b"x" * size)
    collector = Collector(SALT, bytes_max=1000)
    found = [len(chunk) for chunk in chunks(collector, bytes(batch.view()), 1 << 20)]
    assert found == [1, 1, 1]


def test_given_a_missing_number_when_collected_then_it_is_a_gap_until_it_is_skipped() -> None:
    collector = Collector(SALT)
    buffer = records(1, 3) + records(6, 8)
    assert collector.collect(buffer, 0, len(buffer)) == GAP
    assert (collector.next, collector.found, collector.at) == (4, 6, len(records(1, 3)))
    assert collector.collect(buffer, collector.at, len(buffer)) == GAP, "it is not passed over"
    collector.skip(6)
    assert collector.collect(buffer, collector.at, len(buffer)) == MORE
    assert list(Columns(collector.chunk()).numbers) == [1, 2, 3, 6, 7, 8]


def test_given_a_gap_over_the_end_when_collected_then_only_what_was_asked_for_is_missing() -> None:
    collector = Collector(SALT)
    collector.start_range(1, 4, None)
    buffer = records(1, 3) + records(6, 8)
    assert collector.collect(buffer, 0, len(buffer)) == GAP
    assert (collector.next, collector.found) == (4, 5)
    collector.skip(5)
    assert collector.collect(buffer, collector.at, len(buffer)) == END


def test_given_a_flipped_bit_when_collected_then_the_record_is_bad_and_those_before_are_kept() -> (
    None
):
    buffer = bytearray(records(1, 9))
    buffer[len(records(1, 4)) + 70] ^= 4
    collector = Collector(SALT)
    assert collector.collect(buffer, 0, len(buffer)) == BAD
    assert collector.at == len(records(1, 4))
    assert list(Columns(collector.chunk()).numbers) == [1, 2, 3, 4]


def test_given_another_salt_when_collected_then_nothing_is_a_record() -> None:
    buffer = records(1, 9, salt=SALT + 1)
    assert Collector(SALT).collect(buffer, 0, len(buffer)) == BAD


def test_given_a_filter_when_collected_then_it_is_asked_once_for_each_subject() -> None:
    asked: list[bytes] = []

    def wanted(subject: bytes) -> bool:
        asked.append(subject)
        return subject == b"orders.1"

    collector = Collector(SALT)
    collector.start_range(1, 1 << 62, wanted)
    buffer = records(1, 30)
    assert collector.collect(buffer, 0, len(buffer)) == MORE
    assert list(Columns(collector.chunk()).numbers) == list(range(1, 31, 3))
    assert asked == [b"orders.1", b"orders.2", b"orders.0"]
    assert collector.next == 31, "what is not wanted was seen, too"


def test_given_a_filter_that_takes_nothing_when_collected_then_the_chunk_is_empty() -> None:
    collector = Collector(SALT)
    collector.start_range(1, 1 << 62, lambda subject: False)
    buffer = records(1, 9)
    assert collector.collect(buffer, 0, len(buffer)) == MORE
    chunk = collector.chunk()
    assert (len(Columns(chunk)), collector.rows, collector.first) == (0, 0, 0)
    assert Columns(chunk).to_arrow().num_rows == 0


def test_given_a_filter_that_fails_when_collected_then_its_error_comes_out() -> None:
    collector = Collector(SALT)
    collector.start_range(1, 9, lambda subject: 1 // 0 > 0)
    with pytest.raises(ZeroDivisionError):
        collector.collect(records(1, 2), 0, len(records(1, 2)))


def test_given_more_subjects_than_are_remembered_when_filtered_then_it_is_right_still() -> None:
    batch = RecordBatch(SALT, 1)
    for number in range(1, 40_001):
        batch.append_message(number, number, b"s.%d" % number, b"", b"", b"")
    collector = Collector(SALT, rows_max=50_000)
    collector.start_range(1, 1 << 62, lambda subject: subject.endswith(b"7"))
    buffer = bytes(batch.view())
    assert collector.collect(buffer, 0, len(buffer)) == MORE
    assert list(Columns(collector.chunk()).numbers) == list(range(7, 40_001, 10))


def test_given_a_collector_when_started_again_then_nothing_earlier_is_left() -> None:
    collector = Collector(SALT)
    collector.collect(records(1, 9), 0, len(records(1, 9)))
    collector.start_range(5, 1 << 62, None)
    buffer = records(5, 6)
    collector.collect(buffer, 0, len(buffer))
    assert list(Columns(collector.chunk()).numbers) == [5, 6]


def test_given_columns_when_turned_into_arrow_then_it_is_the_same_memory() -> None:
    chunk = collected(records(1, 20))
    batch = chunk.to_arrow()
    names = ["number", "time", "subject", "reply", "headers", "payload"]
    assert batch.schema.names == names
    assert batch.column("time").type == pa.timestamp("ns", tz="UTC")
    assert batch.column("number").to_pylist() == list(range(1, 21))
    assert batch.column("payload").to_pylist() == [payload_of(n) for n in range(1, 21)]
    assert batch.column("reply").to_pylist()[6] == b"answers"
    address = batch.column("payload").buffers()[2].address
    assert address == pa.py_buffer(chunk.payloads.data).address


@given(
    rows=messages,
    wanted=st.sets(st.sampled_from(COLUMNS), min_size=1),
    rows_max=st.integers(1, 9),
    bytes_max=st.sampled_from([200, 500, 5000]),
    step=st.integers(1, 900),
)
def test_given_any_columns_when_wanted_then_chunks_have_these_and_no_others(
    rows: list[tuple[bytes, bytes, bytes, bytes]],
    wanted: set[str],
    rows_max: int,
    bytes_max: int,
    step: int,
) -> None:
    batch = RecordBatch(SALT, 1)
    for number, row in enumerate(rows, 1):
        batch.append_message(number, 100 + number, *row)
    collector = Collector(SALT, rows_max, bytes_max)
    collector.start_range(1, 1 << 62, None)  # as if another read had had it before
    collector.collect(bytes(batch.view()), 0, len(batch.view()))
    collector.start_range(1, 1 << 62, None, left_out(wanted))
    found: list[Row] = []
    for columns in chunks(collector, bytes(batch.view()), step):
        assert columns.names == tuple(name for name in COLUMNS if name in wanted)
        assert columns.to_arrow().schema.names == list(columns.names)
        found += columns
    assert len(found) == len(rows)
    for number, (one, expected) in enumerate(zip(found, rows, strict=True), 1):
        full = Row(number, 100 + number, *expected)  # type: ignore[arg-type]
        for name in COLUMNS:
            value = getattr(full, name)
            assert getattr(one, name) == (value if name in wanted else type(value)()), name


def test_given_a_column_that_was_left_out_when_used_then_the_error_says_what_is_there() -> None:
    collector = Collector(SALT)
    collector.start_range(1, 1 << 62, None, left_out(["number", "subject"]))
    collector.collect(records(1, 9), 0, len(records(1, 9)))
    columns = Columns(collector.chunk())
    with pytest.raises(ChunkError, match=r"^payload was left out of this chunk; it has number, s"):
        _ = columns.payloads
    with pytest.raises(AttributeError, match="no attribute 'payload'"):
        _ = columns.payload  # type: ignore[attr-defined]
    assert [row.number for row in columns] == list(range(1, 10))


def test_given_long_payloads_that_nobody_wants_when_collected_then_they_fill_no_chunk() -> None:
    batch = RecordBatch(SALT, 1)
    for number in range(1, 101):
        batch.append_message(number, number, b"s", b"", b"", b"x" * 10_000)
    collector = Collector(SALT, bytes_max=4096)
    collector.start_range(1, 1 << 62, None, left_out(["number", "subject"]))
    assert collector.collect(bytes(batch.view()), 0, len(batch.view())) == MORE
    assert len(Columns(collector.chunk())) == 100
    assert len(collector.chunk()) < 4096


def test_given_names_when_they_are_no_columns_then_the_error_lists_the_columns() -> None:
    with pytest.raises(ValueError, match="'size' is not a column; the columns are number, time, s"):
        left_out(["number", "size"])
    with pytest.raises(ValueError, match="no column is wanted; name one or more of number, time"):
        left_out([])


def test_given_a_chunk_when_its_flags_and_sections_disagree_then_it_is_refused() -> None:
    collector = Collector(SALT)
    collector.collect(records(1, 9), 0, len(records(1, 9)))
    whole = bytearray(collector.chunk())
    for flags in (*range(1, 64), 64, 1 << 31):
        struct.pack_into("<I", whole, 8, flags)
        with pytest.raises(ChunkError):
            Columns(whole)


@pytest.mark.parametrize("size", [0, 10, HEAD_SIZE - 1, HEAD_SIZE, HEAD_SIZE + 8, -1])
def test_given_a_part_of_a_chunk_when_decoded_then_it_is_refused(size: int) -> None:
    collector = Collector(SALT)
    buffer = records(1, 9)
    collector.collect(buffer, 0, len(buffer))
    with pytest.raises(ChunkError):
        Columns(collector.chunk()[:-8][:size])


def test_given_offsets_out_of_bounds_when_turned_into_arrow_then_it_is_refused() -> None:
    collector = Collector(SALT)
    buffer = records(1, 9)
    collector.collect(buffer, 0, len(buffer))
    chunk = bytearray(collector.chunk())
    (offset,) = struct.unpack_from("<I", chunk, 16 + 8 * 8)  # the payloads' offsets
    struct.pack_into("<i", chunk, offset + 12, 1 << 30)
    with pytest.raises(ChunkError):
        Columns(chunk).to_arrow()
    struct.pack_into("<4s", chunk, 0, b"SQC2")
    with pytest.raises(ChunkError, match="not a chunk of columns: it begins with"):
        Columns(chunk)


@given(messages=messages, step=st.integers(1, 4000), rows_max=st.integers(1, 50))
def test_given_any_messages_when_collected_in_any_pieces_then_they_come_out_as_they_were(
    messages: list[tuple[bytes, bytes, bytes, bytes]], step: int, rows_max: int
) -> None:
    batch = RecordBatch(SALT, 1)
    for number, message in enumerate(messages, 1):
        batch.append_message(number, number * 7, *message)
    found = [
        (row.subject, row.reply, bytes(row.headers), bytes(row.payload))
        for chunk in chunks(Collector(SALT, rows_max), bytes(batch.view()), step)
        for row in chunk
    ]
    assert found == messages


@pytest.mark.skipif(not COMPILED, reason="the uncompiled build has no extension types")
def test_given_the_compiled_build_then_the_collector_is_an_extension_type() -> None:
    assert not cython.compiled, "this file is Python"
    assert not hasattr(Collector(SALT), "__dict__")


def test_given_the_decoder_then_it_needs_nothing_compiled() -> None:
    source = Path(str(columns_module.__file__)).with_name("chunk.py").read_text()
    assert "cython" not in source
