"""The journal on disk, as the broker has it open: writes, syncs, rolls and deletes segments.

Two threads use a store. The writer (the broker's event loop) calls reserve, write_position, commit,
write, roll, locate and segments; the keeper calls sync, retain and build_indexes, one at a time.
Each attribute is written by one thread only, so most need no lock:

    writer   last, newest_time, `_newest_id`, the newest segment, the end of `_segments` and
             `_unsynced`, `_written`, the window
    keeper   the beginning of those lists, `_deleted`, `_names_synced`, `_building`, `_highest`,
             the mover
    both     only append to `damage` and `report`

Committed records are in the journal window (window.py), and survive a crash of the process. Once a
sync has moved them to their segment, they survive a crash of the machine. If the disk is too slow,
the window is full, and the writer waits for room.
"""

import contextlib
import errno
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, Self, TypedDict, Unpack

from sequencer.journal.disk import is_at, pwrite_all, remove, sync_folder
from sequencer.journal.errors import Damage
from sequencer.journal.header import START, SUBJECTS, Head
from sequencer.journal.high_water import HighWater
from sequencer.journal.identity import LOCK, Identity, say_leaving, write_identity
from sequencer.journal.index import STRIDE
from sequencer.journal.kept_ids import KeptId, KeptIds, Moment
from sequencer.journal.layout import RECORD
from sequencer.journal.mover import CROWDED_BYTES, Mover
from sequencer.journal.protocols import SegmentView
from sequencer.journal.record import Walk
from sequencer.journal.recovery import Recovery, conclude, survey_sealed
from sequencer.journal.reverse_scan import Ids, next_good, recent_ids
from sequencer.journal.segment import Segment
from sequencer.journal.survey import Survey
from sequencer.journal.window import STEP, make_window
from sequencer.journal.window_file import Progress, no_progress
from sequencer.msgids import Window, kept_form, key_of, rebuild

SEGMENT_BYTES: Final = 256 << 20
WINDOW_BYTES: Final = 64 << 20
WAITS_MAX: Final = 2000  # of 5 ms, with a keeper; then the disk hangs, and messages are refused
NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE)
# Segments with an open descriptor until the keeper has synced them. This must stay well below
# the 64 files that clients cannot use up: monitoring and staging open some of those.
UNSYNCED_MAX: Final = 16
MOVED: Final = (
    "was removed or replaced while the broker used it; put the store's directory back, or restart"
)
MARKED_ALONE: Final = 2 * STRIDE  # a longer batch gets marks inside, too


def position_of(segments: list[Segment], number: int) -> tuple[Segment, int]:
    """A position at or before this number's record; for a deleted one, that of the first record."""
    index = bisect_right(segments, number, key=lambda segment: segment.first)
    segment = segments[max(index - 1, 0)]
    return segment, segment.before_number(number)


def place_of_time(segments: list[Segment], time_ns: int) -> tuple[Segment, int]:
    """A position at or before the first record of this time or later."""
    if segments[-1].size == START and len(segments) > 1:
        segments = segments[:-1]  # it is empty, so it has no time
    index = bisect_left(segments, time_ns, key=lambda segment: segment.oldest)
    segment = segments[max(index - 1, 0)]
    marks = segment.own_marks()
    return segment, START if marks is None else marks.before_time(time_ns)


def marks_in(view: memoryview, salt: int) -> list[tuple[int, int]]:
    """Return numbers and places of records in a batch, at least `STRIDE` from each other."""
    walk = Walk(salt, False)
    walk.attach(view, 0, len(view))
    found = []
    while walk.skim() == RECORD:
        found.append((walk.number, walk.at))
        walk.stretch(STRIDE)
        walk.skim()
    return found


# Where the id of a message to this subject, with this number, counts in its stream; None: that
# stream is gone.
ScopeInStream = Callable[[bytes, int], bytes | None]


