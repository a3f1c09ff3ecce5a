"""The store's housekeeping: what is synced when, what is deleted, and what a full disk means."""

import asyncio
import enum
import errno
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from broker.dataplane.gate import Gate
from broker.replay.replays import Replays
from broker.settings.journal_settings import JournalSettings

# Theory of operation
#
# What is written is in the system's memory; it is on the disk only after a sync, which takes
# milliseconds and must not stop the loop. So one thread syncs, one sync at a time, and each serves
# all that was written before it began. `--sync` says what asks for a sync:
#
#     interval   the clock: every `sync_interval`, if something was written
#     always     the gate: what is written waits there until it is synced (see `unsafe`)
#     never      nothing: the system writes when it likes
#
# In every mode a sync is also asked for by whoever waits for a number (`when_synced`), and when
# many segments wait for one, for each has a file open (`sync_soon`). The states:
#
#     IDLE --- asked --------> DUE --- end of the turn ---> SYNCING --- done ---> IDLE
#       `----- the clock, which need not wait for it ---------^ |`- no descriptor -> IDLE, and
#                                                               |    asked again after RETRY
#                                                               v
#     IDLE <-- done --- RETRYING <--- after RETRY ----------- FAILED
#                          `--------- failed again -------------^
#
# DUE lasts until the end of this turn of the loop: one sync serves all that the turn has brought.
# In SYNCING nothing more is asked for: its end looks whether something was written meanwhile.
#
# FAILED is different from a sync that is late: the kernel has called its pages clean, and the next
# sync would say yes to what never reached the disk. So RETRYING writes all that again first. Until
# it is done nothing new is synced, and nothing that waits at the gate is let out.
#
# STOPPING may follow any of them and is never left. No sync begins there: the close syncs all.
#
# The room on the disk is a matter of its own. A store that cannot take more (or whose sync fails)
# is *refusing*: the sequencer is held back, so publishers are refused before they get a number, and
# everything else goes on. Every RETRY it is tried again, until `_resume` ends it.

log = logging.getLogger("seriatim")

NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
RETRY = 0.25  # seconds; long enough that a full disk costs nothing, short enough that nobody waits
PATIENCE = 10.0  # seconds for which who reads nothing may keep a deleted file on the disk
RETAIN = 0.5  # seconds between two looks at what is to be deleted


class SyncState(enum.Enum):
    """What the keeper does about syncing, as drawn above."""

    IDLE = enum.auto()
    DUE = enum.auto()
    SYNCING = enum.auto()
    FAILED = enum.auto()
    RETRYING = enum.auto()
    STOPPING = enum.auto()


IDLE, DUE, SYNCING, FAILED, RETRYING, STOPPING = SyncState


