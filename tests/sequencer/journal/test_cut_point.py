"""Where a segment is to be cut: by its marks, or by reading it through."""

import os
from pathlib import Path

import pytest

from sequencer.journal.header import START
from sequencer.journal.record import record_size
from sequencer.journal.replica_store import end_of
from sequencer.journal.segment import Segment
from tests.support.replica_stores import append, open_replica, said_in
from tests.support.stores import abandon

COUNT = 400
SIZE = 1000


def segment_of(path: Path) -> tuple[Segment, int]:
    """A segment with several marks; and its salt."""
    store = open_replica(path)
    for number in range(1, COUNT + 1):
        append(store, [10 * number], 3, SIZE, ids=number == 2)
    store.sync()
    abandon(store)
    return store.segments()[0], store.salt


def ends_of(segment: Segment, salt: int) -> list[int]:
    """Where the record of each number ends."""
    found, at = [START], START
    data = Path(segment.file).read_bytes()
    while at < segment.size:
        at += int.from_bytes(data[at + 4 : at + 8], "little") + 7 & ~7
        found.append(at)
    assert len(found) == COUNT + 1
    return found


@pytest.mark.parametrize("indexed", [True, False])
def test_given_any_number_then_the_place_is_after_its_record(tmp_path: Path, indexed: bool) -> None:
    segment, salt = segment_of(tmp_path / "store")
    ends = ends_of(segment, salt)
    marks = segment.own_marks()
    assert marks is not None
    assert len(marks) > 5
    if not indexed:
        segment.marks = None
    for number in range(1, COUNT + 1, 7):
        place = end_of(segment, number, salt)
        assert (place.number, place.offset) == (number, ends[number])
        assert (place.oldest, place.newest) == (10, 10 * number)
        assert [*place.marks.words[::3]] == [one for one in marks.words[::3] if one <= number]
        assert place.damage == (None if indexed else [])
    assert place.marks.any_ids


def test_given_a_long_record_then_the_place_is_after_it(tmp_path: Path) -> None:
    store = open_replica(tmp_path / "store")
    append(store, [1], 3)
    append(store, [2], 3, 3 << 20)
    append(store, [3], 3)
    store.sync()
    segment = store.segments()[0]
    last = record_size(len(b"orders"), 0, len(said_in(3, 3)))
    assert end_of(segment, 2, store.salt).offset == segment.size - last
    store.close()


def test_given_damage_before_it_then_what_is_lost_is_reported(tmp_path: Path) -> None:
    segment, salt = segment_of(tmp_path / "store")
    ends = ends_of(segment, salt)
    fd = os.open(segment.file, os.O_RDWR)
    os.pwrite(fd, b"\xff" * 8, ends[COUNT - 2] + 60)  # in the record before the last
    os.close(fd)
    assert end_of(segment, COUNT - 2, salt).damage is None
    for number, size in ((COUNT - 1, ends[COUNT - 2]), (COUNT, ends[COUNT])):
        place = end_of(segment, number, salt)
        assert place.offset == size
        assert place.damage is not None
        assert [(one.first, one.last) for one in place.damage] == [(COUNT - 1, COUNT - 1)]
