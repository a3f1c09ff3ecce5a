"""Every system call fails once, or is the last one before a kill: the journal survives it."""

import contextlib
import errno
import gc
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sequencer.journal import disk
from sequencer.journal.errors import StoreError
from sequencer.journal.header import START, stem
from sequencer.journal.segment import Segment
from sequencer.journal.store import Store
from tests.support.stores import (
    SECOND,
    abandon,
    batch_of,
    give,
    in_memory,
    messages,
    open_store,
    payload_of,
    put,
)

SMALL = 400
MEBIBYTE = 1 << 20
OPEN, PWRITE, CLOSE = os.open, os.pwrite, os.close
CALLS: tuple[str, ...] = (
    "pwrite",
    "pwritev",
    "fsync",
    "fdatasync",
    "rename",
    "ftruncate",
    "unlink",
    "mkdir",
    "open",
)
CALLS += ("close",)


class Killed(BaseException):
    """The process ends here."""


class Calls:
    """Counts the calls to the system and does something at one of them."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int, act: Callable[[str], Any]) -> None:
        self.count = 0
        self.at = at
        self.act = act
        self.armed = True
        for name in CALLS:
            patch.setattr(os, name, self._watched(name, getattr(os, name)))
        whole = disk.fallocate
        for module in ("segment", "window_file"):
            where = f"sequencer.journal.{module}.fallocate"
            patch.setattr(where, self._watched("fallocate", whole))

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **named: Any) -> Any:
            if not self.armed:
                return call(*args, **named)
            self.count += 1
            if self.count == self.at:
                if name in ("pwrite", "pwritev"):  # half of it is written before it fails
                    half(*args)
                self.act(name)
            return call(*args, **named)

        return watched


def half(fd: int, data: Any, offset: int) -> None:
    """Write half of what pwrite or pwritev was given, as a disk may that fails then."""
    whole = b"".join(data) if isinstance(data, list) else bytes(data)
    beside = OPEN(f"/proc/self/fd/{fd}", os.O_WRONLY)  # the descriptor may be for whole pages only
    PWRITE(beside, whole[: len(whole) // 2], offset)
    CLOSE(beside)


def fail(name: str) -> None:
    if name != "close":
        full = name in ("pwrite", "pwritev", "fallocate")
        raise OSError(errno.ENOSPC if full else errno.EIO, name)


def kill(name: str) -> None:
    raise Killed


@contextlib.contextmanager
def watched(at: int, act: Callable[[str], Any]) -> Iterator[Calls]:
    with pytest.MonkeyPatch.context() as patch:
        calls = Calls(patch, at, act)
        yield calls
        calls.armed = False


def life(path: Path, known: dict[str, Any]) -> None:
    """What a broker does with a store, again and again until each thing has succeeded."""
    store = known["store"] = again(lambda: open_store(path, segment_bytes=SMALL, retain_count=9))
    for _ in range(13):
        batch = batch_of(store)
        again(partial(store.reserve, batch.end))
        again(partial(write, store, batch))
        known["written"] = store.last
        if store.last % 3 == 0:
            again(store.sync)
        if store.last % 7 == 0:
            again(store.build_indexes)
            again(lambda: store.retain(SECOND))
    again(lambda: store.roll(SECOND))
    known["rolled"] = len(store.segments())
    store.close()


def write(store: Store, batch: Any) -> None:
    with batch.view() as view:
        store.write(view, batch.first, batch.last, batch.time, batch.ids)


def again(step: Callable[[], Any]) -> Any:
    try:
        return step()
    except (OSError, StoreError):
        return step()


def descriptors() -> set[int]:
    """Those that are open, but for the one that it takes to ask, and those that a mapping owns."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            os.fstat(int(name))
            if "/window" not in os.readlink(f"/proc/self/fd/{name}"):
                found.add(int(name))
    return found


def settle() -> None:
    """What is there now stays: `close_since` need not look at it again and again."""
    gc.collect()
    gc.freeze()


