"""The journal as the broker uses it: what is written is found again, by number and by time."""

import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from sequencer.journal.errors import StoreError, StoreLocked
from sequencer.journal.header import START, stem
from sequencer.journal.segment import Segment
from sequencer.journal.store import UNSYNCED_MAX, Store
from sequencer.journal.window_file import SLABS_MAX
from tests.support.descriptors import no_descriptors
from tests.support.stores import (
    SECOND,
    WINDOW,
    abandon,
    batch_of,
    files,
    full,
    give,
    headers_of,
    messages,
    open_store,
    payload_of,
    put,
    read_from,
)

SMALL = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


def reopened(path: Path, count: int) -> Store:
    """A store with that many messages, none of which is in the window."""
    store = open_store(path)
    put(store, count)
    store.close()
    return open_store(path)


def build(store: Store) -> None:
    while store.build_indexes():
        pass


def test_given_no_directory_when_opened_then_a_store_is_made_and_is_empty(path: Path) -> None:
    store = open_store(path / "below")
    assert (store.first, store.last, store.bytes) == (1, 0, START)
    assert (store.oldest_time, store.newest_time, store.epoch) == (0, 0, 1)
    assert len(store.id) == 16
    assert store.report == []
    assert messages(store) == {}
    assert json.loads((path / "below/store.json").read_text())["journal"] == store.id
    store.close()


def test_given_messages_when_read_then_they_are_what_was_written(path: Path) -> None:
    store = open_store(path)
    put(store, 10)
    put(store, 5, size=100_000)
    assert (store.first, store.last) == (1, 15)
    found = messages(store)
    assert list(found) == list(range(1, 16))
    assert found[3] == (SECOND, payload_of(3))
    assert found[15] == (SECOND * 11, payload_of(15, 100_000))
    assert (store.oldest_time, store.newest_time) == (SECOND, 11 * SECOND)
    store.close()


def test_given_a_closed_store_when_opened_again_then_numbering_goes_on_in_a_new_epoch(
    path: Path,
) -> None:
    store = open_store(path)
    put(store, 3)
    store.close()
    again = open_store(path)
    assert (again.id, again.salt) == (store.id, store.salt)
    assert (again.first, again.last, again.epoch) == (1, 3, 2)
    assert again.report == []
    put(again, 2)
    assert list(messages(again)) == [1, 2, 3, 4, 5]
    again.close()


def test_given_segments_full_when_written_then_the_store_rolls_and_reads_across_them(
    path: Path,
) -> None:
    store = open_store(path, segment_bytes=SMALL)
    full(store, 200)
    store.sync()
    assert len(store.segments()) == len(files(path, ".segment")) > 3
    assert list(messages(store)) == list(range(1, 201))
    for before, after in zip(store.segments(), store.segments()[1:], strict=False):
        assert before.following is after
        assert before.last + 1 == after.first
        assert before.size == os.stat(before.file).st_size <= SMALL
    store.close()


def test_given_a_batch_longer_than_a_segment_when_written_then_it_is_a_segment_of_its_own(
    path: Path,
) -> None:
    store = open_store(path, segment_bytes=SMALL)
    put(store)
    put(store, 10, size=SMALL)
    put(store)
    assert [(one.first, one.last) for one in store.segments()] == [(1, 1), (2, 11), (12, 12)]
    assert messages(store)[7][1] == payload_of(7, SMALL)
    store.close()


def test_given_room_when_written_then_it_falls_and_reserving_raises_it(path: Path) -> None:
    store = open_store(path, segment_bytes=1 << 20)
    assert store.room == 0
    store.reserve(100)
    slab = WINDOW // SLABS_MAX
    assert store.room == slab - START, "the rest of a slab"
    assert os.stat(store.segments()[0].file).st_size == START
    before = store.room
    batch = batch_of(store)
    give(store, batch)
    assert store.room == before - batch.end
    store.close()
    assert os.stat(store.segments()[0].file).st_blocks < 100, "what was reserved is given back"


