"""Journals for tests: messages identifiable by their number, and a reader that checks them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from sequencer.journal.layout import HEADER_SIZE, ID_FLAG, LENGTH_MAX, RECORD
from sequencer.journal.record import RecordBatch, Walk
from sequencer.journal.ring import Ring
from sequencer.journal.segment import Segment
from sequencer.journal.store import Store

SECOND = 1_000_000_000
BUFFER = 1 << 16
WINDOW = 1 << 20


def payload_of(number: int, size: int = 0) -> bytes:
    """What the message of this number says; longer than its number only where asked."""
    word = b"message %d." % number
    return (word * (size // len(word) + 1))[: max(size, len(word))]


def headers_of(number: int) -> bytes:
    return b"NATS/1.0\r\nNats-Msg-Id: id-%d\r\n\r\n" % number


def batch_of(
    store: Store | Ring, count: int = 1, *, size: int = 0, time: int = 0, ids: bool = False
) -> RecordBatch:
    """The next `count` messages of a store, all of one time."""
    batch = RecordBatch(store.salt, store.epoch)
    when = time or (store.last + 1) * SECOND
    for number in range(store.last + 1, store.last + 1 + count):
        headers = headers_of(number) if ids else b""
        flags = ID_FLAG if ids else 0
        payload = payload_of(number, size)
        fields = (b"orders.%d" % (number % 3), b"", headers, payload)
        batch.append_message(number, when, *fields, flags=flags)
    return batch


def give(store: Store | Ring, batch: RecordBatch) -> None:
    """Make room for a batch and write it."""
    store.reserve(batch.end)
    with batch.view() as view:
        store.write(view, batch.first, batch.last, batch.time, batch.ids)


def put(store: Store | Ring, count: int = 1, **how: Any) -> int:
    """Write that many messages in one batch; the last number."""
    give(store, batch_of(store, count, **how))
    return store.last


def read_from(store: Store | Ring, piece: Any, offset: int) -> Iterator[tuple[int, int, bytes]]:
    """Number, time and payload of the records from a place on, as a replay reads them.

    What is no good record is passed over, as the store says where the next one is.
    """
    walk = Walk(store.salt)
    buffer = bytearray(BUFFER)
    expected = 0
    while piece is not None:
        with memoryview(buffer) as view:
            got = piece.read(offset, view, True)
        if got == 0:
            piece = piece.following
            offset = piece.start if piece else 0
            continue
        walk.attach(buffer, 0, got)
        while walk.next() == RECORD and walk.number >= expected:
            expected = walk.number + 1
            payload = bytes(buffer[walk.payload : walk.payload + walk.payload_size])
            yield walk.number, walk.time, payload
        offset += walk.at
        if walk.at == 0:
            length = int.from_bytes(buffer[4:8], "little")
            if HEADER_SIZE <= got < length <= LENGTH_MAX and offset + length <= piece.size:
                buffer = bytearray((length + 7) & ~7)
                continue
            found = store.next_good(piece, offset, expected)
            if found is None:
                return
            piece, offset = found[:2]


def messages(store: Store | Ring) -> dict[int, tuple[int, bytes]]:
    """All that is in a store, by number: time and payload."""
    found = list(read_from(store, *store.locate(store.first)))
    numbers = [number for number, _, _ in found]
    assert numbers == sorted(set(numbers)), "in the order of their numbers, each once"
    return {number: (time, payload) for number, time, payload in found}


def sync_piece(store: Store, number: int) -> Segment:
    """The segment of this number, with all that it has on the disk, and read from there."""
    store.sync()
    piece = next(one for one in store.segments() if one.first <= number <= one.last)
    piece.kept = piece.size
    return piece


def abandon(store: Store) -> None:
    """Let go of a store as the end of its process would: nothing is written, nothing synced."""
    for segment in store._segments:
        segment.close()
        segment.leave_window()
    for segment in store._unsynced:
        segment.close()
    store._highest.close()
    store._mover.close()
    store._window.close(False)
    os.close(store._lock)


def open_store(path: Path | str, now: int = SECOND, **limits: Any) -> Store:
    limits.setdefault("window_bytes", WINDOW)
    return Store.open(str(path), now, **limits)


@contextmanager
def in_memory() -> Iterator[Path]:
    """A directory for tests that open thousands of stores, none of which must outlast anything."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    # On a slow machine a keeper's thread may still write there while it is removed.
    directory = TemporaryDirectory(dir=memory, ignore_cleanup_errors=True)
    with pytest.MonkeyPatch.context() as patch, directory as path:
        patch.setattr(os, "fsync", lambda fd: None)
        patch.setattr(os, "fdatasync", lambda fd: None)
        yield Path(path)


def full(store: Store, count: int, **how: Any) -> None:
    """Fill a store message by message, each in a batch of its own."""
    for _ in range(count):
        put(store, **how)


def files(path: Path, suffix: str) -> list[str]:
    return sorted(file.name for file in path.iterdir() if file.name.endswith(suffix))
