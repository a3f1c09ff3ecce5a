"""Compares figures with goals: how many times better than a peer, and if that is enough."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.kinds import Goal
from benchmarks.runner import Result
from benchmarks.sample import COSTS, spread
from benchmarks.servers import BASELINE

WORDS = {
    "cpu_us": "CPU per message",
    "in_per_second": "messages per second",
    "out_per_second": "messages per second",
    "per_cpu_second": "messages per second of CPU",
    "p50_us": "p50",
    "start_ms": "milliseconds to start",
    "growth": "CPU per message in the last tenth, times that in the first",
    "peak_mib": "peak memory in MiB",
    "cache_mib": "page cache in MiB",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One goal of one server in one scenario, and the figure reached."""

    scenario: str
    server: str
    goal: Goal
    found: float

    @property
    def reached(self) -> bool:
        if not self.goal.peer and self.goal.figure in COSTS:
            return self.found <= self.goal.least
        return self.found >= self.goal.least

    def __str__(self) -> str:
        """The verdict in one line, with its key word at the end."""
        least, peer = self.goal.least, self.goal.peer
        if not peer and self.goal.figure in COSTS:
            said = f"{self.found:.4g}, goal {least:g} or less"
        elif not peer:
            said = f"{self.found / 1e6:.2f} M, goal {least / 1e6:g} M"
        elif least < 1:  # the server may be worse, by this factor
            said = f"{1 / self.found:.2f} times that of {peer}, goal {1 / least:g} or less"
        else:
            said = f"{self.found:.2f} times better than {peer}, goal {least:g}"
        word = "reached" if self.reached else "MISSED"
        return f"{self.scenario}, {self.server}: {WORDS[self.goal.figure]} {said}: {word}"


def find(results: Sequence[Result], scenario: str, server: str) -> Result | None:
    """Return the measurements of one scenario on one server, if there are any."""
    for result in results:
        if (result.scenario.name, result.server.name) == (scenario, server) and result.samples:
            return result
    return None


def ratio(result: Result, results: Sequence[Result], figure: str, peer: str = "") -> float:
    """Return how many times better a server is than its peer; 0 if there is nothing to compare."""
    peer = peer or result.scenario.peer
    other = find(results, result.scenario.name, peer)
    if not other or not result.samples or result.server.name == peer:
        return 0.0
    own, theirs = (spread(one.samples, figure).median for one in (result, other))
    less, more = (own, theirs) if figure in COSTS else (theirs, own)
    return more / less if less else 0.0


def verdicts(results: Sequence[Result]) -> Iterator[Verdict]:
    """Judge every server except nats-server and others that serve as a comparison.

    A goal that names a server is that server's alone, even if others are compared with it.
    """
    for result in results:
        name, goals = result.server.name, result.scenario.goals
        peers = {BASELINE, *(goal.peer for goal in goals)}
        theirs = result.server.keeps == "jetstream" or result.server.is_floor
        if not result.samples or theirs:
            continue
        for goal in goals:
            if name != goal.server if goal.server else name in peers:
                continue
            if goal.peer:
                found = ratio(result, results, goal.figure, goal.peer)
            else:
                found = spread(result.samples, goal.figure).median
            if found:
                yield Verdict(result.scenario.name, name, goal, found)