def test_given_a_filesystem_without_fallocate_when_reserved_then_room_counts_anyway(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sequencer.journal.segment.fallocate", lambda *args: False)
    store = open_store(path)
    put(store, 5)
    assert store.room > 0
    assert len(messages(store)) == 5
    store.close()


def test_given_an_age_when_the_oldest_is_older_then_the_store_rolls(path: Path) -> None:
    store = open_store(path, segment_age_ns=10 * SECOND)
    store.roll_if_due(100 * SECOND)
    put(store)
    store.roll_if_due(10 * SECOND)
    assert len(store.segments()) == 1
    store.roll_if_due(11 * SECOND)
    store.roll_if_due(50 * SECOND)
    assert [(one.first, one.last) for one in store.segments()] == [(1, 1), (2, 1)]
    put(store)
    assert list(messages(store)) == [1, 2]
    store.close()


def test_given_a_store_in_use_when_opened_again_then_the_error_names_the_process(
    path: Path,
) -> None:
    store = open_store(path)
    with pytest.raises(StoreLocked, match=f"process {os.getpid()} writes this store") as caught:
        open_store(path)
    assert caught.value.pid == os.getpid()
    store.close()
    open_store(path).close()


def test_given_a_file_in_its_place_when_opened_then_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file; a store is a directory"):
        open_store(tmp_path / "file")


def test_given_a_directory_that_may_not_be_written_when_opened_then_it_is_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, *args: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(StoreError, match=r"Permission denied; let this user write there"):
        open_store(path)


def test_given_sealed_segments_when_indexes_are_built_then_each_has_one_that_is_used(
    path: Path,
) -> None:
    store = open_store(path, segment_bytes=SMALL)
    full(store, 200)
    build(store)
    assert len(files(path, ".index")) == len(store.segments()) - 1
    assert all(one.marks is None for one in store.segments()[:-1])
    store.sync()
    assert [one.fd >= 0 for one in store.segments()] == [False] * (len(store.segments()) - 1) + [
        True
    ]
    abandon(store)
    again = open_store(path)
    assert all(one.indexed for one in again.segments()[:-1])
    assert list(messages(again)) == list(range(1, 201))
    again.close()


def test_given_indexes_lost_when_built_again_then_they_are_as_before(path: Path) -> None:
    store = open_store(path, segment_bytes=1 << 20)
    full(store, 300, size=9000, ids=True)
    build(store)
    store.close()
    before = {name: (path / name).read_bytes() for name in files(path, ".index")}
    for name in before:
        os.unlink(path / name)
    store = open_store(path)
    build(store)
    assert store.damage == []
    store.close()
    assert {name: (path / name).read_bytes() for name in files(path, ".index")} == before


def test_given_messages_with_ids_when_asked_for_then_the_newest_come_in_order(path: Path) -> None:
    store = open_store(path, segment_bytes=SMALL)
    for number in range(1, 301):
        put(store, ids=number % 4 == 0)
    build(store)
    found = list(store.recent_ids(0, 1000))
    assert found == [(n, n * SECOND, b"", headers_of(n), b"") for n in range(4, 301, 4)]
    assert [one[0] for one in store.recent_ids(0, 3)] == [292, 296, 300]
    assert [one[0] for one in store.recent_ids(201 * SECOND, 1000)] == list(range(204, 301, 4))
    store.close()
    for name in files(path, ".index"):
        os.unlink(path / name)
    again = open_store(path)
    assert [one[0] for one in again.recent_ids(201 * SECOND, 5)] == [284, 288, 292, 296, 300]
    again.close()


@pytest.mark.parametrize("indexed", [True, False])
def test_given_damage_between_messages_with_ids_when_asked_for_then_those_after_it_come(
    path: Path, indexed: bool
) -> None:
    store = open_store(path)
    put(store, 10, ids=True)
    store.roll(1)
    put(store, 1, ids=True)
    store.close()
    if not indexed:
        os.unlink(path / files(path, ".index")[0])
    segment = path / files(path, ".segment")[0]
    segment.write_bytes(segment.read_bytes().replace(payload_of(4), payload_of(4)[::-1]))
    again = open_store(path)
    assert [one[0] for one in again.recent_ids(0, 20)] == [1, 2, 3, *range(5, 12)]
    again.close()


def test_given_a_long_message_with_an_id_when_asked_for_then_it_comes(path: Path) -> None:
    store = open_store(path)
    put(store, size=9 << 20, ids=True)
    put(store, ids=True)
    assert [one[0] for one in store.recent_ids(0, 5)] == [1, 2]
    store.close()


def test_given_nothing_cached_when_read_without_waiting_then_it_is_refused_or_read(
    path: Path,
) -> None:
    store = open_store(path)
    put(store, 100, size=9000)
    store.sync()
    piece = store.segments()[0]
    fd = os.open(piece.file, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    into = bytearray(8192)
    try:
        got = piece.read(START, memoryview(into), False)
    except BlockingIOError:
        got = piece.read(START, memoryview(into), True)
    assert into[:got] == Path(piece.file).read_bytes()[START : START + got]
    store.close()


def test_given_a_filesystem_without_nowait_when_read_then_it_waits_from_then_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = reopened(path, 1)
    monkeypatch.setattr(Segment, "nowait", True)
    whole = os.preadv

    def refuse(fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
        if flags:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return whole(fd, buffers, offset)

    monkeypatch.setattr(os, "preadv", refuse)
    assert store.segments()[0].read(START, memoryview(bytearray(10)), False) == 10
    assert not Segment.nowait
    store.close()


def test_given_a_file_cut_under_a_reader_when_read_then_it_is_an_error_and_no_end(
    path: Path,
) -> None:
    store = reopened(path, 3)
    os.truncate(store.segments()[0].file, START)
    with pytest.raises(OSError, match="the file ends before byte"):
        store.segments()[0].read(START, memoryview(bytearray(10)), True)
    abandon(store)


def test_given_a_keeper_at_work_when_the_writer_writes_then_neither_disturbs_the_other(
    path: Path,
) -> None:
    store = open_store(path, segment_bytes=SMALL, retain_bytes=20 * SMALL)
    faults: list[BaseException] = []
    stop = threading.Event()
    safe = [0]
    one = threading.Lock()  # a sync is by one of them, as broker/storage/keeper.py sees to

    def sync() -> int:
        with one:
            return store.sync()

    store.use_keeper(lambda: None, sync, lambda call: call())

    def keep() -> None:
        try:
            while not stop.is_set():
                safe.append(sync())
                with one:
                    store.retain(SECOND)
                    store.build_indexes()
        except BaseException as error:
            faults.append(error)

    keeper = threading.Thread(target=keep)
    keeper.start()
    for number in range(1, 3001):
        put(store)
        if number % 50 == 0:
            piece, offset = store.locate(max(store.first, number - 100))
            piece.hold()
            for found, _, payload in read_from(store, piece, offset):
                assert payload == payload_of(found)
                break
            piece.release()
    stop.set()
    keeper.join()
    assert faults == []
    assert safe == sorted(safe)
    build(store)
    store.retain(SECOND)
    assert list(messages(store)) == list(range(store.first, 3001))
    assert store.sync() == 3000
    assert store.bytes == sum(one.size for one in store.segments())
    store.close()
    assert stem(store.first) + ".segment" in files(path, ".segment")


def test_given_no_descriptor_for_a_new_segment_then_the_newest_grows_on(path: Path) -> None:
    store = open_store(path, segment_bytes=SMALL)
    with no_descriptors():
        full(store, 30, size=1000)
    assert store.last == 30
    assert len(store.segments()) == 1
    full(store, 1, size=1000)
    assert len(store.segments()) == 2, "it is tried again"
    store.close()
    store = open_store(path)
    assert sorted(messages(store)) == list(range(1, 32))
    store.close()


def test_given_no_descriptor_when_synced_then_nothing_is_taken_for_lost(path: Path) -> None:
    store = open_store(path, segment_bytes=SMALL)
    full(store, 10, size=1000)
    with no_descriptors(), pytest.raises(OSError, match="Too many open files"):
        store.sync()
    assert store.sync() == 10
    assert sorted(messages(store)) == list(range(1, 11))
    store.close()


def test_given_a_late_keeper_then_few_segments_are_open_and_retention_catches_up(
    path: Path,
) -> None:
    store = open_store(path, segment_bytes=SMALL, retain_bytes=2 * SMALL, window_bytes=4 * WINDOW)
    full(store, 4 * UNSYNCED_MAX, size=SMALL)
    store.roll_if_due(1)
    assert len(store.segments()) == UNSYNCED_MAX
    store.sync()
    store.roll_if_due(1)
    assert len(store.segments()) == UNSYNCED_MAX + 1
    assert store.retain(1)[-1][1] == store.last, "the one that had to grow is deleted, too"
    store.close()
