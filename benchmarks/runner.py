"""Runs the scenarios: every server in turn, repeatedly, each on a fresh process.

Servers alternate within a scenario, in reversed order every other run, so that other load on the
machine affects all of them alike.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from benchmarks.churning import run_churn
from benchmarks.consuming import run_consuming
from benchmarks.day import run_day
from benchmarks.errors import BenchmarkError
from benchmarks.feeding import run_feeding
from benchmarks.flood import run_flood
from benchmarks.idle import run_idle
from benchmarks.numbering import run_numbering
from benchmarks.paced import run_paced, run_requests
from benchmarks.reading import run_reading
from benchmarks.receiving import run_receiving
from benchmarks.redis import run_redis
from benchmarks.replaying import run_replaying
from benchmarks.roundtrip import run_round_trip
from benchmarks.sample import Sample
from benchmarks.scenarios import (
    Churn,
    Consuming,
    Day,
    Feeding,
    Flood,
    Idle,
    Numbering,
    Paced,
    Reading,
    Receiving,
    Replaying,
    Requests,
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

GREATEST_RUNS = 3
RUNS: dict[type[Scenario], Callable[[Any, Server], Sample]] = {
    Flood: run_flood,
    Paced: run_paced,
    Requests: run_requests,
    RoundTrip: run_round_trip,
    Idle: run_idle,
    Churn: run_churn,
    Storing: run_storing,
    Replaying: run_replaying,
    Consuming: run_consuming,
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
    runs = min(runs, scenario.runs_max)
    if isinstance(scenario, Paced) and scenario.percent and servers:
        say(f"{scenario.name}: the greatest rate")
        shape = replace(scenario, name="greatest", about="", percent=0)
        try:
            rate = greatest_common_rate(shape, tuple(servers))
        except BenchmarkError as error:
            return [Result(scenario, server, errors=[str(error)]) for server in servers]
        scenario = scenario.at_its_percent(rate)
    results = [Result(scenario.scaled(server.scale), server) for server in servers]
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
    if server.takes == "redis" and isinstance(scenario, Flood | Storing):
        return run_redis(scenario, server)
    return RUNS[type(scenario)](scenario, server)


@cache  # so that all percentages are of one rate
def greatest_common_rate(flood: Paced, servers: tuple[Server, ...]) -> float:
    """Return the rate of the slowest of these servers, each at its best: the median of its runs."""
    rates: dict[str, list[float]] = {server.name: [] for server in servers}
    for run in range(GREATEST_RUNS):
        for server in servers if run % 2 == 0 else reversed(servers):
            rates[server.name].append(run_once(flood, server).in_per_second)
    return min(map(statistics.median, rates.values()))
