"""The reader on every journal that differs from a good one in one byte, or ends at any byte."""

import os
from pathlib import Path

from sequencer.journal import Lost, Reader, Record
from seriatim.client.chunk_columns import Columns
from tests.sequencer.stores import WrittenStore, payload_of, records, subject_of, time_of

LAST = 12


def check(reader: Reader) -> list[Record | Lost]:
    """Records are as they were written, and with the losses they are 1, 2, 3 ... in order."""
    items = list(reader.records(1))
    expected = 1
    for item in items:
        if isinstance(item, Lost):
            assert item.first == expected
            expected = item.last + 1
        else:
            assert item.number == expected
            assert (item.time, item.subject) == (time_of(expected), subject_of(expected))
            assert bytes(item.payload) == payload_of(expected)
            expected += 1
    by_columns: list[int] = []
    for chunk in reader.columns(1):
        by_columns += chunk[:2] if isinstance(chunk, Lost) else Columns(chunk).numbers
    found = (item[:2] if isinstance(item, Lost) else (item.number,) for item in items)
    assert by_columns == [number for numbers in found for number in numbers]
    return items


def lost_of(items: list[Record | Lost]) -> list[int]:
    return [n for one in items if isinstance(one, Lost) for n in range(one.first, one.last + 1)]


def test_given_any_byte_flipped_when_read_then_at_most_the_message_it_hit_is_lost(
    tmp_path: Path,
) -> None:
    store = WrittenStore(tmp_path, (1, 6), (7, LAST))
    good = {first: store.segment(first).read_bytes() for first in (1, 7)}
    for first, data in good.items():
        last = first + 5
        for at in range(len(data)):
            store.segment(first).write_bytes(
                data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]
            )
            hit = next((n for n in range(first, last + 1) if at < store.offset(first, n + 1)), 0)
            items = check(Reader(str(tmp_path)))
            numbers = [item.number for item in items if isinstance(item, Record)]
            lost = lost_of(items)
            if at < 64:
                assert (numbers, lost) == (list(range(1, LAST + 1)), []), "heads are not needed"
            elif hit == LAST:
                assert (numbers, lost) == (list(range(1, LAST)), []), "as a write in flight"
            else:
                assert (lost, len(numbers)) == ([hit], LAST - 1)
        store.segment(first).write_bytes(data)


def test_given_any_cut_of_the_newest_segment_when_read_then_whole_records_are_there(
    tmp_path: Path,
) -> None:
    store = WrittenStore(tmp_path, (1, 6), (7, LAST))
    file = store.segment(7)
    whole = file.stat().st_size
    for size in range(whole, -1, -1):
        os.truncate(file, size)
        items = check(Reader(str(tmp_path)))
        there = [n for n in range(7, LAST + 1) if store.offset(7, n + 1) <= size]
        assert [item.number for item in items if isinstance(item, Record)] == [*range(1, 7), *there]
        assert lost_of(items) == []


def test_given_any_cut_of_a_sealed_segment_when_read_then_the_rest_of_it_is_lost(
    tmp_path: Path,
) -> None:
    store = WrittenStore(tmp_path, (1, 6), (7, LAST))
    file = store.segment(1)
    for size in range(file.stat().st_size - 1, -1, -1):
        os.truncate(file, size)
        items = check(Reader(str(tmp_path)))
        there = [n for n in range(1, 7) if store.offset(1, n + 1) <= size]
        assert lost_of(items) == list(range(len(there) + 1, 7))


def test_given_any_bytes_put_in_between_when_read_then_no_message_is_lost(tmp_path: Path) -> None:
    store = WrittenStore(tmp_path, (1, 6))
    before = store.segment(1).read_bytes()
    for size in (8, 56, 64, 4096, 1 << 21):
        for fill in (b"\0", b"\xff", records(9, 9, salt=3)):
            between = (fill * size)[: size // 8 * 8]
            store.segment(1).write_bytes(before + between + records(7, LAST))
            items = check(Reader(str(tmp_path), 4096))
            assert len(items) == LAST