def close_since(opened: set[int]) -> None:
    """Close what a killed process had open, but what its mappings close as they go."""
    gc.collect()
    for fd in descriptors() - opened:
        os.close(fd)


def intact(path: Path, last: int, more: int = 0) -> None:
    """Every number up to `last` that retention leaves is there, and what was just being written."""
    store = open_store(path)
    assert last <= store.last <= last + more
    assert store.damage == []
    assert store.first <= max(1, store.last - 8)
    found = messages(store)
    assert list(found) == list(range(store.first, store.last + 1))
    assert all(payload == payload_of(number) for number, (_, payload) in found.items())
    put(store)
    assert messages(store)[store.last][1] == payload_of(store.last)
    store.close()


def test_given_any_one_call_failing_when_tried_again_then_nothing_is_missing() -> None:
    with in_memory() as memory:
        at, fired = 0, True
        while fired:
            at += 1
            path = memory / str(at)
            known: dict[str, Any] = {"written": 0}
            with watched(at, fail) as calls:
                try:
                    life(path, known)
                except (OSError, StoreError):
                    calls.armed = False
                    assert "rolled" in known, "only closing may fail without a second try"
            fired = calls.count >= at
            intact(path, known["written"])
            shutil.rmtree(path)
        assert at > 90, "each of the calls had its turn"


def test_given_a_kill_at_any_call_when_opened_then_what_was_written_is_there() -> None:
    settle()
    with in_memory() as memory:
        at, fired = 0, True
        while fired:
            at += 1
            path = memory / str(at)
            known: dict[str, Any] = {"written": 0}
            opened = descriptors()
            with watched(at, kill) as calls, contextlib.suppress(Killed):
                life(path, known)
            fired = calls.count >= at
            last = known["written"]
            known.clear()
            close_since(opened)
            intact(path, last, more=1)
            shutil.rmtree(path)
        assert at > 90, "each of the calls had its turn"


def test_given_a_write_cut_short_when_written_then_the_rest_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "store")
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: whole(fd, bytes(data)[:7], at))
    put(store, 5)
    assert list(messages(store)) == [1, 2, 3, 4, 5]
    store.close()


def test_given_a_move_failed_half_way_when_synced_again_then_nothing_is_missing(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path / "store")
    put(store, 100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwritev", short_then_full())
        with pytest.raises(OSError, match="No space"):
            store.sync()
    put(store)
    assert list(messages(store)) == list(range(1, 102)), "the window has it"
    assert store.sync() == 101
    assert on_disk(store.segments()[0])[: store.segments()[0].size] == contents(store.segments()[0])
    store.close()
    intact(tmp_path / "store", 101)


def test_given_a_move_failed_half_way_when_rolled_then_the_sealed_segment_ends_with_its_records(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path / "store")
    put(store, 100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwritev", short_then_full())
        with pytest.raises(OSError, match="No space"):
            store.sync()
    store.roll(SECOND)
    put(store, 4)
    store.sync()
    sealed = store.segments()[0]
    assert os.stat(sealed.file).st_size == sealed.size
    assert on_disk(sealed) == contents(sealed)
    assert list(messages(store)) == list(range(1, 105))
    abandon(store)
    intact(tmp_path / "store", 104)


def short_then_full() -> Callable[..., int]:
    calls = iter([4096])
    whole = os.pwritev

    def pwritev(fd: int, parts: list[memoryview], offset: int) -> int:
        size = next(calls, None)
        if size is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(fd, [parts[0][:size]], offset)

    return pwritev


def on_disk(piece: Segment) -> bytes:
    return Path(piece.file).read_bytes()


def contents(piece: Segment) -> bytes:
    """What a reader finds in a segment, and its head before that."""
    into = bytearray(piece.size - START)
    assert piece.read(START, memoryview(into), True) == len(into)
    return on_disk(piece)[:START] + bytes(into)


def test_given_a_roll_when_synced_then_all_before_the_new_name_is_on_the_disk_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "store")
    put(store)
    heard: list[str] = []
    sync, rename = os.fdatasync, os.rename

    def named(fd: int) -> None:
        heard.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        sync(fd)

    def renamed(old: str, new: str) -> None:
        heard.append("renamed")
        rename(old, new)

    monkeypatch.setattr(os, "fdatasync", named)
    monkeypatch.setattr(os, "rename", renamed)
    store.roll(SECOND)
    assert heard == [], "a roll waits for no disk"
    assert not Path(store.segments()[1].file).exists()
    store.sync()
    sealed = stem(1) + ".segment"
    assert heard[:4] == [sealed, sealed, stem(2) + ".segment.tmp", "renamed"]
    assert Path(store.segments()[1].file).exists()
    store.close()


def test_given_a_sync_that_failed_when_synced_again_then_all_that_was_unsynced_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "store", segment_bytes=4 * MEBIBYTE, window_bytes=64 * MEBIBYTE)
    put(store)
    assert store.sync() == 1
    put(store, 3, size=600_000)
    put(store, 3)

    def refuse(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", refuse)
        with pytest.raises(OSError, match="Input/output"):
            store.sync()
    piece = store.segments()[0]
    assert piece.synced == START + 80, "nothing counts as moved"
    os.pwrite(piece.fd, bytes(piece.size - 4096), 4096)  # the disk had none of it
    assert store.sync() == 7
    assert on_disk(piece)[: piece.size] == contents(piece)
    before = messages(store)
    abandon(store)
    store = open_store(tmp_path / "store")
    assert messages(store) == before
    assert list(before) == list(range(1, 8))
    store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of a few MiB, with nothing on it."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only who may mount a small filesystem can fill it up")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


