"""A segment that another member sends: received beside the store, checked, and then installed.

    copy = SegmentCopy(store.path, first, size)
    copy.write(data)               each piece, in order; OSError if the disk is full
    copy.check(journal, salt)      in any thread: it reads the file through, and syncs it
    store.install_segment(copy)

`check` refuses what is not a whole, good segment of this journal. Whatever fails, `abandon` leaves
nothing behind; and a crash leaves a file that the next opening of the store removes.
"""

import os

from sequencer.journal.disk import FILE_MODE, fallocate, pwrite_all, remove
from sequencer.journal.errors import StoreError
from sequencer.journal.header import SEGMENT, START, VERSION, Head, decode_head, stem
from sequencer.journal.segment import TEMPORARY, Segment
from sequencer.journal.survey import Survey


class SegmentCopy:
    """One that comes in. `first` is its first number, `size` that of the whole file."""

    def __init__(self, folder: str, first: int, size: int) -> None:
        self.first = first
        self.size = size
        self.received = 0
        self._made = Segment(os.path.join(folder, stem(first)), first)
        self.file = self._made.path + ".copy" + SEGMENT + TEMPORARY
        self._checked = False
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._made.fd = os.open(self.file, flags, FILE_MODE)
        try:
            fallocate(self._made.fd, 0, size)  # a full disk is noticed before it is sent
        except BaseException:
            self.abandon()
            raise

    def write(self, data: bytes | memoryview) -> None:
        """Take the next piece. On OSError nothing of it counts as received."""
        pwrite_all(self._made.fd, data, self.received)
        self.received += len(data)

    def check(self, journal: str, salt: int, since: int = 0) -> None:
        """Check every byte, and sync. StoreError if it is not a segment of this journal.

        From number `since` on, the cluster's first, all of its records must be of one epoch.
        """
        made = self._made
        head = decode_head(os.pread(made.fd, START, 0))
        size = os.fstat(made.fd).st_size
        survey = Survey(made.fd, salt, self.first, size).run()
        why = self._why_not(head, survey, journal, salt)
        if head is None or why:
            self.abandon()
            raise StoreError(f"{made.file}: the copy of this segment is not good: {why}")
        if self.first >= since and survey.epoch != head.epoch:
            self.abandon()
            raise StoreError(
                f"{made.file}: the copy of this segment is not good: it is of epoch {head.epoch},"
                f" and has a record of epoch {survey.epoch}"
            )
        os.fsync(made.fd)
        made.epoch, made.before = head.epoch, head.before
        made.last, made.marks = survey.last, survey.marks
        made.oldest, made.newest = survey.first_time, survey.last_time
        made.size = made.synced = made.reserved = survey.end
        self._checked = True

    def install(self) -> Segment:
        """Give the file its place; the segment can be written. On OSError nothing has changed."""
        assert self._checked, "it was found good"
        os.rename(self.file, self._made.file)
        return self._made

    def abandon(self) -> None:
        """Remove the file."""
        self._made.close()
        remove(self.file)

    @property
    def last(self) -> int:
        """Its last number, after `check`."""
        return self._made.last

    @property
    def epoch(self) -> int:
        """Its epoch, after `check`."""
        return self._made.epoch

    def _why_not(self, head: Head | None, survey: Survey, journal: str, salt: int) -> str:
        """Why these bytes cannot be used; empty if they can."""
        if self.received != self.size or survey.size != self.size:
            return f"it has {survey.size} bytes instead of {self.size}"
        if head is None:
            return "its head is damaged"
        if head.version != VERSION:
            return f"it has version {head.version}"
        if (head.journal, head.salt) != (journal, salt):
            return f"it belongs to journal {head.journal}"
        if head.first != self.first:
            return f"it begins with number {head.first}"
        if survey.damage or survey.torn or survey.end != self.size:
            return f"it is damaged after number {survey.last}"
        if survey.disorder:
            return f"number {survey.disorder[0]} has a time before that of the number before it"
        return "" if survey.last >= self.first else "it is empty"
