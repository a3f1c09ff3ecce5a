"""A member's journal as replication reads it: blocks of one epoch each, from wherever they are."""

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cluster.storage.membership import Membership
from broker.cluster.storage.store_log import BUFFER_KEPT, READ_MIN, StoreLog
from sequencer.journal.header import stem
from sequencer.journal.segment import Segment
from sequencer.journal.store import Store
from sequencer.replica.forward_table import ForwardTable
from sequencer.replica.member_messages import Records
from tests.support.replica_stores import append, open_replica
from tests.support.stores import SECOND, WINDOW, messages, put

BLOCK = 1000  # some ten records
RUN = 7


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.run_until_complete(made.shutdown_default_executor())
    made.close()


def log_of(path: Path, loop: asyncio.AbstractEventLoop) -> StoreLog:
    return StoreLog(open_replica(path), Membership.create(str(path), "orders"), loop, loop.stop)


def read(log: StoreLog, after: int, most: int = BLOCK) -> Records:
    """Read, and wait for the thread if the system has it not in memory."""
    loop = log._loop
    while (records := log.read(after, most)) is None:
        loop.run_forever()
    return records


def test_given_a_store_of_one_broker_when_a_newcomer_copies_it_then_it_has_the_same(
    tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    # Given: three runs of a broker, which have three epochs in one segment
    for _ in range(3):
        store = Store.open(str(tmp_path / "old"), SECOND, window_bytes=WINDOW)
        put(store, 50)
        store.close()
    old = log_of(tmp_path / "old", loop)
    new = log_of(tmp_path / "new", loop)
    new.store.adopt(old.store.id, old.salt)
    table = ForwardTable(RUN, old.salt)

    # When
    while new.last < old.last:
        records = read(old, new.last)
        found = table.inspect(records.data, records.first, records.epoch)  # raises: not one epoch
        assert found.last == records.last
        new.append(records, found.time, found.last_time, found.ids)

    # Then
    assert messages(new.store) == messages(old.store)
    assert len(messages(new.store)) == 150
    old.close()
    new.close()


@pytest.mark.parametrize("size", [10, 5 * BLOCK, READ_MIN + BLOCK])
def test_given_segments_when_they_are_read_in_blocks_then_each_number_comes_once(
    tmp_path: Path, loop: asyncio.AbstractEventLoop, size: int
) -> None:
    log = log_of(tmp_path, loop)
    for at in range(1, 61):
        append(log.store, [at * SECOND], epoch=1 + at // 25, size=size)

    after, seen = 0, []
    while after < log.last:
        records = read(log, after)
        assert records.first == after + 1
        assert len(records.data) <= BLOCK or records.last == records.first
        seen += [records.epoch] * (records.last - after)
        after = records.last

    assert seen == [1 + at // 25 for at in range(1, 61)]
    log.close()


def test_given_segments_that_are_not_in_memory_when_read_then_each_number_comes_once(
    tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    log = log_of(tmp_path, loop)
    append(log.store, [SECOND] * 60, epoch=1, size=READ_MIN)
    append(log.store, [SECOND] * 10, epoch=2, size=READ_MIN)
    log.sync()
    for segment in log.store.segments():
        with open(segment.file, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    after = 0
    while after < log.last:
        records = read(log, after)
        assert (records.first, records.last) == (after + 1, after + 1)
        after = records.last
    assert after == 70
    assert {segment.holders for segment in log.store.segments()} == {0}
    log.close()


@pytest.mark.parametrize("size", [10, 5 * BLOCK, READ_MIN, 5 * READ_MIN])
@pytest.mark.parametrize("in_memory", [0, 100])
def test_given_a_system_that_keeps_nothing_in_memory_when_read_then_each_number_comes_once(
    tmp_path: Path,
    loop: asyncio.AbstractEventLoop,
    monkeypatch: pytest.MonkeyPatch,
    in_memory: int,
    size: int,
) -> None:
    log = log_of(tmp_path, loop)
    append(log.store, [SECOND] * 60, epoch=1, size=size)
    from_disk = Segment.read

    def cold(segment: Segment, offset: int, into: memoryview, wait: bool) -> int:
        if not wait and not in_memory:
            raise BlockingIOError
        return from_disk(segment, offset, into if wait else into[:in_memory], True)

    monkeypatch.setattr(Segment, "read", cold)
    for first in (1, 37):
        log._places.clear()
        after = first - 1
        while after < log.last:
            records = read(log, after)
            assert records.first == after + 1
            after = records.last
    log.close()


@pytest.mark.parametrize("in_flight", [False, True])
def test_given_a_cut_when_a_thread_has_read_what_was_there_then_the_new_records_are_found(
    tmp_path: Path,
    loop: asyncio.AbstractEventLoop,
    monkeypatch: pytest.MonkeyPatch,
    in_flight: bool,
) -> None:
    log = log_of(tmp_path, loop)
    append(log.store, [SECOND] * 10, epoch=1, size=100)
    log.sync()
    is_read, is_cut = threading.Event(), threading.Event()
    from_disk = Segment.read

    def cold(segment: Segment, offset: int, into: memoryview, wait: bool) -> int:
        if not wait:
            raise BlockingIOError
        got = from_disk(segment, offset, into, True)
        is_read.set()
        assert is_cut.wait(30)
        return got

    monkeypatch.setattr(Segment, "read", cold)
    assert log.read(3, 10 * BLOCK) is None
    if in_flight:
        assert is_read.wait(30)
    else:
        is_cut.set()
        loop.run_forever()
    log.truncate(4)
    append(log.store, [SECOND] * 10, epoch=2, size=100)
    is_cut.set()
    assert read(log, 3, 10 * BLOCK).last == 4, "what followed was cut"
    log.close()


@pytest.mark.parametrize("in_memory", [0, 100])
def test_given_a_disk_that_fails_in_a_thread_when_read_then_it_is_an_error_each_time(
    tmp_path: Path, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    log = log_of(tmp_path, loop)
    append(log.store, [SECOND] * 3, epoch=1, size=READ_MIN)
    from_disk = Segment.read

    def failing(segment: Segment, offset: int, into: memoryview, wait: bool) -> int:
        if wait:
            raise OSError(errno.EIO, "Input/output error")
        if not in_memory:
            raise BlockingIOError
        return from_disk(segment, offset, into[:in_memory], True)

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "read", failing)
        for _ in range(2):
            with pytest.raises(OSError, match="Input/output error"):
                read(log, 0)
    assert read(log, 0).last == 1
    log.close()


def test_given_the_first_page_of_a_long_record_in_memory_then_the_rest_is_waited_for(
    tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    log = log_of(tmp_path, loop)
    append(log.store, [SECOND] * 40, epoch=1, size=READ_MIN)
    log.sync()
    (segment,) = log.store.segments()
    with open(segment.file, "rb") as file:
        for after in range(40):
            log._places.clear()
            _, offset = log.store.locate(1)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # nothing is read ahead
            os.pread(file.fileno(), 1, offset + after * segment.size // 40)
            records = read(log, after)
            assert (records.first, records.last) == (after + 1, after + 1)
            assert len(log._buffer) <= BUFFER_KEPT
    log.close()


def test_given_a_cut_when_numbers_are_read_again_then_the_new_records_are_found(
    tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    log = log_of(tmp_path, loop)
    append(log.store, [SECOND] * 40, epoch=1)
    first = read(log, 0)
    log.truncate(first.last - 3)
    append(log.store, [SECOND] * 40, epoch=2)

    assert (read(log, first.last - 3)).epoch == 2
    assert (read(log, first.last)).first == first.last + 1
    log.close()


def test_given_a_hole_when_a_member_begins_again_then_it_gets_what_follows_once_more(
    tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> None:
    # Given: two stores with the same records; one of them lost the records of one segment
    for name in ("whole", "holed"):
        store = Store.open(str(tmp_path / name), SECOND, window_bytes=WINDOW)
        store.close()
    whole = log_of(tmp_path / "whole", loop)
    holed = open_replica(tmp_path / "holed", segment_bytes=1000)
    holed.adopt(whole.store.id, whole.salt)
    for log in (whole.store, holed):
        append(log, [SECOND] * 10, epoch=1)
        append(log, [SECOND] * 10, epoch=2)
        append(log, [SECOND] * 10, epoch=3)
    holed.close()
    damaged = tmp_path / "holed" / f"{stem(11)}.segment"
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    (tmp_path / "holed" / f"{stem(11)}.index").unlink()
    holed = open_replica(tmp_path / "holed")
    while holed.build_indexes():
        pass  # old segments without an index are looked through after the opening
    assert holed.damage
    holed.close()

    # When
    opened = log_of(tmp_path / "holed", loop)

    # Then: it says what it has before the hole, and takes the rest again
    assert opened.store.damage
    assert 10 <= opened.last < 20
    assert opened.epochs()[0] == (1, 1)
    assert all(first <= opened.last for _, first in opened.epochs())
    table = ForwardTable(RUN, whole.salt)
    while opened.last < whole.last:
        records = read(whole, opened.last)
        found = table.inspect(records.data, records.first, records.epoch)
        opened.append(records, found.time, found.last_time, found.ids)
    assert not opened.store.damage
    assert messages(opened.store) == messages(whole.store)
    whole.close()
    opened.close()
