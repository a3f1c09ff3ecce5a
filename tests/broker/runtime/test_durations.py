"""Buckets of times: each time is in the first whose bound is not below it."""

import pytest

from broker.runtime.durations import BOUNDS, Durations


@pytest.mark.parametrize(
    ("seconds", "bucket"),
    [
        *((-1.0, 0), (0.0, 0), (1e-5, 0), (1.1e-5, 1)),
        *(
            (0.1, BOUNDS.index(0.1)),
            (10.0, len(BOUNDS) - 1),
            (10.1, len(BOUNDS)),
            (1e9, len(BOUNDS)),
        ),
    ],
)
def test_given_a_time_when_observed_then_it_is_in_the_bucket_below_whose_bound_it_is(
    seconds: float, bucket: int
) -> None:
    durations = Durations()
    durations.observe(seconds, 1)
    assert durations.counts == [int(at == bucket) for at in range(len(BOUNDS) + 1)]


def test_given_many_at_once_then_all_of_them_count() -> None:
    durations = Durations()
    durations.observe(0.5, 1 << 40)
    durations.observe(0.25, 2)
    assert durations.total == sum(durations.counts) == (1 << 40) + 2
    assert durations.seconds == pytest.approx((1 << 39) + 0.5)
