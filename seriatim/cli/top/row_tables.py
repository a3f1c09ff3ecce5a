"""The views: which columns each has, how its rows are sorted and found, and which page they need.

Columns stand in the order of their use: a narrow terminal shows the first ones, and the arrows to
the left and right shift the others in. A column has a fixed width, so that nothing jumps when a
number grows; a column that `grows` shares what is left.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from seriatim.cli.printable import printable
from seriatim.cli.top.amounts_shown import clock, count, milliseconds, rate, size, span
from seriatim.cli.top.broker_rows import Row

# Rows of a page: what a broker gives without a limit, and what it gives at most. A filter is for
# something rare, which may be beyond the first thousand.
PAGE_ROWS: Final = 1024
PAGE_ROWS_MAX: Final = 10_000


class Column(NamedTuple):
    """One column: its title, the key of a row, and how the value is shown."""

    title: str
    key: str
    show: Callable[[Any], str] = str
    width: int = 7
    grows: bool = False
    broker_sort: str = "cid"  # what /connz calls it, or what is closest
    stands_out: Callable[[Any], bool] = lambda value: False  # a value that deserves a look

    @property
    def is_text(self) -> bool:
        """True if it is set to the left, and sorted from a to z at first."""
        return self.show in (str, _or_nothing, _account)


@dataclass(frozen=True, slots=True)
class RowTable:
    """One view."""

    kind: str  # of its rows
    title: str
    columns: tuple[Column, ...]
    sort: str  # the title of the column to sort by at first
    empty: str  # what to say if there are no rows
    page: str = ""  # the page's path, besides /varz; {rows} and {sort} are filled in
    total: str = ""  # the page's count of all rows, of which it may list only some

    def column(self, title: str) -> Column | None:
        """Return a column by its title; None if there is none."""
        return next((one for one in self.columns if one.title == title), None)

    def sorted(self, rows: Iterable[Row], column: Column, descending: bool) -> list[Row]:
        """Return the rows in order; those without a value are last, and equal ones stay."""
        present: list[Row] = []
        absent: list[Row] = []
        for row in rows:
            (absent if row.get(column.key) is None else present).append(row)
        present.sort(key=lambda row: _sort_key(row[column.key]), reverse=descending)
        return present + absent

    def found(self, rows: Sequence[Row], words: str) -> list[Row]:
        """Return the rows that show this text in some column, in upper or lower case."""
        wanted = words.casefold()
        if not wanted:
            return list(rows)
        columns = self.columns
        return [
            row
            for row in rows
            if any(wanted in _as_shown(one.show(row.get(one.key))) for one in columns)
        ]


def _as_shown(text: str) -> str:
    return (text if text.isprintable() else printable(text)).casefold()


def _sort_key(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


def _or_nothing(value: Any) -> str:
    return str(value) if value not in (None, "") else ""


def _account(name: str | None) -> str:
    """Return an account; the one that there is without accounts says nothing."""
    return "" if name in (None, "$G") else name


def _is_harsh(reason: str) -> bool:
    """True if a connection did not end in peace."""
    return reason not in ("Client Closed", "Server Shutdown", "")


def _is_blocked(why: str) -> bool:
    return why not in ("all was sent", "it is sending", "it counts what is pending")


def _figure(value: float | None) -> str:
    if isinstance(value, float) and not value.is_integer():
        return f"{value:,.6f}".rstrip("0")
    return count(value)


def _signed(value: float | None) -> str:
    return rate(value) if value is None or value <= 0 else f"+{rate(value)}"


_CID: Final = Column("cid", "id", str, 6)
_NAME: Final = Column("name", "name", _or_nothing, 12, grows=True)
_ADDRESS: Final = Column("address", "address", _or_nothing, 21)
_USER: Final = Column("user", "user", _or_nothing, 10)
_LANGUAGE: Final = Column("language", "language", _or_nothing, 14)
_ACCOUNT: Final = Column("account", "account", _account, 8)
_TOTALS: Final = (
    Column("msgs in", "in_msgs", count, 11, broker_sort="msgs_from"),
    Column("msgs out", "out_msgs", count, 11, broker_sort="msgs_to"),
    Column("bytes in", "in_bytes", size, 9, broker_sort="bytes_from"),
    Column("bytes out", "out_bytes", size, 10, broker_sort="bytes_to"),
)

CONNECTIONS: Final = RowTable(
    "connections",
    "Clients",
    (
        *(_CID, _NAME),
        Column("in/s", "in_msgs_rate", rate, 6, broker_sort="msgs_from"),
        Column("out/s", "out_msgs_rate", rate, 6, broker_sort="msgs_to"),
        Column("pending", "pending", size, 8, broker_sort="pending", stands_out=bool),
        Column("subs", "subscriptions", count, 5, broker_sort="subs"),
        Column("rtt", "rtt", milliseconds, 6, broker_sort="rtt"),
        _ADDRESS,
        Column("in B/s", "in_bytes_rate", rate, 7, broker_sort="bytes_from"),
        Column("out B/s", "out_bytes_rate", rate, 8, broker_sort="bytes_to"),
        _USER,
        _LANGUAGE,
        Column("idle", "idle", span, 6, broker_sort="idle"),
        Column("uptime", "uptime", span, 7, broker_sort="uptime"),
        *_TOTALS,
        Column("tls", "tls", _or_nothing, 7),
        _ACCOUNT,
    ),
    sort="out/s",
    empty="no client is connected",
    page="/connz?auth=1&limit={rows}&sort={sort}",
    total="total",
)
CLOSED: Final = RowTable(
    "closed",
    "Closed",
    (
        _CID,
        Column("closed", "stopped", clock, 11),
        Column("reason", "reason", _or_nothing, 26, stands_out=_is_harsh),
        _NAME,
        _ADDRESS,
        _USER,
        Column("lasted", "uptime", span, 7),
        *_TOTALS,
        _LANGUAGE,
        _ACCOUNT,
    ),
    sort="closed",
    empty="no connection has ended yet",
    page="/connz?state=closed&sort=stop&auth=1&limit={rows}",
    total="total",
)
STREAMS: Final = RowTable(
    "streams",
    "Streams",
    (
        Column("stream", "name", _or_nothing, 16),
        Column("messages", "messages", count, 12),
        Column("change/s", "messages_rate", _signed, 9),
        Column("bytes", "bytes", size, 7),
        Column("consumers", "consumers", count, 10),
        Column("subjects", "subjects", _or_nothing, 12, grows=True),
        Column("first", "first", count, 13),
        Column("last", "last", count, 13),
        Column("newest", "last_time", clock, 11),
        _ACCOUNT,
    ),
    sort="stream",
    empty="there are no streams",
    page="/jsz?consumers=1&config=1&streams_limit={rows}&consumers_limit={rows}",
    total="streams",
)
CONSUMERS: Final = RowTable(
    "consumers",
    "Consumers",
    (
        Column("consumer", "name", _or_nothing, 12),
        Column("stream", "stream", _or_nothing, 10),
        Column("pending", "pending", count, 9),
        Column("unacked", "ack_pending", count, 8),
        Column("sent/s", "deliveries_rate", rate, 7),
        Column("why nothing is sent", "why", _or_nothing, 27, True, stands_out=_is_blocked),
        Column("acked/s", "acks_rate", rate, 8),
        Column("again", "redelivered", count, 6),
        Column("waiting", "waiting", count, 8),
        Column("lost", "lost", count, 7, stands_out=bool),
        Column("kind", "kind", _or_nothing, 5),
        Column("filter", "filter", _or_nothing, 16),
        Column("number", "delivered", count, 13),
        _ACCOUNT,
    ),
    sort="pending",
    empty="there are no consumers",
    page="/jsz?consumers=1&config=1&streams_limit={rows}&consumers_limit={rows}",
    total="consumers",
)
SUBSCRIPTIONS: Final = RowTable(
    "subscriptions",
    "Subs",
    (
        Column("subject", "subject", _or_nothing, 20, grows=True),
        Column("queue", "queue", _or_nothing, 12),
        Column("msgs/s", "msgs_rate", rate, 7),
        Column("msgs", "msgs", count, 13),
        Column("cid", "cid", str, 6),
        Column("sid", "sid", _or_nothing, 6),
        _ACCOUNT,
    ),
    sort="msgs/s",
    empty="there are no subscriptions",
    page="/subsz?subs=1&limit={rows}",
    total="total",
)
FEEDS: Final = RowTable(
    "feeds",
    "Feeds",
    (
        Column("feed", "name", _or_nothing, 14, grows=True),
        Column("group", "group", _or_nothing, 21),
        Column("last", "last", count, 12),
        Column("msgs/s", "messages_rate", rate, 7),
        Column("B/s", "bytes_rate", rate, 6),
        Column("errors", "errors", count, 7, stands_out=bool),
        Column("asked", "requests", count, 7),
        Column("answered", "answered", count, 9),
        Column("skipped", "skipped", count, 8),
        Column("too long", "too_long", count, 9),
        Column("broken", "broken", count, 7),
        Column("codec", "codec", _or_nothing, 10),
        Column("subject", "subject", _or_nothing, 12),
    ),
    sort="feed",
    empty="there are no feeds",
)
MEMBERS: Final = RowTable(
    "members",
    "Cluster",
    (
        Column("member", "name", _or_nothing, 16, grows=True),
        Column("role", "role", _or_nothing, 11),
        Column("in sync", "in_sync", _or_nothing, 8, stands_out="no".__eq__),
        Column("last", "last", count, 12),
        Column("lag", "lag", milliseconds, 6),
        Column("lag B", "lag_bytes", size, 7),
        Column("heard", "pulse", milliseconds, 6),
        Column("address", "address", _or_nothing, 21),
        Column("connected", "connected", _or_nothing, 10),
        Column("clock", "clock", lambda value: "-" if value is None else f"{value:+.3f}s", 8),
        Column("msgs/s", "last_rate", rate, 7),
        Column("rtt", "rtt", milliseconds, 6),
        Column("version", "version", _or_nothing, 10),
    ),
    sort="member",
    empty="this broker has no other members, or is no cluster's",
    page="/routez",
)
FIGURES: Final = RowTable(
    "figures",
    "Figures",
    (
        Column("figure", "name", _or_nothing, 30, grows=True),
        Column("value", "value", _figure, 22),
        Column("change/s", "rate", _signed, 9),
    ),
    sort="figure",
    empty="the page has no figures",
)
# The keys 1 to 8 choose them.
VIEWS: Final = (
    *(CONNECTIONS, CLOSED, STREAMS, CONSUMERS),
    *(SUBSCRIPTIONS, FEEDS, MEMBERS, FIGURES),
)
