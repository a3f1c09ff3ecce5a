"""Parses the query of a monitoring request: a wrong parameter is refused, never guessed."""

from collections.abc import Mapping
from dataclasses import dataclass

LIMIT_DEFAULT = 1024
# One page is copied while the broker waits: for 10 000 connections that is about 10 ms.
LIMIT_MAX = 10_000
# For all connections of one page; copying 65 536 references takes about a millisecond.
SUBS_DEFAULT = 16_384
SUBS_MAX = 65_536
NUMBER_MAX = (1 << 63) - 1

# How connections can be sorted, as in nats-server: attribute, and whether largest first.
SORTS = {
    "cid": ("cid", False),
    "start": ("started_at", False),
    "subs": ("subscriptions", True),
    "pending": ("pending_bytes", True),
    "msgs_to": ("out_msgs", True),
    "msgs_from": ("in_msgs", True),
    "bytes_to": ("out_bytes", True),
    "bytes_from": ("in_bytes", True),
    "last": ("heard", True),
    "idle": ("heard", False),
    "uptime": ("started_at", False),
    "rtt": ("rtt", True),
}
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("", "0", "f", "F", "FALSE", "false", "False"))


class BadQuery(ValueError):
    """An invalid parameter; the text names it and says what is valid."""


@dataclass(frozen=True, slots=True)
class Page:
    """Which entries are wanted."""

    offset: int = 0
    limit: int = LIMIT_DEFAULT


@dataclass(frozen=True, slots=True)
class ConnectionsQuery:
    """A query of /connz. `subs`: no subscriptions, "names" or "detail".

    Lists each connection's subscriptions from `subs_offset` on, `subs_limit` at most in all; with
    `auth` the user of each, and the certificates that it has sent.
    """

    page: Page
    sort: str
    subs: str
    cid: int
    subs_offset: int = 0
    subs_limit: int = SUBS_DEFAULT
    auth: bool = False


@dataclass(frozen=True, slots=True)
class SubscriptionsQuery:
    """A query of /subsz. `test`: list only subscriptions that match this subject."""

    page: Page
    subs: bool
    test: bytes


def connections_query(raw: Mapping[str, list[str]]) -> ConnectionsQuery:
    """Parse the parameters of /connz. Raises `BadQuery`."""
    sort = _last(raw, "sort") or "cid"
    if sort not in SORTS:
        raise BadQuery(f"sort: cannot sort by {sort!r}; give one of {', '.join(SORTS)}")
    state = _last(raw, "state") or "open"
    if state not in ("open", "any", "all"):
        raise BadQuery(f"state: {state!r} connections are not kept; give open")
    detail = _last(raw, "subs") == "detail"
    subs = "detail" if detail else ("names" if _flag(raw, "subs") else "")
    cid = _number(raw, "cid", 0, NUMBER_MAX)
    subs_offset = _number(raw, "subs_offset", 0, NUMBER_MAX)
    subs_limit = _number(raw, "subs_limit", 0, SUBS_MAX) or SUBS_DEFAULT
    auth = _flag(raw, "auth")
    return ConnectionsQuery(_page(raw), sort, subs, cid, subs_offset, subs_limit, auth)


def page_query(raw: Mapping[str, list[str]]) -> Page:
    """Parse the parameters of a page without others. Raises `BadQuery`."""
    return _page(raw)


def subscriptions_query(raw: Mapping[str, list[str]]) -> SubscriptionsQuery:
    """Parse the parameters of /subsz. Raises `BadQuery`."""
    from sublist.subject import is_literal

    test = _last(raw, "test").encode("utf-8", "surrogateescape")
    if test and not is_literal(test):
        raise BadQuery("test: is not a subject that can be published to")
    return SubscriptionsQuery(_page(raw), _flag(raw, "subs"), test)


def _page(raw: Mapping[str, list[str]]) -> Page:
    limit = _number(raw, "limit", 0, LIMIT_MAX)
    return Page(_number(raw, "offset", 0, NUMBER_MAX), limit or LIMIT_DEFAULT)


def _number(raw: Mapping[str, list[str]], name: str, low: int, high: int) -> int:
    text = _last(raw, name)
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or not low <= int(text) <= high:
        shown = text if len(text) <= 40 else text[:40] + "..."
        raise BadQuery(f"{name}: {shown!r} is not a number from {low} to {high}")
    return int(text)


def _flag(raw: Mapping[str, list[str]], name: str) -> bool:
    text = _last(raw, name)
    if name == "subs" and text == "detail":
        return True
    if text not in _TRUE and text not in _FALSE:
        raise BadQuery(f"{name}: {text!r} is neither true nor false")
    return text in _TRUE


def _last(raw: Mapping[str, list[str]], name: str) -> str:
    return raw[name][-1] if raw.get(name) else ""
