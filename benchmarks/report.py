"""The report: tables for the reader, the goals reached or not, JSON for machines."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.goals import find, ratio, verdicts
from benchmarks.kinds import Casting, Day, Goal, Keeping, Scenario, Starting
from benchmarks.runner import Result
from benchmarks.sample import FIGURES, MIB, Spread, spread

NOTES = (
    "ratio: how many times better than nats-server (JetStream where messages are kept; cq, the "
    "floor or the listener with multicast), of CPU per message (p50 for the round trip, the rate "
    "where the disk or a number is awaited) and of memory; idle-10000 counts a connection made "
    "as a message",
    "goal: the least ratio; memory: not more than the peer, idle-10000 200 MiB, "
    "1:1-128-million 600 MiB",
)
MEMORY_RATIO = "memory\nratio"
HEADINGS = (
    "CPU us/message", "ratio", "goal", "p50 / p99 us", "peak MiB", MEMORY_RATIO,
    "server\ncores", "generator\ncores", "runs",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One of the report's tables: its title, and its first two columns with their figures."""

    title: str
    rates: tuple[tuple[str, str], tuple[str, str]]
    headings: tuple[str, ...] = HEADINGS


LIVE = Kind(
    "Passed on: medians of the runs, (least - greatest)",
    (("in/s", "in_per_second"), ("out/s", "out_per_second")),
)
KEPT = Kind(
    "Kept and read again: medians, (least - greatest)",
    (("messages/s", "in_per_second"), ("kept %", "kept_percent")),
)
CAST = Kind(
    "cquencer's port, and multicast: medians, (least - greatest)",
    (("messages/s", "in_per_second"), ("received %", "received_percent")),
    tuple(heading for heading in HEADINGS if heading != MEMORY_RATIO),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Plain:
    """A table of figures that are compared with nothing."""

    title: str
    columns: tuple[tuple[str, str], ...]


DAY = Plain(
    "A day in miniature: medians, (least - greatest)",
    (
        ("messages/s", "in_per_second"), ("CPU us/message", "cpu_us"),
        ("in the first\ntenth", "first_cpu_us"), ("in the last\ntenth", "last_cpu_us"),
        ("last : first", "growth"), ("page cache MiB,\nat most", "cache_mib"),
        ("peak MiB", "peak_mib"),
    ),
)  # fmt: skip
RANGED = ("start_ms", "growth")  # for these the least and the greatest are shown, too
START = Plain(
    "Start: medians, (least - greatest)",
    (("ms", "start_ms"), ("CPU ms", "cpu_ms"), ("peak MiB", "peak_mib")),
)

KINDS = (LIVE, KEPT, DAY, START, CAST)


def kind_of(scenario: Scenario) -> Kind | Plain:
    """Return the table to which a scenario belongs."""
    match scenario:
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


def tables(results: Sequence[Result]) -> list[Table]:
    """Return the tables: live messages, messages kept and read again, and multicast."""
    kinds = ((kind, [one for one in results if kind_of(one.scenario) is kind]) for kind in KINDS)
    return [table(rows, kind) for kind, rows in kinds if rows]


def table(results: Sequence[Result], kind: Kind | Plain) -> Table:
    """Return the table: a row for each scenario and server, medians of the runs."""
    made = Table(title=kind.title, title_justify="left")
    made.add_column("scenario", no_wrap=True)
    made.add_column("server", no_wrap=True)
    columns = kind.columns if isinstance(kind, Plain) else kind.rates
    headings = ("runs",) if isinstance(kind, Plain) else kind.headings
    for heading in (*(heading for heading, _ in columns), *headings):
        made.add_column(heading, justify="right", no_wrap=True)
    previous = ""
    for result in results:
        name = result.scenario.name
        if previous and name != previous:
            made.add_section()
        cells = (
            _plain_cells(result, kind) if isinstance(kind, Plain) else _cells(result, results, kind)
        )
        made.add_row(name if name != previous else "", *cells)
        previous = name
    return made


def shown_goal(scenario: Scenario, server: str) -> Goal:
    """Return the goal of the table's ratio: the server's first goal against the scenario's peer.

    A server without one gets a goal of 0 for the figure by which the others are compared.
    """
    goals = [goal for goal in scenario.goals if goal.peer == scenario.peer]
    for goal in goals:
        if goal.server in ("", server):
            return goal
    return Goal(goals[0].figure if goals else "cpu_us", 0, scenario.peer)


def _plain_cells(result: Result, kind: Plain) -> list[str]:
    if not result.samples:
        return [result.server.name, "[red]failed[/red]"]
    figures = [(name, spread(result.samples, name)) for _, name in kind.columns]
    shown = []
    for name, figure in figures:
        if name in RANGED:
            shown.append(_range(figure))
        else:
            rate = name.endswith("per_second")
            shown.append(_count(figure.median) if rate else f"{figure.median:.3g}")
    return [result.server.name, *shown, _runs(result)]


def _runs(result: Result) -> str:
    failed = f" [red]({len(result.errors)} failed)[/red]" if result.errors else ""
    return f"{len(result.samples)}{failed}"


def _cells(result: Result, results: Sequence[Result], kind: Kind) -> list[str]:
    if not result.samples:
        return [result.server.name, "[red]failed[/red]"]
    each = {figure: spread(result.samples, figure) for figure in FIGURES}
    latency = ""
    if each["p50_us"].median:
        latency = f"{each['p50_us'].median:.1f} / {each['p99_us'].median:.1f}"
    goal = shown_goal(result.scenario, result.server.name)
    found = ratio(result, results, goal.figure)
    return [
        result.server.name,
        *(_rate(figure, each[figure].median) for _, figure in kind.rates),
        _range(each["cpu_us"]),
        _judged(found, found >= goal.least),
        f"{goal.least:.3g}" if found and goal.least else "",
        latency,
        f"{each['peak_bytes'].median / MIB:.1f}",
        *([_judged_memory(result, results)] if MEMORY_RATIO in kind.headings else []),
        f"{each['server_cores'].median:.2f}",
        f"{each['generator_cores'].median:.2f}",
        _runs(result),
    ]


def _judged(found: float, good: bool) -> str:
    """Format a ratio, green if its goal is reached."""
    colour = "green" if good else "red"
    return f"[{colour}]{found:.2f}[/{colour}]" if found else ""


def _judged_memory(result: Result, results: Sequence[Result]) -> str:
    found = ratio(result, results, "peak_bytes")
    limit = result.scenario.memory_max_mib
    if limit:
        return _judged(found, spread(result.samples, "peak_bytes").median <= limit * MIB)
    return _judged(found, found >= 1)


def _rate(figure: str, value: float) -> str:
    if figure.endswith("percent"):
        return f"{value:.1f}" if value else ""
    return _count(value)


def _count(value: float) -> str:
    """Format a rate in short form: 12.3 M, 45.6 k, 78."""
    if not value:
        return ""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f}"


