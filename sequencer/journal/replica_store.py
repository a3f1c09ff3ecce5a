"""The journal of a cluster's member: a store whose numbers another member may give.

The coordinator's sequencer writes into it, or a follower appends the coordinator's records, byte
for byte. Unlike a `Store`, it can take back numbers that were not committed.

    begin_epoch     begin a segment: the next records are of this epoch
    truncate        remove everything above a number
    reset_to        remove everything, and continue after a number
    adopt           make an empty store one of another journal

All of these are for the writer's thread. During truncate, reset_to and adopt, the keeper's
thread must not be in a call; during begin_epoch, it may be. These three have synced their change
when they return; begin_epoch leaves a new segment to the keeper's next sync. After an OSError,
nothing can be written until the same call, or another of these, succeeds. A crash leaves a store
that opens: cut, or ending later.

Segments are of one epoch each, so the heads of the segments are the table of epochs. A store that
a single broker wrote is different: its segments may have records of several. The callers know the
cluster's first number, and everything before it counts as epoch 0: see `since` in `epochs`.
"""

import errno
import os
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from sequencer.journal.disk import remove, sync_folder
from sequencer.journal.errors import Damage, StoreError
from sequencer.journal.header import START, SUBJECTS, Head, decode_head, stem
from sequencer.journal.high_water import HighWater
from sequencer.journal.identity import ANEW, CUT, Identity, Underway
from sequencer.journal.layout import BAD, RECORD
from sequencer.journal.record import Walk
from sequencer.journal.recovery import Recovery
from sequencer.journal.reset import reset_store
from sequencer.journal.segment import CutPoint, Segment
from sequencer.journal.store import UNSYNCED_MAX, Store
from sequencer.journal.survey import Survey
from sequencer.journal.window import JournalWindow, make_window
from sequencer.journal.window_file import NO_ROOM, Progress, no_progress
from sequencer.msgids import Window, rebuild

Epochs = tuple[tuple[int, int], ...]
UNSYNCED_END: Final = 2 * UNSYNCED_MAX  # segments of many short epochs, before the keeper syncs
CHUNK: Final = 1 << 20


# Finds where a segment is to be cut: where the record of a number ends.
#
# Only the records from the last mark before it are read, so a cut of a long segment is quick.
# Without a good index, or where records are damaged, the segment is read from its start.


