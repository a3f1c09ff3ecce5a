"""The report: JSON with everything measured, and Markdown tables for people, ready to be pasted.

Each table has a row for a scenario on a server. Below the tables, a line for each goal says whether
it was reached.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.runner import Result
from benchmarks.sample import COSTS, FIGURES, MIB, Spread, spread
from benchmarks.scenarios import Casting, Day, Goal, Keeping, Paced, Scenario, Starting
from benchmarks.servers import BASELINE

NOTES = (
    "ratio: how many times better than nats-server (JetStream where messages are kept; cq, the\n"
    "floor or the listener with multicast), of CPU per message (p50 for the round trip, the rate\n"
    "where the disk or a number is awaited) and of memory; idle-10000 counts a connection made\n"
    "as a message",
    "unclear: no ratio, because the runs of one server differ by more than the two servers do",
    "goal: the least ratio; memory: not more than the peer, idle-10000 200 MiB,\n"
    "1:1-128-million 600 MiB",
)
WORDS = {
    "cpu_us": "CPU per message",
    "in_per_second": "messages per second",
    "out_per_second": "messages per second",
    "per_cpu_second": "messages per second of CPU",
    "p50_us": "p50",
    "p99_us": "p99",
    "p999_us": "p99.9",
    "start_ms": "milliseconds to start",
    "growth": "CPU per message in the last tenth, times that in the first",
    "peak_mib": "peak memory in MiB",
    "cache_mib": "page cache in MiB",
}


# Goals


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """One goal of one server in one scenario, and the figure reached."""

    scenario: str
    server: str
    goal: Goal
    found: float
    is_clear: bool = True  # False: the runs differ by more than the servers do

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
        if not self.is_clear:
            said = f"differs by less from {peer} than the runs do, goal {least:.3g}"
            word = "unclear"
        return f"{self.scenario}, {self.server}: {WORDS[self.goal.figure]} {said}: {word}"


def find(results: Sequence[Result], scenario: str, server: str) -> Result | None:
    """Return the measurements of one scenario on one server, if there are any."""
    for result in results:
        if (result.scenario.name, result.server.name) == (scenario, server) and result.samples:
            return result
    return None


class Comparison(NamedTuple):
    """A server beside its peer."""

    times: float  # how many times better it is; 0: there is nothing to compare
    is_clear: bool  # False: the runs of one differ by more than the two do


def compare(result: Result, results: Sequence[Result], figure: str, peer: str = "") -> Comparison:
    """Return how a figure of a server compares with its peer's."""
    peer = peer or result.scenario.peer
    other = find(results, result.scenario.name, peer)
    if not other or not result.samples or result.server.name == peer:
        return Comparison(0.0, False)
    own, theirs = (spread(one.samples, figure) for one in (result, other))
    less, more = (own, theirs) if figure in COSTS else (theirs, own)
    times = more.median / less.median if less.median else 0.0
    return Comparison(times, not own.overlaps(theirs))


def ratio(result: Result, results: Sequence[Result], figure: str, peer: str = "") -> float:
    """Return how many times better a server is than its peer; 0 if that cannot be said."""
    times, is_clear = compare(result, results, figure, peer)
    return times if is_clear else 0.0


def verdicts(results: Sequence[Result]) -> Iterator[Verdict]:
    """Judge every server except nats-server and others that serve as a comparison.

    A goal that names a server is that server's alone, even if others are compared with it.
    """
    for result in results:
        name, goals = result.server.name, result.scenario.goals
        peers = {BASELINE, *(goal.peer for goal in goals)}
        theirs = name.startswith("jetstream") or result.server.is_floor
        if not result.samples or theirs:
            continue
        for goal in goals:
            if name != goal.server if goal.server else name in peers:
                continue
            found, is_clear = spread(result.samples, goal.figure).median, True
            if goal.peer:
                found, is_clear = compare(result, results, goal.figure, goal.peer)
            if found:
                yield Verdict(result.scenario.name, name, goal, found, is_clear)


def shown_goal(scenario: Scenario, server: str) -> Goal:
    """Return the goal of the table's ratio: the server's first goal against the scenario's peer.

    A server without one gets a goal of 0 for the figure by which the others are compared.
    """
    goals = [goal for goal in scenario.goals if goal.peer == scenario.peer]
    for goal in goals:
        if goal.server in ("", server):
            return goal
    return Goal(goals[0].figure if goals else "cpu_us", 0, scenario.peer)


