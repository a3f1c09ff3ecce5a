"""The tables of README.md and docs/performance.md, ready to be pasted: medians of the runs.

A table or a row is left out if nothing of it was measured.
"""

from collections.abc import Callable, Sequence

from benchmarks.core import CORE
from benchmarks.goals import find
from benchmarks.kinds import Day, Flood, Idle, Keeping, RoundTrip, Scenario, Starting, Storing
from benchmarks.runner import Result
from benchmarks.sample import MIB, spread

OURS, BARE, PEER, STREAM = "seriatim", "seriatim-bare", "nats-server", "jetstream"
Row = list[str]
CORE_NAMES = [core.form.name for core in CORE]
KEPT_HEAD = (
    "scenario", "what is kept", "Seriatim", "nats-server", "ratio", "Seriatim, nothing kept",
    "ratio", "journal on : nothing kept", "peak memory, MiB",
)  # fmt: skip


def markdown(results: Sequence[Result]) -> str:
    """Return all tables of these results, each under a line that names it."""
    made = [
        ("README.md: the default", _table(_SHORT, _rows(results, _short))),
        ("the default, with every message kept", _table(KEPT_HEAD, _rows(results, _kept))),
        ("the default, warm memory", _table(KEPT_HEAD, _rows(results, _warm))),
        ("beside JetStream", _table(_PEER_HEAD, _rows(results, _stored))),
        ("nothing is kept", _table(_BARE_HEAD, _rows(results, _bare))),
        ("a day in miniature", _table(_DAY_HEAD, _rows(results, _day))),
        ("start", _table(_START_HEAD, _rows(results, _start))),
    ]
    return "\n".join(f"{name}:\n\n{table}" for name, table in made if table)


_SHORT = (
    "scenario",
    "Seriatim, which keeps every message",
    "nats-server, which keeps none",
    "ratio",
)
_PEER_HEAD = ("scenario", "what is kept", "Seriatim", "JetStream", "ratio")
_BARE_HEAD = ("scenario", "what is kept", "Seriatim", "nats-server", "ratio", "peak memory, MiB")
_DAY_HEAD = (
    "scenario", "what is kept", "first tenth", "last tenth", "ratio", "page cache, MiB",
    "peak memory, MiB",
)  # fmt: skip
_START_HEAD = ("scenario", "what is kept", "Seriatim", "nats-server")