def end_of(segment: Segment, number: int, salt: int) -> CutPoint:
    """Find the end of the record of `number`, or of the last good one before it. May be OSError."""
    marks = segment.own_marks()
    fd = os.open(segment.file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = None
        if marks is not None:
            found = _walk_to(fd, marks.before_number(number), number, salt)
        if found is not None and marks is not None:
            offset, time = found
            return CutPoint(number, offset, segment.oldest, time, marks.until(offset), None)
        size = min(segment.size, os.fstat(fd).st_size)
        survey = Survey(fd, salt, segment.first, size, limit=number + 1).run()
    finally:
        os.close(fd)
    damage = list(survey.damage)
    if survey.last < number:
        damage.append(Damage(segment.first, survey.end, survey.end, survey.last + 1, number))
    times = (survey.first_time, survey.last_time)
    return CutPoint(survey.last, survey.end, *times, survey.marks, damage)


def _walk_to(fd: int, offset: int, number: int, salt: int) -> tuple[int, int] | None:
    """Walk from `offset` to the record of `number`; return its end and time, None if not found."""
    walk = Walk(salt)
    want = CHUNK
    while True:
        data = os.pread(fd, want, offset)
        walk.attach(data, 0, len(data))
        while (state := walk.next()) == RECORD:
            if walk.number >= number:
                return (offset + walk.after, walk.time) if walk.number == number else None
        if state == BAD or len(data) < want:
            return None
        want = CHUNK if walk.at else 2 * want
        offset += walk.at


class ReplicaStore(Store):
    """The store of a cluster's member. `epoch` is that of the records that may be written now."""

    own_epochs = False

    def __init__(self, found: Recovery) -> None:
        super().__init__(found)
        self.epoch = self._active.epoch
        self._unfinished: Callable[[], None] | None = None  # a failed call, to be completed

    def refill_ids(self, window: Window, progress: Progress = no_progress) -> None:
        """Fill an empty window from the records: numbers may be taken back, and given again."""
        ids = self.ids
        assert ids is not None, "`keep_ids` was called"
        ids.take_known(self.last, [])  # of the time before the cluster
        rebuild(window, self.counting_ids(progress))

    # Epochs

    def begin_epoch(self, epoch: int) -> None:
        """Write records of this epoch from now on. After an OSError, call it again before that.

        A follower calls it before records of another epoch than `epoch`, newer or older. An empty
        segment just gets another head.
        """
        active = self._active
        if epoch == self.epoch == active.epoch:
            return
        self._check_finished()
        if epoch > self._identity.epoch:
            self._identify(self._identity._replace(epoch=epoch))
        if active.size == START:
            self._rewrite_head(active, epoch)
        elif active.epoch != epoch:
            self._begin_segment(epoch)
        self.epoch = epoch

    def epochs(self, since: int = 0) -> Epochs:
        """Return (epoch, its first number), oldest first. Numbers before `since` count as epoch 0.

        The first entry may be that of number `first - 1`, which is not here any more.
        """
        table: list[tuple[int, int]] = []
        segments = self._segments[:]
        oldest = segments[0]
        if oldest.first > 1:
            table.append((0 if oldest.first <= since else oldest.before, oldest.first - 1))
        for segment in segments:
            if segment.first < since:
                _add(table, 0, segment)
            if segment.last >= max(since, segment.first):
                _add(table, segment.epoch, segment, since)
        return tuple(table)

    def epoch_of(self, number: int, since: int = 0) -> int:
        """Return the epoch of a number that is here, or is `first - 1`."""
        segments = self._segments
        assert segments[0].first - 1 <= number <= self.last, "it is here"
        if number < since:
            return 0
        if number < segments[0].first:
            return segments[0].before
        return segments[bisect_right(segments, number, key=lambda one: one.first) - 1].epoch

    # Taking back

    def truncate(self, number: int) -> None:
        """Remove every record above `number`, which is `first - 1` or more."""
        if self._unfinished is not None:
            self._unfinished()
            if not self.first - 1 <= number <= self.last:
                raise OSError(errno.EIO, "the journal has other numbers now", self.path)
        assert self.first - 1 <= number <= self.last, "it is here, or just before"
        if number < self.last:
            if self.ids is not None:
                self.ids.cut(number)
            self._cut(number)

    def reset_to(self, number: int, epoch: int) -> None:
        """Remove everything. The store continues after `number`, which has this epoch elsewhere."""
        self._begin_anew(number, epoch, self._identity)

    def adopt(self, journal: str, salt: int) -> None:
        """Become a store of this journal. StoreError if there are messages of another one."""
        if (journal, salt) == (self.id, self.salt):
            return
        if self.last >= self.first:
            raise StoreError(
                f"{self.path}: this is journal {self.id}, with messages; it cannot become journal"
                f" {journal}. Give an empty directory"
            )
        self._begin_anew(0, 0, self._identity._replace(journal=journal, salt=salt))

    def reserve(self, need: int) -> None:
        self._check_finished()
        super().reserve(need)

    def close(self) -> None:
        if self._unfinished is None:
            super().close()
        else:
            self._close_files(False)

    # Implementation

    def _cut(self, number: int) -> None:
        self._stop_reading()
        if self._unfinished is None:
            self.sync()
            self._empty_window()
            self._active.trim()  # a full disk must not prevent a cut
        kept = [segment for segment in self._segments if segment.first <= number]
        cut = self._segments[len(kept) :]
        newest = kept[-1] if kept else None
        point = None
        if newest is not None and (newest.last > number or newest.own_marks() is None):
            point = end_of(newest, number, self.salt)
        head = self._head_after(number, newest, point)
        made = Segment.prepare(self.path, head)
        try:
            pending = Underway(CUT, number, head.epoch)
            if self._identity.pending != pending:
                counted = self._identity._replace(cuts=self._identity.cuts + 1, cut=number)
                self._identify(counted._replace(pending=pending))
            self._lower_highest(number)
            self._unfinished = partial(self._cut, number)
            self._active = self._unusable(number)
            self._unlink(cut, number)
            made.appear()
            if newest is not None and point is not None:
                self._shorten(newest, point)
            sync_folder(self.path)
            self._identify(self._identity._replace(pending=None))
        except BaseException:
            made.abandon()
            self._give_up()
            raise
        self._unfinished = None
        self._drop(cut, number)
        if newest is not None:
            newest.seal(made)
        self._go_on(kept, made, head.created)

    def _give_up(self) -> None:
        """Take back a failed cut that has changed nothing yet: readers need not wait for it."""
        if self._unfinished is None and self._identity.pending is not None:
            with suppress(OSError):
                self._identify(self._identity._replace(pending=None))

    def _epoch_before(self) -> int:
        active = self._active
        return active.before if active.size == START else active.epoch

    def _begin_segment(self, epoch: int) -> None:
        unsynced = len(self._unsynced)
        if unsynced >= UNSYNCED_MAX // 2:
            self._sync_soon()
        if unsynced >= UNSYNCED_END:
            raise OSError(errno.EMFILE, "too many segments wait for the disk", self.path)
        before, self.epoch = self.epoch, epoch
        try:
            self._roll(0)
        except BaseException:
            self.epoch = before
            raise

    def _rewrite_head(self, segment: Segment, epoch: int) -> None:
        """Give an empty segment another epoch, synced before any record of it."""
        self.epoch = -1  # unknown until this has succeeded
        head = decode_head(os.pread(segment.fd, START, 0))
        created = self.newest_time if head is None else head.created
        fields = (self.salt, self.id, segment.first, created, epoch)
        segment.rewrite_head(Head(*fields, before=segment.before))

    def _head_after(self, number: int, newest: Segment | None, point: CutPoint | None) -> Head:
        """Return the head of the segment that follows once everything above `number` is removed."""
        if newest is not None:
            epoch = before = newest.epoch
            time = newest.newest if point is None else point.newest
        else:
            oldest = self._segments[0]
            epoch, before = oldest.epoch, oldest.before
            time = self._time_before(oldest)
        return Head(self.salt, self.id, number + 1, time, epoch, before=before)

    def _time_before(self, segment: Segment) -> int:
        """Return a time that no record before this segment exceeds; 0 if none is known."""
        if segment.first == 1:
            return 0
        with suppress(FileNotFoundError), open(segment.file, "rb") as file:
            head = decode_head(file.read(START))
            return 0 if head is None else head.created
        return 0

    def _empty_window(self) -> None:
        """Switch to another window: no start may find taken-back numbers in the old one."""
        self._mover.close()
        self._identity = self._another_window(self._identity)

    def _another_window(self, identity: Identity) -> Identity:
        """Switch to another window, made later if the disk is full; return the identity to write.

        If this fails, another window may have the name already, so the old one is not used again.
        """
        made = JournalWindow(self.path, self._window.size)
        self._window.close(False)
        self._window = made
        for segment in self._segments:
            segment.leave_window()
        self._identity = self._identity._replace(window=0)  # `reserve` makes one
        try:
            return make_window(made, identity, 0)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            return identity._replace(window=0)

    def _lower_highest(self, number: int) -> None:
        """Lower `.highest` to `number`, if it is higher. It never claims unsynced numbers."""
        if self._highest.number < 0:
            self.sync()  # an earlier write failed, so its content is not known
        if not 0 <= self._highest.number <= number:
            self._highest.rewrite(number)

    def _unlink(self, cut: list[Segment], number: int) -> None:
        """Delete these segments, newest first, so that a crash leaves a store that ends later.

        The file that the next segment replaces stays, because there must always be one.
        """
        for segment in reversed(cut):
            remove(segment.path + SUBJECTS)
            for file in (segment.index_file, segment.file):
                if file == segment.index_file or segment.first != number + 1:
                    with suppress(FileNotFoundError):
                        os.unlink(file)
        sync_folder(self.path)

    def _shorten(self, segment: Segment, point: CutPoint) -> None:
        """Cut the end of a segment off, and count what is left."""
        size = segment.size
        segment.shorten(point)
        self._written -= max(size - segment.size, 0)
        if point.damage is not None:
            self.damage[:] = [one for one in self.damage if one.segment != segment.first]
            self.damage += point.damage

    def _drop(self, cut: list[Segment], number: int) -> None:
        """Forget segments that were removed. Readers that hold one find nothing in it."""
        for segment in cut:
            self._written -= segment.size
            segment.leave_store()
            if segment in self._unsynced:
                self._unsynced.remove(segment)
        self.damage[:] = [one for one in self.damage if one.first <= number]

    def _go_on(self, kept: list[Segment], made: Segment, newest_time: int) -> None:
        """Continue in this segment; its head and name are synced."""
        self._segments = [*kept, made]
        self._active = made
        self._unsynced.append(made)
        self._written += START
        self._names_synced = made.first
        self.last = made.first - 1
        self.epoch = made.epoch
        self.newest_time = newest_time
        self._moved = self.bytes_put
        self._window.note_last(self.last)

    def _begin_anew(self, number: int, epoch: int, identity: Identity) -> None:
        self._stop_reading()
        self._mover.close()
        self._unfinished = partial(self._begin_anew, number, epoch, identity)
        self._active = self._unusable(number)
        known = max(identity.epoch, epoch, 1)
        counted = identity._replace(epoch=known, cuts=identity.cuts + 1, cut=0)
        self._highest.close()
        self._identify(counted._replace(pending=Underway(ANEW, number, epoch)))
        made = reset_store(self.path, self._identity)
        self._identity = self._identity._replace(pending=None, window=0)
        self._identify(self._another_window(self._identity))
        self._unfinished = None
        self._drop(self._segments, number)
        self.damage.clear()
        self.id, self.salt = identity.journal, identity.salt
        self._written = self._deleted = 0
        self._go_on([], made, 0)
        self._highest = HighWater(self.path, self.id)
        self._note_highest(number)

    def _unusable(self, number: int) -> Segment:
        """Return a stand-in for an unknown newest segment: every write to it fails."""
        return Segment(os.path.join(self.path, stem(number + 1)), number + 1)

    def _check_finished(self) -> None:
        if self._unfinished is not None:
            raise OSError(errno.EIO, "a cut of the journal is not complete", self.path)


def _add(table: list[tuple[int, int]], epoch: int, segment: Segment, since: int = 0) -> None:
    if not table or table[-1][0] != epoch:
        table.append((epoch, max(segment.first, since)))
