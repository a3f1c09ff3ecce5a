"""Every system call of a cut fails once, or is the last one before a kill: the journal survives."""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sequencer.journal.replica_store import ReplicaStore
from sequencer.journal.subject_index import read_subjects
from tests.sequencer.journal.test_journal_faults import (
    Killed,
    close_since,
    descriptors,
    fail,
    kill,
    settle,
    watched,
)
from tests.support.depth import compiled_only
from tests.support.replica_stores import append, open_replica, records_of, said_in
from tests.support.stores import abandon, in_memory, messages, read_from
from tests.support.subject_indexes import build, entries_of, lasts_in

SMALL = 400
LAST = 13
LOG = {number: 2 + number // 5 for number in range(1, LAST + 1)}  # epochs of what is there first
JOURNAL, SALT = "00000000000000aa", 7
AFTER = 9  # the epoch of what comes then


def written(path: Path) -> ReplicaStore:
    """A store of four epochs in five segments, as a follower has written it."""
    store = open_replica(path, segment_bytes=SMALL)
    store.adopt(JOURNAL, SALT)
    for number in range(1, LAST + 1):
        append(store, [number], LOG[number])
        if number == 7:
            store.sync()
            while store.build_indexes():
                pass
    build(store)
    return store


def truncate(number: int) -> Callable[[ReplicaStore], None]:
    return lambda store: store.truncate(number)


def reset_to(number: int) -> Callable[[ReplicaStore], None]:
    return lambda store: store.reset_to(number, 5)


def begin_epoch(store: ReplicaStore) -> None:
    store.begin_epoch(AFTER)


def begin_epoch_in_empty(store: ReplicaStore) -> None:
    store.roll(13)
    store.begin_epoch(AFTER)


CHANGES = {
    "inside the newest": (truncate(12), range(1, 13)),
    "inside an older one": (truncate(6), range(1, 7)),
    "at a segment's end": (truncate(9), range(1, 10)),
    "everything": (truncate(0), range(1, 1)),
    "begun after it": (reset_to(50), range(51, 51)),
    "begun inside it": (reset_to(7), range(8, 8)),
    "begun at its first": (reset_to(0), range(1, 1)),
    "a new epoch": (begin_epoch, range(1, 14)),
    "a new epoch where nothing is": (begin_epoch_in_empty, range(1, 14)),
}
changes = pytest.mark.parametrize("change", CHANGES)
# What the system calls of a change are does not depend on the build.
pytestmark = compiled_only


def check(store: ReplicaStore, numbers: range) -> None:
    """The store has these numbers, and goes on."""
    assert store.damage == []
    for piece in store.segments():
        index = read_subjects(piece, store.id)
        assert index is None or entries_of(index) == lasts_in(piece, store.salt)
    found = messages(store)
    assert list(found) == list(numbers)
    assert (store.first, store.last) == (numbers.start, numbers.stop - 1)
    for number in numbers:
        assert found[number] == (number, said_in(LOG[number], number))
        assert store.epoch_of(number) == LOG[number]
    assert append(store, [20, 30], AFTER) == numbers.stop + 1
    assert list(messages(store)) == [*numbers, numbers.stop, numbers.stop + 1]
    assert store.newest_time == 30
    assert store.sync() == numbers.stop + 1
    assert store.epochs()[-1] == (AFTER, numbers.stop)


def check_again(path: Path, numbers: range) -> None:
    """It opens, and has what `check` has left."""
    store = open_replica(path, segment_bytes=SMALL)
    assert (store.damage, store.report) == ([], [])
    assert list(messages(store)) == [*numbers, numbers.stop, numbers.stop + 1]
    assert store.epochs()[-1] == (AFTER, numbers.stop)
    assert store.bytes == sum(piece.size for piece in store.segments())
    store.close()


@changes
@pytest.mark.parametrize("then", ["closed", "killed"])
def test_given_a_change_then_the_rest_is_there_and_it_goes_on(
    tmp_path: Path, change: str, then: str
) -> None:
    act, numbers = CHANGES[change]
    store = written(tmp_path / "store")
    act(store)
    check(store, numbers)
    store.close() if then == "closed" else abandon(store)
    check_again(tmp_path / "store", numbers)


@changes
def test_given_any_one_call_failing_when_tried_again_then_the_change_is_complete(
    change: str,
) -> None:
    act, numbers = CHANGES[change]
    with in_memory() as memory:
        at, fired = 0, True
        while fired:
            at += 1
            path = memory / str(at)
            store = written(path)
            with watched(at, fail) as calls:
                try:
                    act(store)
                except OSError:
                    act(store)
            fired = calls.count >= at
            check(store, numbers)
            store.close()
            check_again(path, numbers)
            shutil.rmtree(path)
        assert at > 4, "each of the calls had its turn"


@changes
def test_given_any_one_call_failing_when_opened_again_then_it_was_changed_or_not(
    change: str,
) -> None:
    act, numbers = CHANGES[change]
    with in_memory() as memory:
        at, fired = 0, True
        while fired:
            at += 1
            path = memory / str(at)
            store = written(path)
            with watched(at, fail) as calls, contextlib.suppress(OSError):
                act(store)
            fired = calls.count >= at
            with contextlib.suppress(OSError):
                store.close()
            check_either(path, numbers)
            shutil.rmtree(path)


@changes
def test_given_a_kill_at_any_call_when_opened_then_it_was_changed_or_not(change: str) -> None:
    settle()
    act, numbers = CHANGES[change]
    with in_memory() as memory:
        at, fired = 0, True
        while fired:
            at += 1
            path = memory / str(at)
            opened = descriptors()
            store = written(path)
            with watched(at, kill) as calls, contextlib.suppress(Killed):
                act(store)
            fired = calls.count >= at
            del store
            close_since(opened)
            check_either(path, numbers)
            shutil.rmtree(path)


def check_either(path: Path, numbers: range) -> None:
    """The store opens without a word of loss: as it was, cut, or something between."""
    store = open_replica(path, segment_bytes=SMALL)
    told = [text for level, text in store.report if level != "info" and "unfinished" not in text]
    assert told == []
    there = range(store.first, store.last + 1)
    between = range(1, there.stop) if numbers.start == 1 else range(1, 14)
    assert there in (numbers, between)
    assert numbers.stop <= there.stop or there == range(1, 14)
    check(store, there)
    store.close()
    check_again(path, there)


def test_given_a_cut_that_fails_then_nothing_can_be_written_until_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = written(tmp_path / "store")

    def refuse(*names: Any) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        with pytest.raises(OSError, match="Input/output"):
            store.truncate(6)  # before anything was changed
        assert append(store, [14]) == 14
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        with pytest.raises(OSError, match="Input/output"):
            store.truncate(6)
    assert store.last == 14
    for write in (lambda: append(store, [15]), lambda: store.begin_epoch(9)):
        with pytest.raises(OSError, match="not complete"):
            write()
    batch = records_of(store, [15])
    with batch.view() as view, pytest.raises(OSError, match="not complete"):
        store.write(view, 15, 15, 15, False)
    store.truncate(3)
    check(store, range(1, 4))
    store.close()


def test_given_a_reader_in_what_is_cut_then_it_finds_nothing_more_there(tmp_path: Path) -> None:
    store = written(tmp_path / "store")
    piece, offset = store.locate(LAST)
    piece.hold()
    kept, end = store.locate(6)
    store.truncate(6)
    assert piece.gone
    assert piece.read(offset, memoryview(bytearray(100)), True) == 0
    assert piece.read(piece.start, memoryview(bytearray(100)), True) == 0
    append(store, [20], AFTER)
    assert kept.following is store.locate(7)[0]
    assert [one[0] for one in read_from(store, kept, end)][-2:] == [6, 7]
    piece.release()
    store.close()


@pytest.mark.parametrize("keep_from", [0, 1, 4, 5, 6, 9, 14])
def test_given_numbers_that_others_need_when_retained_then_their_segments_stay(
    tmp_path: Path, keep_from: int
) -> None:
    store = written(tmp_path / "store")
    firsts = [segment.first for segment in store.segments()]
    store.retain_count = 1
    store.retain(20, keep_from)
    here = [one for one in firsts if one <= keep_from] if keep_from else firsts
    assert store.first == here[-1]
    assert store.epochs()[0] == (
        LOG[store.first - 1] if store.first > 1 else 2,
        max(store.first - 1, 1),
    )
    store.close()


def test_given_a_store_that_never_syncs_when_an_epoch_begins_then_its_head_is_synced_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_replica(tmp_path / "store")
    append(store, [1], 3)
    heard: list[str] = []
    sync, rename = os.fdatasync, os.rename
    monkeypatch.setattr(
        os,
        "fdatasync",
        lambda fd: (heard.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}"))), sync(fd)),
    )
    monkeypatch.setattr(
        os, "rename", lambda old, new: (heard.append(os.path.basename(new)), rename(old, new))
    )
    store.begin_epoch(4)
    second = f"{2:020d}.segment"
    assert heard == ["store.json"], "nothing else waits for the disk"
    heard.clear()
    store.begin_epoch(5)
    assert heard == ["store.json", second + ".tmp"]
    heard.clear()
    store.sync()
    first = f"{1:020d}.segment"
    assert heard[:4] == [first, first, second + ".tmp", second]
    store.close()


def test_given_a_cut_whose_sync_failed_when_repeated_then_what_stays_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_replica(tmp_path)
    append(store, [1, 2, 3], 2)
    sync = os.fsync

    def refuse(fd: int) -> None:
        if os.readlink(f"/proc/self/fd/{fd}").endswith(".segment"):
            raise OSError(errno.EIO, "Input/output error")
        sync(fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        with pytest.raises(OSError, match="Input/output"):
            store.truncate(2)
    again: list[bytes] = []
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda *args: (again.append(bytes(args[1])), write(*args))[1])
    store.truncate(2)
    assert any(said_in(2, 1) in data and said_in(2, 2) in data for data in again)
    assert store.sync() == 2
    store.close()
    store = open_replica(tmp_path)
    assert list(messages(store)) == [1, 2]
    store.close()
