"""The core scenarios: every one has a form with nothing kept, and a kept form beside it."""

import pytest

from benchmarks.core import CORE
from benchmarks.kinds import RoundTrip
from benchmarks.scenarios import ALL


@pytest.mark.parametrize("core", CORE, ids=lambda core: core.form.name)
def test_given_a_core_scenario_then_its_kept_form_is_the_default_beside_what_keeps_nothing(core):
    bare, kept = core.forms()
    assert kept.name == f"kept-{bare.name}"
    assert {bare, kept} <= set(ALL)
    assert bare.servers == ("seriatim-bare", "nats-server")
    assert kept.servers == ("seriatim", "seriatim-bare", "nats-server")


@pytest.mark.parametrize("core", CORE, ids=lambda core: core.form.name)
def test_given_a_kept_form_then_both_of_ours_have_goals_and_the_journal_has_a_price(core):
    _, kept = core.forms()
    goals = {(goal.server, goal.peer): goal.least for goal in kept.goals}
    assert goals["seriatim", "nats-server"] == core.journal_on
    assert goals["seriatim-bare", "nats-server"] == core.nothing_kept
    if not isinstance(kept, RoundTrip):
        assert goals["seriatim", "seriatim-bare"] == pytest.approx(1 / 1.3)


def test_given_all_scenarios_then_each_name_stands_for_one_and_warm_memory_is_named():
    assert len({scenario.name for scenario in ALL}) == len(ALL)
    for scenario in ALL:
        warm = getattr(scenario, "warm", False)
        assert warm == ("warm memory" in scenario.about) == scenario.name.startswith("warm-")
