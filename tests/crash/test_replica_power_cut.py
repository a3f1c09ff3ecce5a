"""A member's journal, its power cut while it takes numbers back: it has one order, and knows it.

A program appends records of several epochs, cuts, and begins again, and reports on a socket what it
is about to do and what it has done; disk.c records both. Then the directory is laid out as a cut at
any of these moments leaves it, and opened.
"""

import socket
from collections.abc import Iterable
from itertools import count, pairwise
from pathlib import Path
from random import Random

import pytest

from sequencer.journal.replica_store import ReplicaStore
from tests.crash import shim
from tests.crash.contents import NOW
from tests.crash.powercut import SEND, SYNC, Disk, Entry, Life, streams, watched_life
from tests.support.depth import depth
from tests.support.replica_stores import append, open_replica, said_in
from tests.support.stores import abandon, messages

pytestmark = pytest.mark.skipif(shim.COMPILER is None, reason=shim.WHY_NOT)

CUTS = depth(40, 120)
SEGMENT = 8192
STEPS = 60


class Program:
    """A store's whole life. No number is given twice in an epoch."""

    def __init__(self, path: str, seed: int, tell: socket.socket) -> None:
        self.path = path
        self.chance = Random(seed)
        self.tell = tell
        self.epoch = 1
        self.time = NOW
        self.store: ReplicaStore

    def say(self, *words: object) -> None:
        self.tell.send(" ".join(map(str, words)).encode() + b"\n")

    def run(self) -> None:
        for life in range(3):
            self.store = open_replica(self.path, NOW, segment_bytes=SEGMENT)
            self.say("synced", self.store.sync())
            for _ in range(STEPS):
                self.step()
            if life % 2:
                self.store.close()
            else:  # as a killed process leaves it, but for what only a process can hold
                abandon(self.store)

    def step(self) -> None:
        chance, store = self.chance, self.store
        what = chance.randrange(20)
        if what < 9:
            self.append()
        elif what < 12:
            self.say("synced", store.sync())
        elif what == 12:
            while store.build_indexes():
                pass
        elif what == 13:
            store.roll(self.time)
        elif what == 14:
            self.epoch += 1
            store.begin_epoch(self.epoch)
        elif what == 15 and chance.randrange(3) == 0:
            number = chance.choice((0, store.last, store.last + 30, max(store.last - 5, 0)))
            self.epoch += 1
            self.say("anew", number)
            store.reset_to(number, self.epoch)
            self.say("begun", number)
        elif what > 15 and store.last >= store.first:
            near = chance.choice((3, 30, 300))
            number = chance.randint(max(store.last - near, store.first - 1), store.last - 1)
            self.epoch += 1
            self.say("cut", number)
            store.truncate(number)
            self.say("shortened", number)

    def append(self) -> None:
        epoch = self.chance.choice((self.epoch, max(self.store.epoch, 1)))
        many, size = self.chance.choice((1, 2, 10)), self.chance.choice((10, 300, 3000))
        times = range(self.time, self.time + many)
        self.say("written", self.store.last + 1, self.store.last + many, epoch)
        self.time += many
        append(self.store, times, epoch, size)


