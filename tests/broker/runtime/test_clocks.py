"""The steady clock: it goes on when the time of day jumps."""

import time

import pytest

from broker.runtime import clocks
from broker.runtime.clocks import SteadyTime, boot_id, moment, steady_ns

HOUR = 3600 * 10**9


def test_given_a_time_of_day_that_jumps_then_the_steady_time_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steady, before = SteadyTime(), time.time_ns()
    first = steady.now()
    assert abs(first - before) < HOUR
    monkeypatch.setattr(time, "time_ns", lambda: before + 9 * HOUR)
    now = moment()
    assert first <= steady.now() < first + HOUR
    assert now.wall == before + 9 * HOUR
    assert 0 <= steady_ns() - now.steady < HOUR
    assert now.boot == boot_id()


def test_given_a_system_that_does_not_name_its_boots_then_none_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert boot_id() == boot_id() != ""
    monkeypatch.setattr(clocks, "BOOT_ID", "/nowhere")
    assert boot_id() == ""