def _table(head: Sequence[str], rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += ["|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in rows]
    return "".join(f"{line}\n" for line in lines)


def _rows(
    results: Sequence[Result], row: Callable[[Scenario, Sequence[Result]], Row | None]
) -> list[Row]:
    scenarios = {result.scenario.name: result.scenario for result in results}
    made = [row(scenario, results) for scenario in scenarios.values()]
    return [one for one in made if one]


def _median(results: Sequence[Result], scenario: str, server: str, figure: str) -> float:
    found = find(results, scenario, server)
    return spread(found.samples, figure).median if found else 0.0


def _about(scenario: Scenario) -> str:
    """Return the scenario's description; for a kept form, that of its original form."""
    for core in CORE:
        if scenario.name.removeprefix("kept-") == core.form.name:
            return core.form.about
    return scenario.about


def _costs(scenario: Scenario, results: Sequence[Result]) -> tuple[str, list[float]]:
    """Return the unit, and the cost of a message (or its round trip) on each of the three."""
    is_trip = isinstance(scenario, RoundTrip)
    figure, unit = ("p50_us", "us, p50") if is_trip else ("cpu_us", "us")
    return unit, [_median(results, scenario.name, one, figure) for one in (OURS, BARE, PEER)]


def _us(value: float, unit: str) -> str:
    if not value:
        return ""
    return f"{value:.3f} {unit}" if value < 1 else f"{value:.3g} {unit}"


def _times(more: float, less: float) -> str:
    return f"{more / less:.2g}" if more and less else ""


def _short(scenario: Scenario, results: Sequence[Result]) -> Row | None:
    if not scenario.name.startswith("kept-"):
        return None
    unit, (ours, _, peer) = _costs(scenario, results)
    return [_about(scenario), _us(ours, unit), _us(peer, unit), _times(peer, ours)]


def _kept(scenario: Scenario, results: Sequence[Result]) -> Row | None:
    return _three(scenario, results) if scenario.name.startswith("kept-") else None


def _warm(scenario: Scenario, results: Sequence[Result]) -> Row | None:
    is_warm = isinstance(scenario, Flood) and scenario.warm
    return _three(scenario, results) if is_warm else None


def _three(scenario: Scenario, results: Sequence[Result]) -> Row:
    unit, (ours, bare, peer) = _costs(scenario, results)
    return [
        _about(scenario),
        "all by Seriatim, nothing by nats-server",
        _us(ours, unit),
        _us(peer, unit),
        _times(peer, ours),
        _us(bare, unit),
        _times(peer, bare),
        _times(ours, bare),
        _memory(scenario, results, OURS),
    ]


def _memory(scenario: Scenario, results: Sequence[Result], server: str) -> str:
    ours, theirs = (_median(results, scenario.name, one, "peak_bytes") for one in (server, PEER))
    return f"{ours / MIB:.0f} : {theirs / MIB:.0f}"


def _stored(scenario: Scenario, results: Sequence[Result]) -> Row | None:
    if not isinstance(scenario, Keeping) or isinstance(scenario, Day):
        return None
    always = "-always" if scenario.peer.endswith("-always") else ""
    names = (OURS + always, STREAM + always)
    ours, theirs = (_median(results, scenario.name, one, "cpu_us") for one in names)
    rates = [_median(results, scenario.name, one, "in_per_second") / 1e6 for one in names]
    said = [
        f"{_us(cost, 'us')}, {rate:.3g} M/s" if cost else ""
        for cost, rate in zip((ours, theirs), rates, strict=True)
    ]
    kept = "reads what is kept"
    if isinstance(scenario, Storing):
        percent = [_median(results, scenario.name, one, "kept_percent") for one in names]
        kept = f"{percent[0]:.0f} % by Seriatim, {percent[1]:.0f} % by JetStream"
    return [_about(scenario), kept, *said, _times(theirs, ours)]


def _bare(scenario: Scenario, results: Sequence[Result]) -> Row | None:
    if scenario.name not in CORE_NAMES and not isinstance(scenario, Flood | Idle):
        return None
    if BARE not in scenario.servers or OURS in scenario.servers:
        return None
    unit, (_, ours, peer) = _costs(scenario, results)
    memory = _memory(scenario, results, BARE)
    if isinstance(scenario, Idle):
        return [_about(scenario), "nothing", "", "", "", memory]
    costs = [_us(ours, unit), _us(peer, unit), _times(peer, ours)]
    return [_about(scenario), "nothing", *costs, memory]


def _day(scenario: Scenario, results: Sequence[Result]) -> Row | None:
    if not isinstance(scenario, Day):
        return None

    def of(figure: str) -> float:
        return _median(results, scenario.name, "seriatim-day", figure)

    costs = [_us(of(f"{part}_cpu_us"), "us") for part in ("first", "last")]
    sizes = [f"{of(figure):.0f}" for figure in ("cache_mib", "peak_mib")]
    return [_about(scenario), "2 GiB", *costs, f"{of('growth'):.2f}", *sizes]


def _start(scenario: Scenario, results: Sequence[Result]) -> Row | None:
    if not isinstance(scenario, Starting):
        return None
    times = [_median(results, scenario.name, one, "start_ms") / 1000 for one in (OURS, PEER)]
    shown = [f"{seconds:.2g} s" if seconds else "" for seconds in times]
    return [_about(scenario), "everything" if scenario.messages else "nothing yet", *shown]
