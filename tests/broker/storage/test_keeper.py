"""The journal's housekeeping: what is synced when, and whom a failing disk affects."""

import errno
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.storage.keeper import RETRY, Keeper
from sequencer.journal.store import UNSYNCED_MAX, Store
from testkit.stage import QUIET, Stage
from tests.support.serving import serving
from tests.support.stores import in_memory

VERBOSE = b'CONNECT {"pedantic":false}\r\n'
FULL = b"-ERR 'Permissions Violation for Publish to "


class Disk(Store):
    """A store that counts, and fails when it is told to."""

    fails: set[str]
    did: list[str]

    def _do(self, what: str) -> None:
        self.did.append(what)
        if what in self.fails:
            raise OSError(errno.ENOSPC, "No space left on device")

    def reserve(self, need: int) -> None:
        self._do("reserve")
        super().reserve(need)

    def write(self, view: memoryview, *fields: Any) -> None:
        self._do("write")
        super().write(view, *fields)

    def sync(self) -> int:
        self._do("sync")
        return super().sync()

    def retain(self, now: int, keep_from: int = 0) -> list[tuple[int, int]]:
        self._do("retain")
        return super().retain(now, keep_from)


@pytest.fixture
def disk() -> Iterator[Disk]:
    with in_memory() as path:
        Disk.fails, Disk.did = set(), []
        store = Disk.open(str(Path(path) / "store"), 1, segment_bytes=100_000)
        assert isinstance(store, Disk)
        yield store
        Disk.fails = set()
        store.close()


def keeping(disk: Disk, sync: Any) -> tuple[Stage, Keeper]:
    stage = Stage(journal=disk, sync=sync)
    assert stage.keeper is not None
    stage.keeper.start()
    stage.loop.run()
    disk.did.clear()
    return stage, stage.keeper


def pub(count: int = 1, size: int = 1) -> bytes:
    return b"PUB a %d\r\n%b\r\n" % (size, b"x" * size) * count


def test_given_an_interval_then_what_was_written_is_synced_once_in_it_and_nothing_without(
    disk: Disk,
) -> None:
    stage, keeper = keeping(disk, "interval")
    stage.loop.later(1.0)
    assert "sync" not in disk.did
    publisher = stage.join(QUIET)
    for _ in range(5):
        publisher.send(pub(3))
    assert keeper.synced == 0
    stage.loop.later(0.11)
    assert (disk.did.count("sync"), keeper.synced, keeper.syncs.total) == (1, 15, 1)
    stage.loop.later(1.0)
    assert disk.did.count("sync") == 1


def test_given_always_then_one_sync_serves_all_that_waits_and_the_next_all_that_came_meanwhile(
    disk: Disk,
) -> None:
    stage, keeper = keeping(disk, "always")
    publishers = [stage.join(VERBOSE) for _ in range(10)]
    for peer in publishers:
        assert peer.ask(pub()) == b""
    stage.loop.turn()
    for peer in publishers[:4]:
        assert peer.ask(pub()) == b""
    stage.loop.run()
    assert disk.did.count("sync") in (1, 2)
    assert (keeper.synced, stage.number) == (14, 14)
    assert [peer.take() for peer in publishers] == [b"+OK\r\n" * 2] * 4 + [b"+OK\r\n"] * 6


def test_given_never_then_nothing_is_synced_and_nobody_waits(disk: Disk) -> None:
    stage, keeper = keeping(disk, "never")
    assert stage.join(VERBOSE).ask(pub(2)) == b"+OK\r\n" * 2
    stage.loop.later(5.0)
    assert "sync" not in disk.did
    assert keeper.syncs.total == 0


@pytest.mark.parametrize("sync", ["never", "interval"])
def test_given_many_segments_that_wait_for_a_sync_then_they_are_synced_and_their_files_closed(
    disk: Disk, sync: str
) -> None:
    stage, keeper = keeping(disk, sync)
    publisher = stage.join(QUIET)
    for _ in range(10 * UNSYNCED_MAX):
        publisher.send(pub(size=60_000))
        stage.loop.run()
    assert max(piece.size for piece in disk.segments()) <= disk.segment_bytes
    assert keeper.syncs.total > 10
    assert keeper.synced >= 9 * UNSYNCED_MAX
    assert sum(piece.fd >= 0 for piece in disk.segments()) <= UNSYNCED_MAX


