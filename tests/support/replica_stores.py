"""Journals of a cluster's members for tests: records of any epoch, with times of their own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sequencer.journal.layout import ID_FLAG
from sequencer.journal.record import RecordBatch
from sequencer.journal.replica_store import ReplicaStore
from tests.support.stores import SECOND, WINDOW, headers_of, payload_of


def open_replica(path: Path | str, now: int = SECOND, **limits: Any) -> ReplicaStore:
    limits.setdefault("window_bytes", WINDOW)
    return ReplicaStore.open(str(path), now, **limits)


def said_in(epoch: int, number: int, size: int = 0) -> bytes:
    """What the message of this number and epoch says."""
    return b"epoch %d, " % epoch + payload_of(number, size)


def records_of(
    store: ReplicaStore, times: Sequence[int], epoch: int = 0, size: int = 0, ids: bool = False
) -> RecordBatch:
    """The next messages of a store, one for each of these times."""
    epoch = epoch or store.epoch
    batch = RecordBatch(store.salt, epoch)
    for number, time in enumerate(times, store.last + 1):
        fields = (b"orders", b"", headers_of(number) if ids else b"", said_in(epoch, number, size))
        batch.append_message(number, time, *fields, flags=ID_FLAG if ids else 0)
    return batch


def append(
    store: ReplicaStore, times: Sequence[int], epoch: int = 0, size: int = 0, ids: bool = False
) -> int:
    """Append messages as a follower does, in this epoch or the present one; the last number."""
    if epoch:
        store.begin_epoch(epoch)
    batch = records_of(store, times, epoch, size, ids)
    store.reserve(batch.end)
    with batch.view() as view:
        store.write(view, batch.first, batch.last, times[0], ids, times[-1])
    return store.last
