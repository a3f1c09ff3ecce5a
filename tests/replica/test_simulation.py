"""Fail-over, simulated: no promise is broken in any seed, and each planted defect is caught.

By hand: `python -m tests.replica.run --seeds 0:2000`, or with `--defect NAME`.
"""

import multiprocessing
import re
from collections.abc import Callable, Iterable
from itertools import islice

import pytest

import sequencer.replica
from tests.replica import scripts
from tests.replica.defects import DEFECTS
from tests.replica.run import begin_process, one
from tests.support.depth import IS_PURE, compiled_only, depth

SEEDS = depth(300, 50_000) // (20 if IS_PURE else 1)
PROCESSES = 2
SHOWN = 5  # breaches: after so many it stops
TRIED = 40  # seeds for a defect, if the one that has caught it does not

# Seeds that have caught a defect: they are tried first. What chance seldom meets has a script.
CAUGHT = {
    "a snapshot replaces a promise": 67,
    "notes are acknowledged before they are synced": 261,
    "retention deletes what a promise needs": 924,
    "a batch is begun again": 0,
    "a duplicate is answered at once": 0,
    "a subscription begins after what was cut": 7,
    "a restarted process goes on with its epoch": 9,
    "a watermark is known without its notes": 74,
    "cut records are not forwarded again": 1,
    "forward before the base is here": 7,
    "forwards deduplicated by a window": 12,
    "numbers are committed before their weights": 92,
    "rows before the promise is everywhere": 101,
    "the view shrinks below min_in_sync": 4,
    "who is to go does not count before the swap": 17,
    "who refuses connections does not count": 15,
}
SCRIPTED = {
    "no fencing by epoch": (scripts.zombie, None),
    "epoch not on the disk": (scripts.forgotten_epoch, None),
    "acknowledged before it is synced": (scripts.whole_power_cut, True),
    "a batch is done before its rows are": (scripts.whole_power_cut, True),
    "notes are cut in memory alone": (scripts.stray_note, False),
    "notes that diverge outlive a snapshot": (scripts.diverging_notes, None),
    "a joiner is measured by the watermark alone": (scripts.lagging_joiner, None),
    "a joiner does not count before the swap": (scripts.hasty_joiner, None),
    "no bound on what is not committed": (scripts.stall, None),
    "a member that lost its tail keeps its place": (scripts.lost_tail, False),
    "forwarded after its id is forgotten": (scripts.forgotten_id, None),
    "a follower's clock never goes back": (scripts.wrong_clock, None),
    "ages are measured by the time of day": (scripts.wrong_clock, None),
    "views are ordered by revision alone": (scripts.recover, None),
    "proposes before the engine has answered": (scripts.counted_again, None),
    "the base is the log's end": (scripts.full_disk, None),
    "what could not be written is forgotten": (scripts.refused_forwards, None),
    "an old connection is read on": (scripts.two_connections, None),
    "rows that were not written count": (scripts.rows_on_a_full_disk, None),
    "a copy of the past keeps its id": (scripts.old_copy, None),
    "a member may have less than it acknowledged": (scripts.copy_of_now, None),
    "what is published is known without a coordinator": (scripts.old_watermark, None),
    "a subscription begins after what is delivered": (scripts.moved_client, None),
}
Script = Callable[[scripts.Scripted], None]


def breaches(jobs: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    with multiprocessing.get_context("fork").Pool(PROCESSES, begin_process) as pool:
        found = ((seed, text) for seed, text, _, _ in pool.imap(one, jobs, 4) if text)
        return list(islice(found, SHOWN))


def test_given_seeds_when_clusters_fail_over_then_no_promise_is_broken() -> None:
    assert breaches((seed, "") for seed in range(SEEDS)) == []


@compiled_only
@pytest.mark.parametrize("defect", sorted(DEFECTS.keys() - SCRIPTED.keys()))
def test_given_a_planted_defect_when_seeds_run_then_it_is_caught(defect: str) -> None:
    seeds = [CAUGHT.get(defect, 0), *range(TRIED)]
    assert any(one((seed, defect))[1] for seed in seeds), defect


@compiled_only
@pytest.mark.parametrize("defect", SCRIPTED)
def test_given_a_planted_defect_when_a_script_is_played_then_it_is_caught(defect: str) -> None:
    script, always = SCRIPTED[defect]
    assert scripts.play(script, defect, always, range(40), enough=1), defect


@pytest.mark.parametrize(
    ("script", "always"), [*dict.fromkeys(SCRIPTED.values()), (scripts.late_swap, None)]
)
def test_given_a_script_when_it_is_played_then_no_promise_is_broken(
    script: Script, always: bool | None
) -> None:
    assert scripts.play(script, "", always, range(depth(10, 400))) == {}


def test_given_the_page_of_rules_then_each_names_planted_defects_that_break_it() -> None:
    page = " ".join((sequencer.replica.__doc__ or "").split())
    rules = re.split(r"Rule (\d+) ", page.partition("The rules that keep them.")[2])[1:]
    named = {
        int(number): re.findall(r'"([^"]+)"', text)
        for number, text in zip(rules[::2], rules[1::2], strict=True)
    }
    assert list(named) == list(range(1, 16))
    assert [number for number, defects in named.items() if not defects] == [9], "checked always"
    assert {one for defects in named.values() for one in defects} <= DEFECTS.keys()
