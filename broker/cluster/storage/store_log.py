"""A member's journal as the core of replication sees it: a ReplicatedLog on a ReplicaStore.

    write    the coordinator's sequencer appends a batch
    append   a follower appends what the coordinator sent
    read     for DATA to others, and to deliver what is committed

The newest records stay in memory, as they were written: most readers want just these. Older ones
are read from the segments; a read that would wait for the disk is made in a thread, and the core is
called again when it is done.
"""

import asyncio
import errno
import os
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from broker.storage.keeper import Keeper
from sequencer.journal.kept_ids import Moment
from sequencer.journal.layout import LENGTH_MAX
from sequencer.journal.record import Walk
from sequencer.journal.replica_store import ReplicaStore
from sequencer.journal.segment import Segment, read_piece
from sequencer.replica.member_messages import Epochs, Records
from sequencer.replica.replicated_log import NEW, MemberMemory

RECENT_BYTES: Final = 8 << 20  # records that are uncommitted, or that some member lacks
READ_MIN: Final = 1 << 16
BUFFER_KEPT: Final = 1 << 20  # from one read to the next
AHEAD_BYTES: Final = 1 << 22  # read at once by a thread: fewer waits for a slow disk
PLACES_MAX: Final = 64  # more than there are readers
RECORD: Final = 1


