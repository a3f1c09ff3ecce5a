"""The tables for the documentation: in markdown, with a row for whatever was measured."""

from benchmarks.kinds import Scenario
from benchmarks.markdown import markdown
from benchmarks.runner import Result
from benchmarks.sample import MIB, Sample
from benchmarks.scenarios import ALL
from benchmarks.servers import KNOWN

SCENARIOS = {scenario.name: scenario for scenario in ALL}


def result(scenario: Scenario, server: str, cpu_us: float) -> Result:
    sample = Sample(
        messages=1000, deliveries=0, seconds=0.1, server_cpu_seconds=cpu_us / 1000,
        generator_cpu_seconds=0, peak_bytes=20 * MIB, p50_us=cpu_us * 100, sent=1250,
        start_ms=110 * cpu_us, first_cpu_us=cpu_us, last_cpu_us=cpu_us * 1.1,
        cache_bytes=64 * MIB,
    )  # fmt: skip
    return Result(scenario, KNOWN[server], [sample])


def rows(*names: str) -> list[str]:
    """The rows of all tables, if nats-server and JetStream cost four times as much as ours."""
    results = [
        result(SCENARIOS[name], server, 4 if server in ("nats-server", "jetstream") else 1)
        for name in names
        for server in SCENARIOS[name].servers
    ]
    lines = markdown(results).splitlines()
    return [line for line in lines if line.startswith("| ") and not line.startswith("| scenario")]


def test_given_nothing_when_shown_then_there_is_no_table():
    assert markdown([]) == ""


def test_given_a_kept_form_when_shown_then_the_readme_and_the_page_of_figures_have_a_row():
    about = "1 publisher, 1 subscriber, 128 B"
    assert rows("kept-1:1-128") == [
        f"| {about} | 1 us | 4 us | 4 |",
        f"| {about} | all by Seriatim, nothing by nats-server | 1 us | 4 us | 4 | 1 us | 4 | 1 |"
        " 20 : 20 |",
    ]


def test_given_a_round_trip_when_shown_then_it_is_the_median_that_is_compared():
    first, *_ = rows("kept-round-trip")
    assert first == "| one message in flight, 16 B | 100 us, p50 | 400 us, p50 | 4 |"


def test_given_other_scenarios_when_shown_then_each_is_in_its_own_table():
    assert rows("warm-1:1-128", "store-flood-128", "1:0-16", "idle-10000", "day-128", "start") == [
        "| 1 publisher, 1 subscriber, 128 B, warm memory | all by Seriatim, nothing by nats-server"
        " | 1 us | 4 us | 4 | 1 us | 4 | 1 | 20 : 20 |",
        "| 1 publisher, no acknowledgement, 128 B | 80 % by Seriatim, 80 % by JetStream"
        " | 1 us, 0.01 M/s | 4 us, 0.01 M/s | 4 |",
        "| 1 publisher, no subscriber, 16 B | nothing | 1 us | 4 us | 4 | 20 : 20 |",
        "| 10 000 idle connections, one subscription each | nothing | | | | 20 : 20 |",
        "| 10 GiB through the journal, of which 2 GiB are retained, 128 B | 2 GiB | 1 us | 1.1 us"
        " | 1.10 | 64 | 20 |",
        "| from the start of the process to the first connection, empty store | nothing yet"
        " | 0.11 s | 0.44 s |",
    ]


def test_given_any_scenario_when_shown_then_its_cells_are_as_many_as_its_head_has():
    results = [result(scenario, server, 1) for scenario in ALL for server in scenario.servers]
    for table in markdown(results).split("\n\n"):
        counts = {line.count("|") for line in table.splitlines() if line.startswith("|")}
        assert len(counts) <= 1
