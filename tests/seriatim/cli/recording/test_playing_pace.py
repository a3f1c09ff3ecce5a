"""The pace of a recording that is played: by its times, a factor, or a rate."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.cli.recording.playing_pace import LAG_MAX, Pace

S = 1_000_000_000


def dues(pace: Pace, times: list[int], start: float = 100.0) -> list[float]:
    """When each is due, if each is published when it is due; in seconds from the start."""
    now, found = start, []
    for time in times:
        now = max(pace.due(time, now), now)
        found.append(now - start)
    return found


@pytest.mark.parametrize(
    ("pace", "expected"),
    [
        (Pace(1), [0, 2, 3]),
        (Pace(10), [0, 0.2, 0.3]),
        (Pace(0.5), [0, 4, 6]),
        (Pace(inf), [0, 0, 0]),
        (Pace(1, rate=4), [0, 0.25, 0.5]),
    ],
    ids=["as it was", "faster", "slower", "max", "rate"],
)
def test_given_a_pace_then_messages_are_due_by_it(pace: Pace, expected: list[float]) -> None:
    assert dues(pace, [7 * S, 9 * S, 10 * S]) == pytest.approx(expected)


def test_given_times_that_go_back_then_those_are_due_at_once_and_the_rest_goes_on() -> None:
    assert dues(Pace(1), [10 * S, 11 * S, 2 * S, 3 * S]) == pytest.approx([0, 1, 1, 2])


def test_given_a_small_delay_then_it_is_made_up_for() -> None:
    pace = Pace(1)
    pace.due(0, 100.0)
    assert pace.due(1 * S, 101.5) == pytest.approx(101.0)
    assert pace.due(2 * S, 101.5) == pytest.approx(102.0)


def test_given_a_long_delay_then_the_rest_comes_at_its_pace_and_not_at_once() -> None:
    pace = Pace(1)
    pace.due(0, 100.0)
    assert pace.due(1 * S, 160.0) == pytest.approx(160.0)
    assert pace.due(2 * S, 160.0) == pytest.approx(161.0)


@given(
    times=st.lists(st.integers(0, 10**19), min_size=1, max_size=20),
    delays=st.lists(st.floats(0, 100), min_size=20, max_size=20),
    speed=st.sampled_from([0.1, 1, 1000, inf]),
)
def test_given_any_times_and_delays_then_what_is_due_never_goes_back_nor_lags_behind(
    times: list[int], delays: list[float], speed: float
) -> None:
    pace, now, before = Pace(speed), 0.0, 0.0
    for time, delay in zip(times, delays, strict=False):
        due = pace.due(time, now)
        assert due >= before
        assert due >= now - LAG_MAX
        before, now = due, max(now, due) + delay
