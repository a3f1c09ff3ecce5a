"""Opens the journal according to the settings, and logs what recovery found."""

import logging
import time

from broker.settings.settings import Settings
from broker.storage.member_store import refuse_member
from sequencer.journal.ring import Ring
from sequencer.journal.store import Store
from sequencer.msgids import Window, rebuild

log = logging.getLogger("seriatim")

SECOND = 1_000_000_000  # ns
ALONE = (
    "start it with --cluster NAME and --etcd, or give another directory with -sd; to make it a"
    " broker of its own, whose numbers are no longer the cluster's, delete FOLDER"
)
LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


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
    journal = kind.open(
        settings.store_dir,
        time.time_ns(),
        segment_bytes=chosen.segment_limit,
        segment_age_ns=int(chosen.segment_age * SECOND),
        retain_bytes=chosen.retain_bytes,
        retain_age_ns=int(chosen.retain_age * SECOND),
        retain_count=chosen.retain_count,
        window_bytes=chosen.window_bytes,
        accept_loss=chosen.accept_loss,
    )
    for level, text in journal.report:
        log.log(LEVELS[level], "Journal: %s", text)
    if chosen.accept_loss:
        log.warning("Journal: --accept-loss is given: leave it out at the next start")
    log.info(
        "Journal %s in %s, epoch %d: numbers %d to %d, %d bytes, opened in %.2f s",
        *(journal.id, journal.path, journal.epoch, journal.first, journal.last, journal.bytes),
        time.monotonic() - begun,
    )
    if not journal.direct:
        log.warning(
            "Journal: the file system of %s has no O_DIRECT: messages are written through the"
            " system's page cache, which costs more",
            journal.path,
        )
    return journal


def open_window(settings: Settings, journal: Store | Ring | None) -> Window | None:
    """Return the ids of recently published messages, including those before the last stop."""
    chosen = settings.journal
    if not chosen.dedupe_window or not chosen.dedupe_ids:
        return None
    window = Window(int(chosen.dedupe_window * SECOND), chosen.dedupe_ids)
    if isinstance(journal, Store):
        since = max(time.time_ns() - window.window_ns, 0)
        rebuild(window, journal.recent_ids(since, chosen.dedupe_ids))
    return window
