"""Writes the subject indexes of sealed segments: the newest first, a bounded part in each call.

    prepare   in the writer's thread: choose a segment, and hold it
    step      in the keeper's thread: read about 8 MiB of it; at its end, write the file

Reading every record a second time costs as much as writing a short one. So nothing is built before
a query needs it (`wanted`). A store that already has such files was queried before, and they are
kept complete. Memory: one table and one buffer, while a segment is being read.
"""

import os
from typing import Final

from sequencer.journal.chunk import END
from sequencer.journal.header import SUBJECTS
from sequencer.journal.layout import HEADER_SIZE, LENGTH_MAX, MORE
from sequencer.journal.protocols import ReadableJournal
from sequencer.journal.record import Walk
from sequencer.journal.segment import Segment
from sequencer.journal.subject_index import RECORD_HEAD, has_subjects, write_subjects
from sequencer.journal.subject_table import SubjectTable

BUFFER: Final = 1 << 18  # short: another thread waits while a buffer is walked through
STEP: Final = 8 << 20


class Work:
    """A segment that is being read. `done` is written by the keeper's thread."""

    def __init__(self, segment: Segment, salt: int) -> None:
        self.segment = segment
        self.size = segment.size  # a cut changes it
        self.table = SubjectTable(segment.first)
        self.walk = Walk(salt)
        self.buffer = bytearray(BUFFER)
        self.offset = segment.start
        self.done = False

    def stands(self) -> bool:
        """True if the segment has not changed."""
        segment = self.segment
        return not segment.gone and segment.size == self.size and segment.following is not None


class SubjectBuilder:
    """The builder of one journal's subject indexes. Only segments on disk get an index."""

    def __init__(self, journal: ReadableJournal) -> None:
        self.wanted = False
        self._journal = journal
        self._work: Work | None = None
        self._looked = False  # has looked for existing files
        self._known: set[Segment] = set()  # they have a file, or none can be written

    def prepare(self) -> None:
        """Choose what `step` reads, and release what it has read."""
        work = self._work
        if work is not None and (work.done or not work.stands()):
            work.done = True
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
        if sealed and not self._looked:
            self._looked = True
            folder = os.path.dirname(sealed[0].path)
            self.wanted |= any(name.endswith(SUBJECTS) for name in os.listdir(folder))
        if not self.wanted:
            return
        self._known.intersection_update(sealed)
        for segment in reversed(sealed):
            if segment not in self._known and not segment.gone:
                segment.hold()
                self._work = Work(segment, journal.salt)
                return

    def step(self) -> None:
        """Read the next part. OSError if the disk fails or is full: this segment is left out."""
        work = self._work
        if work is None or work.done:
            return
        if work.offset == work.segment.start and has_subjects(work.segment, self._journal.id):
            work.done = True
            return
        read = 0
        try:
            while read < STEP and not work.done and work.stands():
                read += self._read(work)
        except BaseException:
            work.done = True
            raise

    def _read(self, work: Work) -> int:
        """Read one buffer; at the end of the segment, write the file. Return how much was read."""
        segment, table = work.segment, work.table
        with memoryview(work.buffer) as view:
            got = segment.read(work.offset, view, True)
        work.walk.attach(work.buffer, 0, got)
        state = table.add_records(work.walk, work.offset, segment.last)
        if state == END:
            self._finish(work)
        elif state == MORE and table.end > work.offset:
            work.offset = table.end
        elif state == MORE and got == len(work.buffer) and self._lengthen(work):
            pass
        else:  # damaged: readers of the whole segment find what is lost, and report it
            work.done = True
        return got

    def _lengthen(self, work: Work) -> bool:
        """Make the buffer as long as the record that it begins with."""
        length = RECORD_HEAD.unpack_from(work.buffer)[1]
        if not HEADER_SIZE <= length <= LENGTH_MAX or length + 8 <= len(work.buffer):
            return False
        work.buffer = bytearray(length + 8)
        return True

    def _finish(self, work: Work) -> None:
        """Write the file, unless the segment has changed."""
        segment, at = work.segment, work.table.last_at
        work.done = True
        head = bytearray(RECORD_HEAD.size)
        with memoryview(head) as view:
            got = segment.read(at, view, True)
        crc, _, number = RECORD_HEAD.unpack(head)
        if got == len(head) and number == segment.last and work.stands():
            write_subjects(segment, self._journal.id, work.table, crc)
