"""The forward table beside a naive one, which is a list of what was published."""

import tracemalloc
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sequencer.journal.record import record_size
from sequencer.replica import forward_table
from sequencer.replica.errors import BadRecords
from sequencer.replica.forward_table import NOBODY, ForwardTable
from sequencer.replica.replicated_log import Inspected
from tests.sequencer.replica.forwarding import (
    EPOCH,
    OTHER_RUN,
    RUN,
    SALT,
    Published,
    message_of,
    origin_of,
    read,
    record_of,
)
from tests.support.depth import IS_PURE, compiled_only, examples

CLIENTS = st.integers(1, 4)
SIZES = st.sampled_from([0, 5, 100, 1000, 90_000, 300_000])


@dataclass
class Naive:
    """An entry, as plainly as it can be."""

    one: Published
    time: int
    number: int = 0


class TableMachine(RuleBasedStateMachine):
    """Any calls in any order that a member could make; the log is a list of records."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ForwardTable(RUN, SALT)
        self.entries: list[Naive] = []
        self.settled = self.forgotten = 0
        self.sent = self.tried = self.looked = self.replied = 0
        self.log: list[tuple[Published, bytes]] = []
        self.watermark = 0
        self.counts = dict.fromkeys(range(1, 10), 0)
        self.now = 1

    def live(self) -> list[Naive]:
        return self.entries[self.settled :]

    def published(self, client: int, size: int, has_id: bool, run: int = RUN) -> Published:
        self.counts[client] += 1
        sequence = self.counts[client]
        message_id = b"%d.%d" % (client, sequence) if has_id else b""
        return Published(origin_of(client, run), sequence, bytes(size), message_id)

    def found(self, after: int, origin: int, sequence: int) -> int:
        for place in range(max(after, self.settled) + 1, len(self.entries) + 1):
            entry = self.entries[place - 1]
            if entry.number == 0 and entry.one[:2] == (origin, sequence):
                return place
        return 0

    @rule(client=CLIENTS, size=SIZES, has_id=st.booleans(), count=st.integers(1, 4))
    def put(self, client: int, size: int, has_id: bool, count: int) -> None:
        for _ in range(count):
            one = self.published(client, size, has_id)
            self.entries.append(Naive(one, self.now))
            assert self.table.put(message_of(one), self.now) == len(self.entries)
            self.now += 1

    @rule(client=CLIENTS, size=SIZES, has_id=st.booleans())
    def note(self, client: int, size: int, has_id: bool) -> None:
        if any(entry.number == 0 for entry in self.live()):
            return  # a coordinator has numbered all of them
        one = self.published(client, size, has_id)
        self.log.append((one, record_of(one, len(self.log) + 1, 0, EPOCH)))
        self.entries.append(Naive(one, self.now, len(self.log)))
        place = self.table.note(len(self.log), one.origin, one.sequence, self.now)
        self.now += 1
        assert place == self.tried == len(self.entries) or place == len(self.entries)
        self.tried = len(self.entries)

    @rule(most=st.sampled_from([0, 100, 1000, 200_000, 1 << 20]))
    def unsent(self, most: int) -> None:
        data = self.table.unsent(most)
        place = max(self.sent, self.settled)
        sent = read(data)
        for number, one in sent:
            while self.entries[place].number:
                place += 1
            assert (number, one) == (0, self.entries[place].one)
            place += 1
        if not sent:
            assert all(entry.number for entry in self.entries[place:])
            self.sent = len(self.entries)
        else:
            assert len(data) <= most or len(sent) == 1
            self.sent = place
            self.tried = max(self.tried, place)

    @rule(data=st.data(), as_view=st.booleans())
    def inspect(self, data: st.DataObject, as_view: bool) -> None:
        """The coordinator took some of what was sent, and others' messages."""
        first = len(self.log) + 1
        records, ids = [], False
        sent = [entry.one for entry in self.entries[self.settled : self.tried] if not entry.number]
        for one in sent[: data.draw(st.integers(0, len(sent)))]:
            what = data.draw(st.sampled_from(["it", "it", "it", "skip", "other", "unknown"]))
            if what == "skip":
                continue
            if what == "other":
                one = self.published(9, 5, True, OTHER_RUN)
            if what == "unknown":
                one = self.published(data.draw(st.integers(4, 8)), 5, False)
            records.append(one)
        records.append(self.published(9, 5, False, OTHER_RUN))
        for one in records:
            number = len(self.log) + 1
            self.log.append((one, record_of(one, number, 10 * number, EPOCH)))
            ids = ids or bool(one.message_id)
            place = self.found(self.looked, one.origin, one.sequence)
            if place:
                self.entries[place - 1].number = number
                self.looked = place
                self.tried = max(self.tried, place)
        last = len(self.log)
        text = b"".join(record for _, record in self.log[first - 1 :])
        given = memoryview(text) if as_view else text
        found = self.table.inspect(given, first, EPOCH)
        assert found == Inspected(last, 10 * first, 10 * last, ids)

    @rule(data=st.data())
    def inspect_what_is_bad(self, data: st.DataObject) -> None:
        """Nothing of it counts, and what is numbered from there on does not any more."""
        first = len(self.log) + 1
        ones = [entry.one for entry in self.live() if not entry.number][:3]
        ones.append(self.published(9, 5, False, OTHER_RUN))
        text = bytearray()
        for number, one in enumerate(ones, first):
            text += record_of(one, number, 10 * number, EPOCH)
        at = data.draw(st.integers(0, len(text) - 1))
        text[at] ^= 1 << data.draw(st.integers(0, 7))
        with pytest.raises(BadRecords):
            self.table.inspect(bytes(text), first, EPOCH)
        self.void(first - 1)

    @rule(data=st.data(), ahead=st.integers(0, 5))
    def answered(self, data: st.DataObject, ahead: int) -> None:
        origin, sequence = origin_of(1), 1 << 40
        live = self.live()
        is_known = data.draw(st.integers(0, 4)) if live else 0
        if is_known:
            origin, sequence = data.draw(st.sampled_from(live)).one[:2]
        number = max(len(self.log) + ahead - 3, 1)
        place = self.found(self.replied, origin, sequence)
        assert self.table.answered(origin, sequence, number) == bool(place)
        if place:
            self.entries[place - 1].number = number
            self.replied = place
            self.tried = max(self.tried, place)

    def void(self, number: int) -> None:
        for entry in self.live():
            if number < entry.number < NOBODY:
                entry.number = 0
        self.looked = self.replied = self.settled

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(self.watermark, len(self.log)))
        cut = b"".join(record for _, record in self.log[number:])
        self.table.void_above(number, cut)
        self.void(number)
        del self.log[number:]

    @rule()
    def rewind(self) -> None:
        self.table.rewind()
        self.sent = self.looked = self.replied = self.settled

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        self.watermark = data.draw(st.integers(self.watermark, len(self.log)))
        while self.settled < len(self.entries):
            number = self.entries[self.settled].number
            if not (0 < number <= self.watermark or number == NOBODY):
                break
            self.settled += 1
        assert self.table.settle(self.watermark) == self.settled

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        self.forgotten = data.draw(st.integers(self.forgotten, self.settled))
        self.table.free_up_to(self.forgotten)

    @rule(clients=st.sets(CLIENTS, max_size=2))
    def drop(self, clients: set[int]) -> None:
        origins = frozenset(map(origin_of, clients))
        for entry in self.live():
            if entry.one.origin in origins:
                entry.number = NOBODY
        self.table.drop(origins)

    @rule(data=st.data())
    def expired(self, data: st.DataObject) -> None:
        before = data.draw(st.integers(0, self.now))
        wanted = {
            entry.one.origin
            for entry in self.live()
            if entry.one.message_id and entry.time < before and not entry.number
        }
        assert self.table.expired(before) == wanted

    @invariant()
    def the_same(self) -> None:
        table = self.table
        assert (table.placed, table.settled) == (len(self.entries), self.settled)
        for place in range(self.forgotten + 1, len(self.entries) + 1):
            assert table.number_of(place) == self.entries[place - 1].number
        origins = [entry.one.origin for entry in self.entries if entry.number != NOBODY]
        live = [entry for entry in self.live() if entry.number != NOBODY]
        tried = self.entries[self.settled : self.tried]
        assert table.all_origins() == {entry.one.origin for entry in live} <= set(origins)
        sent = {entry.one.origin for entry in tried if entry.number != NOBODY}
        assert table.sent_origins() == sent
        unnumbered = [e.one for e in self.live() if not e.number]
        needed = sum(record_size(10, 0, len(one.headers + one.payload)) for one in unnumbered)
        assert table.held_bytes >= needed
        if self.settled == len(self.entries):
            assert table.held_bytes == 0


