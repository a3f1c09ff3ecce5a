"""The journal on disk, as the broker has it open: writes, syncs, rolls and deletes segments.

Two threads use a store. The writer (the broker's event loop) calls reserve, write, roll,
locate and the pieces; the keeper calls sync, rewrite_unsynced, retain and build_indexes, one
at a time. No lock is needed, because each attribute is written by one thread only:

    writer   last, newest_time, the newest segment, the end of `_segments` and `_unsynced`,
             `_written`, `_torn`
    keeper   the beginning of those lists, `_deleted`, `_names_synced`, `_suspect`, `_building`,
             `_highest`
    both     only append to `damage` and `report`

`write` only waits until the kernel has copied the bytes. They then survive a crash of the
process; they survive a crash of the machine once they are synced. A roll waits for the disk: see
`_roll`.
"""

import contextlib
import errno
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Final, Self

from sequencer.journal.backwards import Ids, next_good, recent_ids
from sequencer.journal.disk import remove, sync_file, sync_folder
from sequencer.journal.errors import Damage
from sequencer.journal.faces import Piece
from sequencer.journal.header import START, Head
from sequencer.journal.highest import Highest
from sequencer.journal.recovery import Recovery, conclude, survey_sealed
from sequencer.journal.rewrite import rewrite
from sequencer.journal.segment import Segment
from sequencer.journal.survey import Survey

SEGMENT_BYTES: Final = 256 << 20
NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE)
# Segments with an open descriptor until the keeper has synced them. This must stay well below
# the 64 files that clients cannot use up: monitoring and staging open some of those.
UNSYNCED_MAX: Final = 16
BUILD_STEPS: Final = 2  # of 4 MiB: what one call of build_indexes reads


