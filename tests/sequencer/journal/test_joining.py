"""After a crash the window and the segments are one journal: what was synced is there, always."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sequencer.journal.errors import StoreError
from sequencer.journal.header import START
from sequencer.journal.identity import FILE as IDENTITY
from sequencer.journal.identity import read_identity, write_identity
from sequencer.journal.store import Store
from sequencer.journal.window_file import FILE, PAGE
from tests.support.recorded_store import abandon_older
from tests.support.replica_stores import append, open_replica, said_in
from tests.support.stores import WINDOW, abandon, messages, open_store, payload_of, put

SYNCED, WRITTEN = 20, 45


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store that was killed: its later numbers, of two segments, are in the window only."""
    store = open_store(tmp_path / "store")
    for number in range(1, WRITTEN + 1):
        if number == 40:
            store.roll(1)
        put(store, size=200)
        if number == SYNCED:
            store.sync()
    abandon(store)
    return tmp_path / "store"


def is_right(store: Store, least: int) -> int:
    """All up to `least` is there, and what is there follows; it takes more. The last number."""
    found = messages(store)
    last = store.last
    told = {n for one in store.damage for n in range(one.first, one.last + 1)}
    assert {*found} | told == {*range(1, last + 1)}, "no gap is silent"
    assert {*range(1, least + 1)} <= {*found}
    assert all(payload == payload_of(number, 200) for number, (_, payload) in found.items())
    assert put(store) == last + 1
    return last


def of_another_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine itself has been started again."""
    monkeypatch.setattr("sequencer.journal.window_file.boot_id", lambda: b"another boot now")


def test_given_a_kill_then_all_is_there_and_no_word_of_loss(path: Path) -> None:
    store = open_store(path)
    assert store.damage == []
    assert [level for level, _ in store.report if level != "info"] == []
    assert is_right(store, WRITTEN) == WRITTEN
    store.close()


def zero(data: bytearray, at: int) -> None:
    data[at : at + 512] = bytes(len(data[at : at + 512]))


def flip(data: bytearray, at: int) -> None:
    data[at] ^= 1


def cut(data: bytearray, at: int) -> None:
    del data[at:]


def open_or_accept(path: Path, same_boot: bool) -> Store:
    """Open it; accept a loss only where it must be told."""
    try:
        return open_store(path)
    except StoreError:
        assert same_boot, "a machine that lost its power may have lost what was not synced"
    with pytest.raises(StoreError, match="accept-loss"):
        open_store(path)
    store = open_store(path, accept_loss=True)
    assert store.damage
    return store


@pytest.mark.parametrize("harm", [zero, flip, cut])
@pytest.mark.parametrize("same_boot", [True, False])
def test_given_the_window_damaged_anywhere_then_what_was_synced_is_there_and_loss_is_told(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    harm: Callable[[bytearray, int], None],
    same_boot: bool,
) -> None:
    whole = (path / FILE).read_bytes()
    used = [at for at in range(0, len(whole), 512) if any(whole[at : at + 512])]
    places = sorted({0, 8, 24, 63, 64, 72, 80, *used, *(at + 77 for at in used)})
    if not same_boot:
        of_another_boot(monkeypatch)
    for sync in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, sync, lambda fd: None)
    lost = 0
    for at in places:
        copy = tmp_path / f"copy{at}"
        shutil.copytree(path, copy)
        data = bytearray(whole)
        harm(data, at)
        with (path / FILE).open("r+b") as file:  # the inode is the one that the head tells
            os.link(path / FILE, copy / "linked")
            os.replace(copy / "linked", copy / FILE)
            file.truncate(0)
            file.write(data)
        store = open_or_accept(copy, same_boot)
        last = is_right(store, SYNCED)
        assert not same_boot or last == WRITTEN or at < PAGE, "no number is given again"
        lost += last < WRITTEN or bool(store.damage)
        store.close()
        shutil.rmtree(copy)
        (path / FILE).write_bytes(whole)
    assert lost, "some of it mattered"


def test_given_no_window_though_one_is_promised_then_it_is_refused_unless_accepted(
    path: Path,
) -> None:
    (path / FILE).unlink()
    with pytest.raises(StoreError, match=r"window: missing: .* --accept-loss"):
        open_store(path)
    store = open_store(path, accept_loss=True)
    assert any(level == "error" and "missing" in text for level, text in store.report)
    assert is_right(store, SYNCED) == SYNCED
    store.close()


def test_given_the_window_of_another_journal_then_it_is_not_used(
    path: Path, tmp_path: Path
) -> None:
    other = open_store(tmp_path / "other")
    put(other, 100)
    abandon(other)
    shutil.copy(tmp_path / "other" / FILE, path / FILE)
    store = open_store(path, accept_loss=True)
    assert any("of another journal" in text for _, text in store.report)
    assert is_right(store, SYNCED) == SYNCED
    store.close()


def test_given_two_lives_of_equal_numbers_and_sizes_then_the_old_one_does_not_come_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk kept an older page of the window than the one that was written last."""
    old = (path / FILE).read_bytes()
    store = open_store(path)
    store.close()
    before = store.epoch
    store = open_store(path)
    assert store.epoch == before + 1
    put(store, 5, size=200)
    abandon(store)
    of_another_boot(monkeypatch)
    with (path / FILE).open("r+b") as file:
        file.seek(PAGE)
        file.write(old[PAGE : PAGE + WINDOW])
    again = open_store(path)
    assert again.last == WRITTEN, "numbers 46 to 50 were not synced; no old record follows 45"
    assert is_right(again, WRITTEN) == WRITTEN
    again.close()


@pytest.mark.parametrize("change", ["cut", "anew"])
def test_given_numbers_taken_back_then_a_kill_does_not_bring_them_back(
    tmp_path: Path, change: str
) -> None:
    store = open_replica(tmp_path / "store")
    append(store, list(range(1, 21)), 2)
    append(store, list(range(21, 41)), 3)
    if change == "cut":
        store.truncate(10)
    else:
        store.begin_anew(10, 2)
    abandon(store)
    again = open_replica(tmp_path / "store")
    assert again.last == 10
    assert list(messages(again)) == (list(range(1, 11)) if change == "cut" else [])
    append(again, [50], 4)
    abandon(again)
    last = open_replica(tmp_path / "store")
    assert messages(last)[11][1] == said_in(4, 11)
    assert last.last == 11
    last.close()


def test_given_several_epochs_in_the_window_then_each_is_that_of_its_segment(
    tmp_path: Path,
) -> None:
    store = open_replica(tmp_path / "store")
    append(store, [1, 2, 3], 2)
    append(store, [4, 5], 3)
    append(store, [6], 5)
    table = store.epochs()
    abandon(store)
    again = open_replica(tmp_path / "store")
    assert again.epochs() == table == ((2, 1), (3, 4), (5, 6))
    assert list(messages(again)) == [1, 2, 3, 4, 5, 6]
    again.close()


def test_given_a_store_of_format_1_then_it_opens_and_becomes_2(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = open_store(path)
    put(store, 10, size=200)
    abandon_older(store, 10)
    identity = read_identity(str(path))
    assert identity is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sequencer.journal.identity.FORMAT", 1)
        write_identity(str(path), identity)
    assert json.loads((path / IDENTITY).read_text())["format"] == 1
    store = open_store(path)
    assert json.loads((path / IDENTITY).read_text())["format"] == 2
    assert store.pieces()[0].size > START
    assert is_right(store, 10) == 10
    store.close()
