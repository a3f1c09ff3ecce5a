"""The report: its tables, and its goals: a lower cost is better, and a higher rate."""

import dataclasses

import pytest

from benchmarks.report import Verdict, as_text, ratio, table, verdicts
from benchmarks.runner import Result
from benchmarks.sample import Sample
from benchmarks.scenarios import ALL, Flood, Goal
from benchmarks.servers import KNOWN

FLOOD = Flood(name="x", about="", messages=1000, size=16)


def result(server: str, cpu_us: float, per_second: float, goals: tuple[Goal, ...]) -> Result:
    sample = Sample(
        messages=1000, deliveries=1000, seconds=1000 / per_second,
        server_cpu_seconds=cpu_us / 1000, generator_cpu_seconds=0.1, peak_bytes=1 << 20,
    )  # fmt: skip
    return Result(dataclasses.replace(FLOOD, goals=goals), KNOWN[server], [sample])


def judged(goal: Goal, cpu_us: float, per_second: float) -> list[str]:
    peer = goal.peer or "nats-server"
    ours, theirs = result("seriatim", cpu_us, per_second, (goal,)), result(peer, 4, 100, (goal,))
    return [str(verdict) for verdict in verdicts([ours, theirs])]


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        (Goal("cpu_us", 3), "CPU per message 4.00 times better than nats-server, goal 3: reached"),
        (
            Goal("cpu_us", 15, "jetstream"),
            "CPU per message 4.00 times better than jetstream, goal 15: MISSED",
        ),
        (
            Goal("in_per_second", 2, "jetstream"),
            "messages per second 2.50 times better than jetstream, goal 2: reached",
        ),
        (Goal("out_per_second", 3e6, ""), "messages per second 0.00 M, goal 3 M: MISSED"),
        (Goal("per_cpu_second", 1e6, ""), "messages per second of CPU 1.00 M, goal 1 M: reached"),
        (Goal("cpu_us", 2, ""), "CPU per message 1, goal 2 or less: reached"),
        (Goal("cpu_us", 0.5, ""), "CPU per message 1, goal 0.5 or less: MISSED"),
    ],
)
def test_given_figures_when_judged_then_one_line_says_what_was_reached(
    goal: Goal, said: str
) -> None:
    assert judged(goal, cpu_us=1, per_second=250) == [f"x, seriatim: {said}"]


@pytest.mark.parametrize(("cpu_us", "word"), [(6, "reached"), (7, "MISSED")])
def test_given_a_goal_below_one_when_judged_then_it_says_how_much_dearer_it_is(
    cpu_us: float, word: str
) -> None:
    (said,) = judged(Goal("cpu_us", 1 / 1.6, "seriatim-no-journal"), cpu_us, 100)
    times = f"{cpu_us / 4:.2f} times that of seriatim-no-journal, goal 1.6 or less"
    assert said == f"x, seriatim: CPU per message {times}: {word}"


def test_given_goals_that_name_a_server_when_judged_then_each_is_that_servers_alone() -> None:
    goals = (
        Goal("cpu_us", 3, server="seriatim"),
        Goal("cpu_us", 5, server="seriatim-bare"),
        Goal("cpu_us", 1 / 1.3, "seriatim-bare", "seriatim"),
    )
    costs = (("seriatim", 1), ("seriatim-bare", 0.5), ("nats-server", 4))
    said = verdicts([result(name, cost, 100, goals) for name, cost in costs])
    assert [(one.server, one.goal.peer, one.found, one.reached) for one in said] == [
        ("seriatim", "nats-server", 4, True),
        ("seriatim", "seriatim-bare", 0.5, False),
        ("seriatim-bare", "nats-server", 8, True),
    ]


def test_given_any_scenarios_goal_when_judged_then_a_line_can_say_it() -> None:
    for scenario in ALL:
        for goal in scenario.goals:
            assert str(Verdict(scenario.name, "seriatim", goal, 1.0))


def test_given_no_figures_of_the_peer_when_judged_then_nothing_is_reported() -> None:
    goals = (Goal("cpu_us", 3),)
    ours, theirs = result("seriatim", 1, 250, goals), result("nats-server", 4, 100, goals)
    theirs.samples.clear()
    assert ratio(ours, [ours, theirs], "cpu_us") == 0
    assert list(verdicts([ours, theirs])) == []


def test_given_figures_when_shown_then_each_server_has_a_row_and_each_goal_a_line() -> None:
    goals = (Goal("cpu_us", 3),)
    results = [result("seriatim", 1, 250, goals), result("nats-server", 4, 100, goals)]
    results[1].errors.append("it was cut off")

    said = as_text({"kernel": "6.1"}, results).splitlines()

    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in said if "|" in line]
    assert rows[0][:5] == ["scenario", "server", "in/s", "out/s", "CPU us/message"]
    ours, theirs = rows[2:]
    assert ours[:7] == ["x", "seriatim", "250", "250", "1.000", "4.00", "3"]
    assert theirs[:7] == ["x", "nats-server", "100", "100", "4.000", "", ""]
    assert theirs[-1] == "1 (1 failed)"
    assert said[0] == "kernel: 6.1"
    assert said[-2:] == [
        "x, seriatim: CPU per message 4.00 times better than nats-server, goal 3: reached",
        "x, nats-server: it was cut off",
    ]


def test_given_runs_that_differ_by_more_than_the_servers_when_shown_then_there_is_no_ratio() -> (
    None
):
    goals = (Goal("cpu_us", 1),)
    ours, theirs = result("seriatim", 1, 100, goals), result("nats-server", 2, 100, goals)
    for low, high in ((ours, 0.4), (theirs, 0.1)):
        low.samples.extend(
            result("seriatim", low.samples[0].cpu_us + by, 100, goals).samples[0]
            for by in (-high, high)
        )
    assert ratio(ours, [ours, theirs], "cpu_us") == 2
    ours.samples += result("seriatim", 1.5, 100, goals).samples
    ours.samples += result("seriatim", 0.4, 100, goals).samples

    assert ratio(ours, [ours, theirs], "cpu_us") == 0
    said = as_text({}, [ours, theirs])
    assert "| 1.000 (0.400 - 1.500) | unclear |" in said
    word = "differs by less from nats-server than the runs do, goal 1: unclear"
    assert f"x, seriatim: CPU per message {word}" in said


def test_given_a_server_that_always_failed_when_shown_then_its_row_says_so() -> None:
    failed = Result(FLOOD, KNOWN["seriatim"], errors=["it did not start"])
    assert "| x        | seriatim | failed" in as_text({}, [failed])


def test_given_cells_when_shown_then_their_columns_line_up() -> None:
    assert table(("a", "long"), [("much longer", "b")]) == (
        "| a           | long |\n| ----------- | ---- |\n| much longer | b    |\n"
    )


def test_given_any_scenario_when_shown_then_its_cells_are_as_many_as_its_head_has() -> None:
    sample = result("seriatim", 1, 100, ()).samples[0]
    results = [
        Result(scenario, KNOWN[name], [sample]) for scenario in ALL for name in scenario.servers
    ]
    tables = [part for part in as_text({}, results).split("\n\n") if part.startswith("|")]
    assert len(tables) == 6
    for shown in tables:
        assert len({line.count("|") for line in shown.splitlines()}) == 1
