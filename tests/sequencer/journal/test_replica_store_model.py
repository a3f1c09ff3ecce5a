"""A member's journal and a list of messages, step by step the same, whatever is taken back."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sequencer.journal.replica_store import ReplicaStore
from tests.support.depth import examples
from tests.support.replica_stores import append, open_replica, said_in
from tests.support.stores import abandon, read_from

SIZES = (0, 70, 3000, 30_000)
SEGMENT = 20_000


class Expected(NamedTuple):
    epoch: int
    time: int
    payload: bytes
    ids: bool


class Member(RuleBasedStateMachine):
    """What a store does beside what it should do. `log` keeps what retention has deleted."""

    @initialize(retained=st.sampled_from([0, 60_000]))
    def begin(self, retained: int) -> None:
        self.folder = TemporaryDirectory()
        self.lives = 0
        self.limits = {"segment_bytes": SEGMENT, "retain_bytes": retained}
        self.log: dict[int, Expected] = {}
        self.first = 1
        self.last = 0
        self.epoch = 0
        self.before = 0  # the epoch that reset_to was told
        self.time = 1
        self.store: ReplicaStore = open_replica(self.path, **self.limits)

    @property
    def path(self) -> Path:
        return Path(self.folder.name) / f"life-{self.lives}"

    @rule(
        sizes=st.sampled_from(SIZES),
        later=st.lists(st.sampled_from([0, 1, 50]), min_size=1, max_size=6),
        epoch=st.sampled_from([0, 0, 0, 1, 2, 3]),
        ids=st.booleans(),
    )
    def write(self, sizes: int, later: list[int], epoch: int, ids: bool) -> None:
        epoch += max((one.epoch for one in self.log.values()), default=1)
        times = []
        for step in later:
            self.time += step
            times.append(self.time)
        for number, time in enumerate(times, self.last + 1):
            self.log[number] = Expected(epoch, time, said_in(epoch, number, sizes), ids)
        self.last = append(self.store, times, epoch, sizes, ids)

    @rule(higher=st.integers(0, 3))
    def begin_epoch(self, higher: int) -> None:
        self.store.begin_epoch(max((one.epoch for one in self.log.values()), default=1) + higher)

    @precondition(lambda self: self.last >= self.first)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(self.first - 1, self.last))
        self.store.truncate(number)
        self.last = number
        self.log = {at: one for at, one in self.log.items() if at <= number}
        self.time = max((one.time for one in self.log.values()), default=1)

    @rule(number=st.integers(0, 200), epoch=st.integers(1, 9))
    def reset_to(self, number: int, epoch: int) -> None:
        self.store.reset_to(number, epoch)
        self.first, self.last, self.log, self.before = number + 1, number, {}, epoch

    @precondition(lambda self: self.last < self.first)
    @rule(salt=st.integers(1, 1 << 31))
    def adopt(self, salt: int) -> None:
        self.store.adopt(f"{salt:016x}", salt)
        assert (self.store.id, self.store.salt) == (f"{salt:016x}", salt)
        self.first, self.last, self.log, self.before = 1, 0, {}, 0

    @rule()
    def roll(self) -> None:
        self.store.roll(self.time)

    @rule()
    def sync(self) -> None:
        assert self.store.sync() == self.store.last

    @rule(data=st.data())
    def retain(self, data: st.DataObject) -> None:
        keep_from = data.draw(st.integers(0, self.last + 1))
        for first, last in self.store.retain(self.time, keep_from):
            assert first == self.first
            assert not keep_from or last < keep_from
            self.first = last + 1

    @rule()
    def index(self) -> None:
        self.store.build_indexes()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_replica(self.path, **self.limits)

    @rule()
    def kill(self) -> None:
        copied = self.path
        self.lives += 1
        shutil.copytree(copied, self.path)
        abandon(self.store)
        self.store = open_replica(self.path, **self.limits)
        shutil.rmtree(copied)

    @rule(data=st.data())
    def read_from_number(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, self.last + 1))
        found = read_from(self.store, *self.store.locate(number))
        first = next((one[0] for one in found if one[0] >= number), None)
        here = max(number, self.first)
        assert first == (here if here <= self.last else None)

    @rule(data=st.data())
    def read_from_time(self, data: st.DataObject) -> None:
        time = data.draw(st.integers(0, self.time + 1))
        found = read_from(self.store, *self.store.locate_time(time))
        first = next((number for number, when, _ in found if when >= time), None)
        here = range(self.first, self.last + 1)
        assert first == next((n for n in here if self.log[n].time >= time), None)

    @rule(data=st.data())
    def ask_for_ids(self, data: st.DataObject) -> None:
        since = data.draw(st.integers(0, self.time + 1))
        most = data.draw(st.integers(1, 10))
        here = range(self.first, self.last + 1)
        wanted = [n for n in here if self.log[n].ids and self.log[n].time >= since]
        assert [one[0] for one in self.store.recent_ids(since, most)] == wanted[-most:]

    @rule(data=st.data())
    def ask_for_epochs(self, data: st.DataObject) -> None:
        since = data.draw(st.integers(0, self.last + 1))
        table: list[tuple[int, int]] = []
        begin = self.first - 1 if self.first > 1 else 1
        for number in range(begin, self.last + 1):
            epoch = self.epoch_of(number) if number >= since else 0
            if not table or table[-1][0] != epoch:
                table.append((epoch, number))
            assert self.store.epoch_of(number, since) == epoch
        assert self.store.epochs(since) == tuple(table)

    def epoch_of(self, number: int) -> int:
        """Of this number, which is here, or just before."""
        return self.log[number].epoch if number in self.log else self.before

    @invariant()
    def is_what_it_should_be(self) -> None:
        store = self.store
        assert (store.first, store.last) == (self.first, self.last)
        if self.last >= self.first:
            assert store.newest_time == self.log[self.last].time
        assert store.bytes == sum(piece.size for piece in store.segments())
        assert store.damage == []
        assert store.report == []
        found = {number: rest for number, *rest in read_from(store, *store.locate(store.first))}
        here = range(self.first, self.last + 1)
        assert found == {at: [self.log[at].time, self.log[at].payload] for at in here}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()


Member.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=25)


class TestMember(Member.TestCase):  # type: ignore[misc,valid-type]
    """The machine, where pytest finds it."""
