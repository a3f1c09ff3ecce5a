"""One file of the journal: what readers of it get, and what is reserved for its writer."""

import os
from pathlib import Path

import pytest

from sequencer.journal.header import START, Head
from sequencer.journal.segment import RESERVE_STEP, Segment

DATA = b"records, as they are"


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    """A segment with some bytes after its head."""
    made = Segment.create(str(tmp_path), Head(7, "00000000000000aa", 1, 5, 3))
    made.size += os.pwrite(made.fd, DATA, START)
    return made


def read(segment: Segment, offset: int, size: int) -> bytes:
    into = bytearray(size)
    return bytes(into[: segment.read(offset, memoryview(into), True)])


def test_given_a_segment_when_read_then_it_ends_where_the_writer_is(segment: Segment) -> None:
    assert read(segment, START, 7) == b"records"
    assert read(segment, START + 9, 1000) == b"as they are"
    assert read(segment, segment.size, 1) == b""


def test_given_a_segment_that_is_held_when_its_file_is_deleted_then_it_is_read(
    segment: Segment,
) -> None:
    segment.hold()
    segment.hold()
    os.unlink(segment.file)
    segment.release()
    assert read(segment, START, 1000) == DATA
    segment.release()
    with pytest.raises(FileNotFoundError):
        read(segment, START, 1)


def test_given_a_file_that_is_too_short_when_read_then_that_is_an_error(segment: Segment) -> None:
    os.ftruncate(segment.fd, START)
    with pytest.raises(OSError, match=f"the file ends before byte {segment.size}"):
        read(segment, START, 1)


def test_given_room_for_more_when_reserved_then_nothing_is_reserved_twice(
    segment: Segment,
) -> None:
    segment.reserve(100, 1 << 30)
    assert segment.reserved == segment.size + RESERVE_STEP
    before = os.stat(segment.file).st_size
    segment.reserve(1000, 1 << 30)
    assert os.stat(segment.file).st_size == before
    segment.reserve(RESERVE_STEP + 1, segment.size + 10)
    assert segment.reserved == segment.size + RESERVE_STEP + 1, "what is needed, at least"


def test_given_a_segment_that_gets_its_name_just_now_then_it_is_in_place(tmp_path: Path) -> None:
    """The keeper names it while the writer asks: the file has its name, and `named` lags."""
    made = Segment.prepare(str(tmp_path), Head(7, "00000000000000aa", 1, 5, 3))
    assert made.is_in_place()
    made.appear()
    assert made.is_in_place()
    made.named = False
    assert made.is_in_place()
    os.rename(made.file, made.file + ".away")
    assert not made.is_in_place()