TestTableBesideANaiveOne = TableMachine.TestCase
TestTableBesideANaiveOne.settings = settings(
    max_examples=examples(150), stateful_step_count=40, deadline=None
)


def filled(count: int, size: int = 5, client: int = 1) -> ForwardTable:
    table = ForwardTable(RUN, SALT)
    for sequence in range(1, count + 1):
        table.put(message_of(Published(origin_of(client), sequence, bytes(size))), 1)
    return table


def test_given_records_that_were_sent_then_those_without_a_number_are_in_flight() -> None:
    table = ForwardTable(RUN, SALT)
    ones = [Published(origin_of(client), 1, bytes(100), b"") for client in (1, 2, 3, 4)]
    for one in ones:
        table.put(message_of(one), 1)
    size = record_size(10, 0, 100)
    assert table.in_flight == 0
    assert len(table.unsent(1 << 20)) == table.in_flight == 4 * size
    table.inspect(record_of(ones[0], 1, 1, EPOCH), 1, EPOCH)
    assert table.in_flight == 3 * size
    table.answered(ones[1].origin, 1, 1)
    assert table.in_flight == 2 * size
    table.drop(frozenset([ones[2].origin]))
    assert table.in_flight == size
    table.rewind()
    assert table.in_flight == 0
    assert len(table.unsent(1 << 20)) == table.in_flight == size


