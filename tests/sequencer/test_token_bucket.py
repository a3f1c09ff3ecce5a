"""A token bucket: how long a debt takes, and that no rate is exceeded in the long run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.token_bucket import TokenBucket


def test_given_a_full_bucket_then_a_burst_is_free_and_the_rest_is_a_debt() -> None:
    bucket = TokenBucket(rate=10, burst=20)
    bucket.spend(20, 100.0)
    assert bucket.wait(100.0) == 0
    bucket.spend(5, 100.0)
    assert bucket.wait(100.0) == pytest.approx(0.5)
    assert bucket.wait(100.4) == pytest.approx(0.1)
    assert bucket.wait(100.5) == pytest.approx(0, abs=1e-9)


def test_given_a_long_rest_then_no_more_than_a_burst_is_kept() -> None:
    bucket = TokenBucket(rate=10, burst=20)
    bucket.spend(50, 0.0)
    assert bucket.level(1e6) == 20


def test_given_another_rate_then_the_debt_stays_and_is_paid_at_that_rate() -> None:
    bucket = TokenBucket(rate=10, burst=10)
    bucket.spend(30, 0.0)
    bucket.change(rate=100, burst=100, now=1.0)
    assert bucket.level(1.0) == pytest.approx(-10)
    assert bucket.wait(1.0) == pytest.approx(0.1)


STEPS = st.lists(st.tuples(st.floats(0, 10), st.integers(0, 100)), max_size=50)


@given(STEPS, st.integers(1, 1000), st.integers(1, 1000))
def test_given_a_client_that_waits_as_long_as_told_then_the_rate_holds(
    steps: list[tuple[float, int]], rate: int, burst: int
) -> None:
    bucket, now, taken, last = TokenBucket(rate, burst), 0.0, 0, 0
    for pause, count in steps:
        now += pause + bucket.wait(now + pause)
        bucket.spend(count, now)
        taken, last = taken + count, count
        assert taken - last <= burst + rate * now + 1e-3
        assert bucket.level(now) <= burst
