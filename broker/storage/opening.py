"""Opens the journal according to the settings, and logs what recovery found."""

import logging
import time

from broker.settings.settings import Settings
from sequencer.journal.ring import Ring
from sequencer.journal.store import Store
from sequencer.msgids import Window, rebuild

log = logging.getLogger("seriatim")

SECOND = 1_000_000_000  # ns
LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def open_journal(settings: Settings) -> Store | Ring | None:
    """Open the store on disk, or the ring in memory, or neither. Raises `StoreError`."""
    journal = settings.journal
    if not journal.enabled:
        return Ring(journal.ring_bytes) if journal.ring_bytes else None
    begun = time.monotonic()
    store = Store.open(
        settings.store_dir,
        time.time_ns(),
        segment_bytes=journal.segment_limit,
        segment_age_ns=int(journal.segment_age * SECOND),
        retain_bytes=journal.retain_bytes,
        retain_age_ns=int(journal.retain_age * SECOND),
        retain_count=journal.retain_count,
        ordered=journal.sync != "never",
        accept_loss=journal.accept_loss,
    )
    for level, text in store.report:
        log.log(LEVELS[level], "Journal: %s", text)
    if journal.accept_loss:
        log.warning("Journal: --accept-loss is given: leave it out at the next start")
    log.info(
        "Journal %s in %s, epoch %d: numbers %d to %d, %d bytes, opened in %.2f s",
        *(store.journal, store.path, store.epoch, store.first, store.last, store.bytes),
        time.monotonic() - begun,
    )
    return store


def open_window(settings: Settings, store: Store | Ring | None) -> Window | None:
    """Return the ids of recently published messages, including those before the last stop."""
    journal = settings.journal
    if not journal.dedupe_window or not journal.dedupe_ids:
        return None
    window = Window(int(journal.dedupe_window * SECOND), journal.dedupe_ids)
    if isinstance(store, Store):
        since = max(time.time_ns() - window.window_ns, 0)
        rebuild(window, store.recent_ids(since, journal.dedupe_ids))
    return window
