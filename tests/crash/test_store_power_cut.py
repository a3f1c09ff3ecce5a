"""The journal alone, its power cut at many moments: what it called safe is there, nothing else.

A program writes, syncs, rolls, retains, closes and opens again, and reports on a socket what it
knows to be safe; disk.c records both. Then the directory is laid out as a cut at any of these
moments leaves it, strictly or with a random part of the rest, and opened.
"""

import socket
from itertools import count
from pathlib import Path
from random import Random

import pytest

from sequencer.journal.kept_ids import Moment
from sequencer.journal.record import RecordBatch
from sequencer.journal.store import Store
from sequencer.journal.subject_index import read_subjects
from sequencer.msgids import Window
from tests.crash import shim
from tests.crash.contents import NOW, recover
from tests.crash.powercut import SEND, Disk, Entry, Life, streams, watched_life
from tests.support.depth import depth
from tests.support.stores import abandon, open_store
from tests.support.subject_indexes import build, entries_of, lasts_in

pytestmark = pytest.mark.skipif(shim.COMPILER is None, reason=shim.WHY_NOT)

CUTS = depth(15, 60)
MEBIBYTE = 1 << 20
RETAIN = 300_000  # bytes, some five segments


def payload(number: int) -> bytes:
    return b"%d " % number + bytes(Random(number).randrange(3000))


def append(store: Store, batch: RecordBatch, chance: Random, now: int) -> None:
    """A few messages, as the sequencer writes them."""
    number, need = store.last, 0
    for _ in range(chance.choice((1, 1, 3, 40))):
        number += 1
        before = batch.end
        batch.append_message(number, now, b"s.%d" % (number % 3), b"", b"", payload(number))
        need += batch.end - before
    store.reserve(need)
    with batch.view() as view:
        store.write(view, batch.first, batch.last, now, False)
    batch.clear()


def work(path: str, seed: int, tell: socket.socket) -> None:
    """The program that is watched; a process of its own."""
    chance = Random(seed)
    for life in range(3):
        now = NOW + life * MEBIBYTE
        store = open_store(path, now, segment_bytes=65_536, retain_bytes=RETAIN)
        window = ids_of(store)
        tell.send(b"%d %d\n" % (store.first, store.sync()))
        batch = RecordBatch(store.salt, store.epoch)
        for step in range(80):
            append(store, batch, chance, now + step)
            window.add(b"%d" % store.last, store.last, now + step)
            what = chance.randrange(20)
            if what == 0:
                store.roll(now + step)
            elif what == 1:
                store.retain(now + step)
                tell.send(b"%d 0\n" % store.first)
            elif what < 8:
                tell.send(b"0 %d\n" % store.sync())
            elif what == 8:
                while store.build_indexes():
                    pass
            elif what == 9:
                build(store)
        if chance.randrange(2):
            store.save_known_ids(Moment("boot", now, now))
            store.close()
        else:  # as a killed process leaves it, but for what only a process can hold
            abandon(store)


def kept(folder: Path) -> tuple[Store, list[int]]:
    """The store as it opens now, and the numbers that it has, each with its message."""
    store, found = recover(folder)
    for number, message in found.items():
        assert message.payload == payload(number)
    for segment in store.segments():
        index = read_subjects(segment, store.id)
        if index is not None:
            assert entries_of(index) == lasts_in(segment, store.salt)
    numbers, _, keys = ids_of(store).known()
    assert [int(key) for key in keys] == list(numbers)
    assert not keys or numbers[-1] == store.last, "they were saved with this number"
    return store, list(found)


def ids_of(store: Store) -> Window:
    """The ids that the last stop saved; no record has one."""
    store.keep_ids(1 << 60, 1000, Moment("boot", NOW, NOW))
    window = Window(1 << 60, 1000)
    store.refill_ids(window)
    return window


def told(past: list[Entry], at: int) -> tuple[int, int]:
    """The lowest number that must be there, and the highest."""
    lines = [line.split() for line in b"".join(streams(past, 1 << 63)).splitlines()]
    before = len(b"".join(streams(past, at)).splitlines())
    # A deletion is told when it is done: that of the line behind the cut may have begun.
    first = max((int(line[0]) for line in lines[: before + 1]), default=1)
    return max(first, 1), max((int(line[1]) for line in lines[:before]), default=0)


@pytest.fixture(scope="module", params=range(depth(2, 3)))
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Life:
    return watched_life(tmp_path_factory.mktemp("cut"), __name__, request.param)


def moments(past: list[Entry], chance: Random) -> list[int]:
    """When to cut: at each telling, or a sample of them, and at others."""
    sends = [entry.begin for entry in past if entry.what == SEND]
    others = [chance.choice((entry.begin, entry.end)) for entry in past]
    return sorted(
        chance.sample(sends, min(len(sends), CUTS // 2)) + chance.sample(others, CUTS // 2)
    )


@pytest.mark.parametrize("keep", [False, True], ids=["strict", "some-is-kept"])
def test_given_a_power_cut_then_all_that_was_safe_is_there(
    story: tuple[Disk, list[Entry], Path], keep: bool
) -> None:
    before, past, folder = story
    chance = Random(1)
    seen, beyond = 0, 0
    for seed, at in zip(count(), moments(past, chance)):
        first, last = told(past, at)
        before.cut(past, at).lay_out(folder, Random(seed) if keep else None)
        store, numbers = kept(folder)
        assert {*range(first, last + 1)} <= {*numbers}, f"cut {seed}: {store.report}"
        assert numbers == sorted({*numbers})
        lost = [damage for damage in store.damage if damage.first <= last]
        assert lost == []
        if not keep:
            assert store.damage == [], f"cut {seed}: only the end can miss: {store.report}"
        assert store.last >= last
        seen, beyond = max(seen, last), beyond + (store.last > last)
        go_on(store, folder)
    assert seen > 300
    assert beyond, "what was not called safe may be there as well"


def go_on(store: Store, folder: Path) -> None:
    """A recovered store takes more, and has it the next time."""
    last = store.last
    append(store, RecordBatch(store.salt, store.epoch), Random(3), NOW + (1 << 31))
    assert store.sync() == store.last > last
    store.close()
    again, numbers = kept(folder)
    assert again.last == store.last
    assert {*range(last + 1, again.last + 1)} <= {*numbers}
    again.close()


def test_given_no_sync_at_all_then_the_cut_takes_messages(
    story: tuple[Disk, list[Entry], Path],
) -> None:
    """Without this the test above might prove nothing."""
    before, past, folder = story
    written = [entry for entry in past if entry.what != 4]
    (at,) = [entry.end for entry in past[-1:]]
    before.cut(written, at).lay_out(folder)
    assert list(folder.iterdir()) == []