@pytest.mark.parametrize("sync", ["never", "interval", "always"])
def test_given_a_full_disk_then_publishers_are_refused_until_there_is_room(
    disk: Disk, sync: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    stage, keeper = keeping(disk, sync)
    publisher, quiet, subscriber = stage.join(VERBOSE), stage.join(QUIET), stage.join(QUIET)
    subscriber.send(b"SUB a 1\r\n")
    stage.sequencer.hold_back()
    disk.fails.add("reserve")
    keeper.trouble(OSError(errno.ENOSPC, "No space left on device"))
    refused = publisher.ask(pub(2))
    assert refused.count(FULL) == 2
    assert b"the journal is full (No space left on device)" in refused
    assert quiet.ask(pub(5)).count(FULL) == 1, "once in a read event"
    assert publisher.ask(b"PING\r\n") == b"PONG\r\n"
    stage.loop.later(10 * RETRY)
    assert stage.number == 0
    assert caplog.text.count("publishers are refused") == 1
    disk.fails.clear()
    stage.loop.later(2 * RETRY)
    assert keeper.problem == ""
    assert "messages can be written again" in caplog.text
    publisher.send(pub())
    stage.loop.run()
    assert publisher.take() == b"+OK\r\n"
    assert b"1:1,1:x,," in subscriber.take()
    assert keeper.refused >= 3, "as many as were told so, at least"


def test_given_a_sync_that_fails_then_it_is_repeated_before_anything_else(
    disk: Disk,
) -> None:
    stage, keeper = keeping(disk, "always")
    publisher = stage.join(VERBOSE)
    disk.fails.add("sync")
    assert publisher.ask(pub()) == b""
    stage.loop.run()
    publisher.send(pub())
    assert stage.number == 1, "refused"
    stage.loop.later(3 * RETRY)
    assert b"+OK" not in publisher.take()
    disk.fails.clear()
    disk.did.clear()
    stage.loop.later(2 * RETRY)
    assert [one for one in disk.did if one != "retain"][:2] == ["sync", "reserve"]
    assert keeper.synced == 1
    assert publisher.take().startswith(b"+OK\r\n" + FULL)
    assert publisher.ask(pub()) == b""
    stage.loop.run()
    assert publisher.take().endswith(b"+OK\r\n")
    assert stage.number == 2


def test_given_a_sync_that_waits_for_a_descriptor_when_another_fails_then_only_that_is_repeated(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, keeper = keeping(disk, "always")
    publisher = stage.join(VERBOSE)

    def refuse(self: Disk) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Disk, "sync", refuse)
        publisher.send(pub())
        stage.loop.run()
    disk.fails.add("sync")
    publisher.send(pub())
    stage.loop.run()
    assert keeper.problem, "this one failed"
    disk.did.clear()
    stage.loop.later(5 * RETRY)
    assert 4 <= disk.did.count("sync") <= 5, "once in each RETRY"
    disk.fails.clear()
    stage.loop.later(2 * RETRY)
    assert keeper.synced == 2


def test_given_old_segments_then_the_thread_deletes_what_is_over_the_limit(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    stage, _ = keeping(disk, "interval")
    stage.join(QUIET).send(pub(300, 900))
    disk.retain_bytes = 200_000
    stage.loop.later(2.0)
    assert disk.first > 1
    assert "deleted numbers 1 to " in caplog.text
    assert f" to {disk.first - 1}, by the retention limits" in caplog.text


def test_given_a_directory_in_which_nothing_can_be_deleted_then_it_is_reported_and_no_more(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    stage, _ = keeping(disk, "interval")
    disk.fails.add("retain")
    stage.loop.later(2.0)
    assert "No space left on device" in caplog.text
    assert stage.join(VERBOSE).ask(pub()) == b"+OK\r\n"


@pytest.mark.parametrize("sync", ["interval", "always"])
def test_given_a_number_that_is_waited_for_then_it_is_synced_at_once_and_reported(
    disk: Disk, sync: str
) -> None:
    stage, keeper = keeping(disk, sync)
    told: list[int] = []
    stage.join(QUIET).send(pub(3))
    keeper.when_synced(3, lambda: told.append(keeper.synced))
    keeper.when_synced(2, lambda: told.append(keeper.synced))
    stage.loop.run()
    assert told == [3, 3]
    assert disk.did.count("sync") == 1, "one for all who wait"
    keeper.when_synced(1, lambda: told.append(-1))
    assert told[2:] == [-1]


def test_given_a_sync_that_fails_then_who_waits_is_informed_when_one_does_not(disk: Disk) -> None:
    stage, keeper = keeping(disk, "interval")
    told: list[str] = []
    stage.join(QUIET).send(pub(3))
    disk.fails.add("sync")
    keeper.when_synced(3, lambda: told.append("synced"))
    keeper.when_roomy(lambda: told.append("roomy"))
    stage.loop.later(5 * RETRY)
    assert told == []
    disk.fails.clear()
    stage.loop.later(2 * RETRY)
    assert told == ["synced", "roomy"]


def test_given_a_callback_for_room_then_it_is_called_once_when_there_is_some(
    disk: Disk,
) -> None:
    stage, keeper = keeping(disk, "interval")
    told: list[str] = []
    disk.fails.add("reserve")
    publisher = stage.join(QUIET)
    publisher.send(pub(2, 90_000))
    assert keeper.problem
    keeper.when_roomy(lambda: told.append("roomy"))
    stage.loop.later(2 * RETRY)
    assert told == []
    disk.fails.clear()
    stage.loop.later(4 * RETRY)
    assert told == ["roomy"]


def test_given_no_descriptor_for_a_sync_then_publishers_go_on_and_it_is_tried_again(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stage, keeper = keeping(disk, "always")
    peer = stage.join(VERBOSE)

    def refuse(self: Disk) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Disk, "sync", refuse)
        peer.send(pub())
        stage.loop.later(4 * RETRY)
        assert keeper.problem == ""
        peer.send(pub())
        assert stage.number == 2, "nobody is refused"
        stage.loop.later(4 * RETRY)
        assert peer.take() == b"", "and nothing is shown before the disk has it"
    stage.loop.later(RETRY)
    assert peer.take() == b"+OK\r\n+OK\r\n"
    assert caplog.text.count("Too many open files: synced later") == 1


def test_given_a_sync_that_is_due_when_the_broker_stops_then_a_closed_store_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []
    sync, close = Store.sync, Store.close

    def noted_sync(store: Store) -> int:
        did.append("sync")
        return sync(store)

    def noted_close(store: Store) -> None:
        close(store)
        did.append("closed")

    with serving(tmp_path) as broker:
        keeper = broker.server.keeper
        assert keeper is not None
        stop = keeper.stop

        async def stop_with_a_sync_due() -> None:
            keeper.sync_soon()
            await stop()

        monkeypatch.setattr(keeper, "stop", stop_with_a_sync_due)
        monkeypatch.setattr(Store, "sync", noted_sync)
        monkeypatch.setattr(Store, "close", noted_close)
    assert did[-1] == "closed"


def test_given_a_sync_that_is_repeated_when_the_broker_stops_then_it_ends_before_the_store_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []
    repeating, may_end = threading.Event(), threading.Event()
    sync, close, resume = Store.sync, Store.close, Keeper._resume

    def fail(store: Store) -> int:
        monkeypatch.setattr(Store, "sync", slow_sync)
        raise OSError(errno.ENOSPC, "No space left on device")

    def slow_sync(store: Store) -> int:
        repeating.set()
        assert may_end.wait(30)
        return sync(store)

    def noted_resume(keeper: Keeper) -> None:
        did.append("resume")
        resume(keeper)

    def noted_close(store: Store) -> None:
        did.append("close")
        close(store)

    monkeypatch.setattr(Store, "sync", fail)
    monkeypatch.setattr(Keeper, "_resume", noted_resume)
    monkeypatch.setattr(Store, "close", noted_close)
    with serving(tmp_path, flags={"journal.sync": "always"}) as broker:
        broker.client().send(pub())
        broker.until(repeating.is_set)
        broker.server.loop.call_later(0.1, may_end.set)
    assert did == ["resume", "close"]