def comparisons(results: Sequence[Result]) -> list[str]:
    """Say how much the one difference between two scenarios costs."""
    lines = []
    for result in results:
        scenario, server = result.scenario, result.server
        other = find(results, scenario.compared_with, server.name)
        if other and result.samples:
            times = spread(result.samples, "cpu_us").median / spread(other.samples, "cpu_us").median
            lines.append(
                f"{scenario.name} takes {times:.2f} times the CPU of {other.scenario.name} "
                f"on {server.name}"
            )
    return lines


# Tables

Cell = Callable[[Result, Sequence[Result]], str]


def _median(figure: str, digits: str = ".3g") -> Cell:
    return lambda result, _: f"{spread(result.samples, figure).median:{digits}}"


def _rate(figure: str) -> Cell:
    """A rate in short form: 12.3 M, 45.6 k, 78."""

    def short(value: float) -> str:
        for unit, size in (("M", 1e6), ("k", 1e3)):
            if value >= size:
                return f"{value / size:.3g} {unit}"
        return f"{value:.0f}"

    def cell(result: Result, _: Sequence[Result]) -> str:
        each = spread(result.samples, figure)
        return _with_range(each, short) if each.median else ""

    return cell


def _with_range(each: Spread, written: Callable[[float], str]) -> str:
    """Write the median and, of several runs, the least and the greatest."""
    if each.low == each.high:
        return written(each.median)
    return f"{written(each.median)} ({written(each.low)} - {written(each.high)})"


def _percent(figure: str) -> Cell:
    def cell(result: Result, _: Sequence[Result]) -> str:
        value = spread(result.samples, figure).median
        return f"{value:.1f}" if value else ""

    return cell


def _range(figure: str) -> Cell:
    def cell(result: Result, _: Sequence[Result]) -> str:
        each = spread(result.samples, figure)
        digits = 3 if each.median < 10 else 1
        return _with_range(each, lambda value: f"{value:.{digits}f}")

    return cell


def _times(found: Comparison) -> str:
    if not found.times:
        return ""
    return f"{found.times:.2f}" if found.is_clear else "unclear"


def _ratio(result: Result, results: Sequence[Result]) -> str:
    figure = shown_goal(result.scenario, result.server.name).figure
    return _times(compare(result, results, figure))


def _goal(result: Result, results: Sequence[Result]) -> str:
    goal = shown_goal(result.scenario, result.server.name)
    return f"{goal.least:.3g}" if goal.least and _ratio(result, results) else ""


def _wait(figure: str) -> Cell:
    """A wait in microseconds; empty if the scenario has none, as most have not."""

    def cell(result: Result, _: Sequence[Result]) -> str:
        each = spread(result.samples, figure)
        return _with_range(each, lambda value: f"{value:.1f}") if each.median else ""

    return cell


def _memory_ratio(result: Result, results: Sequence[Result]) -> str:
    found = compare(result, results, "peak_bytes")
    if not found.times:
        return ""
    limit = result.scenario.memory_max_mib
    peak = spread(result.samples, "peak_bytes").median
    good = peak <= limit * MIB if limit else found.times >= 1 or not found.is_clear
    return _times(found) if good else f"{_times(found)}, MISSED"


def _runs(result: Result, _: Sequence[Result]) -> str:
    failed = f" ({len(result.errors)} failed)" if result.errors else ""
    return f"{len(result.samples)}{failed}"