class StoreLog:
    """The log of one member, for its one thread."""

    def __init__(
        self,
        store: ReplicaStore,
        memory: MemberMemory,
        loop: asyncio.AbstractEventLoop,
        readable: Callable[[], None] = lambda: None,
        salted: Callable[[int], None] = lambda salt: None,
    ) -> None:
        """`readable` is called after a thread has read, `salted` if it became another journal."""
        self.store = store
        self.memory = memory
        self.keeper: Keeper | None = None
        self.keep_from = 0  # retention deletes nothing from this number on; 0: no bound
        self._readable = readable
        self._written: Callable[[], None] = lambda: None
        self._salted = salted
        # The window of ids was filled from the store up to here, when it was opened.
        self.remembered = store.last
        self._loop = loop
        self._recent: deque[Records] = deque()
        self._recent_bytes = 0
        self._reading = False  # in a thread
        # What a thread has read, and where; or why it could not.
        self._fetched: tuple[Segment, int, bytearray | OSError] | None = None
        self._cuts = 0  # a thread may have read what was there before the last one
        self._walk = Walk(store.salt)
        self._buffer = bytearray(READ_MIN)  # for reads of segments
        self._sound_end = _sound_end(store)
        self._places: dict[int, tuple[Segment, int]] = {}  # where reads ended, by the next number

    # The methods of a writable journal

    @property
    def id(self) -> str:
        return self.store.id

    @property
    def journal(self) -> str:
        """The journal's id; NEW for a new store, which has no part in a cluster yet."""
        view, store = self.memory.view, self.store
        is_new = store.last < store.first and (view is None or view.journal != store.id)
        return NEW if is_new else store.id

    @property
    def cluster_first(self) -> int:
        """The cluster's first number. Earlier ones count as epoch 0."""
        return self.memory.view.first if self.memory.view is not None else 1

    @property
    def salt(self) -> int:
        return self.store.salt

    @property
    def checked(self) -> bool:
        return True

    @property
    def epoch(self) -> int:
        return self.store.epoch

    @property
    def first(self) -> int:
        return self.store.first

    @property
    def last(self) -> int:
        """The last number before the first gap. Records after a gap are fetched again."""
        return self.store.last if self._sound_end < 0 else self._sound_end

    @property
    def has_hole(self) -> bool:
        """True if damage is in the way: this member cannot go on as it is."""
        return self._sound_end < 0 and bool(self.store.damage)

    @property
    def synced(self) -> int:
        """The last number that a power cut cannot take."""
        return min(self.keeper.synced, self.last) if self.keeper is not None else 0

    @property
    def newest_time(self) -> int:
        return self.store.newest_time

    @property
    def room(self) -> int:
        return self.store.room

    @property
    def path(self) -> str:
        return self.store.path

    @property
    def highest_error(self) -> OSError | None:
        return self.store.highest_error

    def attach(self, keeper: Keeper, syncs_each: bool) -> None:
        """Let this keeper say what is synced; `syncs_each`: it syncs after each write."""
        self.keeper = keeper
        if syncs_each:
            self._written = keeper.sync_soon

    def use_keeper(
        self,
        sync_soon: Callable[[], object],
        wait_for_sync: Callable[[], object],
        run_alone: Callable[[Callable[[], None]], None],
    ) -> None:
        self.store.use_keeper(sync_soon, wait_for_sync, run_alone)

    def reserve(self, need: int) -> None:
        self.store.reserve(need)

    def write(self, view: memoryview, first: int, last: int, time: int, ids: bool) -> None:
        """Append a batch of the coordinator's sequencer."""
        self.store.write(view, first, last, time, ids)
        self._remember(Records(first, last, self.store.epoch, bytes(view)))
        self._written()

    # The rest of a ReplicatedLog

    def epochs(self) -> Epochs:
        """Return (epoch, first number) pairs, oldest first; epoch 0 was before the cluster."""
        table = self.store.epochs(self.cluster_first)
        return tuple(entry for entry in table if entry[1] <= max(self.last, self.first - 1))

    def epoch_of(self, number: int) -> int:
        """Return the epoch of a number that is here, or of `first - 1`."""
        return self.store.epoch_of(number, self.cluster_first)

    def begin_epoch(self, epoch: int) -> None:
        self.store.begin_epoch(epoch)

    def append(self, records: Records, time: int, last_time: int, ids: bool) -> None:
        """Append records that the coordinator sent. OSError: nothing is appended."""
        data = bytes(records.data)  # the frame's buffer is used again
        if self._sound_end >= 0:
            self.truncate(self._sound_end)
        if records.epoch != self.store.epoch:
            self.store.begin_epoch(records.epoch)
        self.store.reserve(len(data))
        with memoryview(data) as view:
            self.store.write(view, records.first, records.last, time, ids, last_time)
        self._remember(records._replace(data=data))
        self._written()

    def read(self, after: int, most: int) -> Records | None:
        """Return records from `after` + 1 on, of one epoch; None if a thread must read first."""
        recent = self._recent
        if recent and recent[-1].first == after + 1 and len(recent[-1].data) <= most:
            return recent[-1]
        if recent and recent[0].first <= after + 1:
            place = bisect_right(recent, after + 1, key=lambda one: one.first)
            found = recent[place - 1]
            if found.first == after + 1 and len(found.data) <= most:
                return found
            assert isinstance(found.data, bytes), "a copy of its own"
            return self._part(found.data, len(found.data), after, most)
        return self._read_segment(after, most)

    def after(self, number: int) -> tuple[int, int]:
        """Return how many bytes come after this number, and the time of the first of them.

        For monitoring: exact to a batch in memory, and to an entry of the index on the disk.
        """
        if number >= self.last:
            return 0, 0
        newer = [records for records in self._recent if records.last > number]
        if newer and newer[0].first <= number + 1:
            walk = self._walk
            walk.attach(bytes(newer[0].data), 0, len(newer[0].data))
            walk.seek(number + 1)
            skipped, time = walk.after, 0
            if walk.skim() == RECORD:
                time = walk.time
            return sum(len(records.data) for records in newer) - skipped, time
        segment, offset = self.store.locate(number + 1)
        later = (one.size for one in self.store.segments() if one.first > segment.first)
        return segment.size - offset + sum(later), segment.oldest

    def truncate(self, number: int) -> None:
        """Remove everything above `number`, and sync that."""
        self._alone(lambda: self.store.truncate(number))
        self._sound_end = -1
        self._forget_synced(number)
        self._forget_reads()
        self.remembered = min(self.remembered, number)
        while self._recent and self._recent[-1].last > number:
            self._recent_bytes -= len(self._recent.pop().data)

    def reset_to(self, number: int, epoch: int, salt: int) -> None:
        """Remove everything, and go on after `number`; a new store adopts the cluster's journal."""

        def begin() -> None:
            assert self.memory.view is not None, "a coordinator has said so"
            self.store.adopt(self.memory.view.journal, salt)
            self.store.reset_to(number, epoch)

        self._alone(begin)
        self._sound_end = -1
        self._forget_synced(number)
        self._forget_reads()
        self.remembered = 0
        self._salted(self.store.salt)
        self._walk = Walk(self.store.salt)
        self._recent.clear()
        self._recent_bytes = 0

    # For the keeper (a DiskJournal)

    def next_over(self, now: int) -> int:
        return self.store.next_over(now)

    def retain(self, now: int, keep_from: int) -> list[tuple[int, int]]:
        """Delete messages over a limit, but none that a member needs."""
        return self.store.retain(now, self.keep_from)

    def check_files(self) -> None:
        self.store.check_files()

    def roll_if_due(self, now: int) -> None:
        self.store.roll_if_due(now)

    def sync(self) -> int:
        return self.store.sync()

    def note_ids(self, steady: int) -> None:
        self.store.note_ids(steady)

    def save_ids(self, now: Moment) -> None:
        self.store.save_ids(now)

    @property
    def report(self) -> list[tuple[str, str]]:
        return self.store.report

    def save_known_ids(self, now: Moment) -> None:
        self.store.save_known_ids(now)

    @property
    def is_crowded(self) -> bool:
        return self.store.is_crowded

    @property
    def bytes_put(self) -> int:
        return self.store.bytes_put

    def build_indexes(self) -> bool:
        return self.store.build_indexes()

    def close(self) -> None:
        self.store.close()

    def _forget_synced(self, number: int) -> None:
        """Forget syncs above this number: those records are gone, and their numbers given again."""
        if self.keeper is not None:
            self.keeper.synced = min(self.keeper.synced, number)

    def _alone(self, call: Callable[[], None]) -> None:
        """Change the store while its keeper's thread is idle."""
        if self.keeper is None:
            call()
        else:
            self.keeper.run_alone(call)

    def _remember(self, records: Records) -> None:
        self._recent.append(records)
        self._recent_bytes += len(records.data)
        while self._recent_bytes > RECENT_BYTES and len(self._recent) > 1:
            self._recent_bytes -= len(self._recent.popleft().data)

    def _part(self, data: bytes | bytearray, stop: int, after: int, most: int) -> Records | None:
        """Return the records after `after` in `data[:stop]`; None if no whole one is there."""
        walk = self._walk
        walk.attach(data, 0, stop)
        walk.seek(after + 1)
        while (state := walk.skim()) == RECORD and walk.number <= after:
            pass
        if state != RECORD or walk.number != after + 1:
            return None
        begin, epoch = walk.at, walk.epoch
        last = walk.stretch(most)
        with memoryview(data) as view:
            return Records(after + 1, last, epoch, bytes(view[begin : walk.after]))

    def _read_segment(self, after: int, most: int) -> Records | None:
        """Read from a segment if the system has it in memory; else let a thread read it first."""
        segment, offset = self._place_of(after + 1)
        size = max(most, READ_MIN)
        while True:
            if len(self._buffer) < size:
                self._buffer = bytearray(size)
            got = self._read_place(segment, offset, size)
            if got < 0:
                self._remember_place(after + 1, segment, offset)
                return None
            size = max(size, got)
            part = self._part(self._buffer, got, after, most)
            if part is not None:
                self._remember_place(part.last + 1, segment, offset + self._walk.after)
                if len(self._buffer) > BUFFER_KEPT:
                    self._buffer = bytearray(READ_MIN)
                return part
            skipped = self._walk.at  # records before the one that is wanted
            if offset + got >= segment.readable or (not skipped and size > 2 * LENGTH_MAX):
                raise OSError(errno.EIO, f"number {after + 1} cannot be read", segment.file)
            if skipped:
                offset += skipped
            elif got < size:  # the system has only the beginning of the record in memory
                self._fetch(segment, offset, size)
                self._remember_place(after + 1, segment, offset)
                return None
            else:
                size *= 4  # a long record

    def _read_place(self, segment: Segment, offset: int, size: int) -> int:
        """Have the buffer filled from here, and return how far; -1 if a thread must read first.

        Raises the `OSError` that the thread has met.
        """
        fetched = self._fetched
        if fetched is not None and fetched[:2] == (segment, offset):
            self._fetched = None
            if isinstance(fetched[2], OSError):
                raise fetched[2]
            self._buffer = fetched[2]
            return len(fetched[2])
        try:
            with memoryview(self._buffer) as view:
                return segment.read(offset, view[:size], False)
        except BlockingIOError:
            self._fetch(segment, offset, size)
            return -1

    def _place_of(self, number: int) -> tuple[Segment, int]:
        """Locate a number: mostly where another read has ended."""
        segment, offset = self._places.pop(number, (None, 0))
        if segment is None or segment.gone or number > segment.last:
            return self.store.locate(number)
        return segment, offset

    def _forget_reads(self) -> None:
        """Forget what was read, and where: other records take its place."""
        self._places.clear()
        self._fetched = None
        self._cuts += 1

    def _remember_place(self, number: int, segment: Segment, offset: int) -> None:
        self._places[number] = segment, offset
        if len(self._places) > PLACES_MAX:
            del self._places[next(iter(self._places))]

    def _fetch(self, segment: Segment, offset: int, size: int) -> None:
        """Let a thread read here, unless one is reading."""
        if self._reading:
            return
        self._reading = True
        cuts = self._cuts
        segment.hold()
        job = self._loop.run_in_executor(None, _read_ahead, segment, offset, size)

        def done(future: "asyncio.Future[bytearray]") -> None:
            self._reading = False
            segment.release()
            if not future.cancelled() and cuts == self._cuts:
                error = future.exception()
                if error is None or isinstance(error, OSError):
                    self._fetched = segment, offset, error or future.result()
            self._readable()

        job.add_done_callback(done)


def _sound_end(store: ReplicaStore) -> int:
    """Return the last number before damaged or missing ones; -1 if there are none."""
    if not store.damage:
        return -1
    return max(min(damage.first for damage in store.damage), store.first) - 1


def _read_ahead(segment: Segment, offset: int, size: int) -> bytearray:
    """Read from a segment, and let the system have in memory what follows; in a thread."""
    with suppress(OSError):  # only a hint
        os.posix_fadvise(segment.reading, offset, 2 * AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
    data = read_piece(segment, offset, size)
    at, end = offset + len(data), min(offset + AHEAD_BYTES, segment.size)
    with memoryview(bytearray(READ_MIN)) as view, suppress(OSError):  # who needs it meets it
        while at < end:
            at += segment.read(at, view[: end - at], True)
    return data
