"""The table of scenarios: every core one has a form with nothing kept, and a kept form beside."""

from typing import Any

import pytest

from benchmarks.scenarios import ALL, CORE, RoundTrip, Scenario
from benchmarks.servers import KNOWN


@pytest.mark.parametrize(("bare", "kept"), CORE, ids=lambda form: form.name)
def test_given_a_core_scenario_then_its_kept_form_is_the_default_beside_what_keeps_nothing(
    bare: Scenario, kept: Scenario
) -> None:
    assert kept.name == f"kept-{bare.name}"
    assert {bare, kept} <= set(ALL)
    assert bare.servers == ("seriatim-bare", "nats-server")
    assert kept.servers == ("seriatim", "seriatim-bare", "nats-server")


@pytest.mark.parametrize(("bare", "kept"), CORE, ids=lambda form: form.name)
def test_given_a_kept_form_then_both_of_ours_have_goals_and_the_journal_has_a_price(
    bare: Scenario, kept: Scenario
) -> None:
    goals = {(goal.server, goal.peer): goal.least for goal in kept.goals}
    assert goals["seriatim-bare", "nats-server"] == bare.goals[0].least
    assert goals["seriatim", "nats-server"] <= goals["seriatim-bare", "nats-server"]
    if not isinstance(kept, RoundTrip):
        assert goals["seriatim", "seriatim-bare"] == pytest.approx(1 / 1.3)


def test_given_all_scenarios_then_each_name_stands_for_one_and_warm_memory_is_named() -> None:
    assert len({scenario.name for scenario in ALL}) == len(ALL)
    for scenario in ALL:
        warm = getattr(scenario, "warm", False)
        assert warm == ("warm memory" in scenario.about) == scenario.name.startswith("warm-")


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_given_a_scenario_then_its_servers_can_run_it_and_peers_are_among_them(
    scenario: Scenario,
) -> None:
    assert all(scenario.fits(KNOWN[server]) for server in scenario.servers)
    assert {goal.peer for goal in scenario.goals if goal.peer} <= set(scenario.servers)


def test_given_a_scale_then_amounts_follow_it_down_to_what_can_be_measured() -> None:
    by_name: dict[str, Any] = {scenario.name: scenario for scenario in ALL}
    million = by_name["1:1-128-million"].scaled(0.5)
    assert (million.messages, million.burden, million.size) == (4_000_000, 500_000, 128)
    assert by_name["store-flood-128"].scaled(1e-9).messages == 1000
    assert by_name["round-trip"].scaled(1e-9).rounds == 10
    assert by_name["start"].scaled(1e-9).messages == 0, "an empty store stays empty"
    assert by_name["recovery-1"].scaled(1e-9).messages == 1
