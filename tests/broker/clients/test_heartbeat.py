"""One timer for the pings of all clients: each is checked when it is due, by a fake clock."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.clients.heartbeat import STALE_MAX, Heartbeat
from tests.support.depth import examples


class Timer:
    """A call at a time, which may be cancelled."""

    def __init__(self, due: float, work: Callable[[], None]) -> None:
        self.due, self.work, self.cancelled = due, work, False

    def cancel(self) -> None:
        self.cancelled = True


class Clock:
    """A loop's clock and its timers, wound by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []
        self.most = 0

    def time(self) -> float:
        return self.now

    def call_at(self, due: float, work: Callable[[], None]) -> Timer:
        self.timers.append(Timer(due, work))
        return self.timers[-1]

    def live(self) -> list[Timer]:
        return [timer for timer in self.timers if not timer.cancelled]

    def wind(self, until: float) -> None:
        """Let time pass, timer by timer."""
        while due := [timer for timer in self.live() if timer.due <= until]:
            timer = min(due, key=lambda one: one.due)
            self.timers.remove(timer)
            self.now = max(self.now, timer.due)
            timer.work()
            self.most = max(self.most, len(self.live()))
        self.now = until


class Listener:
    """A session as the heartbeat knows it: a cid, and when to come again."""

    def __init__(self, cid: int, every: float) -> None:
        self.cid, self.every = cid, every
        self.beats: list[float] = []

    def beat(self, now: float) -> float:
        self.beats.append(round(now, 6))
        return now + self.every if self.every else 0.0


def made() -> tuple[Heartbeat, Clock]:
    clock = Clock()
    return Heartbeat(cast(asyncio.AbstractEventLoop, clock)), clock


def test_given_a_session_then_it_is_looked_at_when_it_is_due_and_as_often_as_it_says() -> None:
    heartbeat, clock = made()
    one = Listener(1, every=10.0)
    heartbeat.schedule(cast(Any, one), 3.0)
    clock.wind(2.9)
    assert one.beats == []
    clock.wind(35.0)
    assert one.beats == [3.0, 13.0, 23.0, 33.0]


def test_given_a_session_that_says_never_then_it_is_not_looked_at_again() -> None:
    heartbeat, clock = made()
    one = Listener(1, every=0.0)
    heartbeat.schedule(cast(Any, one), 1.0)
    clock.wind(100.0)
    assert one.beats == [1.0]
    assert clock.live() == []


def test_given_one_that_comes_again_late_then_another_that_is_due_before_is_not_late() -> None:
    heartbeat, clock = made()
    slow, quick = Listener(1, every=120.0), Listener(2, every=0.0)
    heartbeat.schedule(cast(Any, slow), 1.0)
    heartbeat.schedule(cast(Any, quick), 2.0)
    clock.wind(200.0)
    assert quick.beats == [2.0]
    assert slow.beats == [1.0, 121.0]


def test_given_an_earlier_due_then_the_one_timer_is_moved() -> None:
    heartbeat, clock = made()
    late, early = Listener(1, every=0.0), Listener(2, every=0.0)
    heartbeat.schedule(cast(Any, late), 100.0)
    heartbeat.schedule(cast(Any, early), 5.0)
    assert [timer.due for timer in clock.live()] == [5.0]
    clock.wind(100.0)
    assert (early.beats, late.beats) == ([5.0], [100.0])


def test_given_a_session_that_is_rescheduled_then_only_the_last_time_holds() -> None:
    heartbeat, clock = made()
    one = Listener(1, every=0.0)
    for due in (50.0, 5.0, 20.0):
        heartbeat.schedule(cast(Any, one), due)
    clock.wind(100.0)
    assert one.beats == [20.0]


def test_given_a_session_that_is_forgotten_then_it_is_not_looked_at() -> None:
    heartbeat, clock = made()
    one, other = Listener(1, every=0.0), Listener(2, every=0.0)
    for listener in (one, other):
        heartbeat.schedule(cast(Any, listener), 5.0)
    for _ in range(2):
        heartbeat.remove(cast(Any, one))
    clock.wind(100.0)
    assert (one.beats, other.beats) == ([], [5.0])


def test_given_a_session_that_ends_while_it_is_looked_at_then_all_others_get_their_turn() -> None:
    heartbeat, clock = made()

    class Ending(Listener):
        def beat(self, now: float) -> float:
            heartbeat.remove(cast(Any, self))
            return super().beat(now)

    ending, other = Ending(1, every=0.0), Listener(2, every=0.0)
    heartbeat.schedule(cast(Any, ending), 5.0)
    heartbeat.schedule(cast(Any, other), 5.0)
    clock.wind(10.0)
    assert (ending.beats, other.beats) == ([5.0], [5.0])


def test_given_a_session_whose_look_fails_then_all_others_get_their_turn() -> None:
    heartbeat, clock = made()

    class Failing(Listener):
        def beat(self, now: float) -> float:
            raise ValueError("of this session alone")

    other = Listener(2, every=0.0)
    heartbeat.schedule(cast(Any, Failing(1, every=0.0)), 5.0)
    heartbeat.schedule(cast(Any, other), 6.0)
    with pytest.raises(ValueError, match="of this session alone"):
        clock.wind(10.0)
    clock.wind(10.0)
    assert other.beats == [6.0]


def test_given_one_that_is_always_due_then_time_goes_on_for_the_others() -> None:
    heartbeat, clock = made()
    busy, other = Listener(1, every=-1.0), Listener(2, every=0.0)
    heartbeat.schedule(cast(Any, busy), 0.0)
    heartbeat.schedule(cast(Any, other), 0.01)
    clock.wind(0.02)
    assert other.beats == [0.01]
    assert 10 <= len(busy.beats) <= 21, "a thousandth of a second apart"


def test_given_a_stop_then_nobody_is_looked_at_any_more() -> None:
    heartbeat, clock = made()
    one = Listener(1, every=1.0)
    heartbeat.schedule(cast(Any, one), 5.0)
    heartbeat.stop()
    heartbeat.stop()
    clock.wind(100.0)
    assert one.beats == []


@settings(max_examples=examples(150))
@given(
    sessions=st.lists(
        st.tuples(st.integers(1, 50), st.sampled_from([0, 1, 7, 30, 120])), min_size=1, max_size=12
    ),
    until=st.integers(50, 400),
)
def test_given_any_sessions_then_each_is_looked_at_exactly_when_it_said(
    sessions: list[tuple[int, int]], until: int
) -> None:
    heartbeat, clock = made()
    listeners: list[tuple[Listener, int]] = []
    for cid, (due, every) in enumerate(sessions):
        listeners.append((Listener(cid, float(every)), due))
        heartbeat.schedule(cast(Any, listeners[-1][0]), float(due))
    clock.wind(float(until))
    for listener, due in listeners:
        step = int(listener.every) or until + 1
        assert listener.beats == [float(at) for at in range(due, until + 1, step)]
    assert clock.most <= 1, "one timer for all of them"


def test_given_sessions_that_come_and_go_then_what_is_left_of_them_is_bounded() -> None:
    clock = Clock()
    heartbeat = Heartbeat(cast(asyncio.AbstractEventLoop, clock))
    for cid in range(10 * STALE_MAX):
        session = cast(Any, Listener(cid, 1.0))
        heartbeat.schedule(session, 1000.0 + cid)
        heartbeat.schedule(session, 100.0)
        if cid % 100:
            heartbeat.remove(session)
    assert len(heartbeat._sessions) == STALE_MAX // 10 + 1
    assert len(heartbeat._due) <= STALE_MAX + 2 * len(heartbeat._sessions)
