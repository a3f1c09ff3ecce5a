"""A copy of a store that is written meanwhile: whole, startable, and up to when it began."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sequencer.journal import Lost, Reader, StoreError
from sequencer.journal.copying import Copied, copy_store
from sequencer.journal.header import START
from sequencer.journal.store import Store
from sequencer.journal.verify import verify
from tests.sequencer.stores import WrittenStore, short
from tests.support.stores import (
    SECOND,
    WINDOW,
    abandon,
    files,
    messages,
    open_store,
    payload_of,
    put,
)

SMALL = 64 << 10
SIZE = 1000  # of a payload
FEW, MANY = 100, 3 * WINDOW // SIZE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "copy"


def check(target: Path, copied: Copied) -> None:
    """The copy is whole, has what it should and nothing else, and a broker can start on it."""
    assert [one for one in verify(str(target)) if one.level in ("error", "warning")] == []
    assert not {"lock", "window", ".newest", ".highest"} & set(os.listdir(target))
    assert not files(target.parent, ".unfinished")
    found = list(Reader(str(target)).records())
    assert [one.number for one in found if not isinstance(one, Lost)] == list(
        range(copied.first, copied.last + 1)
    )
    assert len(found) == copied.last - copied.first + 1
    store = open_store(target, SECOND)
    assert (store.first, store.last) == (copied.first, copied.last)
    for number, (_, payload) in messages(store).items():
        assert payload == payload_of(number, SIZE)
    assert put(store, size=SIZE) == copied.last + 1
    store.close()


def fill(store: Store, count: int, sync: bool = True) -> None:
    """Write messages one by one; with `sync`, as a keeper that moves them to segments."""
    for _ in range(count):
        put(store, size=SIZE)
        store.roll_if_due(1)
        if sync and store.last % 50 == 0:
            store.sync()
            store.build_indexes()


@pytest.mark.parametrize("sync", [False, True])
def test_given_a_store_that_is_open_when_copied_then_the_copy_has_all(
    path: Path, target: Path, sync: bool
) -> None:
    store = open_store(path, segment_bytes=SMALL)
    fill(store, 5 * FEW, sync)
    fill(store, FEW, sync=False)  # these are in the window
    copied = copy_store(str(path), str(target))
    assert (copied.first, copied.last, copied.damaged) == (1, 6 * FEW, [])
    check(target, copied)
    store.close()


@pytest.mark.parametrize("ends", [Store.close, abandon])
def test_given_a_store_that_was_closed_or_killed_when_copied_then_the_copy_has_all(
    path: Path, target: Path, ends: Callable[[Store], None]
) -> None:
    store = open_store(path, segment_bytes=SMALL)
    fill(store, 3 * FEW)
    ends(store)
    copied = copy_store(str(path), str(target))
    assert (copied.first, copied.last) == (1, 3 * FEW)
    check(target, copied)
    assert open_store(path).last == 3 * FEW


def test_given_an_empty_store_when_copied_then_the_copy_is_empty(path: Path, target: Path) -> None:
    open_store(path).close()
    copied = copy_store(str(path), str(target))
    assert (copied.first, copied.last) == (1, 0)
    check(target, copied)


@pytest.mark.parametrize("segment_bytes", [SMALL, 64 * WINDOW])
def test_given_a_window_that_wraps_around_meanwhile_when_copied_then_no_number_is_missing(
    path: Path, target: Path, segment_bytes: int
) -> None:
    """With large segments there is only the newest one, so it wraps while that is copied."""
    store = open_store(path, segment_bytes=segment_bytes)
    fill(store, MANY)
    left = 3

    def publish(done: int) -> None:
        nonlocal left
        if left:
            left -= 1
            fill(store, MANY)

    copied = copy_store(str(path), str(target), publish)
    assert copied.first == 1
    assert copied.last >= MANY
    assert left == 0
    store.close()
    check(target, copied)


@pytest.mark.parametrize("indexed", [False, True])
def test_given_segments_that_are_deleted_meanwhile_when_copied_then_the_copy_begins_later(
    path: Path, target: Path, indexed: bool
) -> None:
    """Also the one that is being copied."""
    store = open_store(path, segment_bytes=SMALL)
    fill(store, 10 * FEW, sync=indexed)
    store.sync()

    def retain(done: int) -> None:
        if store.first == 1:
            store.retain_bytes = 3 * SMALL
            store.retain(SECOND)

    copied = copy_store(str(path), str(target), retain)
    assert copied.first == store.first > 1
    assert copied.last == 10 * FEW
    store.close()
    check(target, copied)


def test_given_damage_when_copied_then_it_is_reported_and_the_rest_is_there(
    path: Path, target: Path
) -> None:
    original = WrittenStore(path, (1, 10), (11, 20))
    original.spoil(1, 4)
    original.spoil(11, 15)
    copied = copy_store(str(path), str(target))
    assert (copied.first, copied.last) == (1, 20)
    assert [(one.first, one.last) for one in copied.damaged] == [(4, 4), (15, 15)]
    assert short(Reader(str(target)).records()) == short(Reader(str(path)).records())
    for name in files(path, ".segment"):
        assert (target / name).read_bytes() == (path / name).read_bytes()


def test_given_a_store_that_lacks_its_end_when_copied_then_refused(
    path: Path, target: Path
) -> None:
    store = open_store(path)
    fill(store, FEW)
    fill(store, FEW, sync=False)
    abandon(store)
    with (path / "window").open("r+b") as file:
        file.seek(4096)
        file.write(bytes(WINDOW))
    with pytest.raises(StoreError, match=r"numbers 101 to 200 are missing; see"):
        copy_store(str(path), str(target))
    assert os.listdir(path.parent) == ["store"]


def test_given_other_files_of_a_store_when_copied_then_they_are_copied_too(
    path: Path, target: Path
) -> None:
    WrittenStore(path, (1, 10))
    (path / "staging" / "application").mkdir(parents=True)
    (path / "staging" / "application" / "committed").write_text("7")
    (path / "ids.json").write_text("{}")
    (path / "00000000000000000011.segment.tmp").write_bytes(bytes(START))
    copy_store(str(path), str(target))
    assert (target / "staging" / "application" / "committed").read_text() == "7"
    assert sorted(os.listdir(target)) == [
        "00000000000000000001.segment",
        "ids.json",
        "staging",
        "store.json",
    ]


def test_given_a_place_that_cannot_be_when_copied_then_nothing_is_changed(
    path: Path, target: Path
) -> None:
    WrittenStore(path, (1, 10))
    target.mkdir()
    (target / "mine").touch()
    with pytest.raises(FileExistsError, match="is not empty; give a new directory"):
        copy_store(str(path), str(target))
    assert os.listdir(target) == ["mine"]
    with pytest.raises(OSError, match="is in the directory of the journal"):
        copy_store(str(path), str(path / "copy"))
    assert files(path, "copy") == []
    (target / "mine").unlink()
    unfinished = target.with_name("copy.unfinished")
    unfinished.mkdir()
    with pytest.raises(FileExistsError, match="is of a copy that was cut off"):
        copy_store(str(path), str(target))
    unfinished.rmdir()
    assert copy_store(str(path), str(target)).last == 10
