"""A store and a list of messages, step by step the same, whatever happens to the store."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sequencer.journal.record import RecordBatch
from sequencer.journal.store import Store
from tests.support.depth import examples
from tests.support.stores import abandon, give, headers_of, open_store, payload_of, read_from

SIZES = (0, 1, 70, 3000, 70_000)
SEGMENT = 20_000


class Journal(RuleBasedStateMachine):
    """What a store with small segments does beside what it should do."""

    @initialize(retained=st.sampled_from([0, 60_000, 300_000]))
    def begin(self, retained: int) -> None:
        self.folder = TemporaryDirectory()
        self.lives = 0
        self.limits = {"segment_bytes": SEGMENT, "retain_bytes": retained}
        self.expected: dict[int, tuple[int, bytes]] = {}
        self.with_ids: list[int] = []
        self.time = 1
        self.first = 1
        self.store: Store = open_store(self.path, **self.limits)

    @property
    def path(self) -> Path:
        return Path(self.folder.name) / f"life-{self.lives}"

    @rule(
        sizes=st.lists(st.sampled_from(SIZES), min_size=1, max_size=8),
        later=st.sampled_from([0, 1, 50]),
        ids=st.booleans(),
    )
    def write(self, sizes: list[int], later: int, ids: bool) -> None:
        self.time += later
        batch = RecordBatch(self.store.salt, self.store.epoch)
        for number, size in enumerate(sizes, self.store.last + 1):
            headers = headers_of(number) if ids else b""
            payload = payload_of(number, size)
            batch.append_message(number, self.time, b"a", b"", headers, payload, flags=int(ids))
            self.expected[number] = (self.time, payload)
            if ids:
                self.with_ids.append(number)
        give(self.store, batch)

    @rule()
    def roll(self) -> None:
        self.store.roll(self.time)

    @rule()
    def sync(self) -> None:
        assert self.store.sync() == self.store.last

    @rule()
    def retain(self) -> None:
        for first, last in self.store.retain(self.time):
            assert first == self.first
            self.first = last + 1

    @rule()
    def index(self) -> None:
        self.store.build_indexes()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = open_store(self.path, **self.limits)

    @rule()
    def kill(self) -> None:
        copied = self.path
        self.lives += 1
        shutil.copytree(copied, self.path)
        abandon(self.store)
        self.store = open_store(self.path, **self.limits)
        shutil.rmtree(copied)

    @rule(data=st.data())
    def read_from_number(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(0, self.store.last + 1))
        found = read_from(self.store, *self.store.locate(number))
        first = next((one[0] for one in found if one[0] >= number), None)
        here = max(number, self.first)
        assert first == (here if here <= self.store.last else None)

    @rule(data=st.data())
    def read_from_time(self, data: st.DataObject) -> None:
        time = data.draw(st.integers(0, self.time + 1))
        found = read_from(self.store, *self.store.locate_time(time))
        first = next((number for number, when, _ in found if when >= time), None)
        here = range(self.first, self.store.last + 1)
        assert first == next((n for n in here if self.expected[n][0] >= time), None)

    @rule(data=st.data())
    def ask_for_ids(self, data: st.DataObject) -> None:
        since = data.draw(st.integers(0, self.time + 1))
        most = data.draw(st.integers(1, 10))
        here = [n for n in self.with_ids if n >= self.first and self.expected[n][0] >= since]
        assert [one[0] for one in self.store.recent_ids(since, most)] == here[-most:]

    @invariant()
    def is_what_it_should_be(self) -> None:
        store = self.store
        last = max(self.expected, default=0)
        assert (store.first, store.last) == (self.first, last)
        assert store.newest_time == (self.expected[last][0] if last else 0)
        assert store.bytes == sum(piece.size for piece in store.segments())
        assert store.damage == []
        assert store.report == []
        found = {number: (time, payload) for number, time, payload in self.everything()}
        here = range(self.first, last + 1)
        assert found == {number: self.expected[number] for number in here}

    def everything(self) -> list[tuple[int, int, bytes]]:
        return list(read_from(self.store, *self.store.locate(self.store.first)))

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()


Journal.TestCase.settings = settings(max_examples=examples(40), stateful_step_count=25)


class TestJournal(Journal.TestCase):  # type: ignore[misc,valid-type]
    """The machine, where pytest finds it."""
