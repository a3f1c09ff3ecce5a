"""The table of unacked messages, beside a plain dict."""

import random

import pytest

from broker.streams.pending_table import PendingTable
from tests.support.depth import depth

BASE = 1 << 40
TIME = 1_795_709_001_693_184_725


class Plain:
    """The same as a dict: sequence -> [number, time, deliveries, due, is ready, order]."""

    def __init__(self) -> None:
        self.rows: dict[int, list[int]] = {}
        self.ready: list[int] = []

    def expire(self, now: int, most: int) -> list[int]:
        due = sorted((row[3], one) for one, row in self.rows.items() if one not in self.ready)
        given_up = []
        for when, one in due:
            if when > now:
                break
            if most and self.rows[one][2] >= most:
                given_up.append(one)
                del self.rows[one]
            else:
                self.ready.append(one)
        return given_up


class Both:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.table, self.plain = PendingTable(True), Plain()
        self.sequence, self.number, self.now = BASE, 0, 1
        self.most = self.draw.choice([0, 2, 3])
        self.wait = self.draw.choice([5, 100, 1000])

    def some(self) -> int:
        return self.draw.choice(list(self.plain.rows)) if self.plain.rows else 0

    def step(self) -> None:
        kinds = ["track"] * 5 + ["ack"] * 3 + ["expire", "redeliver", "redeliver", "hurry"]
        kinds += ["postpone", "through", "below", "time", "time"]
        getattr(self, "on_" + self.draw.choice(kinds))()
        self.check()

    def on_track(self) -> None:
        for _ in range(self.draw.choice([1, 1, 30])):
            self.sequence += self.draw.choice([1, 1, 5])
            self.number += 1
            due = self.now + self.wait
            self.table.track(self.sequence, self.number, TIME + self.sequence, due)
            self.plain.rows[self.sequence] = [self.number, TIME + self.sequence, 1, due]

    def on_ack(self) -> None:
        for _ in range(self.draw.choice([1, 1, 20])):
            self.remove([self.some()])

    def remove(self, ones: list[int]) -> None:
        for one in ones:
            if one in self.plain.rows:
                self.table.ack(self.table.find(one))
            self.forget(one)

    def forget(self, one: int) -> None:
        self.plain.rows.pop(one, None)
        if one in self.plain.ready:
            self.plain.ready.remove(one)

    def on_through(self) -> None:
        one = self.some()
        if one and self.draw.random() < 0.2:
            below = [other for other in self.plain.rows if other <= one]
            assert self.table.ack_through(self.table.find(one)) == len(below)
            for other in below:
                self.forget(other)

    def on_below(self) -> None:
        if self.draw.random() < 0.2:
            bound = self.some() + 1
            below = [other for other in self.plain.rows if other < bound]
            assert self.table.drop_below(bound) == len(below)
            for other in below:
                self.forget(other)

    def on_time(self) -> None:
        self.now += self.draw.choice([1, 10, 200])

    def on_expire(self) -> None:
        self.table.expire(self.now, self.most)
        given_up = self.plain.expire(self.now, self.most)
        assert [one[0] for one in self.table.exhausted] == given_up
        self.table.exhausted.clear()

    def on_redeliver(self) -> None:
        one = self.table.next_ready()
        if one:
            row = self.plain.rows[one]
            row[2] += 1
            row[3] = self.now + self.draw.choice([self.wait, 3 * self.wait])
            self.plain.ready.remove(one)
            assert self.table.redeliver(self.table.find(one), row[3]) == row[2]

    def on_hurry(self) -> None:
        one = self.some()
        if one:
            self.table.hurry(self.table.find(one))
            if one not in self.plain.ready:
                self.plain.ready.append(one)

    def on_postpone(self) -> None:
        one = self.some()
        if one:
            due = self.plain.rows[one][3] = self.now + self.draw.choice([1, 50, 5000])
            self.table.postpone(self.table.find(one), due)
            if one in self.plain.ready:
                self.plain.ready.remove(one)

    def check(self) -> None:
        table, plain = self.table, self.plain
        assert table.count == len(plain.rows)
        assert table.redelivered == sum(row[2] > 1 for row in plain.rows.values())
        rows = [
            (one, row[0], row[1] & 0xFFFFFFFF, row[2], row[3])
            for one, row in sorted(plain.rows.items())
        ]
        assert table.rows() == rows
        if rows:
            assert (table.first_sequence(), table.first_number()) == rows[0][:2]
        assert table.last_due() == max((row[4] for row in rows), default=0)
        assert table.count_ready() == len(plain.ready)
        waiting = [row[3] for one, row in plain.rows.items() if one not in plain.ready]
        assert table.next_due() == min(waiting, default=(1 << 63) - 1)
        first = table.next_ready()
        assert (first in plain.ready) if plain.ready else first == 0


