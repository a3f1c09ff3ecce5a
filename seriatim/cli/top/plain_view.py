"""A broker without a live view: one snapshot as text or as JSON, and a line for each interval."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from seriatim.cli.errors import CliError
from seriatim.cli.printable import print_table, printable, printable_json
from seriatim.cli.top.amounts_shown import count, rate, size
from seriatim.cli.top.broker_watch import PAGES, BrokerWatch
from seriatim.cli.top.page_reader import Answers, NoAnswer, PageAddress, PageReader
from seriatim.cli.top.page_values import whole
from seriatim.cli.top.row_tables import PAGE_ROWS, VIEWS
from seriatim.cli.top.top_heading import heading

HINTS: Final = (
    (ConnectionRefusedError, "; monitoring is on with `seriatim serve -m 8222`"),
    (ConnectionResetError, "; give https:// if it has TLS"),
)
WIDTH: Final = 200  # of the lines above the tables
LISTED: Final = ("connections", "streams", "consumers", "feeds", "members")  # of a text
TITLES_EVERY: Final = 20  # lines
STAT_CELLS: Final = (8, 15, 7, 7, 9, 9, 5, 8, 8, 8, 5)
STAT_TITLES: Final = (
    *("time", "number", "in/s", "out/s", "in B/s", "out B/s", "cpu", "mem", "clients", "subs"),
    "slow",
)


def first_round(reader: PageReader, address: PageAddress, paths: dict[str, str]) -> Answers:
    """Read a round that must succeed. Raises `CliError`."""
    try:
        return reader.read(paths)
    except NoAnswer as why:
        hints = (hint for kind, hint in HINTS if isinstance(why.__cause__, kind))
        raise CliError(f"{address}: {why}{next(hints, '')}") from None


def snapshot(reader: PageReader, address: PageAddress, seconds: float) -> BrokerWatch:
    """Read all pages twice, `seconds` apart, so that there are rates. Raises `CliError`."""
    paths = {"varz": "/varz"}
    for view in VIEWS:
        if view.page:
            paths[PAGES[view.kind]] = view.page.format(rows=PAGE_ROWS, sort="cid")
    watch = BrokerWatch()
    watch.learn(first_round(reader, address, paths))
    time.sleep(seconds)
    watch.learn(first_round(reader, address, paths))
    return watch


def print_snapshot(watch: BrokerWatch, address: PageAddress) -> None:
    """Print the heading, and the tables that have rows."""
    for line in heading(watch, str(address), WIDTH, 1.0, ""):
        print(line.plain.rstrip())
    for view in VIEWS:
        rows = watch.rows.get(view.kind, [])
        if view.kind not in LISTED or not rows:
            continue
        column = view.column(view.sort)
        assert column is not None
        ordered = view.sorted(rows, column, not column.is_text)
        columns = [
            one for one in view.columns if any(one.show(row.get(one.key)) for row in ordered)
        ]
        numbers = [at for at, one in enumerate(columns) if not one.is_text]
        cells = [[one.show(row.get(one.key)) for one in columns] for row in ordered]
        print(f"\n{view.title}")
        print_table([one.title for one in columns], cells, numbers)


def print_json(watch: BrokerWatch, address: PageAddress) -> None:
    """Print one JSON document with all figures, rates and rows."""
    assert watch.answers is not None
    document: dict[str, Any] = {
        "url": str(address),
        "time": datetime.fromtimestamp(watch.answers.time, UTC).isoformat(),
        "seconds": watch.seconds,
        "broker": watch.summary(),
    }
    for view in VIEWS:
        rows = watch.rows.get(view.kind, [])
        document[view.kind] = [
            {key: value for key, value in row.items() if key != "page"} for row in rows
        ]
        if view.total:
            total = whole(watch.page(PAGES[view.kind]), view.total)
            document[f"{view.kind}_total"] = max(total, len(rows))
    print(printable_json(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode()))


def print_lines(reader: PageReader, address: PageAddress, seconds: float) -> None:
    """Print a line for each interval until Ctrl-C. Raises `CliError` if the first round fails."""
    watch, paths = BrokerWatch(), {"varz": "/varz"}
    watch.learn(first_round(reader, address, paths))
    for line in _lines(reader, watch, paths, seconds):
        print(line, flush=True)


def _lines(
    reader: PageReader, watch: BrokerWatch, paths: dict[str, str], seconds: float
) -> Iterator[str]:
    at, printed = time.monotonic(), 0
    while True:
        at = max(at + seconds, time.monotonic())
        time.sleep(max(at - time.monotonic(), 0.0))
        try:
            watch.learn(reader.read(paths))
        except NoAnswer as why:
            yield f"{time.strftime('%H:%M:%S')}  no answer: {printable(str(why))}"
            continue
        if printed % TITLES_EVERY == 0:
            yield _aligned(STAT_TITLES)
        printed += 1
        yield _aligned(_stat(watch))


def _stat(watch: BrokerWatch) -> Iterator[str]:
    found = watch.summary()
    yield time.strftime("%H:%M:%S")
    yield count(found["sequence"])
    yield rate(found["in_msgs_rate"])
    yield rate(found["out_msgs_rate"])
    yield size(found["in_bytes_rate"])
    yield size(found["out_bytes_rate"])
    yield f"{found['cpu']:.0f}%"
    yield size(found["mem"])
    yield count(found["connections"])
    yield count(found["subscriptions"])
    yield count(found["slow_consumers"])


def _aligned(cells: Iterator[str] | tuple[str, ...]) -> str:
    return " ".join(f"{one:>{width}}" for one, width in zip(cells, STAT_CELLS, strict=True))
