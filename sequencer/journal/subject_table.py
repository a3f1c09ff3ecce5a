"""The last message of each subject in one segment of the journal: read record by record.

    table = SubjectTable(segment.first)
    table.add_records(walk, base, last)
        -> MORE  the buffer is used up: the next one begins at `table.end`
        -> END   `last` was reached
        -> GAP   numbers are missing: `skip` them, begin at `end` again
        -> BAD   there is no valid record
    table.find(b"orders.eu")      -> (number, offset of the record); None

`base` is where the buffer of `walk` begins in the segment. A run of records of one subject costs
one entry of the dict. Memory: `SUBJECTS_MAX` subjects and `TEXT_MAX` bytes of text, some 30 MB.
With more, or if the segment has more than 2^30 numbers, the table is `full`: it knows nothing, and
takes nothing any more. With `only` it knows that one subject, and is never full.
"""

from collections.abc import Iterator
from typing import Final

import cython

from sequencer.journal.record import Walk

if cython.compiled:
    from cython.cimports.libc.string import memcmp
else:
    from sequencer.journal.chunk import END, GAP
    from sequencer.journal.layout import RECORD

    PLACE_BITS = 34  # of an offset, in units of 8 bytes
    NUMBER_BITS = 30  # of a number from `first`: so many of the shortest records are in 64 GiB

SUBJECTS_MAX: Final = 1 << 17
TEXT_MAX: Final = 8 << 20
PLACE: Final = (1 << 34) - 1


class SubjectTable:
    """The table of one segment of the journal. Written by the caller of `add_records`."""

    def __init__(self, first: int, only: bytes | None = None) -> None:
        self.first = first
        self.next = first  # the number that the next record should have
        self.end = 0  # where that record begins
        self.full = False
        self.single = only is not None
        self.only_size = 0 if only is None else len(only)
        self.only_number = self.only_at = 0
        self.entries: dict[bytes, int] = {}
        self.text = 0
        # The subject wanted; or that of the last record, whose entry is not made yet.
        self.subject = only or b""
        self.pick = 0
        self.pending = False
        self.last_at = 0  # where the last record begins

    def __len__(self) -> int:
        self._settle()
        return len(self.entries)

    def add_records(self, walk: Walk, base: int, last: int) -> int:
        """Take the records of `walk` up to number `last`; for the results, see above."""
        while True:
            if self.next > last:
                return END
            state = walk.next()
            if state != RECORD:
                self.end = base + walk.at
                return state
            if walk.number != self.next:
                if walk.number < self.next:
                    self.end = base + walk.after
                    continue
                self.end = base + walk.at
                return GAP
            self._note(walk, base + walk.at)
            self.next = walk.number + 1
            self.end = base + walk.after

    def skip(self, number: int) -> None:
        """Go on at `number`: the numbers before it are known to be missing."""
        self.next = max(self.next, number)

    def go_on_at(self, offset: int) -> None:
        """Continue at this place: what is before it is damaged."""
        self.end = offset

    def find(self, subject: bytes) -> tuple[int, int] | None:
        """The number of the last message of a subject, and where its record begins."""
        if self.single:
            return (self.only_number, self.only_at) if self.only_number else None
        self._settle()
        pick = self.entries.get(subject)
        return None if pick is None else self._unpack(pick)

    def entries_as_they_are(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield the same as `sorted`, in no order. The table must not change meanwhile."""
        if self.single:
            if self.only_number:
                yield self.subject, self.only_number, self.only_at
            return
        self._settle()
        for subject, pick in self.entries.items():
            yield subject, *self._unpack(pick)

    def sorted(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield subject, number and offset of each, in the order of the subjects."""
        self._settle()
        for subject in sorted(self.entries):
            yield subject, *self._unpack(self.entries[subject])

    def _unpack(self, pick: int) -> tuple[int, int]:
        return self.first + (pick >> PLACE_BITS), (pick & PLACE) << 3

    def _note(self, walk: Walk, at: int) -> int:
        """Note the current record, which begins at `at`."""
        self.last_at = at
        size = walk.subject_size
        if self.full or (self.single and size != self.only_size):
            return 0
        if cython.compiled:
            subject_at = walk.data + walk.subject
            before = cython.cast("const unsigned char *", self.subject)
            same = size == len(self.subject) and memcmp(subject_at, before, size) == 0
        else:
            subject = bytes(walk.buffer[walk.subject : walk.subject + size])
            same = subject == self.subject
        if self.single:
            if same:
                self.only_number = walk.number
                self.only_at = at
            return 0
        if (walk.number - self.first) >> NUMBER_BITS or at >> 3 >> PLACE_BITS:
            return self._give_up()
        if not same or not self.pending:
            self._settle()
            if self.full:
                return 0
            if cython.compiled:
                self.subject = cython.cast("const char *", subject_at)[:size]
            else:
                self.subject = subject
            self.pending = True
        self.pick = (walk.number - self.first) << PLACE_BITS | at >> 3
        return 0

    def _settle(self) -> int:
        """Make the entry of the last record."""
        if self.pending:
            known = len(self.entries)
            self.entries[self.subject] = self.pick
            self.pending = False
            if len(self.entries) > known:
                self.text += len(self.subject)
                if known >= SUBJECTS_MAX or self.text > TEXT_MAX:
                    self._give_up()
        return 0

    def _give_up(self) -> int:
        self.full = True
        self.pending = False
        self.entries.clear()
        return 0
