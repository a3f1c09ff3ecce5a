"""Fail-over, simulated: no promise is broken in any seed, and each planted defect is caught.

By hand: `python -m tests.replica.run --seeds 0:2000`, or with `--defect NAME`.
"""

import multiprocessing
from collections.abc import Callable, Iterable

import pytest

from tests.replica import scripts
from tests.replica.defects import DEFECTS
from tests.replica.run import one
from tests.support.depth import IS_PURE, depth

SEEDS = depth(2000, 50_000) // (20 if IS_PURE else 1)
PROCESSES = 2
TRIED = 200  # seeds for a defect

# Seeds that have caught a defect: they are tried first. What chance seldom meets has a script.
CAUGHT = {
    "an old connection is read on": 28,
    "rows before the promise is everywhere": 173,
    "a member that lost its tail keeps its place": 56,
}
SCRIPTED = {
    "no fencing by epoch": (scripts.zombie, None),
    "epoch not on the disk": (scripts.forgotten_epoch, None),
    "acknowledged before it is synced": (scripts.whole_power_cut, True),
    "a batch is done before its rows are": (scripts.whole_power_cut, True),
    "a joiner is measured by the watermark alone": (scripts.lagging_joiner, None),
}
Script = Callable[[scripts.Scripted], None]


def breaches(jobs: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    with multiprocessing.get_context("fork").Pool(PROCESSES) as pool:
        return [(seed, text) for seed, text, _, _ in pool.imap(one, jobs, 4) if text]


def test_given_seeds_when_clusters_fail_over_then_no_promise_is_broken() -> None:
    assert breaches((seed, "") for seed in range(SEEDS)) == []


@pytest.mark.parametrize("defect", sorted(DEFECTS.keys() - SCRIPTED.keys()))
def test_given_a_planted_defect_when_seeds_run_then_it_is_caught(defect: str) -> None:
    seeds = [CAUGHT.get(defect, 0), *range(TRIED)]
    assert any(one((seed, defect))[1] for seed in seeds), defect


@pytest.mark.parametrize("defect", SCRIPTED)
def test_given_a_planted_defect_when_a_script_is_played_then_it_is_caught(defect: str) -> None:
    script, always = SCRIPTED[defect]
    assert scripts.play(script, defect, always, range(40), enough=1), defect


@pytest.mark.parametrize(
    "script", [*dict.fromkeys(script for script, _ in SCRIPTED.values()), scripts.late_swap]
)
def test_given_a_script_when_it_is_played_then_no_promise_is_broken(script: Script) -> None:
    assert scripts.play(script, "", None, range(depth(20, 400))) == {}
