"""Maintains the journal on disk: syncs it, deletes old segments, and handles a full disk."""

import asyncio
import contextlib
import enum
import errno
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from broker.dataplane.gate import Gate
from broker.replay.replays import Replays
from broker.runtime.clocks import SteadyTime, moment, steady_ns
from broker.runtime.durations import Durations
from broker.settings.journal_settings import JournalSettings
from sequencer.journal.kept_ids import Moment
from sequencer.journal.subject_builder import SubjectBuilder
from sequencer.sequencer import Sequencer

# Theory of operation
#
# Messages are first written to the journal window, in the system's memory. A sync moves them to the
# segments on the disk. That takes milliseconds and must not block the loop, so one thread does it.
# It does one sync at a time, each for everything written before it began. `--sync` decides what
# requests a sync:
#
#     interval   the clock: every `sync_interval`, if something was written
#     always     the gate: written messages wait there until they are synced (see `unsafe`)
#     never      nothing
#
# In every mode, a sync is also requested for a number that is waited for (`when_synced`), and
# when much is unsynced (`is_crowded`): the window has only so much room, and each unsynced segment
# has a file open. The states:
#
#     IDLE --- asked --------> DUE --- end of the turn ---> SYNCING --- done ---> IDLE
#       `----- the clock, which need not wait for it ---------^ |`- no descriptor -> IDLE, and
#                                                               |    asked again after RETRY
#                                                               v
#     IDLE <-- done --- RETRYING <--- after RETRY ----------- FAILED
#                          `--------- failed again -------------^
#
# DUE lasts until the end of this turn of the loop: one sync serves everything from that turn. In
# SYNCING nothing more is requested: when it ends, it checks whether something was written since.
#
# FAILED differs from a late sync: messages moved since the last one may not be on the disk. The
# window still contains them, and RETRYING moves them again. Until then, the gate releases nothing
# that waits. FAILED is also entered when the store's files are not where they were.
#
# STOPPING may follow any state and is final. No sync begins there: closing syncs everything.
#
# Room on the disk is a separate matter. If a store cannot take more (or its sync fails), it is
# *refusing*: the sequencer is held back, so publishers are refused before they get a number, and
# everything else goes on. The store is tried again every RETRY, until `_resume` ends the refusal.

log = logging.getLogger("seriatim")

NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
PROGRESS = 0.005  # seconds between two checks for room in the window, while it is waited for
RETRY = 0.25  # seconds; long enough to cost nothing on a full disk, short enough not to be noticed
PATIENCE = 10.0  # seconds that an idle reader may keep a deleted file on the disk
RETAIN = 0.5  # seconds between two checks of what to delete
AHEAD = 1.0  # seconds: what NTP sets without a step is not reported
SECOND_NS = 1_000_000_000
# With more bytes published in RETAIN, a second look at each record would cost publishers a part of
# the processor that can be noticed. So what is not needed waits then until that is over. If
# somebody asks for last messages, they are worth it, unless the broker does hardly anything else.
BUSY_BYTES = 8 << 20
FLOOD_BYTES = 32 << 20
BUILD_STEPS = 4  # of 4 MiB at most, in one call: else the thread is in the way of a sync


class SyncState(enum.Enum):
    """The states of syncing, as drawn above."""

    IDLE = enum.auto()
    DUE = enum.auto()
    SYNCING = enum.auto()
    FAILED = enum.auto()
    RETRYING = enum.auto()
    STOPPING = enum.auto()


IDLE, DUE, SYNCING, FAILED, RETRYING, STOPPING = SyncState


class DiskJournal(Protocol):
    """The store that the keeper maintains. `write` and `reserve` are for the sequencer."""

    def use_keeper(
        self,
        sync_soon: Callable[[], object],
        wait_for_sync: Callable[[], object],
        run_alone: Callable[[Callable[[], None]], None],
    ) -> None:
        """Let a keeper do the syncs: see `Store.use_keeper`."""

    @property
    def path(self) -> str: ...
    @property
    def report(self) -> list[tuple[str, str]]: ...  # what was found in it: level and text
    @property
    def last(self) -> int: ...  # the number of the newest message
    @property
    def highest_error(self) -> OSError | None: ...
    @property
    def is_crowded(self) -> bool: ...  # a sync is due: too much is unsynced
    @property
    def bytes_put(self) -> int: ...  # that were written since it was opened
    def check_files(self) -> None:
        """Raise `OSError` if the files are not where they were: then nothing may be changed."""

    @property
    def newest_time(self) -> int: ...  # of the newest message, ns since 1970
    def roll_if_due(self, now: int) -> None:
        """Begin a new segment if the newest one is too old, or too long. Raises `OSError`."""

    def sync(self) -> int:
        """Sync everything that is written; return the last number that is safe then."""

    def next_over(self, now: int) -> int:
        """Return the first number to be kept, if messages are over a limit; 0 if none are."""

    def retain(self, now: int, keep_from: int) -> list[tuple[int, int]]:
        """Delete messages over a limit, not from this number on (0: any); return their numbers."""

    def note_ids(self, steady: int) -> None:
        """Record that everything up to the last number was received by this time."""

    def save_ids(self, now: Moment) -> None:
        """Write the data that gives the ages of ids after a stop."""

    def save_known_ids(self, now: Moment) -> None:
        """Write the ids that count: the journal is about to be closed."""

    def build_indexes(self) -> bool:
        """Write an index that is missing, or read 4 MiB for it; True: there is more to do."""

    def close(self) -> None:
        """Sync everything, and let another process write the store."""