@pytest.mark.parametrize("seed", range(depth(12, 300)))
def test_given_random_steps_then_the_table_is_what_a_dict_would_be(seed: int) -> None:
    both = Both(seed)
    for _ in range(300):
        both.step()


def filled(count: int, kept: bool = False) -> PendingTable:
    table = PendingTable(kept)
    for number in range(1, count + 1):
        table.track(BASE + number, number, TIME + number, number)
    return table


def test_given_messages_that_become_due_then_they_are_ready_by_time_and_then_by_sequence() -> None:
    table = filled(5)
    table.postpone(table.find(BASE + 4), 2)
    table.postpone(table.find(BASE + 1), 9)
    assert table.expire(3, 0) == 3
    found = []
    while one := table.next_ready():
        found.append(one - BASE)
        table.redeliver(table.find(one), 100)
    assert found == [2, 4, 3]
    assert table.next_due() == 5


@pytest.mark.parametrize(
    ("number", "consumer", "time", "counts"),
    [
        (BASE + 2, 2, TIME + 2, True),
        (BASE + 2, 2, TIME + 2 + (1 << 32), True),  # only the low bits are known
        (BASE + 2, 2, TIME + 3, False),
        (BASE + 2, 3, TIME + 2, False),
        (BASE + 4, 4, TIME + 4, False),
        (BASE, 0, TIME, False),
        (BASE + 1, 1, TIME + 1, True),
        (BASE + 1, 4, TIME + 1, True),  # the first was delivered again since
        (BASE + 1, 5, TIME + 1, False),  # and no later than that
    ],
)
def test_given_an_ack_when_it_names_no_delivery_of_the_message_then_it_does_not_count(
    number: int, consumer: int, time: int, counts: bool
) -> None:
    table = filled(3)
    table.hurry(table.find(BASE + 1))
    table.redeliver(table.find(BASE + 1), 50)
    assert (table.check(number, consumer, time, 4) >= 0) is counts


def test_given_a_client_that_postpones_one_message_forever_then_nothing_grows() -> None:
    table = filled(3)
    before = table.memory()
    for now in range(1, 5000):
        table.postpone(table.find(BASE + 2), 10_000 - now)
        table.hurry(table.find(BASE + 2))
    assert table.memory() < before + 2000
    assert table.count_ready() == 1
    table.redeliver(table.find(table.next_ready()), 7)
    assert table.next_ready() == 0


def test_given_many_messages_acked_in_any_order_then_all_go() -> None:
    count = 20_000
    table = filled(count)
    numbers = list(range(1, count + 1))
    random.Random(1).shuffle(numbers)
    for number in numbers:
        place = table.check(BASE + number, number, TIME + number, count)
        table.ack(place)
    assert (table.count, table.rows()) == (0, [])


def test_given_many_messages_when_few_are_left_then_the_memory_is_given_back() -> None:
    table = filled(60_000)
    most = table.memory()
    for number in range(2, 60_001):
        table.ack(table.find(BASE + number))
    assert table.count == 1
    assert table.memory() < most / 20
    assert table.first_sequence() == BASE + 1
    table.track(BASE + 70_000, 60_001, TIME, 9)
    assert [row[0] - BASE for row in table.rows()] == [1, 70_000]


def test_given_changes_when_taken_then_only_what_is_new_is_in_them() -> None:
    table = filled(4, kept=True)
    table.ack(table.find(BASE + 2))
    new, gone, again = table.take_changes(BASE)
    low = 0xFFFFFFFF
    assert new == [
        *(BASE + 1, 1, (TIME + 1) & low, 1),
        *(2, 2, (TIME + 3) & low, 1),
        *(1, 1, (TIME + 4) & low, 1),
    ]
    assert (gone, again) == ([], [])
    table.track(BASE + 9, 5, TIME, 9)
    table.ack(table.find(BASE + 3))
    table.hurry(table.find(BASE + 4))
    table.redeliver(table.find(BASE + 4), 50)
    assert table.take_changes(BASE) == ([BASE + 9, 5, TIME & low, 1], [BASE + 3], [BASE + 4, 2])
    assert table.take_changes(BASE) == ([], [], [])
