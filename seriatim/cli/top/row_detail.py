"""The detail of one row: all that the pages say of it, which a table has no room for."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from rich.text import Text

from seriatim.cli.printable import printable
from seriatim.cli.stream.stream_listing import consumer_facts, counted, stream_facts
from seriatim.cli.top.amounts_shown import count, rate
from seriatim.cli.top.broker_rows import Row
from seriatim.cli.top.broker_watch import BrokerWatch
from seriatim.cli.top.row_tables import CONNECTIONS, CONSUMERS, STREAMS, RowTable

TITLE_CELLS: Final = 19
FACTS: Final = {STREAMS.kind: stream_facts, CONSUMERS.kind: consumer_facts}


def detail_lines(view: RowTable, row: Row, watch: BrokerWatch, width: int) -> list[Text]:
    """Return the lines of a detail. A row that has gone is shown as it was, and said to be."""
    is_connection = view is CONNECTIONS
    kind = "one connection" if is_connection else view.kind
    fresh = next((one for one in watch.rows.get(kind, []) if one["id"] == row["id"]), None)
    lines = list(_in_columns(list(_facts(view, fresh or row)), width))
    if fresh is None and kind in watch.rows:
        lines.insert(0, Text("it has gone; these are its last figures", "bold"))
    if is_connection and fresh is not None:
        lines += _subscriptions(watch.rows["its subscriptions"], fresh["subscriptions"], width)
    return lines


def _facts(view: RowTable, row: Row) -> Iterator[tuple[str, str]]:
    """Yield what the row shows, and what `seriatim stream info` would say of it, escaped."""
    shown = [(column.title, column.show(row.get(column.key))) for column in view.columns]
    if view.kind in FACTS:
        known: list[tuple[str, str]] = []
        with suppress(KeyError, TypeError, ValueError, AttributeError):  # other fields than ours
            known = list(FACTS[view.kind](row["page"]))
        titles = {title for title, _ in known}
        shown = known + [one for one in shown if one[0] not in titles]
    yield from ((title, printable(value)) for title, value in shown if value not in ("", "-"))


def _in_columns(facts: list[tuple[str, str]], width: int) -> Iterator[Text]:
    """Yield the facts, two in a line if all are short."""
    half = width // 2
    if any(TITLE_CELLS + len(value) >= half for _, value in facts):
        yield from (_fact(title, value, width) for title, value in facts)
        return
    middle = (len(facts) + 1) // 2
    for at in range(middle):
        line = _fact(*facts[at], half)
        if middle + at < len(facts):
            line.align("left", half)
            line.append_text(_fact(*facts[middle + at], width - half))
        yield line


def _fact(title: str, value: str, width: int) -> Text:
    line = Text().append(f"{title:<{TITLE_CELLS}}", "dim").append(value)
    line.truncate(width, overflow="ellipsis")
    return line


def _subscriptions(rows: list[Row], total: int, width: int) -> Iterator[Text]:
    yield Text()
    some = f", of which {len(rows):,} are listed" if len(rows) < total else ""
    yield Text(f"{counted(total, 'subscription', 'subscriptions')}{some}", "bold")
    for row in sorted(rows, key=lambda row: row["msgs"], reverse=True):
        line = Text(f"{rate(row['msgs_rate']):>7}/s {count(row['msgs']):>13}  ")
        line.append(printable(row["subject"]))
        if row["queue"]:
            line.append(f"  queue {printable(row['queue'])}", "dim")
        line.truncate(width, overflow="ellipsis")
        yield line