class Store:
    """The journal on disk. Made by `open`; see above for which thread may call what."""

    checked = True  # every record has its checksum
    own_epochs = True  # each opening begins an epoch; else see sequencer/journal/replica_store.py

    def __init__(self, found: Recovery) -> None:
        self.path = found.path
        self.id = found.identity.journal
        self.salt = found.identity.salt
        self.epoch = found.identity.epoch
        self._identity = found.identity
        self.report = found.report
        self.damage = found.damage
        self.segment_bytes = SEGMENT_BYTES
        self.segment_age_ns = 0
        self.retain_bytes = self.retain_age_ns = self.retain_count = 0
        self.ordered = True
        self.crowded: Callable[[], None] | None = None  # asks the keeper to sync soon
        self._lock = found.lock
        self._segments = found.segments
        self._active = found.segments[-1]
        self.last = max(self._active.last, self._active.first - 1)
        self.newest_time = found.newest_time
        self._written = sum(segment.size for segment in self._segments)
        self._deleted = 0
        self._torn = 0  # up to where a failed write may have left bytes in the newest segment
        self._unsynced = [segment for segment in self._segments if segment.fd >= 0]
        self._names_synced = self._active.first  # the names up to this segment's are on the disk
        self._suspect = False  # a sync failed, and what it may have lost is not rewritten yet
        self._building: tuple[Segment, Survey] | None = None
        self._highest = Highest(found.path, found.identity.journal)
        self.highest_error: OSError | None = None  # why the highest number could not be noted
        self._note_highest(self.last)

    @classmethod
    def open(
        cls,
        path: str,
        now: int,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        segment_age_ns: int = 0,
        retain_bytes: int = 0,
        retain_age_ns: int = 0,
        retain_count: int = 0,
        ordered: bool = True,
        accept_loss: bool = False,
    ) -> Self:
        """Open a directory for writing; create it if it is missing, and recover after a crash.

        Without `ordered`, a roll does not wait for the disk: for stores that never sync. With
        `accept_loss`, a store opens even if numbers are missing at its end; they are not given
        again. StoreLocked if another process writes it, StoreError if it cannot be used.
        """
        store = cls(Recovery(os.path.abspath(path), now, accept_loss, cls.own_epochs).run())
        store.segment_bytes = segment_bytes
        store.segment_age_ns = segment_age_ns
        store.retain_bytes = retain_bytes
        store.retain_age_ns = retain_age_ns
        store.retain_count = retain_count
        store.ordered = ordered
        return store

    @property
    def first(self) -> int:
        """The first number still here; last + 1 if it is empty."""
        return self._segments[0].first

    @property
    def bytes(self) -> int:
        return self._written - self._deleted

    @property
    def oldest_time(self) -> int:
        """The time of the first message here, ns since 1970; 0 if it is empty."""
        return self._segments[0].oldest

    @property
    def room(self) -> int:
        """The bytes that can surely be written now."""
        active = self._active
        return max(active.reserved - active.size, 0)

    def pieces(self) -> list[Segment]:
        """The segments, oldest first."""
        return self._segments[:]

    def reserve(self, need: int) -> None:
        """Make room for `need` bytes, in a new segment if this one would grow too long.

        OSError if the disk is full: nothing has changed then, and a later call may succeed. If no
        file can be opened for a new segment, this one grows on: the disk still has room.
        """
        active = self._active
        if active.size + need <= active.reserved:
            return
        if active.size > START and active.size + need > self.segment_bytes:
            if len(self._unsynced) >= UNSYNCED_MAX // 2 and self.crowded is not None:
                self.crowded()
            if len(self._unsynced) < UNSYNCED_MAX:
                try:
                    self._roll(need)
                    return
                except OSError as error:
                    if error.errno not in NO_DESCRIPTOR:
                        raise
            active.reserve(need, active.size + need)
        else:
            active.reserve(need, self.segment_bytes)

    def write(
        self, view: memoryview, first: int, last: int, time: int, ids: bool, last_time: int = 0
    ) -> None:
        """Append whole records, numbers `first` to `last`, of `time`; or of `time` to `last_time`.

        OSError if the disk fails or is full. Then none of them counts as written. The same batch
        must be written again before any other: it goes to the same place.
        """
        assert first == self.last + 1 <= last, "numbers have no gaps"
        active = self._active
        at = active.size
        size = len(view)
        done = os.pwrite(active.fd, view, at)
        if done != size or self._torn:
            self._complete(view, at, done)
        marks = active.marks
        assert marks is not None, "the newest segment has its marks in memory"
        if at >= marks.next:
            marks.add(first, time, at)
            if at == START:
                active.oldest = time
        if ids:
            marks.note_ids()
        active.size = at + size
        active.newest = self.newest_time = last_time or time
        self._written += size
        active.last = self.last = last

    def sync(self) -> int:
        """Sync what was written before the call; return the last number that is now safe.

        For the keeper. Syncs segments that were sealed in the meantime and closes their
        descriptors. OSError if the disk fails; then the next call first rewrites what is unsynced.
        """
        if self._suspect:
            self.rewrite_unsynced()
        last = self.last
        self._suspect = True
        for segment in self._unsynced[:]:
            sealed = segment.sealed  # before `size`: the size of a sealed segment is final
            size = segment.size
            if segment.synced < size:
                os.fdatasync(segment.fd)
                segment.synced = size
            if sealed:
                os.close(segment.fd)
                segment.fd = -1
                self._unsynced.remove(segment)
        try:
            self._sync_names()
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                self._suspect = False  # nothing was lost: the sync was not even tried
            raise
        self._suspect = False
        self._note_highest(last)
        return last

    def rewrite_unsynced(self) -> None:
        """Write again, from the kernel's memory, the bytes that a failed sync may have lost.

        For the keeper. After a failure the kernel marks its pages clean, so the next sync would
        succeed for bytes that never reached the disk. OSError if they are gone from memory.
        """
        for segment in self._unsynced[:]:
            rewrite(segment, self.salt)
        self._names_synced = 0
        self._suspect = False

    def roll(self, now: int) -> None:
        """Seal the newest segment, unless it is empty, and begin the next. Fails as `reserve`."""
        if self._active.size > START:
            self._roll(0, now)

    def roll_if_due(self, now: int) -> None:
        """Roll if the newest segment has messages older than `segment_age_ns`, or is too long.

        It is too long if it could not be sealed in time (`reserve`). Retention never deletes the
        newest segment, so it would be kept for as long as nothing more is written.
        """
        active = self._active
        aged = self.segment_age_ns and active.oldest and now - active.oldest >= self.segment_age_ns
        if aged or (active.size > self.segment_bytes and len(self._unsynced) < UNSYNCED_MAX):
            self.roll(now)

    def retain(self, now: int, keep_from: int = 0) -> list[tuple[int, int]]:
        """Delete whole segments that are over a limit, oldest first; return the deleted numbers.

        For the keeper. Never deletes the newest segment, nor one that has number `keep_from` or a
        later one; 0: no such bound. Readers that hold one can read on in it.
        """
        went: list[tuple[int, int]] = []
        while len(self._segments) > 1 and self._is_over(self._segments[0], now):
            if keep_from and self._segments[1].first > keep_from:
                break
            segment = self._segments[0]
            try:
                if not went:
                    # The newest segment's name says which number is next: sync it before these go.
                    self.sync()
                with contextlib.suppress(FileNotFoundError):  # someone else deleted it
                    os.unlink(segment.file)
            except OSError:
                if went:
                    break
                raise
            segment.gone = True
            remove(segment.index_file)
            del self._segments[0]
            self._deleted += segment.size
            went.append((segment.first, self._segments[0].first - 1))
        return went

    def locate(self, number: int) -> tuple[Segment, int]:
        """A segment, and an offset in it at or before this number's record.

        For a deleted number, those of the first record here; after the last number, the end.
        """
        if number > self.last:
            return self._active, self._active.size
        segments = self._segments[:]
        place = bisect_right(segments, number, key=lambda segment: segment.first)
        segment = segments[max(place - 1, 0)]
        marks = segment.own_marks()
        return segment, START if marks is None else marks.before_number(number)

    def locate_time(self, time_ns: int) -> tuple[Segment, int]:
        """A segment, and an offset in it at or before the first record of this time or later."""
        if time_ns > self.newest_time:
            return self._active, self._active.size
        segments = self._segments[:]
        if segments[-1].size == START and len(segments) > 1:
            segments.pop()  # it is empty, so it has no time
        place = bisect_left(segments, time_ns, key=lambda segment: segment.oldest)
        segment = segments[max(place - 1, 0)]
        marks = segment.own_marks()
        return segment, START if marks is None else marks.before_time(time_ns)

    def next_good(self, piece: Piece, offset: int, number: int) -> tuple[Segment, int, int] | None:
        """Where to go on after a bad record at `offset`: a segment, offset and number.

        That is the next good record with this number or a later one; None if there is none.
        """
        assert isinstance(piece, Segment), "it is one of ours"
        return next_good(piece, offset, number, self.last, self.salt)

    def recent_ids(self, since: int, most: int) -> Iterator[Ids]:
        """Number, time and headers of messages with a Nats-Msg-Id, in number order.

        Yields the newest `most` of them since time `since`.
        """
        return recent_ids(self._segments[:], since, most, self.salt)

    def build_indexes(self) -> bool:
        """Write one missing index, or read about 8 MiB for it; True while there is more to do.

        For the keeper.
        """
        if self._building is None:
            missing = [one for one in self._segments[:-1] if one.sealed and one.is_unindexed]
            if not missing:
                return False
            segment = missing[0]
            if segment.marks is not None:
                self._write_index(segment)
                return len(missing) > 1
            fd = os.open(segment.file, os.O_RDONLY | os.O_CLOEXEC)
            self._building = segment, survey_sealed(segment, fd, self.salt)
        segment, survey = self._building
        try:
            for _ in range(BUILD_STEPS):
                if not survey.done and not segment.gone:
                    survey.step()
        except OSError:
            segment.unreadable = True  # do not try again and again
            self._stop_building()
            raise
        if survey.done or segment.gone:
            self._stop_building()
        if survey.done and not segment.gone:
            size = segment.size
            self._lose(conclude(segment, survey))
            self._deleted += size - segment.size
            self._write_index(segment)
        return True

    def close(self) -> None:
        """Sync, write the newest segment's index, free the reserved space, unlock."""
        active = self._active
        try:
            os.ftruncate(active.fd, active.size)
            self.sync()
            self._write_index(active)
        finally:
            self._close_files()

    def _close_files(self) -> None:
        self._stop_building()
        self._highest.close()
        for segment in self._segments:
            segment.close()
        os.close(self._lock)

    def _complete(self, view: memoryview, at: int, done: int) -> None:
        """Write the rest after a short write; if that fails, note how far it came."""
        self._torn = max(self._torn, at + done)
        while done < len(view):
            count = os.pwrite(self._active.fd, view[done:], at + done)
            if count == 0:
                raise OSError(errno.EIO, "the disk wrote 0 bytes and reported no error")
            done += count
            self._torn = max(self._torn, at + done)
        if self._torn > at + done:  # not the batch that failed: remove the rest of that
            os.ftruncate(self._active.fd, at + done)
            self._active.reserved = at + done
        self._torn = 0

    def _roll(self, need: int, now: int = 0) -> None:
        """Begin the next segment, and seal the one before only when the new one exists."""
        before = self._active
        if self._torn:
            # First: after a crash, no sealed segment may hold bytes that the next one begins with.
            os.ftruncate(before.fd, before.size)
            before.reserved = before.size
            self._torn = 0
        created = max(now, self.newest_time)
        if self.ordered:
            # The next segment's name claims all numbers before it, so sync those first. Otherwise a
            # power cut could lose numbers that were never shown to anyone. Use a new descriptor: an
            # error is reported once per descriptor, and the keeper must see it too.
            sync_file(before.file)
        head = Head(self.salt, self.id, self.last + 1, created, self.epoch)
        head = head._replace(before=self._epoch_before())
        ordered = self.ordered or not self.own_epochs  # what heads say of epochs must be true
        made = Segment.create(self.path, head, need, self.segment_bytes, ordered)
        try:
            os.ftruncate(before.fd, before.size)  # frees the reserved space
        except OSError:
            made.close()
            remove(made.file)
            raise
        before.reserved = before.size
        self._written += START
        self._unsynced.append(made)
        before.following = made  # first: the keeper expects it of all but the newest
        self._segments.append(made)
        self._active = made
        before.sealed = True

    def _epoch_before(self) -> int:
        """What the next segment's head says of the epoch of `last`."""
        return 0

    def _sync_names(self) -> None:
        """Sync the names of segments that were made since."""
        newest = self._segments[-1].first
        if newest > self._names_synced:
            sync_folder(self.path)
            self._names_synced = newest

    def _note_highest(self, number: int) -> None:
        """Note that the disk has everything up to `number`.

        If that fails, the next sync tries again; no message waits for it, and none is in danger.
        """
        try:
            self._highest.write(number)
            self.highest_error = None
        except OSError as error:
            self.highest_error = error

    def _is_over(self, segment: Segment, now: int) -> bool:
        if self.retain_bytes and self.bytes > self.retain_bytes:
            return True
        if self.retain_age_ns and now - segment.newest > self.retain_age_ns:
            return True
        following = segment.following
        assert following is not None, "the newest segment is never passed"
        return bool(self.retain_count) and self.last - following.first + 1 >= self.retain_count

    def _write_index(self, segment: Segment) -> None:
        if segment.synced < segment.size:
            self.sync()
        segment.write_index(self.id, self.damage[:])

    def _stop_building(self) -> None:
        if self._building is not None:
            os.close(self._building[1].fd)
            self._building = None

    def _lose(self, damages: list[Damage]) -> None:
        """Note damage that was not known before."""
        known = {(damage.segment, damage.offset) for damage in self.damage[:]}
        for damage in damages:
            if (damage.segment, damage.offset) not in known:
                self.damage.append(damage)
                self.report.append(("error", f"{self.path}: {damage}"))
