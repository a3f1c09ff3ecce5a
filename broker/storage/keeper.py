"""The store's housekeeping: what is synced when, what is deleted, and what a full disk means.

    interval   every `sync_interval` a thread syncs what was written
    always     what is written waits at the gate; one sync in the thread for all that waits,
               and the next one begins when it is done, for all that came meanwhile
    never      the system writes when it likes

In every mode the thread also syncs when many segments wait for that, for each has a file open.

A store that cannot take more holds the sequencer back: publishers are refused before they
get a number, everything else goes on, and every quarter of a second it is tried again.
"""

import asyncio
import errno
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from broker.dataplane.gate import Gate
from broker.replay.replays import Replays
from broker.settings.journal_settings import JournalSettings

log = logging.getLogger("seriatim")

NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
RETRY = 0.25  # seconds; long enough that a full disk costs nothing, short enough that nobody waits
PATIENCE = 10.0  # seconds for which who reads nothing may keep a deleted file on the disk
RETAIN = 0.5  # seconds between two looks at what is to be deleted


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
        self._begun = 0.0
        self._retain_at = 0.0
        self._sync_due = False
        self._syncing: asyncio.Future[int] | None = None
        self._sync_failed = False
        self._short = False  # of descriptors, and the log has said so
        self._sync_timer: asyncio.TimerHandle | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self._retry_timer: asyncio.TimerHandle | None = None
        self._full_since = 0.0
        self._stopping = False
        self._unnoted = False  # the highest number could not be noted, and the log says so
        self._awaited: list[tuple[int, Callable[[], None]]] = []  # who wants what on the disk
        self._refused: list[Callable[[], None]] = []  # who waits until the store takes more

    def start(self) -> None:
        """Begin to look after the store."""
        self._tick()

    # What the sequencer and the gate tell

    def trouble(self, error: OSError) -> None:
        """The store has no room, or did not take what was written."""
        self.errors += 1
        self.problem = error.strerror or str(error)
        if self._full_since == 0.0:
            self._full_since = self._loop.time()
            log.error("Journal: %s: publishers are refused until it takes more", self.problem)
        if self._retry_timer is None and not self._stopping:
            self._retry_timer = self._loop.call_later(RETRY, self._retry)

    def unsafe(self) -> None:
        """Something at the gate waits until it is safe."""
        if self._settings.sync != "always" or self._sync_failed or self._sync_due:
            return
        if self._stopping:
            return  # closing the store syncs it
        if self._sequencer.safe == self._sequencer.written:
            return  # it is not even written; `_resume` asks again
        if self._syncing is None:
            self._sync_due = True
            self._loop.call_soon(self._sync)  # when all of this turn were heard

    # What others ask

    def when_synced(self, number: int, tell: Callable[[], None]) -> None:
        """Call `tell` when all up to `number` is on the disk, whatever `sync` says; soon."""
        self._awaited.append((number, tell))
        self._sync_awaited()

    def when_roomy(self, tell: Callable[[], None]) -> None:
        """Call `tell` when the store, which has just refused something, takes messages again."""
        self._refused.append(tell)

    def sync_soon(self) -> None:
        """Sync, whatever `sync` says, unless that is under way."""
        busy = self._syncing is not None or self._sync_due or self._sync_failed or self._stopping
        if not busy:
            self._sync_due = True
            self._loop.call_soon(self._sync)

    def _sync_awaited(self) -> None:
        """Tell whose numbers are on the disk, and begin a sync for the others."""
        told = [tell for number, tell in self._awaited if number <= self.synced]
        self._awaited = [one for one in self._awaited if one[0] > self.synced]
        for tell in told:
            tell()
        if any(number <= self.store.last for number, _ in self._awaited):
            self.sync_soon()

    # Syncing

    def _tick(self) -> None:
        """What is due by time: a sync, a new segment, deletions."""
        now = time.time_ns()
        idle = self._syncing is None and not self._sync_failed and not self._sync_due
        if self._settings.sync == "interval" and idle and self.store.last > self.synced:
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
                log.info("Journal: deleted numbers %d to %d, beyond what is retained", first, last)
        except OSError as error:
            log.error("Journal: cannot delete %s: %s", error.filename, error.strerror)
        try:
            self.store.build_indexes()
        except OSError as error:  # it is tried again; a full disk must not keep retention from it
            log.warning("Journal: no index was written: %s", error.strerror)

    def _sync(self) -> None:
        """Have the thread sync what is written by now."""
        self._sync_due = False
        if self._stopping:
            return  # closing the store syncs it, and after that it is another broker's
        if not self._sequencer.stuck:  # what could not be written is not synced either
            self._gate.seal()
        self._begun = self._loop.time()
        self._syncing = self._loop.run_in_executor(self._thread, self.store.sync)
        self._syncing.add_done_callback(self._synced)

    def _synced(self, future: "asyncio.Future[int]") -> None:
        self._syncing = None
        self.syncs += 1
        self.sync_seconds += self._loop.time() - self._begun
        error = future.exception()
        if isinstance(error, OSError) and error.errno in NO_DESCRIPTOR:
            self._sync_later(error)
            return
        if isinstance(error, OSError):
            self._sync_failed = True
            self._sequencer.hold_back()
            self.trouble(error)
            return
        self._short = False
        self.synced = future.result()
        self._tell_unnoted()
        self._let_out(self.synced)
        if self._sequencer.safe < self._sequencer.written:
            self.unsafe()
        self._sync_awaited()

    def _sync_later(self, error: OSError) -> None:
        """The disk was not asked, for it took one more open file: nothing has failed."""
        if not self._short:
            self._short = True
            log.error("Journal: %s: synced later; raise the limit (ulimit -n)", error.strerror)
        if self._sync_timer is None and not self._stopping:
            self._sync_timer = self._loop.call_later(RETRY, self._sync_now)

    def _sync_now(self) -> None:
        self._sync_timer = None
        if self._syncing is None and not self._sync_due and not self._stopping:
            self._sync()

    def _tell_unnoted(self) -> None:
        """Tell once that the highest number is not noted: a shortened journal would not show."""
        error = self.store.highest_error
        if error is not None and not self._unnoted:
            log.warning("Journal: %s: %s", error.filename or "the highest number", error.strerror)
        self._unnoted = error is not None

    def _let_out(self, number: int) -> None:
        self._sequencer.synced(number)
        self._gate.let_out()
        self._replays.wake_all()
        self._replays.advance()

    # Trouble

    def _retry(self) -> None:
        """Try whether the store takes more by now."""
        self._retry_timer = None
        if self._sync_failed:
            future = self._loop.run_in_executor(self._thread, self._sync_again)
            future.add_done_callback(self._synced_again)
        else:
            self._resume()

    def _sync_again(self) -> int:
        """In the thread: what a failed sync may have dropped is written again, then synced."""
        self.store.rewrite_unsynced()
        number: int = self.store.sync()
        return number

    def _synced_again(self, future: "asyncio.Future[int]") -> None:
        error = future.exception()
        if isinstance(error, OSError):
            self.trouble(error)
            return
        self._sync_failed = False
        self.synced = future.result()
        self._let_out(self.synced)
        self._sync_awaited()
        self._resume()

    def _resume(self) -> None:
        try:
            self._sequencer.resume()
        except OSError as error:
            self.trouble(error)
            return
        lasted = self._loop.time() - self._full_since
        self._full_since = 0.0
        self.problem = ""
        log.info("Journal: takes messages again, after %.1f s", lasted)
        if self._settings.sync == "always":
            self.unsafe()
        else:
            self._gate.seal()
            self._let_out(self._sequencer.written)
        self._sync_awaited()
        refused, self._refused = self._refused, []
        for tell in refused:
            tell()

    # The end

    async def stop(self) -> None:
        """Write, sync and close; what could not be written was shown to nobody."""
        self._stopping = True
        for timer in (self._tick_timer, self._retry_timer, self._sync_timer):
            if timer is not None:
                timer.cancel()
        if self._syncing is not None:
            await asyncio.wait({self._syncing})
        await self._loop.run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    def _close(self) -> None:
        try:
            self.store.close()
        except OSError as error:
            log.error("Journal: %s: %s", self.store.path, error.strerror)