class Keeper:
    """The keeper of a broker's store on disk. Its thread does one thing at a time."""

    def __init__(
        self,
        gate: Gate,
        journal: DiskJournal,
        replays: Replays,
        settings: JournalSettings,
        loop: asyncio.AbstractEventLoop,
        sequencer: Sequencer | None = None,
    ) -> None:
        self.journal = journal
        journal.use_keeper(self.sync_soon, self._wait, self.run_alone)
        self.syncs = Durations()  # from the request until the loop knows, failed ones too
        self.errors = 0
        self.refused = 0  # messages for which there was no room
        self.problem = ""  # why messages are refused at the moment
        self._gate = gate
        self._sequencer = sequencer or gate.sequencer  # a member of a cluster numbers elsewhere
        self._replays = replays
        self._settings = settings
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self.synced = 0  # the last number that is surely on the disk
        self._state = IDLE
        self._job: asyncio.Future[int] | None = None  # of SYNCING and RETRYING
        self._waited: Future[int] | None = None  # a sync for which the loop waits
        self._begun = 0.0
        self._retain_at = 0.0
        self._steady = SteadyTime()
        self._ahead = False  # logged: the newest message is dated in the future
        self._short = False  # logged: there was no free descriptor
        self._sync_timer: asyncio.TimerHandle | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self._retry_timer: asyncio.TimerHandle | None = None
        self._refusing_since = 0.0  # on the loop's clock; 0: the store takes messages
        self._unnoted = False  # logged: the highest number could not be noted
        self._subjects = SubjectBuilder(replays.journal)
        self._noted_put = 0  # `bytes_put` at the last look
        self._busy = False  # much was published in the time before it
        self._awaited: list[tuple[int, Callable[[], None]]] = []  # callbacks, by number
        # Is told which numbers are about to be deleted, those below one; it returns below which
        # number they may be, when they are not needed any more.
        self.before_deletion: Callable[[int], int] | None = None
        self._refused: list[Callable[[], None]] = []  # called when the store takes messages again

    def start(self) -> None:
        """Start maintaining the store."""
        self._tick()

    def change(self, settings: JournalSettings) -> None:
        """Take new settings; `sync` must not change."""
        self._settings = settings

    def _enter(self, state: SyncState) -> None:
        if self._state is not STOPPING:
            self._state = state

    # Called by the sequencer and the gate

    def trouble(self, error: OSError) -> None:
        """Refuse publishers, because the store has no room or a write failed."""
        self.errors += 1
        self.problem = error.strerror or str(error)
        if self._refusing_since == 0.0:
            self._refusing_since = self._loop.time()
            log.error(
                "Journal: %s: publishers are refused until the disk accepts writes",
                self.problem,
            )
        if self._retry_timer is None and self._state is not STOPPING:
            self._retry_timer = self._loop.call_later(RETRY, self._retry)

    def unsafe(self) -> None:
        """Request a sync, if one is needed for the messages that wait at the gate."""
        if self._settings.sync != "always":
            return
        if self._sequencer.safe == self._sequencer.written:
            return  # it is not even written; `_resume` asks again
        self.sync_soon()

    # Called by others

    def when_synced(self, number: int, call: Callable[[], None]) -> None:
        """Call back soon, when everything up to `number` is on the disk, whatever `sync` says."""
        self._awaited.append((number, call))
        self._sync_awaited()

    def when_roomy(self, call: Callable[[], None]) -> None:
        """Call back when the store, which has just refused something, takes messages again."""
        self._refused.append(call)

    def sync_soon(self) -> None:
        """Sync, whatever `sync` says, unless a sync is under way, or must wait."""
        if self._state is IDLE:
            self._enter(DUE)
            self._loop.call_soon(self._sync)  # after everything else in this turn

    def _sync_awaited(self) -> None:
        """Run the callbacks whose numbers are on the disk, and request a sync for the others."""
        synced = [call for number, call in self._awaited if number <= self.synced]
        self._awaited = [one for one in self._awaited if one[0] > self.synced]
        for call in synced:
            call()
        if any(number <= self.journal.last for number, _ in self._awaited):
            self.sync_soon()

    # Syncing

    def _tick(self) -> None:
        """Do what is due: a sync, a new segment, deletions."""
        unsynced = self.journal.last > self.synced
        if self._settings.sync == "interval" and self._state is IDLE and unsynced:
            self._sync()
        if self._loop.time() >= self._retain_at:
            self._retain_at = self._loop.time() + RETAIN
            self._look_at_clock()
            self.journal.note_ids(steady_ns())
            now = self._steady.now()  # a clock that was set ahead must not delete the journal
            try:
                self._sequencer.ask_again()
                self.journal.roll_if_due(now)
            except OSError as error:
                log.error("Journal: no new segment: %s", error.strerror)
            self._replays.let_go(PATIENCE)
            self._busy = self._is_flooded()
            self._noted_put = self.journal.bytes_put
            self._subjects.prepare()
            keep_from = 0
            if self.before_deletion is not None:
                keep_from = max(self.before_deletion(self.journal.next_over(now)), 1)
            job = self._loop.run_in_executor(self._thread, self._tidy, now, keep_from)
            job.add_done_callback(self._go_on_building)
        delay = self._settings.sync_interval if self._settings.sync == "interval" else RETAIN
        self._tick_timer = self._loop.call_later(delay, self._tick)

    def _look_at_clock(self) -> None:
        """Log that the newest message is dated in the future, and later that this time has come.

        Times never decrease, so until then every message gets that time. Ages do not depend on it.
        """
        ahead = (self.journal.newest_time - time.time_ns()) / SECOND_NS
        if ahead > AHEAD and not self._ahead:
            self._ahead = True
            log.warning(
                "Journal: the newest message is dated %.1f s after the clock of this machine, which"
                " is behind now, or was ahead: until it has caught up, all messages get that date",
                ahead,
            )
        elif ahead <= 0 and self._ahead:
            self._ahead = False
            log.info("Journal: the clock has caught up with the newest message")

    def _is_flooded(self) -> bool:
        """True if much was published since the last look."""
        most = FLOOD_BYTES if self._replays.asked_last else BUSY_BYTES
        return self.journal.bytes_put - self._noted_put > most

    def _tidy(self, now: int, keep_from: int) -> bool:
        """Delete old segments and build indexes; in the thread, as 256 MiB take a while.

        Nothing from number `keep_from` on is deleted; 0: no such bound. True if there is more to
        build.
        """
        try:
            self.journal.check_files()
        except OSError as error:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._misses_files, error)
            return False
        try:
            for first, last in self.journal.retain(now, keep_from):
                log.info("Journal: deleted numbers %d to %d, by the retention limits", first, last)
        except OSError as error:
            log.error("Journal: cannot delete %s: %s", error.filename, error.strerror)
        self._save_ids()
        return self._build()

    def _build(self) -> bool:
        """Build a part of the indexes that are missing, in the thread; True if there is more.

        While much is published, indexes of subjects wait, unless somebody needs them.
        """
        more = False
        try:
            for _ in range(BUILD_STEPS):
                told = len(self.journal.report)
                more = self.journal.build_indexes()
                for _, text in self.journal.report[told:]:
                    log.error("Journal: %s", text)
                if not self._busy or self._replays.asked_last:
                    more = self._subjects.step() or more
                if not more or self._job or self._waited or self._state is STOPPING:
                    break  # nothing is left, or something waits for this thread
        except OSError as error:  # it is retried; a full disk must not stop retention
            log.warning("Journal: no index was written: %s", error.strerror)
            return False
        return more

    def _go_on_building(self, future: "asyncio.Future[bool]") -> None:
        """Build on at once if there is more, and the broker has time for it."""
        if self._state is STOPPING or future.cancelled() or not future.result():
            return
        if self._busy or self._is_flooded():
            return  # a part with each look
        self._subjects.prepare()
        job = self._loop.run_in_executor(self._thread, self._build)
        job.add_done_callback(self._go_on_building)

    def _misses_files(self, error: OSError) -> None:
        """Fail as if a sync had: the store was removed or replaced. A sync under way will fail."""
        if self._state in (IDLE, DUE):
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        """Enter FAILED: written messages may not be on the disk, nor get there."""
        self._enter(FAILED)
        self._gate.sync_failed = True
        self._sequencer.hold_back()
        self.trouble(error)

    def _save_ids(self) -> None:
        try:
            self.journal.save_ids(moment())
        except OSError as error:
            log.warning("Journal: how old ids are was not written: %s", error.strerror)

    def _sync(self) -> None:
        """Let the thread sync what is written so far."""
        if self._state in (STOPPING, FAILED, RETRYING):
            return  # closing the store syncs it, and after that it belongs to another broker
        if not self._sequencer.stuck:  # unwritten messages cannot be synced
            self._gate.seal()
        self._enter(SYNCING)
        self._begun = self._loop.time()
        self._job = self._loop.run_in_executor(self._thread, self.journal.sync)
        self._job.add_done_callback(self._synced)

    def _synced(self, future: "asyncio.Future[int]") -> None:
        self._job = None
        self._enter(IDLE)
        self.syncs.observe(self._loop.time() - self._begun, 1)
        error = future.exception()
        if isinstance(error, OSError) and error.errno in NO_DESCRIPTOR:
            self._sync_later(error)
            return
        if isinstance(error, OSError):
            self._fail(error)
            return
        self._short = False
        self.synced = future.result()
        self._report_unnoted()
        self._release_safe(self.synced)
        if self._sequencer.safe < self._sequencer.written:
            self.unsafe()
        self._sync_awaited()
        if self.journal.is_crowded:
            self.sync_soon()

    def _sync_later(self, error: OSError) -> None:
        """Sync later: there was no free descriptor, so nothing was tried and nothing has failed."""
        if not self._short:
            self._short = True
            log.error("Journal: %s: synced later; raise the limit (ulimit -n)", error.strerror)
        if self._sync_timer is None and self._state is not STOPPING:
            self._sync_timer = self._loop.call_later(RETRY, self._sync_now)

    def _sync_now(self) -> None:
        self._sync_timer = None
        if self._state is IDLE:
            self._sync()

    def _report_unnoted(self) -> None:
        """Log once that the highest number is not noted: a truncated journal would go unnoticed."""
        error = self.journal.highest_error
        if error is not None and not self._unnoted:
            log.warning("Journal: %s: %s", error.filename or "the highest number", error.strerror)
        self._unnoted = error is not None

    def run_alone(self, call: Callable[[], None]) -> None:
        """Run `call` in the keeper's thread, after its current work, and wait for it.

        For the rare changes of the store that nothing else may overlap. Raises what `call` raises.
        """
        self._thread.submit(call).result()

    def _wait(self) -> None:
        """Wait until the thread has made room in the full window. Raises its `OSError`."""
        if self._waited is None or self._waited.done():  # an older one's error may have passed
            self._waited = self._thread.submit(self.journal.sync)
        try:
            self._waited.result(PROGRESS)
        except TimeoutError:
            return  # it has perhaps made room already
        except OSError:
            self._waited = None
            raise
        self._waited = None

    def _release_safe(self, number: int) -> None:
        self._sequencer.synced(number)
        self._gate.release_safe()
        self._replays.wake_all()
        self._replays.advance()

    # Errors

    def _retry(self) -> None:
        """Check whether the store takes more now."""
        self._retry_timer = None
        if self._state is FAILED:
            self._enter(RETRYING)
            self._job = self._loop.run_in_executor(self._thread, self.journal.sync)
            self._job.add_done_callback(self._synced_again)
        elif self._state is not RETRYING:  # else the end of that decides
            self._resume()

    def _synced_again(self, future: "asyncio.Future[int]") -> None:
        self._job = None
        error = future.exception()
        if isinstance(error, OSError):
            self._enter(FAILED)
            self.trouble(error)
            return
        self._enter(IDLE)
        self._gate.sync_failed = False
        self.synced = future.result()
        self._release_safe(self.synced)
        self._sync_awaited()
        self._resume()

    def _resume(self) -> None:
        try:
            self._sequencer.resume()
        except OSError as error:
            self.trouble(error)
            return
        self._mended()
        if self._settings.sync == "always":
            self.unsafe()
        else:
            self._gate.seal()
            self._release_safe(self._sequencer.written)
        self._sync_awaited()
        refused, self._refused = self._refused, []
        for call in refused:
            call()

    def _mended(self) -> None:
        """Log that the store takes messages again."""
        lasted = self._loop.time() - self._refusing_since
        self._refusing_since = 0.0
        self.problem = ""
        log.info("Journal: messages can be written again, after %.1f s", lasted)

    # Shutdown

    async def stop(self) -> None:
        """Write, sync and close; messages that could not be written were never shown."""
        self._state = STOPPING
        for timer in (self._tick_timer, self._retry_timer, self._sync_timer):
            if timer is not None:
                timer.cancel()
        if self._job is not None:
            await asyncio.wait({self._job})
        await self._loop.run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    def _close(self) -> None:
        self.journal.note_ids(steady_ns())
        self._save_ids()
        try:
            self.journal.save_known_ids(moment())
        except OSError as error:
            log.warning("Journal: ids were not saved: %s", error.strerror)
        try:
            self.journal.close()
        except OSError as error:
            log.error("Journal: %s: %s", self.journal.path, error.strerror)
