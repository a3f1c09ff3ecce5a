"""The plot of `stats`: messages and bytes a second over time, by subject, as SVG or PNG."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import matplotlib as mpl
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray

POINTS_MAX: Final = 1000  # more than a picture has room for; then windows are joined
# Told apart by those who do not see red and green, too (Okabe and Ito).
COLOURS: Final = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000"),
)
SUBJECTS_MAX: Final = len(COLOURS)
dates: Any = import_module("matplotlib.dates")  # which has no types
OTHERS: Final = "#9aa0a6"
STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",  # text stays text: small, searchable, and the reader's own font
    "svg.hashsalt": "seriatim",  # the same figures give the same file
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e7e9",
    "axes.axisbelow": True,
}


@dataclass(frozen=True, slots=True)
class Series:
    """What one line of a panel shows: its rate in each window."""

    subject: str
    rates: NDArray[np.float64]


def series_of(
    windows: pa.Table, subjects: Sequence[str], measure: str, window_us: int
) -> tuple[NDArray[np.int64], int, list[Series]]:
    """When the windows begin (us), how long they are, and a line for each subject.

    Subjects beyond the first `SUBJECTS_MAX` are one line. A window without a message is 0.
    """
    begins = windows.column("window").cast(pa.int64()).to_numpy()
    first, last = int(begins.min()), int(begins.max())
    joined = -(-((last - first) // window_us + 1) // POINTS_MAX)
    width = joined * window_us
    count = (last - first) // width + 1
    shown = list(subjects[:SUBJECTS_MAX])
    names = [*shown, "others"] if len(subjects) > len(shown) else shown
    row_of = {name: at for at, name in enumerate(shown)}
    rows = np.array([row_of.get(one, len(shown)) for one in windows.column("subject").to_pylist()])
    totals = np.zeros((len(names), count))
    np.add.at(totals, (rows, (begins - first) // width), windows.column(measure).to_numpy())
    seconds = width / 1e6
    lines = [Series(name, totals[at] / seconds) for at, name in enumerate(names)]
    return first + np.arange(count) * width, width, lines


def draw(path: str, windows: pa.Table, subjects: Sequence[str], window_us: int) -> None:
    """Write the plot; the file's ending says in which format."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10, 6), layout="constrained")
        upper, lower = figure.subplots(2, 1, sharex=True)
        begins, width, lines = series_of(windows, subjects, "messages", window_us)
        _panel(upper, begins, width, lines)
        upper.set_ylabel("messages/s")
        upper.yaxis.set_major_formatter(EngFormatter(sep=""))
        handles, names = upper.get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=5, frameon=False)
        _panel(lower, *series_of(windows, subjects, "bytes", window_us))
        lower.set_ylabel("payload")
        lower.yaxis.set_major_formatter(EngFormatter("B/s"))
        locator = dates.AutoDateLocator(tz="UTC")
        lower.xaxis.set_major_locator(locator)
        lower.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz="UTC"))
        total = pc.sum(windows.column("messages")).as_py()
        lower.set_xlabel(f"time (UTC), in windows of {_length(width)}; {total:,} messages in all")
        metadata = {"Date": None} if path.endswith(".svg") else None
        figure.savefig(path, dpi=130, metadata=metadata)


def _panel(axes: Axes, begins: NDArray[np.int64], width: int, lines: Sequence[Series]) -> None:
    """Draw each line as steps, from the begin of the first window to the end of the last."""
    edges = np.append(begins, begins[-1] + width).astype("datetime64[us]")
    for at, line in enumerate(lines):
        colour = OTHERS if line.subject == "others" else COLOURS[at]
        axes.stairs(
            line.rates, dates.date2num(edges), color=colour, label=line.subject, linewidth=1.4
        )
    axes.xaxis_date()
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)


def _length(us: int) -> str:
    """A window's length as it is typed."""
    for name, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if us % (size * 1_000_000) == 0:
            return f"{us // (size * 1_000_000)} {name}"
    return f"{us / 1000:g} ms"
