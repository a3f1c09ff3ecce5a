"""Writes the subject indexes of sealed segments: the newest first, a bounded part in each call.

    prepare   in the writer's thread: choose a segment, and hold it
    step      in the keeper's thread: read 1 MiB of it or more; at its end, write the file

Reading every record a second time costs a third of writing a short one. So the keeper does it when
there is time, or when a query needs it. What this brings into the page cache is put out again; a
segment that is there already stays. Memory: one table and one buffer, while a segment is read.
"""

import contextlib
import os
from typing import Final

from sequencer.journal.chunk import END
from sequencer.journal.layout import HEADER_SIZE, LENGTH_MAX, MORE
from sequencer.journal.protocols import ReadableJournal
from sequencer.journal.record import Walk
from sequencer.journal.segment import Segment
from sequencer.journal.subject_index import RECORD_HEAD, has_subjects, write_subjects
from sequencer.journal.subject_table import SubjectTable

BUFFER: Final = 1 << 18  # short: another thread waits while a buffer is walked through
STEP: Final = 1 << 20


class Work:
    """A segment that is being read, by the keeper's thread."""

    def __init__(self, segment: Segment, salt: int) -> None:
        self.segment = segment
        self.size = segment.size  # a cut changes it
        self.table = SubjectTable(segment.first)
        self.walk = Walk(salt)
        self.buffer = bytearray(BUFFER)
        self.offset = segment.start
        self.cold = False  # it is not in the page cache, and nobody else has read it
        self.done = False

    def stands(self) -> bool:
        """True if the segment has not changed."""
        segment = self.segment
        return not segment.gone and segment.size == self.size and segment.following is not None

    def step(self, journal: str) -> None:
        """Read the next part, unless it is done.

        OSError if the disk fails or is full: this segment is left out.
        """
        if self.done:
            return
        if self.offset == self.segment.start and has_subjects(self.segment, journal):
            self.done = True
            return
        read = 0
        try:
            while read < STEP and not self.done and self.stands():
                read += self._read(journal)
        except BaseException:
            self.done = True
            raise

    def _read(self, journal: str) -> int:
        """Read one buffer; at the end of the segment, write the file. Return how much was read."""
        segment, table = self.segment, self.table
        with memoryview(self.buffer) as view:
            if self.offset == segment.start:
                self.cold = _is_cold(segment, view[:1])
            got = segment.read(self.offset, view, True)
            if self.cold:
                _put_out(segment, self.offset, got)
        self.walk.attach(self.buffer, 0, got)
        state = table.add_records(self.walk, self.offset, segment.last)
        if state == END:
            self._finish(journal)
        elif state == MORE and table.end > self.offset:
            self.offset = table.end
        elif state == MORE and got == len(self.buffer) and self._lengthen():
            pass
        else:  # damaged: readers of the whole segment find what is lost, and report it
            self.done = True
        return got

    def _lengthen(self) -> bool:
        """Make the buffer as long as the record that it begins with."""
        length = RECORD_HEAD.unpack_from(self.buffer)[1]
        if not HEADER_SIZE <= length <= LENGTH_MAX or length + 8 <= len(self.buffer):
            return False
        self.buffer = bytearray(length + 8)
        return True

    def _finish(self, journal: str) -> None:
        """Write the file, unless the segment has changed."""
        segment, at = self.segment, self.table.last_at
        self.done = True
        head = bytearray(RECORD_HEAD.size)
        with memoryview(head) as view:
            got = segment.read(at, view, True)
        crc, _, number = RECORD_HEAD.unpack(head)
        if got == len(head) and number == segment.last and self.stands():
            write_subjects(segment, journal, self.table, crc)
        if self.cold:
            _put_out(segment, 0, 0)  # what was read ahead, too


class SubjectBuilder:
    """The builder of one journal's subject indexes. Only segments on disk get an index."""

    def __init__(self, journal: ReadableJournal) -> None:
        self._journal = journal
        self._work: Work | None = None
        self._known: set[Segment] = set()  # they have a file, or none can be written

    def prepare(self) -> None:
        """Choose what `step` reads, and release what it has read."""
        work = self._work
        if work is not None and (work.done or not work.stands()):
            work.segment.release()
            if work.stands():
                self._known.add(work.segment)
            self._work = work = None
        if work is None:
            self._choose()

    def _choose(self) -> None:
        journal, last = self._journal, self._journal.last  # in a cluster, what is committed
        segments = [one for one in journal.segments() if isinstance(one, Segment)]
        sealed = [one for one in segments if one.following is not None and one.last <= last]
        self._known.intersection_update(sealed)
        for segment in reversed(sealed):
            if segment not in self._known and not segment.gone:
                segment.hold()
                self._work = Work(segment, journal.salt)
                return

    def step(self) -> bool:
        """Read the next part; True if there is more to do, perhaps after `prepare`.

        OSError if the disk fails or is full: this segment is left out.
        """
        work = self._work
        if work is None:
            return False
        work.step(self._journal.id)
        return True


def _is_cold(segment: Segment, into: memoryview) -> bool:
    try:
        segment.read(segment.start, into, False)
    except BlockingIOError:
        return True
    return False


def _put_out(segment: Segment, offset: int, size: int) -> None:
    """Put bytes of a file out of the page cache; with size 0, all that follow."""
    if segment.reading >= 0:
        with contextlib.suppress(OSError):
            os.posix_fadvise(segment.reading, offset, size, os.POSIX_FADV_DONTNEED)