class StoreLimits(TypedDict, total=False):
    """The limits that `Store.change_limits` takes."""

    segment_bytes: int
    segment_age_ns: int
    retain_bytes: int
    retain_age_ns: int
    retain_count: int


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
        self.change_limits()
        # Of the keeper, once there is one.
        self._sync_soon: Callable[[], object] = lambda: None
        self._wait_for_sync: Callable[[], object] | None = None
        self._run_alone: Callable[[Callable[[], None]], None] = lambda call: call()
        self._lock = found.lock
        self._segments = found.segments
        self._active = found.segments[-1]
        self.last = max(self._active.last, self._active.first - 1)
        self.newest_time = found.newest_time
        self._written = sum(segment.size for segment in self._segments)
        self._deleted = 0
        self._unsynced = [segment for segment in self._segments if segment.fd >= 0]
        self._names_synced = self._active.first  # the names up to this segment's are on the disk
        assert found.window is not None, "it was opened to write"
        self._window = found.window
        self._mover = Mover(found.window.size)
        self._mover.probe(self._active)
        self._moved = 0  # bytes of all segments that the keeper has synced, of those written here
        self.bytes_put = 0  # bytes that were written here
        self._disk_stalled = False  # a wait for the disk timed out, and nothing was synced since
        self._building: tuple[Segment, Survey] | None = None
        # The newest segment, as it was found, if it was not read through.
        self._checking: tuple[Segment, Survey] | None = None
        if found.unread is not None:
            self._checking = position_of(self._segments, found.unread.first)[0], found.unread
        self._highest = HighWater(found.path, found.identity.journal)
        self.highest_error: OSError | None = None  # why the highest number could not be noted
        self._note_highest(self.last)
        self.ids: KeptIds | None = None  # where ids are remembered
        self._scope_in_stream: ScopeInStream | None = None
        self.id_window: Window | None = None  # the ids themselves; a clean stop saves them
        self._newest_id = 0  # a number at or after that of the newest message with an id
        for segment in self._segments:
            segment.opened(found.now)

    @classmethod
    def open(
        cls,
        path: str,
        now: int,
        *,
        accept_loss: bool = False,
        window_bytes: int = WINDOW_BYTES,
        progress: Progress = no_progress,
        **limits: Unpack[StoreLimits],
    ) -> Self:
        """Open a directory for writing; create it if it is missing, and recover after a crash.

        `limits` are those of `change_limits`. With `accept_loss`, a store opens even if numbers are
        missing at its end; they are not given again. `progress` is called on the way, and may
        raise. StoreLocked if another process writes it, StoreError if it cannot be used.
        """
        how = (accept_loss, cls.own_epochs, window_bytes, progress)
        found = Recovery(os.path.abspath(path), now, *how).run()
        try:
            store = cls(found)
        except BaseException:
            found.abandon()
            raise
        store.change_limits(**limits)
        return store

    def change_limits(
        self,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        segment_age_ns: int = 0,
        retain_bytes: int = 0,
        retain_age_ns: int = 0,
        retain_count: int = 0,
    ) -> None:
        """Change how long and old a segment may get, and how much retention keeps; 0: all."""
        self.segment_bytes = segment_bytes
        self.segment_age_ns = segment_age_ns
        self.retain_bytes = retain_bytes
        self.retain_age_ns = retain_age_ns
        self.retain_count = retain_count

    def use_keeper(
        self,
        sync_soon: Callable[[], object],
        wait_for_sync: Callable[[], object],
        run_alone: Callable[[Callable[[], None]], None],
    ) -> None:
        """Let a keeper, which has a thread, do the syncs.

        `sync_soon` asks for one, `wait_for_sync` returns when some of it is done, and `run_alone`
        calls back while none is under way.
        """
        self._sync_soon = sync_soon
        self._wait_for_sync = wait_for_sync
        self._run_alone = run_alone

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
        """The bytes that can surely be written now, in one segment."""
        active = self._active
        return max(min(active.reserved - active.size, self._window.room(active)), 0)

    @property
    def is_crowded(self) -> bool:
        """True if too much is unsynced to wait for the next timed sync."""
        return self.bytes_put - self._moved >= CROWDED_BYTES

    @property
    def direct(self) -> bool:
        """True if segments are written past the page cache."""
        return self._mover.direct

    def check_files(self) -> None:
        """Raise OSError if the store was moved, or the window was cut short. For the keeper."""
        self._check_paths()
        self._window.check_size()

    def _check_paths(self) -> None:
        """Raise OSError if the lock, the newest segment or the window is not where it was.

        Then another process may write here, and what is written is lost when this one ends.
        """
        active = self._segments[-1]
        moved = "" if active.is_in_place() else active.file
        files = [(self._lock, os.path.join(self.path, LOCK))]
        if self._window.is_there:
            files.append((self._window.guard.fd, self._window.guard.file))
        for fd, file in files:
            if not is_at(file, fd):
                moved = file
        if moved:
            raise OSError(errno.ESTALE, f"{os.path.basename(moved)} {MOVED}", moved)

    def segments(self) -> list[Segment]:
        """The segments, oldest first."""
        return self._segments[:]

    def reserve(self, need: int) -> None:
        """Make room for `need` bytes, in a new segment if this one would grow too long.

        OSError if the disk is full: nothing has changed then, and a later call may succeed. If no
        file can be opened for a new segment, this one grows on: the disk still has room.
        """
        if not self._identity.window:  # the disk was too full to make the window earlier
            self._identify(make_window(self._window, self._identity, self.last))
        self._window.check_size()
        self._window.check()
        active = self._active
        if active.size + need > active.reserved:
            if active.size > START and active.size + need > self.segment_bytes:
                self._roll_or_grow(need)
            else:
                active.reserve(need, self.segment_bytes)
        window = self._window
        if window.room(self._active) < need <= window.capacity:
            if window.space(self._active) < need:
                self._go_on_in_window()
            window.ready(need)

    def write_position(self) -> tuple[memoryview, int] | None:
        """Return where the next records may be put, for `commit`: a buffer and a position in it.

        `room` bytes fit there, until the next call of anything but `commit`. None if records must
        be given to `write`.
        """
        window = self._window
        if window.room(self._active) == 0:
            return None
        return window.view, window.position

    def commit(
        self,
        size: int,
        first: int,
        last: int,
        time: int,
        ids: bool,
        marks: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Append `size` bytes at `write_position`: whole records, numbers `first` to `last`.

        `marks` are numbers of records among them, and how many bytes are before each. OSError if
        the disk did not take all of them: then none counts, and the bytes stay there.
        """
        self._window.check()
        self._count(size, first, last, time, ids, time, marks)
        self._window.position += size

    def write(
        self, view: memoryview, first: int, last: int, time: int, ids: bool, last_time: int = 0
    ) -> None:
        """Append whole records, numbers `first` to `last`, of `time`; or of `time` to `last_time`.

        OSError if the disk is full, or fails. Then none of them counts as written.
        """
        size, window = len(view), self._window
        marks = marks_in(view, self.salt) if size > MARKED_ALONE else ()
        if size > window.capacity:
            self._run_alone(lambda: self._write_through(view))
            self._count(size, first, last, time, ids, last_time or time, marks, True)
            return
        if self.room < size:
            self.reserve(size)
        window.view[window.position : window.position + size] = view
        window.check()
        self._count(size, first, last, time, ids, last_time or time, marks)
        window.position += size

    def _count(
        self,
        size: int,
        first: int,
        last: int,
        time: int,
        ids: bool,
        last_time: int,
        marks: Sequence[tuple[int, int]],
        through: bool = False,
    ) -> None:
        """Note what was written at the end of the newest segment."""
        assert first == self.last + 1 <= last, "numbers have no gaps"
        active = self._active
        active.note(first, time, last_time, ids, marks)
        self.newest_time = last_time
        if ids:
            self._newest_id = last
        if through:  # first: it is not in the window
            active.kept = active.synced = active.size + size
        active.size += size
        self._written += size
        self.bytes_put += size
        active.last = self.last = last
        self._window.note_last(last)

    def sync(self) -> int:
        """Move and sync what was written before the call; return the last number that is now safe.

        For the keeper. Syncs segments that were sealed in the meantime and closes their
        descriptors. OSError if the disk fails; then the next call does the same again.
        """
        self._check_paths()
        last = self.last
        put = self.bytes_put
        named = 0
        closed = False
        for segment in self._unsynced[:]:
            sealed = segment.sealed  # before `size`: the size of a sealed segment is final
            size = segment.size
            segment.appear()  # its name claims all numbers before, which are synced now
            named = segment.first
            if segment.synced < size:
                self._mover.move(segment, size)
            if sealed:
                self._mover.close()
                os.ftruncate(segment.fd, size)  # what is after it was reserved, or zeros
                os.fdatasync(segment.fd)
                segment.close_writer()
                self._unsynced.remove(segment)
                closed = True
        written, self._moved = put - self._moved, put
        self._mover.hurried = self._mover.hurried and self.is_crowded
        self._sync_names(named)
        self._note_highest(last)
        self._window.prepare(2 * written)
        if closed:
            self._index_sealed()
        return last

    def prepare(self) -> None:
        """Prepare the memory that the first messages go to. This takes no room on the disk."""
        self._window.prepare(STEP)

    def roll(self, now: int) -> None:
        """Seal the newest segment, unless it is empty, and begin the next. Fails as `reserve`."""
        if self._active.size > START:
            self._roll(0, now)

    def roll_if_due(self, now: int) -> None:
        """Roll if the newest segment has messages older than `segment_age_ns`, or is too long.

        `now` is of a clock that does not jump. Messages since the last call count as received now.
        A segment is too long if it could not be sealed in time (`reserve`). Retention never deletes
        the newest one, so without a roll it would be kept for as long as nothing more is written.
        """
        active = self._active
        for segment in reversed(self._segments):
            if segment.last >= segment.first and not segment.see(now):
                break
        begun = active.begun or active.oldest
        aged = self.segment_age_ns and begun and now - begun >= self.segment_age_ns
        if aged or (active.size > self.segment_bytes and len(self._unsynced) < UNSYNCED_MAX):
            self.roll(now)

    def next_over(self, now: int) -> int:
        """Return which number would be the first one if what is over a limit were deleted.

        0: nothing is over a limit.
        """
        first = size = 0
        for segment, following in pairwise(self._segments[:]):
            if not self._is_over(segment, now, size):
                break
            size += segment.size
            first = following.first
        return first

    def retain(self, now: int, keep_from: int = 0) -> list[tuple[int, int]]:
        """Delete whole segments that are over a limit, oldest first; return the deleted numbers.

        For the keeper. Never deletes the newest segment, nor one with number `keep_from` or a
        later one; 0: no such bound. Readers that hold one can read on in it. `now` is of a clock
        that does not jump. Ids that still count are kept.
        """
        went: list[tuple[int, int]] = []
        while len(self._segments) > 1 and self._is_over(self._segments[0], now):
            segment, following = self._segments[:2]
            if keep_from and following.first > keep_from:
                break
            try:
                if following.first > self._names_synced:
                    # Its name says which number is next: sync it before this one goes.
                    self.sync()
                kept = self._keep_ids(segment, now)
                with contextlib.suppress(FileNotFoundError):  # someone else deleted it
                    os.unlink(segment.file)
                if not kept:
                    self._keep_ids(segment, now)
            except OSError:
                if went:
                    break
                raise
            segment.gone = True
            remove(segment.index_file)
            remove(segment.path + SUBJECTS)
            del self._segments[0]
            self._deleted += segment.size
            went.append((segment.first, following.first - 1))
        if self.ids is not None:
            self.ids.tidy(now)
        return went

    def locate(self, number: int) -> tuple[Segment, int]:
        """A segment, and an offset in it at or before this number's record.

        For a deleted number, those of the first record here; after the last number, the end.
        """
        if number > self.last:
            return self._active, self._active.size
        return position_of(self._segments[:], number)

    def locate_time(self, time_ns: int) -> tuple[Segment, int]:
        """A segment, and an offset in it at or before the first record of this time or later."""
        if time_ns > self.newest_time:
            return self._active, self._active.size
        return place_of_time(self._segments[:], time_ns)

    def next_good(
        self, segment: SegmentView, offset: int, number: int
    ) -> tuple[Segment, int, int] | None:
        """Find the next good record after a bad one at `offset`: its segment, offset and number.

        It has this number or a later one. None if there is no such record.
        """
        assert isinstance(segment, Segment), "it is one of ours"
        return next_good(segment, offset, number, self.last, self.salt)

    def recent_ids(self, since: int, most: int, progress: Progress = no_progress) -> Iterator[Ids]:
        """Yield number, time, scope and headers of messages with a Nats-Msg-Id, in number order.

        Only the newest `most` of them since time `since`.
        """
        return recent_ids(self._segments[:], since, most, self.salt, progress=progress)

    def keep_ids(
        self, window_ns: int, most: int, now: Moment, scope_in_stream: ScopeInStream | None = None
    ) -> None:
        """Remember ids for `window_ns` from now on, at most `most` of them; also after a stop.

        `scope_in_stream` says where ids of messages to streams count; None: there are no streams.
        """
        self._scope_in_stream = scope_in_stream
        self.ids = KeptIds(self.path, self.id, window_ns, most, now)
        self._newest_id = self.last  # messages without a mark were received by now

    def refill_ids(self, window: Window, progress: Progress = no_progress) -> None:
        """Fill an empty window with the ids that count, and save it at a clean stop.

        They come from what the last stop saved, or else from the records.
        """
        ids = self.ids
        assert ids is not None, "`keep_ids` was called"
        known = ids.take_known(self.last, self.report)
        if known is None:
            rebuild(window, self.counting_ids(progress))
        else:
            window.refill(*known)
            for _ in ids.deleted(self.first):  # so that their files are removed in time
                pass
        self.id_window = window

    def save_known_ids(self, now: Moment) -> None:
        """Save the ids that count, at a clean stop. For the keeper. May raise `OSError`."""
        window = self.id_window
        if self.ids is not None and window is not None and window.newest <= self.last:
            self.check_files()  # else another process may write here
            self.ids.save_known(window.known(), self.last, now)

    def counting_ids(self, progress: Progress = no_progress) -> Iterator[KeptId]:
        """Yield number, steady time of receipt, and key of ids that may still count, in order."""
        ids = self.ids
        assert ids is not None, "`keep_ids` was called"
        number, since = ids.counting
        received = ids.receipts()
        for one in ids.deleted(self.first):
            if one[0] >= number or one[1] >= since:
                yield one[0], received(one[0], one[1]), one[2]
        for one in self._ids_of(self._segments[:], since, number, progress):
            yield one[0], received(one[0], one[1]), one[2]

    def note_ids(self, steady: int) -> None:
        """Note that all messages so far were received by now. For the writer."""
        if self.ids is not None and self._newest_id:
            self.ids.note(self.last, steady)
            if self.ids.noted >= self._newest_id:
                self._newest_id = 0

    def save_ids(self, now: Moment) -> None:
        """Save what is needed to know after a stop how old ids are. For the keeper."""
        if self.ids is not None:
            self.ids.save(now)

    def _ids_of(
        self,
        segments: list[Segment],
        since: int,
        number: int,
        progress: Progress = no_progress,
    ) -> Iterator[KeptId]:
        ids = self.ids
        assert ids is not None, "`keep_ids` was called"
        found = recent_ids(segments, since, ids.most, self.salt, number, progress)
        for one, time, scope, headers, in_stream in found:
            key = key_of(scope, headers)
            if key and in_stream and self._scope_in_stream is not None:
                within = self._scope_in_stream(in_stream, one)
                key = b"" if within is None else within + key
            if key:
                yield one, time, kept_form(key)

    def _keep_ids(self, segment: Segment, now: int) -> bool:
        """Keep the ids of a segment that is about to be deleted. False: the disk is full."""
        received = segment.received or segment.newest
        if self.ids is None or now - received >= self.ids.window_ns:
            return True
        try:
            self.ids.keep(segment.first, self._ids_of([segment], 0, 0), received)
        except OSError:
            return False
        return True

    def build_indexes(self) -> bool:
        """Write one missing index, or read about 4 MiB for it; True while there is more to do.

        For the keeper.
        """
        if self._building is None:
            missing = [one for one in self._segments[:-1] if one.sealed and one.is_unindexed]
            if not missing:
                return self._check_on()
            segment = missing[0]
            if segment.marks is not None:
                self._write_index(segment)
                return True
            fd = os.open(segment.file, os.O_RDONLY | os.O_CLOEXEC)
            self._building = segment, survey_sealed(segment, fd, self.salt)
        segment, survey = self._building
        try:
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

    def say_leaving(self) -> None:
        """Let a process that wants to open this store know that it may wait for it."""
        say_leaving(self._lock)

    def close(self) -> None:
        """Sync, write the newest segment's index, free the reserved space, unlock."""
        active = self._active
        moved = False
        try:
            self.sync()
            os.ftruncate(active.fd, active.size)
            os.fdatasync(active.fd)
            self._write_index(active)
            moved = True
            self._index_sealed()
        finally:
            self._close_files(moved)

    def _close_files(self, moved: bool) -> None:
        """Close all files, and unlock. `moved`: the segments have all that is in the window."""
        self._stop_reading()
        self._highest.close()
        self._mover.close()
        try:
            if moved:  # first: a crash in between must not leave a store that lacks a window
                self._identify(self._identity._replace(window=0))
                for segment in self._segments:
                    segment.leave_window()
            self._window.close(moved)
        finally:
            for segment in self._segments:
                segment.close()
            os.close(self._lock)

    def _identify(self, identity: Identity) -> None:
        write_identity(self.path, identity)
        self._identity = identity

    def _roll_or_grow(self, need: int) -> None:
        """Begin a new segment; if too many wait for a sync, this one grows on."""
        if len(self._unsynced) >= UNSYNCED_MAX // 2:
            self._sync_soon()
        if len(self._unsynced) < UNSYNCED_MAX:
            try:
                self._roll(need)
                return
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:
                    raise
        self._active.reserve(need, self._active.size + need)

    def _go_on_in_window(self) -> None:
        """Switch to another slab; wait for one, but not for a disk that hangs: OSError."""
        if self.is_crowded:
            self._sync_soon()
        wait, waits = self._wait_for_sync or self.sync, 0
        while not self._window.switch_slab(self._active, self.last + 1):
            self._mover.hurried = True
            if waits >= (1 if self._disk_stalled else WAITS_MAX):
                self._disk_stalled = True
                raise OSError(errno.EAGAIN, "the disk does not keep up", self.path)
            wait()
            waits += 1
        self._disk_stalled = False

    def _write_through(self, view: memoryview) -> None:
        """Append a batch that is longer than a slab, and sync it: such batches are rare."""
        active = self._active
        self.sync()
        self._window.finish()
        self._mover.close()
        pwrite_all(active.fd, view, active.size)
        os.fdatasync(active.fd)

    def _roll(self, need: int, now: int = 0) -> None:
        """Begin the next segment, and seal the one before. Nothing waits for the disk here."""
        self._check_paths()
        before = self._active
        # `created` is the time of the record before: no deleted record has a later one.
        head = Head(self.salt, self.id, self.last + 1, self.newest_time or now, self.epoch)
        head = head._replace(before=self._epoch_before())
        made = Segment.prepare(self.path, head, need, self.segment_bytes)
        self._window.finish()
        self._written += START
        self._unsynced.append(made)
        before.following = made  # first: the keeper expects it of all but the newest
        self._segments.append(made)
        self._active = made
        before.sealed = True

    def _epoch_before(self) -> int:
        """Return the epoch of `last` that the next segment's head gives."""
        return 0

    def _sync_names(self, named: int) -> None:
        """Sync the names of new segments, up to the one that begins with number `named`."""
        if named > self._names_synced:
            sync_folder(self.path)
            self._names_synced = named

    def _note_highest(self, number: int) -> None:
        """Note that the disk has everything up to `number`.

        If that fails, the next sync tries again; no message waits for it, and none is in danger.
        """
        try:
            self._highest.write(number)
            self.highest_error = None
        except OSError as error:
            self.highest_error = error

    def _is_over(self, segment: Segment, now: int, gone: int = 0) -> bool:
        """True if a segment is over a limit, once `gone` bytes before it were deleted."""
        if self.retain_bytes and self.bytes - gone > self.retain_bytes:
            return True
        received = segment.received or segment.newest
        if self.retain_age_ns and now - received > self.retain_age_ns:
            return True
        following = segment.following
        assert following is not None, "the newest segment is never passed"
        return bool(self.retain_count) and self.last - following.first + 1 >= self.retain_count

    def _write_index(self, segment: Segment) -> None:
        if segment.synced < segment.size:
            self.sync()  # which has perhaps written it
        if segment.is_unindexed:
            segment.write_index(self.id, self.damage[:])

    def _check_on(self) -> bool:
        """Read on in the segment that the start has not read; True: there is more."""
        if self._checking is None:
            return False
        segment, survey = self._checking
        try:
            if survey.fd < 0:
                survey.fd = os.open(segment.file, os.O_RDONLY | os.O_CLOEXEC)
            if not survey.done and not segment.gone:
                survey.step()
                return True
        except OSError:
            self._stop_checking()
            raise
        if not segment.gone:
            end = survey.limit - 1
            if survey.last < end:
                lost = Damage(segment.first, survey.end, survey.size, survey.last + 1, end)
                survey.damage.append(lost)
            self._lose(survey.damage)
        self._stop_checking()
        return False

    def _stop_checking(self) -> None:
        if self._checking is not None and self._checking[1].fd >= 0:
            os.close(self._checking[1].fd)
        self._checking = None

    def _index_sealed(self) -> None:
        """Write the indexes that are missing, and whose marks are in memory.

        What fails is tried again, and reported, by `build_indexes`.
        """
        for segment in self._segments[:-1]:
            is_synced = segment.sealed and segment.synced >= segment.size
            if is_synced and segment.is_unindexed and segment.marks is not None:
                with contextlib.suppress(OSError):
                    self._write_index(segment)

    def _stop_reading(self) -> None:
        self._stop_building()
        self._stop_checking()

    def _stop_building(self) -> None:
        if self._building is not None:
            os.close(self._building[1].fd)
            self._building = None

    def _lose(self, damages: list[Damage]) -> None:
        """Note newly found damage."""
        known = {(damage.segment, damage.offset) for damage in self.damage[:]}
        for damage in damages:
            if (damage.segment, damage.offset) not in known:
                self.damage.append(damage)
                self.report.append(("error", f"{self.path}: {damage}"))
