"""The plot of a report: CPU per message, live and kept, round trip, and memory, by server."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import NullFormatter

from benchmarks.goals import ratio
from benchmarks.kinds import Casting, Day, Flood, Keeping, RoundTrip, Starting
from benchmarks.runner import Result
from benchmarks.sample import MIB, spread

COLOURS = ("#1f6f8b", "#e07a1f", "#6a8f3c", "#8d5a97", "#b23a48")
PEER_COLOURS = {"nats-server": "#9aa0a6", "jetstream": "#5f6368", "jetstream-always": "#bdc1c6"}
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small, searchable, and the reader's own font
    "svg.hashsalt": "seriatim",  # the same figures give the same file
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(path: Path, header: dict[str, str], results: Sequence[Result]) -> None:
    """Write the plot to `path`, in the format of its extension.

    Multicast, starts and the day in miniature are not in it.
    """
    measured = [
        one for one in results if one.samples and not isinstance(one.scenario, Day | Starting)
    ]
    kept = [result for result in measured if isinstance(result.scenario, Keeping)]
    live = [one for one in measured if not isinstance(one.scenario, Keeping | Casting)]
    floods = [result for result in live if isinstance(result.scenario, Flood)]
    trips = [result for result in live if isinstance(result.scenario, RoundTrip)]
    panels: list[Any] = [["cpu", "memory"], ["cpu", "trip"]]
    heights = [5.0, 1.0]
    if kept:
        panels, heights = [*panels, ["kept", "rate"]], [*heights, len(_scenarios(kept))]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 2 + 0.5 * len(_scenarios(live + kept))), layout="constrained")
        axes = figure.subplot_mosaic(panels, height_ratios=heights)
        _bars(axes["cpu"], floods, results, "cpu_us", 1)
        axes["cpu"].set_title("Server CPU per message, microseconds (log)", loc="left")
        _logarithmic(axes["cpu"], 0.01)
        _bars(axes["memory"], live, results, "peak_bytes", MIB)
        axes["memory"].set_title("Peak memory, MiB (log)", loc="left")
        _logarithmic(axes["memory"], 5)
        _bars(axes["trip"], trips, results, "p50_us", 1)
        axes["trip"].set_title("Round trip, median, microseconds", loc="left")
        if kept:
            _bars(axes["kept"], kept, results, "cpu_us", 1)
            axes["kept"].set_title("Server CPU per message kept or read, us (log)", loc="left")
            _logarithmic(axes["kept"], 0.01)
            _bars(axes["rate"], kept, results, "in_per_second", 1_000_000)
            axes["rate"].set_title("Millions per second, longer is better (log)", loc="left")
            _logarithmic(axes["rate"], 0.001)
        handles = [
            Patch(color=_colour(name, results), label=name) for name in _servers(live + kept)
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=6, frameon=False)
        figure.supxlabel(_caption(header), fontsize=7, color="#555555")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _servers(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(result.server.name for result in results))


def _colour(server: str, results: Sequence[Result]) -> str:
    """Return a colour for the server; peers, which are all nats-server, are grey."""
    if server in PEER_COLOURS:
        return PEER_COLOURS[server]
    ours = [name for name in _servers(results) if name not in PEER_COLOURS]
    return COLOURS[ours.index(server) % len(COLOURS)]


def _scenarios(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(result.scenario.name for result in results))


def _caption(header: dict[str, str]) -> str:
    return (
        f"{header['processor']}, {header['kernel']}, Python {header['python']}, Seriatim "
        f"{header['seriatim']}, nats-server {header['nats-server']}, {header['date']}. "
        "Shorter is better; in brackets: how many times better than nats-server or JetStream."
    )


def _bars(
    axes: Axes, shown: Sequence[Result], results: Sequence[Result], figure: str, unit: int
) -> None:
    """Draw one group of bars for each scenario, the first on top; whiskers show minimum and
    maximum.
    """
    scenarios = _scenarios(shown)
    within = {
        name: _servers([row for row in shown if row.scenario.name == name]) for name in scenarios
    }
    height = 0.8 / max([2, *map(len, within.values())])
    for server in _servers(shown):
        rows = [result for result in shown if result.server.name == server]
        each = [spread(result.samples, figure) for result in rows]
        at = [
            scenarios.index(name) + (within[name].index(server) + 0.5) * height - 0.4
            for name in (row.scenario.name for row in rows)
        ]
        medians = [one.median / unit for one in each]
        whiskers = [
            [(one.median - one.low) / unit for one in each],
            [(one.high - one.median) / unit for one in each],
        ]
        bars = axes.barh(
            at, medians, height, color=_colour(server, results), xerr=whiskers,
            error_kw={"ecolor": "#333333", "elinewidth": 0.8},
        )  # fmt: skip
        labels = [
            _label(median, ratio(row, results, figure))
            for median, row in zip(medians, rows, strict=True)
        ]
        axes.bar_label(bars, labels, padding=4, fontsize=8)
    axes.set_yticks(range(len(scenarios)), scenarios)
    axes.invert_yaxis()
    axes.margins(x=0.2)


def _logarithmic(axes: Axes, left: float) -> None:
    axes.set_xscale("log")
    axes.set_xlim(left=left)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _label(median: float, found: float) -> str:
    return f"{median:.3g}  ({found:.1f}x)" if found else f"{median:.3g}"