COSTS_OF_A_SERVER: dict[str, Cell] = {
    "CPU us/message": _range("cpu_us"),
    "ratio": _ratio,
    "goal": _goal,
    "p50 us": _wait("p50_us"),
    "p99 us": _wait("p99_us"),
    "p99.9 us": _wait("p999_us"),
    "peak MiB": _median("peak_mib", ".1f"),
    "memory ratio": _memory_ratio,
    "server cores": _median("server_cores", ".2f"),
    "generator cores": _median("generator_cores", ".2f"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One of the report's tables."""

    title: str
    columns: dict[str, Cell]


LIVE = Kind(
    "Passed on",
    {"in/s": _rate("in_per_second"), "out/s": _rate("out_per_second"), **COSTS_OF_A_SERVER},
)
LATENCY = Kind(
    "Waits at a share of the greatest rate that all servers take, all of them counted",
    {
        "in/s": _rate("in_per_second"),
        "p50 us": _wait("p50_us"),
        "p90 us": _wait("p90_us"),
        "p99 us": _wait("p99_us"),
        "p99.9 us": _wait("p999_us"),
        "longest us": _wait("max_us"),
        "CPU us/message": _range("cpu_us"),
    },
)
KEPT = Kind(
    "Kept and read again",
    {"messages/s": _rate("in_per_second"), "kept %": _percent("kept_percent"), **COSTS_OF_A_SERVER},
)
DAY = Kind(
    "A day in miniature",
    {
        "messages/s": _rate("in_per_second"),
        "CPU us/message": _median("cpu_us"),
        "in the first tenth": _median("first_cpu_us"),
        "in the last tenth": _median("last_cpu_us"),
        "last : first": _range("growth"),
        "page cache MiB, at most": _median("cache_mib"),
        "peak MiB": _median("peak_mib"),
    },
)
START = Kind(
    "Start",
    {"ms": _range("start_ms"), "CPU ms": _median("cpu_ms"), "peak MiB": _median("peak_mib")},
)
CAST = Kind(
    "cquencer's port, and multicast",
    {
        "messages/s": _rate("in_per_second"),
        "received %": _percent("received_percent"),
        **{name: cell for name, cell in COSTS_OF_A_SERVER.items() if name != "memory ratio"},
    },
)
KINDS = (LIVE, LATENCY, KEPT, DAY, START, CAST)


def kind_of(scenario: Scenario) -> Kind:
    """Return the table to which a scenario belongs."""
    match scenario:
        case Paced(percent=percent) if percent:
            return LATENCY
        case Day():
            return DAY
        case Starting():
            return START
        case Keeping():
            return KEPT
        case Casting():
            return CAST
        case _:
            return LIVE


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, whose columns also line up on a terminal."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    return "".join(f"| {' | '.join(map(str.ljust, line, widths))} |\n" for line in lines)


def tables(results: Sequence[Result]) -> Iterator[str]:
    """Yield a table for each kind of scenario that was run: medians, (least - greatest)."""
    for kind in KINDS:
        rows = []
        for result in results:
            if kind_of(result.scenario) is kind:
                cells = ["failed", *[""] * (len(kind.columns) - 1)]
                if result.samples:
                    cells = [cell(result, results) for cell in kind.columns.values()]
                names = (result.scenario.name, result.server.name)
                rows.append([*names, *cells, _runs(result, results)])
        if rows:
            head = ("scenario", "server", *kind.columns, "runs")
            yield f"{kind.title}: medians, (least - greatest)\n\n{table(head, rows)}"


def as_text(header: dict[str, str], results: Sequence[Result]) -> str:
    """Return the header, the tables, their explanation, the goals, and what failed."""
    failed = [
        f"{result.scenario.name}, {result.server.name}: {error}"
        for result in results
        for error in result.errors
    ]
    parts = [
        "\n".join(f"{key}: {value}" for key, value in header.items()),
        *tables(results),
        "\n".join([*comparisons(results), *NOTES]),
        "\n".join([*map(str, verdicts(results)), *failed]),
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def as_json(header: dict[str, str], results: Sequence[Result]) -> str:
    """Return everything measured, each run on its own, with the medians beside."""
    rows: list[dict[str, Any]] = []
    for result in results:
        medians = (
            {figure: dataclasses.asdict(spread(result.samples, figure)) for figure in FIGURES}
            if result.samples
            else {}
        )
        rows.append(
            {
                "scenario": dataclasses.asdict(result.scenario),
                "server": dataclasses.asdict(result.server),
                "ratio": ratio(
                    result, results, shown_goal(result.scenario, result.server.name).figure
                ),
                "memory_ratio": ratio(result, results, "peak_bytes"),
                "figures": medians,
                "runs": [dataclasses.asdict(sample) for sample in result.samples],
                "errors": result.errors,
            }
        )
    goals = [
        dataclasses.asdict(one) | {"reached": one.reached if one.is_clear else None}
        for one in verdicts(results)
    ]
    return json.dumps({"header": header, "results": rows, "goals": goals}, indent=1) + "\n"


def write_json(path: Path, header: dict[str, str], results: Sequence[Result]) -> None:
    """Write `as_json` to `path`, making its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_json(header, results))