def _range(figure: Spread) -> str:
    digits = 3 if figure.median < 10 else 1
    return f"{figure.median:.{digits}f} ({figure.low:.{digits}f} - {figure.high:.{digits}f})"


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


def show(console: Console, header: dict[str, str], results: Sequence[Result]) -> None:
    """Print the header, the tables, their explanation, the goals, and what failed."""
    for key, value in header.items():
        console.print(f"{key}: {value}", style="dim", highlight=False, markup=False)
    for made in tables(results):
        console.print(made)
    for line in (*comparisons(results), *NOTES):
        console.print(line, style="dim", highlight=False)
    for verdict in verdicts(results):
        colour = "green" if verdict.reached else "red"
        console.print(str(verdict), style=colour, highlight=False, markup=False)
    for result in results:
        for error in result.errors:
            text = f"{result.scenario.name}, {result.server.name}: {error}"
            console.print(text, style="red", highlight=False, markup=False)


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
    goals = [dataclasses.asdict(one) | {"reached": one.reached} for one in verdicts(results)]
    return json.dumps({"header": header, "results": rows, "goals": goals}, indent=1) + "\n"


def write_json(path: Path, header: dict[str, str], results: Sequence[Result]) -> None:
    """Write `as_json` to `path`, making its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_json(header, results))
