"""Runs the scenarios: every server in turn, repeatedly, each on a fresh process.

Servers alternate within a scenario, in reversed order every other run, so that other load on the
machine affects all of them alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.churning import run_churn
from benchmarks.day import run_day
from benchmarks.errors import BenchmarkError
from benchmarks.feeding import run_feeding
from benchmarks.flood import run_flood
from benchmarks.idle import run_idle
from benchmarks.many_small import run_many_small
from benchmarks.numbering import run_numbering
from benchmarks.reading import run_reading
from benchmarks.receiving import run_receiving
from benchmarks.replaying import run_replaying
from benchmarks.roundtrip import run_round_trip
from benchmarks.sample import Sample
from benchmarks.scenarios import (
    Churn,
    Day,
    Feeding,
    Flood,
    Idle,
    ManySmall,
    Numbering,
    Reading,
    Receiving,
    Replaying,
    RoundTrip,
    Scenario,
    Stalls,
    Starting,
    Storing,
)
from benchmarks.servers import Server
from benchmarks.stalls import run_stalls
from benchmarks.starting import run_starting
from benchmarks.storing import run_storing

RUNS: dict[type[Scenario], Callable[[Any, Server], Sample]] = {
    Flood: run_flood,
    ManySmall: run_many_small,
    RoundTrip: run_round_trip,
    Idle: run_idle,
    Churn: run_churn,
    Storing: run_storing,
    Replaying: run_replaying,
    Reading: run_reading,
    Stalls: run_stalls,
    Day: run_day,
    Starting: run_starting,
    Numbering: run_numbering,
    Feeding: run_feeding,
    Receiving: run_receiving,
}


@dataclass(slots=True)
class Result:
    """All runs of one scenario on one server."""

    scenario: Scenario
    server: Server
    samples: list[Sample] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def run_scenario(
    scenario: Scenario, servers: Sequence[Server], runs: int, say: Callable[[str], None]
) -> list[Result]:
    """Run one scenario `runs` times on every server. A failed run is recorded as an error."""
    results = [Result(scenario.scaled(server.scale), server) for server in servers]
    runs = min(runs, scenario.runs_max)
    for run in range(runs):
        for result in results if run % 2 == 0 else reversed(results):
            say(f"{scenario.name}, run {run + 1} of {runs}: {result.server.name}")
            try:
                result.samples.append(run_once(result.scenario, result.server))
            except BenchmarkError as error:
                result.errors.append(str(error))
    return results


def run_once(scenario: Scenario, server: Server) -> Sample:
    """Run one scenario once on one server."""
    return RUNS[type(scenario)](scenario, server)
