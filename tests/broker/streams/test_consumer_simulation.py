"""A consumer, simulated: no invariant is broken in any seed, and each planted defect is caught.

By hand: `python -m tests.broker.streams.simulate --seeds 0:100000`, or with `--defect NAME`.
"""

import multiprocessing

import pytest

from tests.broker.streams.consumer_defects import DEFECTS
from tests.broker.streams.consumer_world import breach
from tests.support.depth import IS_PURE, compiled_only, depth

SEEDS = depth(1000, 70_000) // (10 if IS_PURE else 1)  # of 150 events each: 10^7 in a soak
PROCESSES = 2
TRIED = 400  # seeds for a defect, if the one that has caught it does not
# Seeds that have caught what chance seldom meets: they are tried first.
CAUGHT = {
    "a lower max_deliver counts for what comes later": 381,
    "a nak of the last delivery brings one more": 236,
    "progress changes nothing": 78,
    "an update of the waits is for later deliveries": 87,
}


def broken(seed: int) -> tuple[int, str]:
    return seed, breach(seed)


def test_given_seeds_when_a_consumer_is_driven_then_no_invariant_is_broken() -> None:
    with multiprocessing.get_context("fork").Pool(PROCESSES) as pool:
        found = [one for one in pool.imap(broken, range(SEEDS), 20) if one[1]]
    assert found == []


@compiled_only
@pytest.mark.parametrize("defect", DEFECTS)
def test_given_a_planted_defect_when_seeds_run_then_it_is_caught(defect: str) -> None:
    seeds = [CAUGHT.get(defect, 0), *range(TRIED)]
    assert any(breach(seed, DEFECTS[defect]) for seed in seeds), defect
