"""Opens the journal according to the settings, and logs what recovery found."""

import logging
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Self

from broker.runtime.clocks import moment
from broker.runtime.stopping import SIGNALS
from broker.settings.journal_settings import JournalSettings
from broker.settings.settings import Settings
from broker.storage.member_store import refuse_member
from sequencer.journal.errors import OpeningStopped, StoreLocked
from sequencer.journal.ring import Ring
from sequencer.journal.store import ScopeInStream, Store, StoreLimits
from sequencer.msgids import Window

log = logging.getLogger("seriatim")

SECOND = 1_000_000_000  # ns
ALONE = (
    "start it with --cluster NAME and --etcd, or give another directory with -sd; to make it a"
    " broker of its own, whose numbers are no longer the cluster's, delete FOLDER"
)
CLOSING_S = 10.0  # beyond `drain_timeout`, for a last sync
LOCK_POLL_S = 0.002  # between two attempts to lock a store; clients wait
TOLD_S = 1.0  # progress is reported this often
MEBIBYTE = 1 << 20
LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Watch:
    """Reports the progress of a long opening, and ends it when the broker is to stop.

    The event loop does not run meanwhile, so it cannot see a signal until afterwards.
    """

    def __init__(self) -> None:
        self._begun = self._told = time.monotonic()
        self._signal = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # others cannot set handlers
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signal = number

    def check(self, what: str) -> None:
        """Raise `OpeningStopped` after a signal."""
        if self._signal:
            name = signal.Signals(self._signal).name
            raise OpeningStopped(f"{name} while the journal was opened: {what}")

    def __call__(self, what: str, done: int, total: int) -> None:
        """Log progress, or raise `OpeningStopped` after a signal. Called every few MiB."""
        self.check(what)
        now = time.monotonic()
        if now - self._told >= TOLD_S:
            self._told = now
            sizes = (done // MEBIBYTE, total // MEBIBYTE)
            log.info("Journal: %s: %d of %d MiB, after %d s", what, *sizes, now - self._begun)


def open_journal(settings: Settings, member: bool = False) -> Store | Ring | None:
    """Open the journal on disk, or the ring in memory, or neither. Raises `StoreError`.

    The journal of a `member` of a cluster gets its epochs from the cluster.
    """
    chosen = settings.journal
    if not chosen.enabled:
        return Ring(chosen.ring_bytes) if chosen.ring_bytes else None
    begun = time.monotonic()
    kind: type[Store] = Store
    if member:
        from sequencer.journal.replica_store import ReplicaStore  # only if needed

        kind = ReplicaStore
    else:
        refuse_member(settings.store_dir, ALONE)
    with Watch() as watch:
        journal = _opened(kind, settings, watch)
    journal.prepare()  # the first message would wait for its pages, in the event loop
    _log_report(journal)
    if chosen.accept_loss:
        log.warning("Journal: --accept-loss is given: leave it out at the next start")
    log.info(
        "Journal %s in %s, epoch %d: %s, %d bytes, opened in %.2f s",
        *(journal.id, journal.path, journal.epoch, _kept(journal), journal.bytes),
        time.monotonic() - begun,
    )
    if not journal.direct:
        log.warning(
            "Journal: the file system of %s has no O_DIRECT: messages are written through the"
            " system's page cache, which costs more",
            journal.path,
        )
    return journal


def _opened(kind: type[Store], settings: Settings, watch: Watch) -> Store:
    """Open the store. If the broker that has it is stopping, wait for it: this one replaces it."""
    chosen = settings.journal
    begun = time.monotonic()
    told = False
    while True:
        try:
            return kind.open(
                settings.store_dir,
                time.time_ns(),
                window_bytes=chosen.window_bytes,
                accept_loss=chosen.accept_loss,
                progress=watch,
                **limits_of(chosen),
            )
        except StoreLocked as error:
            waited = time.monotonic() - begun
            if not error.is_leaving or waited > settings.limits.drain_timeout + CLOSING_S:
                raise
            if not told:
                log.info("Journal: process %d has it, and is stopping: waiting for it", error.pid)
            told = True
        watch.check("another broker was waited for")
        time.sleep(LOCK_POLL_S)


def limits_of(chosen: JournalSettings) -> StoreLimits:
    """Return how long segments may get, and how much is kept, as a store wants it."""
    return StoreLimits(
        segment_bytes=chosen.segment_limit,
        segment_age_ns=int(chosen.segment_age * SECOND),
        retain_bytes=chosen.retain_bytes,
        retain_age_ns=int(chosen.retain_age * SECOND),
        retain_count=chosen.retain_count,
    )


def open_window(
    settings: Settings,
    journal: Store | Ring | None,
    scope_in_stream: ScopeInStream | None = None,
) -> Window | None:
    """Return the ids of recently published messages, including those before the last stop.

    `scope_in_stream` tells where ids count in streams.
    """
    chosen = settings.journal
    if not chosen.dedupe_window or not chosen.dedupe_ids:
        return None
    window = Window(int(chosen.dedupe_window * SECOND), chosen.dedupe_ids)
    if isinstance(journal, Store):
        journal.keep_ids(window.window_ns, chosen.dedupe_ids, moment(), scope_in_stream)
        with Watch() as watch:
            told = len(journal.report)
            journal.refill_ids(window, watch)
            _log_report(journal, told)
    return window


def _log_report(journal: Store, begin: int = 0) -> None:
    for level, text in journal.report[begin:]:
        log.log(LEVELS[level], "Journal: %s", text)


def _kept(journal: Store) -> str:
    if journal.last < journal.first:
        return f"empty, {journal.first} is next"
    return f"numbers {journal.first} to {journal.last}"
