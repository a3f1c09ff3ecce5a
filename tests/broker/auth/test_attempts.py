"""How fast an address may guess, and that nobody else waits for it."""

import itertools
from typing import Any

import pytest

from broker.auth.attempts import (
    BEYOND_MAX,
    FORGIVE_S,
    KEYS_MAX,
    SUSPECT_S,
    WAITING_MAX,
    Attempts,
)

FREE = 10
TIMEOUT = 2.0


class Guesser:
    """Guesses as fast as it may, with some attempts at a time; all of them fail."""

    def __init__(self, attempts: Attempts, key: str, parallel: int) -> None:
        self.attempts, self.key, self.parallel = attempts, key, parallel
        self.checked: list[float] = []  # when guesses were checked

    def guess(self, until: float, takes: float = 0.0) -> None:
        now = 0.0
        running: list[Any] = []
        while now < until:
            while len(running) < self.parallel:
                wait = self.attempts.wait(self.key, now)
                if wait < 0:
                    break
                running.append(now + wait + takes)
            if not running:
                now += 0.01
                continue
            running.sort()
            now = max(now, running.pop(0))
            self.checked.append(now)
            self.attempts.ended(self.key, now, failed=True)


@pytest.mark.parametrize("parallel", [1, 2, 32, 1000])
@pytest.mark.parametrize("takes", [0.0, 0.1])
def test_given_a_guesser_with_any_connections_then_it_gets_one_guess_a_second(
    parallel: int, takes: float
) -> None:
    guesser = Guesser(Attempts(FREE, TIMEOUT), "a", parallel)
    guesser.guess(600.0, takes)
    # The first ones, before any is known to have failed, are limited by how long a check takes.
    begun = [when for when in guesser.checked if when > 10]
    assert len(begun) <= 600
    gaps = [later - earlier for earlier, later in itertools.pairwise(begun)]
    assert min(gaps) > 0.99


def test_given_others_then_they_wait_for_no_guesser() -> None:
    attempts = Attempts(FREE, TIMEOUT)
    Guesser(attempts, "a", 32).guess(60.0)
    for number in range(100):
        assert attempts.wait(f"b{number % 5}", 60.0) == 0
        attempts.ended(f"b{number % 5}", 60.0, failed=False)


def test_given_a_crowd_that_fails_nothing_then_none_of_it_waits() -> None:
    attempts = Attempts(FREE, TIMEOUT, expects_worst=False)
    assert [attempts.wait("site", 1.0) for _ in range(10_000)] == [0.0] * 10_000


def test_given_a_few_failures_then_nobody_waits_until_the_free_ones_are_used() -> None:
    attempts = Attempts(FREE, TIMEOUT)
    waits, now = [], 1.0
    for _ in range(FREE + 5):
        waits.append(attempts.wait("a", now))
        now += waits[-1]
        attempts.ended("a", now, failed=True)
    assert waits[: FREE + 1] == [0.0] * (FREE + 1)
    assert waits[FREE + 1 :] == sorted(waits[FREE + 1 :])
    assert waits[FREE + 1] > 0


def test_given_a_guesser_that_gives_up_then_a_minute_later_nobody_waits() -> None:
    attempts = Attempts(FREE, TIMEOUT)
    Guesser(attempts, "a", 32).guess(3600.0)
    later = 3600.0 + BEYOND_MAX * FORGIVE_S + 60.0
    assert attempts.wait("a", later) == 0


def test_given_failures_and_too_many_waiting_then_further_ones_are_refused() -> None:
    attempts = Attempts(FREE, 300.0)
    attempts.wait("a", 0.0)
    attempts.ended("a", 0.0, failed=True)
    waits = [attempts.wait("a", 0.0) for _ in range(WAITING_MAX + 3)]
    assert all(wait >= 0 for wait in waits[:WAITING_MAX])
    assert waits[WAITING_MAX:] == [-1.0] * 3
    attempts.ended("a", 0.0, failed=False)
    assert attempts.wait("a", 0.0) >= 0, "there is room for one"


def test_given_an_attempt_that_would_wait_for_too_long_then_it_is_refused_at_once() -> None:
    attempts = Attempts(1, TIMEOUT)
    for _ in range(20):
        attempts.wait("a", 0.0)
        attempts.ended("a", 0.0, failed=True)
    assert [attempts.wait("a", 1.0) for _ in range(3)] == [1.0, -1.0, -1.0]
    attempts.ended("a", 2.0, failed=True)
    assert attempts.wait("a", 2.0) == 1.0, "refused ones take no turn"


def test_given_unchecked_attempts_then_they_count_only_if_the_worst_is_expected() -> None:
    for expects_worst in (True, False):
        attempts = Attempts(FREE, TIMEOUT, expects_worst)
        waits = [attempts.wait("a", 0.0) for _ in range(100)]
        assert any(waits) == expects_worst


def test_given_a_short_timeout_then_an_attempt_waits_for_half_of_it_at_most() -> None:
    first = Attempts(1, 0.2)
    first.wait("a", 0.0)
    for _ in range(20):
        first.ended("a", 0.0, failed=True)
    assert 0 < first.wait("a", 0.0) <= 0.1


def test_given_no_limit_then_nobody_waits_and_nobody_is_refused() -> None:
    attempts = Attempts(0, TIMEOUT)
    for _ in range(1000):
        assert attempts.wait("a", 0.0) == 0
    for _ in range(1000):
        attempts.ended("a", 0.0, failed=True)
    assert attempts.wait("a", 0.0) == 0


def test_given_any_number_of_addresses_then_few_are_remembered_the_latest_ones() -> None:
    attempts = Attempts(FREE, TIMEOUT)
    for number in range(3 * KEYS_MAX):
        attempts.wait(number, 0.0)
        attempts.ended(number, 0.0, failed=True)
    assert len(attempts._keys) == KEYS_MAX
    assert attempts.is_suspect(3 * KEYS_MAX - 1, 0.0)
    assert not attempts.is_suspect(0, 0.0)


def test_given_a_failure_then_its_address_is_suspect_for_a_while() -> None:
    attempts = Attempts(FREE, TIMEOUT)
    assert not attempts.is_suspect("a", 0.0)
    attempts.wait("a", 0.0)
    assert not attempts.is_suspect("a", 0.0)
    attempts.ended("a", 0.0, failed=True)
    assert attempts.is_suspect("a", SUSPECT_S - 1)
    assert not attempts.is_suspect("a", SUSPECT_S + 1)


def test_given_an_attempt_that_ends_after_its_address_was_forgotten_then_nothing_is_owed() -> None:
    attempts = Attempts(FREE, TIMEOUT)
    attempts.wait("a", 0.0)
    for number in range(KEYS_MAX):
        attempts.wait(number, 0.0)
    attempts.ended("a", 0.0, failed=True)
    assert attempts._keys["a"].waiting == 0
