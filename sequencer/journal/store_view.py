"""A store seen from another process: which segments there are, and where a number is.

A view keeps nothing open and locks nothing. Each call reads the directory again, because segments
come and go in the meantime. If a sealed segment has an index, it is used; if not, reading from
the start of the segment gives the same result. Memory: one index.
"""

import os
from bisect import bisect_left, bisect_right

from sequencer.journal.errors import StoreError
from sequencer.journal.header import (
    INDEX,
    SEGMENT,
    START,
    Head,
    decode_head,
    number_of,
    stem,
)
from sequencer.journal.identity import FILE, Identity, read_identity
from sequencer.journal.index import Marks, Summary, read_index, read_summary
from sequencer.journal.survey import first_record
from sequencer.journal.watermark import read_watermark

WHERE = "give the directory that the broker writes to"


class StoreView:
    """The directory of a store, to read. Raises `StoreError` if there is no store."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._mark = (0, 0, 0)
        self._seen = self._stamp()
        identity = self._identify()
        self.journal, self.salt, self.epoch = identity.journal, identity.salt, identity.epoch
        self.cuts, self.cut = identity.cuts, identity.cut  # as in store.json
        self.cutting = identity.pending is not None
        self._watermark = -1  # of a member of a cluster; -1: there is none, and everything counts
        self._read_watermark()

    @property
    def is_member(self) -> bool:
        """True for the store of a cluster's member, which may take numbers back."""
        return self._watermark >= 0

    def is_committed(self, number: int) -> bool:
        """True if this number is final: if it is here, it stays."""
        if 0 <= self._watermark < number:
            self._read_watermark()
        return self._watermark < 0 or number <= self._watermark

    @property
    def watermark(self) -> int:
        """The last number that counts, as far as was read; -1: all do."""
        return self._watermark

    def segments(self) -> list[int]:
        """The first numbers of all segments, in order."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        return sorted(filter(None, (number_of(name, SEGMENT) for name in names)))

    def settled_segments(self) -> list[int]:
        """Return surely all segments: a listing may miss a file that gets its name meanwhile."""
        before: list[int] = []
        while (now := self.segments()) != before:
            before = now
        return now

    def at(self, number: int, surely: bool = False) -> int:
        """The segment of `number`, or the first one if all begin after it; 0 if there is none."""
        firsts = self.settled_segments() if surely else self.segments()
        if not firsts:
            return 0
        return firsts[max(bisect_right(firsts, number) - 1, 0)]

    def after(self, first: int, surely: bool = False) -> int:
        """The segment after that of `first`; 0 while that is the newest."""
        firsts = self.settled_segments() if surely else self.segments()
        at = bisect_right(firsts, first)
        return firsts[at] if at < len(firsts) else 0

    def holds(self, first: int) -> bool:
        """True if the segment has not been deleted."""
        return os.path.exists(self.file(first))

    def file(self, first: int) -> str:
        """The path of a segment."""
        return os.path.join(self.path, stem(first) + SEGMENT)

    def index_file(self, first: int) -> str:
        """The path of a segment's index."""
        return os.path.join(self.path, stem(first) + INDEX)

    def open(self, first: int) -> int:
        """Open a segment; -1 if it is gone. StoreError if it belongs to another store."""
        try:
            segment_fd = os.open(self.file(first), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return -1
        head = decode_head(os.pread(segment_fd, START, 0))
        if head is not None and head.journal != self.journal:
            os.close(segment_fd)
            raise StoreError(self._another(head.journal))
        return segment_fd  # a damaged head is fine: each checksum proves whose the record is

    def head(self, first: int) -> Head | None:
        """The head of a segment; None if it is damaged, or the segment is gone."""
        data = self._peek(first, 0, START)
        return decode_head(data)

    def offset(self, first: int, number: int) -> int:
        """Return where to start reading in a segment for a number: at its record, or before it."""
        marked, from_number, offset = self._mark
        if marked == first and number >= from_number:
            return offset
        index = self._index(first) if number > first else None
        return START if index is None else index.before_number(number)

    def remember(self, first: int, number: int, offset: int) -> None:
        """Remember where a number was found; only the latest position is kept."""
        self._mark = (first, number, offset)

    def number_before(self, time: int) -> int:
        """A number at or shortly before the first message of this time or later."""
        firsts = self.segments()
        for first in reversed(firsts):
            if 0 < self.first_time(first) < time:
                index = self._index(first)
                return first if index is None else max(first, _mark_before(index, time))
        return firsts[0] if firsts else 1

    def summary(self, first: int) -> Summary | None:
        """The head of a segment's index; None if there is none that covers the whole segment."""
        summary = read_summary(self.index_file(first))
        if summary is None or summary.journal != self.journal or summary.first != first:
            return None
        try:
            whole = summary.size == os.stat(self.file(first)).st_size
        except FileNotFoundError:
            return None
        return summary if whole else None

    def first_time(self, first: int) -> int:
        """The time of a segment's first record; 0 if it has none, or that is damaged."""
        summary = self.summary(first)
        if summary is not None:
            return summary.first_time
        try:
            with open(self.file(first), "rb", buffering=0) as file:
                record = first_record(file.fileno(), self.salt, first)
        except FileNotFoundError:
            return 0
        return 0 if record is None else record.time

    def check(self) -> None:
        """Raise `StoreError` if this is no longer the same store."""
        stamp = self._stamp()
        if stamp == self._seen:
            return
        identity = read_identity(self.path)
        if identity is None:
            if not self.segments():
                raise StoreError(f"{self.path}: the store was deleted while it was read")
            return
        if identity.journal != self.journal:
            raise StoreError(self._another(identity.journal))
        self.epoch = identity.epoch
        self.cuts, self.cut = identity.cuts, identity.cut
        self._mark = (0, 0, 0)
        self.cutting = identity.pending is not None
        self._seen = stamp
        self._read_watermark()

    def _read_watermark(self) -> None:
        mark = read_watermark(self.path)
        if mark is not None:  # else it is being written, or was never there
            self._watermark = mark.number if mark.journal == self.journal else 0

    def _identify(self) -> Identity:
        """Read store.json; if that is damaged, the newest segment with a good head."""
        try:
            identity = read_identity(self.path)
        except PermissionError:
            raise
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}; {WHERE}") from error
        if identity is not None:
            return identity
        for first in reversed(self.segments()):
            head = self.head(first)
            if head is not None:
                return Identity(head.journal, head.salt, head.epoch, head.created)
        what = "there is no journal here" if os.path.isdir(self.path) else "no such directory"
        raise StoreError(f"{self.path}: {what}; {WHERE}")

    def _index(self, first: int) -> Marks | None:
        if self.summary(first) is None:
            return None
        index = read_index(self.index_file(first))
        return None if index is None else index[1]

    def _peek(self, first: int, offset: int, size: int) -> bytes:
        try:
            with open(self.file(first), "rb", buffering=0) as file:
                return os.pread(file.fileno(), size, offset)
        except FileNotFoundError:
            return b""

    def _stamp(self) -> tuple[int, int]:
        try:
            status = os.stat(os.path.join(self.path, FILE))
        except OSError:
            return 0, 0
        return status.st_ino, status.st_mtime_ns

    def _another(self, journal: str) -> str:
        return f"{self.path}: another journal is there now, {journal}; {self.journal} is gone"


def _mark_before(marks: Marks, time: int) -> int:
    """The number at the last mark before this time; 0 if there is none."""
    words = marks.words
    count = bisect_left(range(len(marks)), time, key=lambda at: words[3 * at + 1])
    return words[3 * count - 3] if count else 0
