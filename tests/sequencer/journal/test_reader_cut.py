"""Other readers of a store that takes numbers back: they go on, or say that they read what went."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sequencer.journal import Lost, Reader, Record, StoreError
from sequencer.journal.cut import truncate
from sequencer.journal.reader import Follower
from sequencer.journal.replica_store import ReplicaStore
from sequencer.journal.verify import verify
from seriatim.client.chunk_columns import Columns
from tests.sequencer.journal.test_journal_faults import Calls, watched
from tests.support.replica_stores import append, open_replica, said_in
from tests.support.stores import in_memory

LAST = 12
CUTS = range(LAST)
AFTER = 9


def write(store: ReplicaStore, last: int) -> None:
    """Up to this number, three of each epoch, in segments of at most two."""
    for number in range(store.last + 1, last + 1):
        append(store, [number], epoch_of(number))
        if number % 3 == 2:
            store.roll(number)


def epoch_of(number: int) -> int:
    return 1 + number // 3


def texts(items: list[Record | Lost]) -> dict[int, bytes]:
    assert all(isinstance(item, Record) for item in items), "nothing is lost"
    return {item.number: bytes(item.payload) for item in items if isinstance(item, Record)}


def expected(first: int, last: int, cut: int = LAST) -> dict[int, bytes]:
    """What numbers say after a cut and new messages."""
    here = range(first, last + 1)
    return {n: said_in(epoch_of(n) if n <= cut else AFTER, n) for n in here}


def drained(follower: Follower) -> dict[int, bytes]:
    """All that a poll finds until there is nothing more."""
    found: dict[int, bytes] = {}
    while items := follower.poll():
        found |= texts(items)
    return found


def bad(path: Path) -> list[str]:
    """What an operator is told is wrong."""
    return [one.text for one in verify(str(path)) if one.level != "info"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ReplicaStore]:
    store = open_replica(tmp_path / "store", segment_bytes=4096)
    yield store
    with contextlib.suppress(OSError):
        store.close()


@pytest.mark.parametrize("read", [0, 1, 4, 5, 7, LAST])
def test_given_a_cut_when_read_on_then_only_readers_past_it_get_an_error(read: int) -> None:
    with in_memory() as memory:
        for cut in CUTS:
            path = memory / str(cut)
            store = open_replica(path, segment_bytes=4096)
            write(store, read)
            reader = Reader(str(path))
            follower = reader.follow(1)
            assert drained(follower) == expected(1, read)
            write(store, LAST)
            store.truncate(cut)
            append(store, [20] * 8, AFTER)
            if read > cut:
                with pytest.raises(StoreError, match="truncated while it was read"):
                    follower.poll()
            else:
                assert drained(follower) == expected(read + 1, cut + 8, cut)
            follower.close()
            assert drained(reader.follow(1)) == expected(1, cut + 8, cut)
            assert bad(path) == []
            store.close()
            assert bad(path) == []


@pytest.mark.parametrize("again", [0, 4, 40])
@pytest.mark.parametrize("read", [0, 1, LAST])
def test_given_a_reset_store_when_read_on_then_readers_of_any_number_get_an_error(
    tmp_path: Path, store: ReplicaStore, read: int, again: int
) -> None:
    write(store, read)
    follower = Reader(store.path).follow(1)
    assert drained(follower) == expected(1, read)
    write(store, LAST)
    store.reset_to(again, 3)
    append(store, [20] * 8, AFTER)
    if read:
        with pytest.raises(StoreError, match="truncated while it was read"):
            follower.poll()
    else:
        items = [item for _ in range(3) for item in follower.poll()]
        if again:
            assert items.pop(0) == Lost(1, again)
        assert texts(items) == expected(again + 1, again + 8, 0)
    follower.close()
    assert bad(Path(store.path)) == []


def test_given_columns_that_are_tailed_when_cut_below_then_it_is_reported(
    store: ReplicaStore,
) -> None:
    write(store, LAST)
    steps: Iterator[Callable[[], object]] = iter(
        [lambda: store.truncate(5), lambda: append(store, [20] * 9, AFTER)]
    )

    def idle() -> bool:
        next(steps)()
        return True

    rows = Reader(store.path).columns(idle=idle)
    first = next(rows)
    assert isinstance(first, bytes)
    assert list(Columns(first).numbers) == list(range(1, LAST + 1))
    with pytest.raises(StoreError, match="truncated while it was read"):
        next(rows)


def test_given_a_place_that_is_remembered_when_cut_then_it_is_not_used(
    store: ReplicaStore,
) -> None:
    append(store, [1] * LAST, 1)
    reader = Reader(store.path)
    assert [len(Columns(one)) for one in reader.columns() if isinstance(one, bytes)] == [LAST]
    store.reset_to(0, 0)
    append(store, [20] * 30, AFTER, size=100)
    found = [Columns(one) for one in reader.columns(LAST + 1) if isinstance(one, bytes)]
    assert [list(one.numbers) for one in found] == [list(range(LAST + 1, 31))]


CHANGES: dict[str, tuple[Callable[[ReplicaStore], None], int]] = {
    "cut inside": (lambda store: store.truncate(7), 7),
    "cut at an epoch": (lambda store: store.truncate(8), 8),
    "cut all": (lambda store: store.truncate(0), 0),
    "begun again": (lambda store: store.reset_to(0, 0), 0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_given_a_reader_between_any_two_steps_of_a_cut_then_it_never_mixes_two_orders(
    change: str,
) -> None:
    act, cut = CHANGES[change]
    with in_memory() as memory:
        at, fired, told = 0, True, 0
        while fired:
            at += 1
            store = open_replica(memory / str(at), segment_bytes=4096)
            readers = Readers(store)
            with watched(at, readers.look) as calls:
                readers.calls = calls
                act(store)
            fired = calls.count >= at
            append(store, [20] * 8, AFTER)
            for follower, seen in readers.all:
                if poll(follower, seen):
                    assert seen == expected(1, cut + 8, cut)
                else:
                    told += 1
                follower.close()
            store.close()
        assert at > 8
        assert told


class Readers:
    """Readers that have read to different numbers: twice as many, to look at a step, or only then.

    They were there before the store had all of its messages.
    """

    calls: Calls

    def __init__(self, store: ReplicaStore) -> None:
        self.reader = Reader(store.path)
        self.all: list[tuple[Follower, dict[int, bytes]]] = []
        for read in (0, 3, 7, 8, 9, LAST):
            write(store, read)
            for follower in (self.reader.follow(1), self.reader.follow(1)):
                self.all.append((follower, drained(follower)))
        assert [len(seen) for _, seen in self.all[::2]] == [0, 3, 7, 8, 9, LAST]

    def look(self, name: str) -> None:
        """At one step of the change: half of them read on, and a new one begins."""
        self.calls.armed = False
        self.all.append((self.reader.follow(1), {}))
        for follower, seen in self.all[::2]:
            poll(follower, seen)
        self.calls.armed = True


def poll(follower: Follower, seen: dict[int, bytes]) -> bool:
    """Read what there is; False if the reader was told that it had read too much."""
    try:
        while items := follower.poll():
            found = texts(items)
            assert not found.keys() & seen.keys()
            seen |= found
    except StoreError:
        return False
    return True


def test_given_an_operator_who_cuts_when_read_on_then_it_is_reported(tmp_path: Path) -> None:
    store = open_replica(tmp_path / "store", segment_bytes=4096)
    write(store, LAST)
    store.close()
    follower = Reader(store.path).follow(1)
    assert len(drained(follower)) == LAST
    truncate(store.path, 7)
    store = open_replica(tmp_path / "store", segment_bytes=4096)
    append(store, [20] * 8, 4)
    with pytest.raises(StoreError, match="truncated while it was read"):
        follower.poll()
    follower.close()
    store.close()


def test_given_a_cut_that_a_crash_interrupted_when_verified_then_it_is_reported(
    store: ReplicaStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(store, LAST)
    changes: list[Callable[[], object]] = [
        lambda: store.truncate(5),
        lambda: store.reset_to(5, 2),
    ]
    for change in changes:
        with monkeypatch.context() as patch:
            patch.setattr("os.unlink", lambda name: (_ for _ in ()).throw(OSError(5, "no")))
            with pytest.raises(OSError, match="no"):
                change()
        assert "not complete" in next(verify(store.path)).text
        assert bad(Path(store.path)) == []
        with pytest.raises(StoreError, match="is being cut after number"):
            list(Reader(store.path).records())
