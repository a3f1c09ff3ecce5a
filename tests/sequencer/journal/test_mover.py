"""What was composed is on the disk, byte for byte, whatever the sizes, rolls and failures."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.journal.header import START
from sequencer.journal.segment import PAGE, Segment
from sequencer.journal.store import Store
from tests.support.depth import examples
from tests.support.stores import (
    SECOND,
    WINDOW,
    abandon,
    in_memory,
    messages,
    open_store,
    payload_of,
    put,
)

SLAB = WINDOW // 16
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from([0, 1, 7, 3900, 4000, 4096, 30_000, 3 * SLAB])),
        st.tuples(st.sampled_from(["sync", "roll"]), st.just(0)),
        st.tuples(st.sampled_from(["pwritev", "fdatasync"]), st.integers(0, 2)),
    ),
    max_size=40,
)


class FailingOnce:
    """A system call that fails at one call of it; half of what it was to write is written."""

    def __init__(self, call: Any, after: int) -> None:
        self.call = call
        self.after = after

    def __call__(self, *args: Any) -> Any:
        self.after -= 1
        if self.after == -1:
            if len(args) == 3:
                fd, parts, offset = args
                self.call(fd, parts[:1], offset)
            raise OSError(errno.EIO, "Input/output error")
        return self.call(*args)


def sync_failing(store: Store, name: str, after: int) -> None:
    """A sync that may fail, and is made again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, name, FailingOnce(getattr(os, name), after))
        before = [piece.synced for piece in store.segments()]
        try:
            store.sync()
        except OSError:
            now = [piece.synced for piece in store.segments()]
            assert all(old <= new for old, new in zip(before, now, strict=False))
    assert store.sync() == store.last


def contents(piece: Segment) -> bytes:
    """The records of a segment, as its readers find them."""
    into = bytearray(piece.size - START)
    assert not into or piece.read(START, memoryview(into), True) == len(into)
    return bytes(into)


@given(steps)
@settings(max_examples=examples(90), deadline=None)
def test_given_any_sizes_syncs_and_failures_then_the_disk_has_what_was_composed(
    todo: list[tuple[str, int]],
) -> None:
    with in_memory() as memory:
        run(memory, todo)


def test_given_any_failure_on_a_disk_with_whole_pages_only_then_it_has_what_was_composed(
    tmp_path: Path,
) -> None:
    sizes = [0, 1, 7, 3900, 4000, 4096, 30_000, 3 * SLAB]
    todo = [("put", size) for size in sizes for _ in range(9)]
    for place in range(0, len(todo), 3):
        todo.insert(place, ("pwritev" if place % 2 else "fdatasync", place % 3))
    run(tmp_path, todo)


def run(path: Path, todo: list[tuple[str, int]]) -> None:
    store = open_store(path / "store", segment_bytes=5 * SLAB)
    written: dict[int, bytes] = {}
    for step, value in todo:
        if step == "put":
            number = put(store, size=value)
            written[number] = payload_of(number, value)
        elif step == "sync":
            store.sync()
        elif step == "roll":
            store.roll(SECOND)
        else:
            sync_failing(store, step, value)
        assert (
            store.segments()[-1].kept >= store.segments()[-1].synced or store.segments()[-1].slabs
        )
    assert {number: payload for number, (_, payload) in messages(store).items()} == written
    store.sync()
    for piece in store.segments():
        data = Path(piece.file).read_bytes()
        assert data[START : piece.size] == contents(piece)
        assert len(data) - piece.size < PAGE, "a page at most is filled up"
        assert not any(data[piece.size :])
    put(store)  # in the window only
    written[store.last] = payload_of(store.last)
    abandon(store)
    again = open_store(path / "store")
    assert (again.damage, again.last) == ([], len(written))
    assert {number: payload for number, (_, payload) in messages(again).items()} == written
    again.close()


@pytest.mark.parametrize("refused", ["open", "pwritev"])
def test_given_a_file_system_without_direct_writes_then_they_are_buffered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    whole_open, whole_write = os.open, os.pwritev
    direct: set[int] = set()

    def opened(path: str, flags: int, *mode: int) -> int:
        if refused == "open" and flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        fd = whole_open(path, flags & ~os.O_DIRECT, *mode)
        (direct.add if flags & os.O_DIRECT else direct.discard)(fd)
        return fd

    def written(fd: int, parts: list[memoryview], offset: int) -> int:
        if fd in direct:
            raise OSError(errno.EINVAL, "Invalid argument")
        return whole_write(fd, parts, offset)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "pwritev", written)
    store = open_store(tmp_path / "store")
    put(store, 100, size=500)
    assert store.sync() == 100
    assert not store.direct
    data = Path(store.segments()[0].file).read_bytes()
    assert data[START : store.segments()[0].size] == contents(store.segments()[0])
    put(store, 3)
    assert store.sync() == 103
    store.close()


def test_given_a_disk_that_writes_nothing_then_it_is_an_error_and_nothing_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "store")
    put(store)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", lambda *args: 0)
        with pytest.raises(OSError, match="wrote 0 bytes"):
            store.sync()
    assert store.segments()[0].synced == START
    assert store.sync() == 1
    store.close()


@pytest.mark.parametrize(("hurried", "share"), [(False, 4), (True, 8)])
def test_given_much_to_move_then_a_share_of_the_window_is_synced_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hurried: bool, share: int
) -> None:
    store: Any = open_store(tmp_path / "store", segment_bytes=2 * WINDOW)
    while store.bytes < 12 * SLAB:
        put(store, size=3000)
    written = [0]  # bytes, between one sync and the next
    write, sync = os.pwritev, os.fdatasync

    def count(fd: int, parts: list[memoryview], offset: int) -> int:
        done = write(fd, parts, offset)
        written[-1] += done
        return done

    def begin_again(fd: int) -> None:
        sync(fd)
        written.append(0)

    monkeypatch.setattr(os, "pwritev", count)
    monkeypatch.setattr(os, "fdatasync", begin_again)
    store._mover.hurried = hurried
    assert store.sync() == store.last
    assert WINDOW // share - SLAB <= max(written) <= WINDOW // share + SLAB
    store.close()
