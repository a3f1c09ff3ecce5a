"""Allowances and meters: who waits, in which order they go on, and that none is forgotten."""

from dataclasses import dataclass
from typing import Any, cast

import pytest

from broker.limits.meter import READ_MAX, READ_MIN, SHORTEST, Allowance, Meter, Pauses
from testkit.manual_loop import ManualLoop


@dataclass
class Publisher:
    """Publishes what it is told to, and notes whether it is read."""

    messages: int = 0
    size: int = 0
    held: int = 0
    awaited: int = 0

    def published(self) -> tuple[int, int]:
        return self.messages, self.size

    def need(self) -> int:
        return self.awaited

    def hold_back(self) -> None:
        self.held += 1

    def proceed(self) -> None:
        self.held -= 1


class Room:
    """An allowance with so many connections."""

    def __init__(self, connections: int, rate: int, size: int = 0, burst: float = 1.0) -> None:
        self.loop: Any = ManualLoop()
        self.allowance = Allowance(cast(Any, self.loop))
        self.allowance.limit(rate, size, burst)
        self.pauses = Pauses()
        self.publishers = [Publisher() for _ in range(connections)]
        self.meters = [Meter(self.allowance, one, self.pauses, "u") for one in self.publishers]

    def read(self, at: int, messages: int, size: int = 0) -> bool:
        """The reader comes to this connection; whether it could publish."""
        if self.publishers[at].held or not self.meters[at].readable(self.loop.time()):
            return False
        self.publishers[at].messages += messages
        self.publishers[at].size += size
        self.meters[at].charge()
        return True


def test_given_a_debt_then_nobody_of_that_user_is_read_until_it_is_paid() -> None:
    room = Room(connections=2, rate=10)
    assert room.read(0, 30)
    assert not room.read(0, 1)
    assert not room.read(1, 1), "another connection of the same user"
    assert (room.pauses.now, room.pauses.begun) == (2, 2)
    room.loop.later(1.9)
    assert [one.held for one in room.publishers] == [1, 1]
    room.loop.later(0.2)
    assert [one.held for one in room.publishers] == [0, 0]
    assert room.pauses.now == 0
    assert room.read(0, 1)


def test_given_many_connections_of_a_user_then_each_has_its_turn() -> None:
    room, count = Room(connections=5, rate=100), 5
    for _ in range(5000):
        for at in range(count):
            room.read(at, 10)
        room.loop.later(0.01)
    published = [one.messages for one in room.publishers]
    assert sum(published) == pytest.approx(100 * 50 + 100, abs=60)
    assert max(published) - min(published) <= 20


def test_given_the_limits_then_a_read_is_as_long_as_a_burst_of_the_shortest_messages() -> None:
    assert Room(1, rate=100).meters[0].readable(1000.0) == 100 * SHORTEST
    assert Room(1, rate=100, burst=0.5).meters[0].readable(1000.0) == 50 * SHORTEST
    assert Room(1, rate=1).meters[0].readable(1000.0) == READ_MIN
    assert Room(1, rate=0, size=5000).meters[0].readable(1000.0) == 5000
    assert Room(1, rate=10**9).meters[0].readable(1000.0) == READ_MAX
    room = Room(1, rate=1)
    room.publishers[0].awaited = 1 << 20
    assert room.meters[0].readable(1000.0) == 1 << 20, "the rest of one message"


def test_given_bytes_then_the_limit_that_is_reached_first_counts() -> None:
    room = Room(1, rate=1000, size=1000)
    assert room.read(0, 1, 3000)
    assert not room.read(0, 1)
    room.loop.later(1.9)
    assert room.publishers[0].held
    room.loop.later(0.2)
    assert not room.publishers[0].held


def test_given_rows_that_are_staged_then_they_count_as_messages() -> None:
    room = Room(1, rate=10)
    room.meters[0].charge(rows=30)
    assert not room.read(0, 1)
    room.loop.later(2.1)
    assert room.read(0, 1)


@pytest.mark.parametrize("leaving", [0, 1, 2])
def test_given_one_that_goes_while_it_waits_then_the_others_still_have_their_turn(
    leaving: int,
) -> None:
    room = Room(connections=3, rate=10)
    assert room.read(0, 20)
    assert [room.read(at, 1) for at in range(3)] == [False] * 3
    room.meters[leaving].detach()
    assert (room.publishers[leaving].held, room.pauses.now) == (0, 2)
    room.loop.later(1.1)
    assert (room.pauses.now, [one.held for one in room.publishers]) == (0, [0, 0, 0])


def test_given_all_gone_then_no_timer_is_left() -> None:
    room = Room(connections=2, rate=1)
    assert room.read(0, 1000)
    assert [room.read(at, 1) for at in range(2)] == [False] * 2
    for meter in room.meters:
        meter.detach()
        meter.detach()  # again: it is not there any more
    assert all(timer.call is None for _, _, timer in room.loop._timers)
    assert room.pauses.now == 0


def test_given_the_limit_is_raised_while_they_wait_then_they_go_on_sooner() -> None:
    room = Room(1, rate=1)
    assert room.read(0, 100)
    assert not room.read(0, 1)
    room.allowance.limit(1000, 0, 1.0)
    room.loop.later(0.2)
    assert room.publishers[0].held == 0
    room.allowance.limit(0, 0, 1.0)
    assert room.read(0, 10**9)
    assert room.read(0, 1)
