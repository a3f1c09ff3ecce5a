"""The Protocols that the journal on disk and the one in memory have in common.

WritableJournal   Store, Ring          what the sequencer asks for
WindowJournal     Store                the same, and records are put into its window
ReadableJournal   Store, Ring          what replays, feeds and re-requests ask for
SegmentView             Segment, RingSegment   a part of a journal that is read as a unit
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


class WritableJournal(Protocol):
    """The journal as the sequencer writes it: the records of all messages that it numbers."""

    @property
    def salt(self) -> int: ...  # of every record's checksum
    @property
    def epoch(self) -> int: ...
    @property
    def checked(self) -> bool: ...  # records have checksums
    @property
    def last(self) -> int: ...  # the number of the newest message
    @property
    def newest_time(self) -> int: ...  # ns since 1970
    @property
    def room(self) -> int: ...  # bytes that can surely be written now
    def reserve(self, need: int) -> None:
        """Make room for `need` bytes. Raises `OSError` if there is none."""

    def write(self, view: memoryview, first: int, last: int, time: int, ids: bool) -> None:
        """Append whole records, numbers `first` to `last`, all of one time. Raises `OSError`."""


@runtime_checkable
class WindowJournal(WritableJournal, Protocol):
    """A journal with memory of its own, into which records can be put."""

    def write_position(self) -> tuple[memoryview, int] | None:
        """Return where to put up to `room` bytes of records: a buffer and a position in it.

        None if they must be given to `write`.
        """

    def commit(
        self,
        size: int,
        first: int,
        last: int,
        time: int,
        ids: bool,
        marks: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Append the `size` bytes at `write_position`: whole records, numbers `first` to `last`.

        `marks` are numbers of records among them, and how many bytes are before each.
        """


class RecordTaker(Protocol):
    """A taker of all records as they are written: a feed, for one."""

    def add_records(self, buffer: bytearray | memoryview, stop: int) -> int:
        """Take the records in `buffer[:stop]`."""

    def flush(self, safe: int) -> int:
        """Note that everything up to number `safe` may be shown."""


class SegmentView(Protocol):
    """A part of the journal that is read as a unit: a segment, or a segment of the ring."""

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...  # the number of its last record; first - 1 if it is empty
    @property
    def size(self) -> int: ...  # where its last record ends
    @property
    def readable(self) -> int: ...  # it can be read up to here: less than `size` after a fault
    @property
    def start(self) -> int: ...  # where its first record begins
    @property
    def gone(self) -> bool: ...  # retention has deleted it
    @property
    def following(self) -> "SegmentView | None": ...  # None while this is the newest
    def read(self, offset: int, into: memoryview, wait: bool) -> int:
        """Copy the bytes at `offset` into `into`; return how many, 0 at the end.

        With `wait` it returns as many as there are up to `readable`.

        OSError if the disk fails. Without `wait`, BlockingIOError if the disk must be read.
        """

    def hold(self) -> None:
        """Keep the segment readable until `release`: a reader is in the middle of it."""

    def release(self) -> None:
        """End a `hold`: the reader has left the segment."""


class DatedSegment(SegmentView, Protocol):
    """A segment whose records are found by their times."""

    @property
    def oldest(self) -> int: ...  # the time of its first record; 0 if it is empty


class ReadableJournal(Protocol):
    """Kept messages, to be read again. A position is a segment and an offset in it."""

    @property
    def id(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def salt(self) -> int: ...  # of every record's checksum
    @property
    def checked(self) -> bool: ...  # records have checksums
    @property
    def first(self) -> int: ...  # the first number still here; last + 1 when nothing is
    @property
    def last(self) -> int: ...
    @property
    def oldest_time(self) -> int: ...  # of the first message here, ns since 1970
    @property
    def newest_time(self) -> int: ...
    def segments(self) -> Sequence[SegmentView]:
        """All segments, oldest first."""

    def locate(self, number: int) -> tuple[SegmentView, int]:
        """A position at or before this number's record; the end if the number is after the last."""

    def locate_time(self, time_ns: int) -> tuple[DatedSegment, int]:
        """A position at or before the first record of this time or later."""

    def next_good(
        self, segment: SegmentView, offset: int, number: int
    ) -> tuple[SegmentView, int, int] | None:
        """Find the next good record after a bad one at `offset`: its segment, offset and number.

        It has this number or a later one. None if there is no such record.
        """
