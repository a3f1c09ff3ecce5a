"""The plot of a report: CPU per message, the round trip, and peak memory, server by server."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from benchmarks.report import MIB, ratio
from benchmarks.runner import Result
from benchmarks.sample import spread
from benchmarks.scenarios import Flood, RoundTrip
from benchmarks.servers import BASELINE

COLOURS = ("#1f6f8b", "#e07a1f", "#6a8f3c", "#8d5a97", "#b23a48")
BASELINE_COLOUR = "#9aa0a6"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small, searchable, and the reader's own font
    "svg.hashsalt": "seriatim",  # the same figures give the same file
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(path: Path, header: dict[str, str], results: Sequence[Result]) -> None:
    """Write the plot to `path`; its ending says which format."""
    measured = [result for result in results if result.samples]
    floods = [result for result in measured if isinstance(result.scenario, Flood)]
    trips = [result for result in measured if isinstance(result.scenario, RoundTrip)]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 2 + 0.5 * len(_scenarios(measured))), layout="constrained")
        axes = figure.subplot_mosaic(
            [["cpu", "memory"], ["cpu", "trip"]], height_ratios=[5, 1], width_ratios=[1, 1]
        )
        _bars(axes["cpu"], floods, results, "cpu_us", 1)
        axes["cpu"].set_title("Server CPU per message, microseconds (log)", loc="left")
        _logarithmic(axes["cpu"], 0.01)
        _bars(axes["memory"], measured, results, "peak_bytes", MIB)
        axes["memory"].set_title("Peak memory, MiB (log)", loc="left")
        _logarithmic(axes["memory"], 5)
        _bars(axes["trip"], trips, results, "p50_us", 1)
        axes["trip"].set_title("Round trip, median, microseconds", loc="left")
        handles, labels = axes["memory"].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
        figure.supxlabel(_caption(header), fontsize=7, color="#555555")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _scenarios(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(result.scenario.name for result in results))


def _caption(header: dict[str, str]) -> str:
    return (
        f"{header['processor']}, {header['kernel']}, Python {header['python']}, Seriatim "
        f"{header['seriatim']}, nats-server {header['nats-server']}, {header['date']}. "
        "Shorter is better; in brackets: nats-server's figure / this server's."
    )


def _bars(
    axes: Axes, shown: Sequence[Result], results: Sequence[Result], figure: str, unit: int
) -> None:
    """Draw one group of bars for each scenario, the first on top; whiskers from least to most."""
    scenarios = _scenarios(shown)
    servers = list(dict.fromkeys(result.server.name for result in results))
    height = 0.8 / max(1, len(servers))
    ours = [name for name in servers if name != BASELINE]
    for place, server in enumerate(servers):
        rows = [result for result in shown if result.server.name == server]
        if not rows:
            continue
        each = [spread(result.samples, figure) for result in rows]
        at = [scenarios.index(row.scenario.name) + (place + 0.5) * height - 0.4 for row in rows]
        colour = BASELINE_COLOUR if server == BASELINE else COLOURS[ours.index(server) % 5]
        medians = [one.median / unit for one in each]
        whiskers = [
            [(one.median - one.low) / unit for one in each],
            [(one.high - one.median) / unit for one in each],
        ]
        bars = axes.barh(
            at, medians, height, label=server, color=colour, xerr=whiskers,
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
