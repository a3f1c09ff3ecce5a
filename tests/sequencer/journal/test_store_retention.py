"""Retention: whole segments are deleted, oldest first, and no number is lost or given again."""

import errno
import os
from pathlib import Path

import pytest

from sequencer.journal.header import START
from tests.support.stores import (
    SECOND,
    abandon,
    files,
    full,
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


def test_given_more_bytes_than_retained_when_retaining_then_the_oldest_go(path: Path) -> None:
    store = open_store(path, segment_bytes=SMALL, retain_bytes=3 * SMALL)
    full(store, 500)
    pieces = store.segments()
    went = store.retain(SECOND)
    assert went == [(one.first, one.last) for one in pieces if one.gone]
    assert store.bytes <= 3 * SMALL
    assert store.bytes == sum(one.size for one in store.segments())
    assert store.first == went[-1][1] + 1 == min(messages(store))
    assert store.retain(SECOND) == []
    assert len(files(path, ".segment")) == len(store.segments())
    store.close()
    assert open_store(path).first == store.first


def test_given_messages_too_old_when_retaining_then_segments_with_only_these_go(
    path: Path,
) -> None:
    store = open_store(path, segment_bytes=SMALL, retain_age_ns=50 * SECOND)
    full(store, 300)
    store.retain(200 * SECOND)
    assert store.segments()[0].newest >= 150 * SECOND > store.oldest_time
    store.retain(1000 * SECOND)
    assert len(store.segments()) == 1
    store.close()


def test_given_a_count_when_retaining_then_at_least_so_many_stay(path: Path) -> None:
    store = open_store(path, segment_bytes=SMALL, retain_count=100)
    full(store, 300)
    store.retain(SECOND)
    assert 100 <= store.last - store.first + 1 < 100 + SMALL // 72
    store.close()


def test_given_all_but_an_empty_segment_deleted_when_opened_again_then_numbers_go_on(
    path: Path,
) -> None:
    store = open_store(path, retain_age_ns=1)
    put(store, 7)
    store.roll(8 * SECOND)
    assert store.retain(100 * SECOND) == [(1, 7)]
    assert (store.first, store.last, store.oldest_time) == (8, 7, 0)
    abandon(store)
    again = open_store(path)
    assert (again.first, again.last) == (8, 7)
    assert again.newest_time == SECOND, (
        "that of the last message there was: no later message may have an earlier time"
    )
    assert messages(again) == {}
    put(again)
    assert list(messages(again)) == [8]
    again.close()


def test_given_a_held_segment_when_retention_deletes_it_then_its_holder_reads_on(
    path: Path,
) -> None:
    store = open_store(path, segment_bytes=SMALL)
    full(store, 200)
    store.close()
    store = open_store(path, segment_bytes=SMALL, retain_bytes=SMALL)
    piece = store.segments()[0]
    piece.hold()
    store.retain(SECOND)
    assert piece.gone
    assert piece not in store.segments()
    assert next(read_from(store, piece, START))[2] == payload_of(1)
    piece.release()
    with pytest.raises(FileNotFoundError):
        piece.read(START, memoryview(bytearray(10)), True)
    store.close()


def test_given_messages_while_retaining_when_killed_then_the_newest_segments_and_numbers_are_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(path, segment_bytes=SMALL, retain_bytes=SMALL)
    full(store, 200)
    unlink, times = os.unlink, 5

    def busy(path: str) -> None:
        nonlocal times
        unlink(path)
        if times:
            times -= 1
            full(store, 150)

    monkeypatch.setattr(os, "unlink", busy)
    went = store.retain(SECOND)
    assert times == 0
    assert went[-1][1] > 200, "it went on with what was written meanwhile"
    first, last = store.first, store.last
    assert store.sync() == last
    put(store)
    abandon(store)
    again = open_store(path)
    assert (again.first, again.last) == (first, last + 1)
    assert list(messages(again)) == list(range(first, last + 2))
    again.close()


def test_given_a_file_that_cannot_be_deleted_when_retaining_then_it_stays_and_that_is_said(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(path, segment_bytes=SMALL, retain_bytes=SMALL)
    full(store, 200)

    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        with pytest.raises(PermissionError):
            store.retain(SECOND)
    assert store.first == 1
    os.unlink(store.segments()[0].file)
    assert store.retain(SECOND)[0][0] == 1
    store.close()