class Keeper:
    """One per broker with a store on disk. Its thread does one thing at a time."""

    def __init__(
        self,
        gate: Gate,
        replays: Replays,
        settings: JournalSettings,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.store = replays.journal
        self.store.crowded = self.sync_soon
        self.syncs = 0
        self.sync_seconds = 0.0
        self.errors = 0
        self.refused = 0  # messages for which there was no room
        self.problem = ""  # why nothing is taken at the moment
        self._gate = gate
        self._sequencer = gate.sequencer
        self._replays = replays
        self._settings = settings
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="journal")
        self.synced = 0  # the last number that is on the disk for sure
        self._state = IDLE
        self._job: asyncio.Future[int] | None = None  # of SYNCING and RETRYING
        self._begun = 0.0
        self._retain_at = 0.0
        self._short = False  # of descriptors, and the log has said so
        self._sync_timer: asyncio.TimerHandle | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self._retry_timer: asyncio.TimerHandle | None = None
        self._refusing_since = 0.0  # by the loop's clock; 0: the store takes messages
        self._unnoted = False  # the highest number could not be noted, and the log says so
        self._awaited: list[tuple[int, Callable[[], None]]] = []  # by number, what to call
        self._refused: list[Callable[[], None]] = []  # what to call when the store takes more

    def start(self) -> None:
        """Begin to look after the store."""
        self._tick()

    def _enter(self, state: SyncState) -> None:
        if self._state is not STOPPING:
            self._state = state

    @property
    def is_stopping(self) -> bool:
        """Whether the store is being closed."""
        return self._state is STOPPING

    # What the sequencer and the gate report

    def trouble(self, error: OSError) -> None:
        """The store has no room, or did not take what was written."""
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
        """Something at the gate waits until it is safe."""
        if self._settings.sync != "always":
            return
        if self._sequencer.safe == self._sequencer.written:
            return  # it is not even written; `_resume` asks again
        self.sync_soon()

    # What others ask

    def when_synced(self, number: int, call: Callable[[], None]) -> None:
        """Call back when all up to `number` is on the disk, whatever `sync` says; soon."""
        self._awaited.append((number, call))
        self._sync_awaited()

    def when_roomy(self, call: Callable[[], None]) -> None:
        """Call back when the store, which has just refused something, takes messages again."""
        self._refused.append(call)

    def sync_soon(self) -> None:
        """Sync, whatever `sync` says, unless that is under way, or must wait."""
        if self._state is IDLE:
            self._enter(DUE)
            self._loop.call_soon(self._sync)  # when all of this turn were heard

    def _sync_awaited(self) -> None:
        """Call those whose numbers are on the disk, and have a sync for the others."""
        synced = [call for number, call in self._awaited if number <= self.synced]
        self._awaited = [one for one in self._awaited if one[0] > self.synced]
        for call in synced:
            call()
        if any(number <= self.store.last for number, _ in self._awaited):
            self.sync_soon()

    # Syncing

    def _tick(self) -> None:
        """What is due by time: a sync, a new segment, deletions."""
        now = time.time_ns()
        unsynced = self.store.last > self.synced
        if self._settings.sync == "interval" and self._state is IDLE and unsynced:
            self._sync()
        if self._loop.time() >= self._retain_at:
            self._retain_at = self._loop.time() + RETAIN
            try:
                self.store.roll_if_due(now)
            except OSError as error:
                log.error("Journal: no new segment: %s", error.strerror)
            self._replays.let_go(PATIENCE)
            self._loop.run_in_executor(self._thread, self._tidy, now)
        delay = self._settings.sync_interval if self._settings.sync == "interval" else RETAIN
        self._tick_timer = self._loop.call_later(delay, self._tick)

    def _tidy(self, now: int) -> None:
        """In the thread, for a file of 256 MiB is not deleted in no time, nor is its index made."""
        try:
            for first, last in self.store.retain(now):
                log.info("Journal: deleted numbers %d to %d, by the retention limits", first, last)
        except OSError as error:
            log.error("Journal: cannot delete %s: %s", error.filename, error.strerror)
        try:
            self.store.build_indexes()
        except OSError as error:  # it is tried again; a full disk must not keep retention from it
            log.warning("Journal: no index was written: %s", error.strerror)

    def _sync(self) -> None:
        """Have the thread sync what is written by now."""
        if self._state is STOPPING:
            return  # closing the store syncs it, and after that it is another broker's
        if not self._sequencer.stuck:  # what could not be written is not synced either
            self._gate.seal()
        self._enter(SYNCING)
        self._begun = self._loop.time()
        self._job = self._loop.run_in_executor(self._thread, self.store.sync)
        self._job.add_done_callback(self._synced)

    def _synced(self, future: "asyncio.Future[int]") -> None:
        self._job = None
        self._enter(IDLE)
        self.syncs += 1
        self.sync_seconds += self._loop.time() - self._begun
        error = future.exception()
        if isinstance(error, OSError) and error.errno in NO_DESCRIPTOR:
            self._sync_later(error)
            return
        if isinstance(error, OSError):
            self._enter(FAILED)
            self._sequencer.hold_back()
            self.trouble(error)
            return
        self._short = False
        self.synced = future.result()
        self._report_unnoted()
        self._release_safe(self.synced)
        if self._sequencer.safe < self._sequencer.written:
            self.unsafe()
        self._sync_awaited()

    def _sync_later(self, error: OSError) -> None:
        """The disk was not asked, for it took one more open file: nothing has failed."""
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
        """Log once that the highest number is not noted: a shortened journal would not show."""
        error = self.store.highest_error
        if error is not None and not self._unnoted:
            log.warning("Journal: %s: %s", error.filename or "the highest number", error.strerror)
        self._unnoted = error is not None

    def _release_safe(self, number: int) -> None:
        self._sequencer.synced(number)
        self._gate.release_safe()
        self._replays.wake_all()
        self._replays.advance()

    # Trouble

    def _retry(self) -> None:
        """Try whether the store takes more by now."""
        self._retry_timer = None
        if self._state is FAILED:
            self._enter(RETRYING)
            self._job = self._loop.run_in_executor(self._thread, self._sync_again)
            self._job.add_done_callback(self._synced_again)
        elif self._state is not RETRYING:  # else its end will say
            self._resume()

    def _sync_again(self) -> int:
        """In the thread: what a failed sync may have dropped is written again, then synced."""
        self.store.rewrite_unsynced()
        number: int = self.store.sync()
        return number

    def _synced_again(self, future: "asyncio.Future[int]") -> None:
        self._job = None
        error = future.exception()
        if isinstance(error, OSError):
            self._enter(FAILED)
            self.trouble(error)
            return
        self._enter(IDLE)
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
        lasted = self._loop.time() - self._refusing_since
        self._refusing_since = 0.0
        self.problem = ""
        log.info("Journal: messages can be written again, after %.1f s", lasted)
        if self._settings.sync == "always":
            self.unsafe()
        else:
            self._gate.seal()
            self._release_safe(self._sequencer.written)
        self._sync_awaited()
        refused, self._refused = self._refused, []
        for call in refused:
            call()

    # The end

    async def stop(self) -> None:
        """Write, sync and close; what could not be written was shown to nobody."""
        self._state = STOPPING
        for timer in (self._tick_timer, self._retry_timer, self._sync_timer):
            if timer is not None:
                timer.cancel()
        if self._job is not None:
            await asyncio.wait({self._job})
        await self._loop.run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    def _close(self) -> None:
        try:
            self.store.close()
        except OSError as error:
            log.error("Journal: %s: %s", self.store.path, error.strerror)