class Known:
    """What must be there, and what may be, from what the program had said."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self.first, self.safe = 1, 0
        self.log: dict[int, int] = {}  # the epoch of each number
        self.anew = -1  # it may have begun again after this number
        for line in lines:
            word, *numbers = line.split()
            getattr(self, word.decode())(*map(int, numbers))

    def synced(self, number: int) -> None:
        self.safe = number

    def written(self, first: int, last: int, epoch: int) -> None:
        self.log |= dict.fromkeys(range(first, last + 1), epoch)

    def cut(self, number: int) -> None:
        self.safe = min(self.safe, number)

    def shortened(self, number: int) -> None:
        self.log = {at: epoch for at, epoch in self.log.items() if at <= number}
        self.safe = number

    def anew_(self, number: int) -> None:
        self.anew = number

    def begun(self, number: int) -> None:
        self.first, self.safe, self.log, self.anew = number + 1, number, {}, -1


def work(path: str, seed: int, tell: socket.socket) -> None:
    """What is watched; a process of its own."""
    Program(path, seed, tell).run()


@pytest.fixture(scope="module", params=range(depth(2, 6)))
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Life:
    return watched_life(tmp_path_factory.mktemp("cut"), __name__, request.param)


def known_at(past: list[Entry], at: int) -> Known:
    lines = b"".join(streams(past, at)).replace(b"anew ", b"anew_ ").splitlines()
    return Known(lines)


def moments(past: list[Entry], chance: Random) -> list[int]:
    """When to cut: while numbers are taken back, mostly."""
    sends = [entry for entry in past if entry.what == SEND]

    def inside(*words: bytes) -> list[int]:
        """Moments between such a word and the next one."""
        back = [
            (one.begin, after.end) for one, after in pairwise(sends) if one.data.startswith(words)
        ]
        return [
            chance.choice((entry.begin, entry.end))
            for entry in past
            if any(begin <= entry.begin <= end for begin, end in back)
        ]

    others = [chance.choice((entry.begin, entry.end)) for entry in past]
    others += [one.end for one in sends if one.data.startswith(b"synced")] * 9
    taken = chance.sample(inside(b"cut", b"anew"), CUTS // 2) + chance.sample(others, CUTS // 4)
    anew = inside(b"anew")  # only a few of these leave a beginning that is not complete
    return sorted(taken + chance.sample(anew, min(CUTS, len(anew))))


@pytest.mark.parametrize("keep", [False, True], ids=["strict", "some-is-kept"])
def test_given_a_power_cut_then_the_store_is_as_it_was_or_cut_and_knows_its_epochs(
    story: tuple[Disk, list[Entry], Path], keep: bool
) -> None:
    before, past, folder = story
    seen = {"begun": 0, "shorter": 0}
    for seed, at in zip(count(), moments(past, Random(1))):
        known = known_at(past, at)
        before.cut(past, at).lay_out(folder, Random(seed) if keep else None)
        store = open_replica(folder, NOW, segment_bytes=SEGMENT)
        found = messages(store)
        begun = known.anew >= 0 and store.first == known.anew + 1 and not found
        if begun:
            seen["begun"] += 1
            assert store.last == known.anew
        else:
            assert store.first == known.first, f"cut {seed}: {store.report}"
            assert {*range(known.first, known.safe + 1)} <= {*found}, f"cut {seed}: {store.report}"
            seen["shorter"] += store.last < max(known.log, default=0)
        for number, (_, payload) in found.items():
            epoch = known.log[number]
            assert payload.startswith(said_in(epoch, number))
            assert store.epoch_of(number) == epoch, f"cut {seed}: {store.epochs()}"
        assert [one for one in store.damage if begun or one.first <= known.safe] == []
        if not keep:
            assert store.damage == []
            assert [text for level, text in store.report if level == "error"] == []
        go_on(store, max(known.log.values(), default=0) + 100)
    assert seen["begun"], "a beginning that was not complete was completed"
    assert seen["shorter"]


def go_on(store: ReplicaStore, epoch: int) -> None:
    """A recovered store takes more, and has it the next time."""
    last = append(store, [NOW * 2], epoch)
    assert store.sync() == last
    store.close()
    again = open_replica(store.path, NOW)
    assert (again.last, again.epoch_of(last)) == (last, epoch)
    assert messages(again)[last][1] == said_in(epoch, last)
    again.close()


def test_given_no_sync_at_all_then_the_cut_takes_messages(
    story: tuple[Disk, list[Entry], Path],
) -> None:
    """Without this the test above might prove nothing."""
    before, past, folder = story
    written = [entry for entry in past if entry.what != SYNC]
    before.cut(written, past[-1].end).lay_out(folder)
    assert list(folder.iterdir()) == []