def test_given_a_full_disk_when_written_then_it_is_reported_before_and_all_is_there_after(
    small_disk: Path,
) -> None:
    store = open_store(small_disk / "store", segment_bytes=MEBIBYTE)
    with contextlib.suppress(OSError):
        while store.last < 1000:
            put(store, size=50_000)
    assert 100 < store.last < 1000
    with pytest.raises(OSError, match="No space left"):
        store.reserve(50_100)
    small = 0
    with contextlib.suppress(OSError):
        while small < 10_000:  # what is smaller still goes in, as long as there is room
            put(store)
            small += 1
    last = store.last
    assert store.sync() == last
    store.retain_bytes = 3 * MEBIBYTE
    assert store.retain(SECOND)
    put(store, size=50_000)
    store.close()
    again = open_store(small_disk / "store")
    assert again.damage == []
    found = messages(again)
    assert list(found) == list(range(again.first, last + 2))
    assert found[last + 1][1] == payload_of(last + 1, 50_000)
    again.close()


def fill(path: Path) -> None:
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as file:
        while file.write(bytes(4096)) == 4096:
            pass


def test_given_a_full_disk_when_a_store_on_it_is_opened_then_retention_can_make_room(
    small_disk: Path,
) -> None:
    store = open_store(small_disk / "store", segment_bytes=MEBIBYTE)
    for _ in range(40):
        put(store, size=50_000)
    abandon(store)
    del store
    gc.collect()  # its mapping keeps the window's room
    fill(small_disk / "fill")
    store = open_store(small_disk / "store", segment_bytes=MEBIBYTE, retain_bytes=MEBIBYTE)
    assert (store.last, store.epoch) == (40, 2)
    with pytest.raises(OSError, match="No space left"):
        store.reserve(50_100)
    assert store.retain(SECOND)
    put(store, size=50_000)
    store.close()
    again = open_store(small_disk / "store")
    assert again.epoch == 3
    again.close()


def test_given_a_full_disk_when_a_store_is_made_then_it_is_reported(small_disk: Path) -> None:
    fill(small_disk / "fill")
    with pytest.raises(StoreError, match="make room on that disk"):
        open_store(small_disk / "store")
    (small_disk / "fill").unlink()
    store = open_store(small_disk / "store")
    give(store, batch_of(store))
    store.close()
