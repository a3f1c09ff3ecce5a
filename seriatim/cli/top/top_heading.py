"""The lines above the views: the broker as a whole, as much of it as fits.

Each line is a list of facts, a dim word and its value. Facts that do not fit are left out from the
end, so the first ones matter most. Texts of the broker are escaped here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, Final

from rich.text import Text

from seriatim.cli.printable import printable
from seriatim.cli.top.amounts_shown import count, milliseconds, rate, size, span
from seriatim.cli.top.broker_watch import BrokerWatch

SPARK_S: Final = 180.0  # what a sparkline shows, at least
SPARKS: Final = " ▁▂▃▄▅▆▇█"
SPARKS_ASCII: Final = " .:-=+*#@"
SPARK_CELLS_MAX: Final = 60
TOTAL_CELLS: Final = 13
RATE_CELLS: Final = 32 + TOTAL_CELLS  # of a line of rates, without its sparklines
COLOURS: Final = {"in": "green", "out": "cyan"}
NAME_CELLS: Final = 24  # a broker without a name of its own has one of 56 letters
GAP: Final = "  "
ALARM: Final = "bold red"
TURN_LONG: Final = 0.02  # seconds; docs/monitoring.md says why
BUSY: Final = 90.0  # percent of one core
Fact = tuple[str, str, str]  # word, value, style of the value


def heading(
    watch: BrokerWatch, where: str, width: int, seconds: float, sparks: str = SPARKS
) -> list[Text]:
    """Return the lines, of at most `width` cells; rounds are `seconds` apart.

    Without `sparks`, there are no sparklines.
    """
    found = watch.summary()
    lines = [[*_broker(found), ("", where, "dim")], list(_process(found))]
    if found["journal"]:
        lines.append(list(_journal(found["journal"])))
    if found["cluster"]:
        lines.append(list(_cluster(found["cluster"])))
    top, *others = (fitted(facts, width) for facts in lines)
    rates = [_rates(watch, found, word, width, seconds, sparks) for word in ("in", "out")]
    return [top, *rates, *others]


def fitted(facts: Iterable[Fact], width: int) -> Text:
    """Return as many facts as fit in a line."""
    line = Text()
    for word, value, style in facts:
        fact = Text(GAP if line else "")
        if word:
            fact.append(f"{printable(word)} ", "dim")
        fact.append(printable(value), style)
        if line and line.cell_len + fact.cell_len > width:
            break
        line.append_text(fact)
    line.truncate(width)
    return line


def sparkline(
    past: Sequence[float | None], cells: int, each: int, sparks: str = SPARKS, first: int = 0
) -> str:
    """Draw the means of `each` values in a cell, the newest to the right; unknown ones are blank.

    `first` is the number of the first value. The cells begin at multiples of `each`, so a cell does
    not change once it is full.
    """
    begin = each * max(ceil(first / each), ceil((first + len(past)) / each) - cells) - first
    means: list[float | None] = []
    for at in range(begin, len(past), each):
        known = [one for one in past[at : at + each] if one is not None]
        means.append(sum(known) / len(known) if known else None)
    most = max((one for one in means if one), default=1.0)
    levels = len(sparks) - 1
    return "".join(
        sparks[0 if one is None else min(levels, max(1, ceil(one / most * levels)))]
        for one in means
    )


def sparks_for(encoding: str) -> str:
    """Return the characters of a sparkline that a terminal's encoding has."""
    try:
        SPARKS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return SPARKS_ASCII
    return SPARKS


def _broker(found: Mapping[str, Any]) -> Iterator[Fact]:
    yield found["product"], found["version"], "bold"
    name = found["name"]
    yield "", name if len(name) <= NAME_CELLS else f"{name[: NAME_CELLS - 3]}...", "bold"
    if found["sequence"] is not None:
        yield "last number", count(found["sequence"]), "bold"
    yield "up", span(found["uptime"]), ""
    if found["restarts"]:
        yield "restarted", f"{found['restarts']}x", ALARM
    if found["build"]:
        yield "build", found["build"], ""