@compiled_only
def test_given_much_that_was_settled_then_its_memory_is_given_back() -> None:
    tracemalloc.start()
    try:
        table = filled(20_000, 1000)
        assert table.held_bytes == 20_000 * record_size(10, 0, 1000)
        assert tracemalloc.get_traced_memory()[0] > table.held_bytes
        for place in range(1, 20_001):
            table.known(place, place)
        assert table.settle(19_999) == 19_999
        table.free_up_to(19_000)
        assert table.held_bytes == record_size(10, 0, 1000)
        assert tracemalloc.get_traced_memory()[0] < 7 << 20, "but some blocks, to be used again"
        assert table.number_of(19_001) == 19_001
        table.settle(20_000)
        table.free_up_to(20_000)
        assert table.held_bytes == 0
    finally:
        tracemalloc.stop()


def test_given_records_of_a_dropped_client_then_they_are_passed_over_and_others_found() -> None:
    table = filled(2)
    for sequence in range(1, 1001):
        table.put(message_of(Published(origin_of(2), sequence)), 1)
    assert len(read(table.unsent(1 << 20))) == 1002
    table.drop(frozenset([origin_of(1)]))
    assert table.settle(0) == 2
    ones = [Published(origin_of(1), n) for n in (1, 2)]
    ones += [Published(origin_of(2), n) for n in range(1, 1001)]
    data = b"".join(record_of(one, n, 5, EPOCH) for n, one in enumerate(ones, 1))
    assert table.inspect(data, 1, EPOCH).last == 1002
    assert table.number_of(3) == 3
    assert table.number_of(1002) == 1002
    table.put(message_of(Published(origin_of(1), 3)), 1)
    assert table.answered(origin_of(1), 3, 7), "its origin is known again"


def test_given_a_peer_that_makes_us_search_then_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 50 if IS_PURE else 40_000
    if IS_PURE:
        monkeypatch.setattr(forward_table, "WASTE_MAX", 50 * 49)
    table = filled(count)
    with pytest.raises(BadRecords, match="too many records of this member are not known"):
        all(not table.answered(origin_of(1), count + 1, 1) for _ in range(count))
    table.rewind()
    assert table.answered(origin_of(1), count, 1)


@pytest.mark.parametrize("number", [0, 1 << 63, NOBODY])
def test_given_an_answer_with_what_is_not_a_number_then_it_is_refused(number: int) -> None:
    with pytest.raises(BadRecords, match=f"{number} is given as a number"):
        filled(1).answered(origin_of(1), 1, number)


def good(number: int, epoch: int = EPOCH, time: int = 5, salt: int = SALT) -> bytes:
    return record_of(Published(origin_of(1, OTHER_RUN), number), number, time, epoch, salt)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "no records"),
        (good(1) + good(3), "number 3 comes where 2 was to come"),
        (good(1) + good(1), "number 1 comes where 2 was to come"),
        (good(2), "number 2 comes where 1 was to come"),
        (good(1) + good(2, epoch=6), "number 2 is of epoch 6, not of 7"),
        (good(1) + good(2, time=4), "number 2 has a time before that of the number before it"),
        (good(1) + good(2, salt=1), "number 2 is damaged"),
        (good(1) + good(2)[:-1], "number 2 ends too early"),
        (good(1) + b"12345678", "number 2 ends too early"),
    ],
    ids=range(9),
)
def test_given_records_that_cannot_be_taken_then_it_says_which_and_why(
    data: bytes, text: str
) -> None:
    with pytest.raises(BadRecords, match=text):
        ForwardTable(RUN, SALT).inspect(data, 1, EPOCH)


def test_given_another_salt_when_it_is_learned_then_records_are_right() -> None:
    table = ForwardTable(RUN, 0)
    with pytest.raises(BadRecords, match="number 1 is damaged"):
        table.inspect(good(1), 1, EPOCH)
    table.know_salt(SALT)
    assert table.salt == SALT
    assert table.inspect(good(1), 1, EPOCH) == Inspected(1, 5, 5, False)
