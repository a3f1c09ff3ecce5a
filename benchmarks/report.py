"""The report: a table for the reader, JSON for machines."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.runner import Result
from benchmarks.sample import FIGURES, Spread, spread
from benchmarks.servers import BASELINE

MIB = 1024 * 1024
NOTES = (
    f"ratio: {BASELINE}'s figure / this server's, of CPU per message (p50 for the round trip) and "
    "of memory; idle-10000 counts a connection made as a message",
    "goal: the least ratio; memory: not more than nats-server, idle-10000 200 MiB, "
    "1:1-128-million 600 MiB",
)


def find(results: Sequence[Result], scenario: str, server: str) -> Result | None:
    """Return what was measured of one scenario on one server, if anything was."""
    for result in results:
        if (result.scenario.name, result.server.name) == (scenario, server) and result.samples:
            return result
    return None


def ratio(result: Result, results: Sequence[Result], figure: str) -> float:
    """Return nats-server's median over this server's; 0 where there is nothing to compare."""
    baseline = find(results, result.scenario.name, BASELINE)
    if not baseline or not result.samples or result.server.name == BASELINE:
        return 0.0
    return spread(baseline.samples, figure).median / spread(result.samples, figure).median


def table(results: Sequence[Result]) -> Table:
    """Return the table: a row for each scenario and server, medians of the runs."""
    made = Table(title="Medians of the runs, (least - greatest)", title_justify="left")
    made.add_column("scenario", no_wrap=True)
    made.add_column("server", no_wrap=True)
    for heading in (
        "in/s", "out/s", "CPU us/message", "ratio", "goal", "p50 / p99 us", "peak MiB", "ratio",
        "server\ncores", "generator\ncores", "runs",
    ):  # fmt: skip
        made.add_column(heading, justify="right", no_wrap=True)
    previous = ""
    for result in results:
        name = result.scenario.name
        if previous and name != previous:
            made.add_section()
        made.add_row(name if name != previous else "", *_cells(result, results))
        previous = name
    return made


def _cells(result: Result, results: Sequence[Result]) -> list[str]:
    if not result.samples:
        return [result.server.name, "[red]failed[/red]"]
    each = {figure: spread(result.samples, figure) for figure in FIGURES}
    latency = ""
    if each["p50_us"].median:
        latency = f"{each['p50_us'].median:.1f} / {each['p99_us'].median:.1f}"
    failed = f" [red]({len(result.errors)} failed)[/red]" if result.errors else ""
    goal = result.scenario.goal
    found = ratio(result, results, result.scenario.figure)
    return [
        result.server.name,
        _count(each["in_per_second"].median),
        _count(each["out_per_second"].median),
        _range(each["cpu_us"]),
        _judged(found, found >= goal),
        f"{goal:g}" if found and goal else "",
        latency,
        f"{each['peak_bytes'].median / MIB:.1f}",
        _judged_memory(result, results),
        f"{each['server_cores'].median:.2f}",
        f"{each['generator_cores'].median:.2f}",
        f"{len(result.samples)}{failed}",
    ]


def _judged(found: float, good: bool) -> str:
    """Write a ratio, green where its goal is reached."""
    colour = "green" if good else "red"
    return f"[{colour}]{found:.2f}[/{colour}]" if found else ""


def _judged_memory(result: Result, results: Sequence[Result]) -> str:
    found = ratio(result, results, "peak_bytes")
    limit = result.scenario.memory_max_mib
    if limit:
        return _judged(found, spread(result.samples, "peak_bytes").median <= limit * MIB)
    return _judged(found, found >= 1)


def _count(value: float) -> str:
    """Write a rate short: 12.3 M, 45.6 k, 78."""
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
    """Say what the one thing costs in which a scenario differs from another."""
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
    """Print the header, the table, what the scenarios are, and what failed."""
    for key, value in header.items():
        console.print(f"{key}: {value}", style="dim", highlight=False, markup=False)
    console.print(table(results))
    for line in (*comparisons(results), *NOTES):
        console.print(line, style="dim", highlight=False)
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
                "ratio": ratio(result, results, result.scenario.figure),
                "memory_ratio": ratio(result, results, "peak_bytes"),
                "figures": medians,
                "runs": [dataclasses.asdict(sample) for sample in result.samples],
                "errors": result.errors,
            }
        )
    return json.dumps({"header": header, "results": rows}, indent=1) + "\n"


def write_json(path: Path, header: dict[str, str], results: Sequence[Result]) -> None:
    """Write `as_json` to `path`, making its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_json(header, results))