def _rates(
    watch: BrokerWatch, found: Mapping[str, Any], word: str, width: int, seconds: float, sparks: str
) -> Text:
    """Draw the rates of one direction, each with the line of its past."""
    cells = max(0, min((width - RATE_CELLS) // 2, SPARK_CELLS_MAX)) if sparks else 0
    each = max(1, ceil(SPARK_S / max(seconds, 0.1) / max(cells, 1)))
    first = watch.rounds - len(watch.history)
    line = Text().append(f"{word:<3}", "dim")
    for unit, figure, room in (("msgs", rate, 6), ("bytes", size, 8)):
        key = f"{word}_{unit}_rate"
        line.append(f"{figure(found[key]):>{room}}", "bold")
        line.append(f"{' msg/s' if unit == 'msgs' else '/s'} ", "dim")
        past = [one.get(key) for one in watch.history]
        spark = sparkline(past, cells, each, sparks, first) if cells else ""
        line.append(f"{spark:>{cells}}", COLOURS[word])
    line.append(f"{count(found[f'{word}_msgs']):>{TOTAL_CELLS}}")
    line.append(" msgs", "dim")
    line.truncate(width)
    return line


def _process(found: Mapping[str, Any]) -> Iterator[Fact]:
    cpu = found["cpu"]
    yield "cpu", f"{cpu:.0f}%", ALARM if _is_busy(found) else ""
    yield "mem", size(found["mem"]), ""
    connections, most = found["connections"], found["max_connections"]
    yield "clients", count(connections), ALARM if most and connections >= 0.9 * most else ""
    yield "subs", count(found["subscriptions"]), ""
    yield "slow consumers", count(found["slow_consumers"]), ALARM if found["slow_consumers"] else ""
    if found["loop_turn"] is not None:
        turn = found["loop_turn"]
        yield "turn", milliseconds(turn), ALARM if turn > TURN_LONG else ""
        yield "pending", size(found["pending_bytes"]), ""
    yield "clients so far", count(found["total_connections"]), ""
    yield "client limit", count(most), ""


def _is_busy(found: Mapping[str, Any]) -> bool:
    """True if the processor is the limit: one core of ours, which has one thread, or all cores."""
    cores = 1 if found["product"] == "seriatim" else max(found["cores"], 1)
    return bool(found["cpu"] >= BUSY * cores)


def _journal(journal: Mapping[str, Any]) -> Iterator[Fact]:
    segments = journal["segments"]
    where = f"{count(segments)} segments" if segments != 1 else "1 segment"
    yield "journal", "FULL" if journal["full"] else where, ALARM if journal["full"] else ""
    yield "", size(journal["bytes"]), ""
    yield "window", span(journal["window"]), ""
    if journal["catching_up"]:
        yield "catching up", count(journal["catching_up"]), "bold"
    if journal["replaying"]:
        yield "past readers", count(journal["replaying"]), ""
    for name in ("given_up", "lost", "refused"):
        if journal[name]:
            yield name.replace("_", " "), count(journal[name]), ALARM
    if journal["store"] == "disk":
        behind = max(journal["last"] - journal["synced"], 0)
        yield "unsynced", count(behind), ""
        yield "sync", milliseconds(journal["sync_time"]), ""
    if journal["store"] == "disk":
        yield "syncs/s", rate(journal["syncs_rate"]), ""
    yield "from number", count(journal["first"]), ""
    yield "store", journal["store"], ""


def _cluster(cluster: Mapping[str, Any]) -> Iterator[Fact]:
    yield "cluster", cluster["name"], ""
    if cluster["role"]:
        yield "", cluster["role"], "bold"
    status = cluster["status"]
    if status and status != "ok":
        yield "", status, ALARM
    if cluster["watermark"] is not None:
        yield "watermark", count(cluster["watermark"]), ""
    if cluster["view_members"] is not None:
        yield "in sync", count(cluster["view_members"]), ""
        yield "answering", count(cluster["members_answering"]), ""
        yield "epoch", count(cluster["epoch"]), ""
