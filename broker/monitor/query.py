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

# How connections can be sorted, as in nats-server: a key, and whether the largest come first.
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
    "uptime": ("uptime", False),
    "rtt": ("rtt", True),
    "stop": ("stopped_at", True),
    "reason": ("reason", False),
}
OF_CLOSED = ("stop", "reason")
STATES = ("open", "closed", "all", "any")  # the last two are the same
ACCOUNT = "$G"  # all users are in it
# The parameters of each page: nats-server's, and ours. Those of pages that are always empty, and
# those about JetStream, change nothing here.
PARAMETERS = {
    "/varz": (),
    "/connz": (
        *("state", "sort", "offset", "limit", "cid", "user", "acc", "filter_subject", "auth"),
        *("subs", "subs_offset", "subs_limit"),
    ),
    "/subsz": ("subs", "test", "offset", "limit"),
    "/subscriptionsz": ("subs", "test", "offset", "limit"),
    "/portz": ("offset", "limit"),
    "/routez": ("subs",),
    "/journalz": ("offset", "limit"),
    "/replayz": ("offset", "limit"),
    "/recentz": ("after",),
    "/jsz": (
        *("acc", "accounts", "streams", "stream-leader-only", "consumers", "config", "leader-only"),
        *("raft", "direct-consumers", "offset", "limit"),
        *("stream", "streams_offset", "streams_limit", "consumers_offset", "consumers_limit"),
    ),
    "/leafz": ("subs",),
    "/gatewayz": ("gw_name", "accs", "acc_name", "subs"),
    "/accountz": ("acc",),
    "/accstatz": ("unused",),
    "/healthz": (
        *("alive", "js-enabled", "js-enabled-only", "js-server-only", "js-meta-only"),
        *("account", "stream", "consumer", "details"),
    ),
}
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("", "0", "f", "F", "FALSE", "false", "False"))


Query = dict[str, list[str]]  # the values of each parameter


class BadQuery(ValueError):
    """An invalid parameter; the text names it and says what is valid."""


@dataclass(frozen=True, slots=True)
class Page:
    """The range of entries that is wanted."""

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
    has_open: bool = True  # list open connections
    has_closed: bool = False
    user: str = ""  # only that user's
    account: str = ""
    subject: bytes = b""  # only those with a subscription that gets its messages


@dataclass(frozen=True, slots=True)
class JetStreamQuery:
    """A query of /jsz. `page` is of accounts, of which there is one.

    `consumers` asks for streams too, and `streams` for accounts. The consumers of each stream are
    listed from `consumers_offset` on, `consumers_limit` at most in all.
    """

    page: Page
    account: str
    accounts: bool
    streams: bool
    consumers: bool
    config: bool
    raft: bool  # how many have their leader here: all
    stream: str  # only this one
    streams_offset: int = 0
    streams_limit: int = LIMIT_DEFAULT
    consumers_offset: int = 0
    consumers_limit: int = LIMIT_DEFAULT


@dataclass(frozen=True, slots=True)
class HealthQuery:
    """A query of /healthz: what else must be there. `is_api`: streams must be ready."""

    alive: bool
    is_api: bool
    account: str
    stream: str
    consumer: str


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
    if state not in STATES:
        raise BadQuery(f"state: {state!r} is none of {', '.join(STATES)}")
    if sort in OF_CLOSED and state != "closed":
        raise BadQuery(f"sort: {sort!r} is for closed connections; give state=closed")
    detail = _last(raw, "subs") == "detail"
    subs = "detail" if detail else ("names" if _flag(raw, "subs") else "")
    cid = _number(raw, "cid", 0, NUMBER_MAX)
    subs_offset = _number(raw, "subs_offset", 0, NUMBER_MAX)
    subs_limit = _number(raw, "subs_limit", 0, SUBS_MAX) or SUBS_DEFAULT
    return ConnectionsQuery(
        *(_page(raw), sort, subs, cid, subs_offset, subs_limit, _flag(raw, "auth")),
        has_open=state != "closed",
        has_closed=state != "open",
        user=_last(raw, "user"),
        account=_last(raw, "acc"),
        subject=_subject(raw, "filter_subject"),
    )


def check_parameters(path: str, raw: Mapping[str, list[str]]) -> None:
    """Raise `BadQuery` if a page has no such parameter."""
    known = PARAMETERS[path]
    for name in raw:
        if name not in known:
            there_are = f"there are {', '.join(known)}" if known else "it has none"
            raise BadQuery(f"{path} has no parameter {_shown(name)}; {there_are}")


def page_query(raw: Mapping[str, list[str]]) -> Page:
    """Parse the parameters of a page without others. Raises `BadQuery`."""
    return _page(raw)


def recent_query(raw: Mapping[str, list[str]]) -> int:
    """Parse the parameter of /recentz: the number after which messages count."""
    return _number(raw, "after", 0, NUMBER_MAX)


def subscriptions_query(raw: Mapping[str, list[str]]) -> SubscriptionsQuery:
    """Parse the parameters of /subsz. Raises `BadQuery`."""
    return SubscriptionsQuery(_page(raw), _flag(raw, "subs"), _subject(raw, "test"))


def jetstream_query(raw: Mapping[str, list[str]]) -> JetStreamQuery:
    """Parse the parameters of /jsz. Raises `BadQuery`."""
    consumers = _flag(raw, "consumers") or _flag(raw, "direct-consumers")
    streams = consumers or _flag(raw, "streams") or bool(_last(raw, "stream"))
    accounts = streams or _flag(raw, "accounts") or bool(_last(raw, "acc"))
    for name in ("leader-only", "stream-leader-only"):
        _flag(raw, name)  # nothing differs: there is one broker
    return JetStreamQuery(
        *(_page(raw), _last(raw, "acc"), accounts, streams, consumers),
        config=_flag(raw, "config"),
        raft=_flag(raw, "raft"),
        stream=_last(raw, "stream"),
        streams_offset=_number(raw, "streams_offset", 0, NUMBER_MAX),
        streams_limit=_number(raw, "streams_limit", 0, LIMIT_MAX) or LIMIT_DEFAULT,
        consumers_offset=_number(raw, "consumers_offset", 0, NUMBER_MAX),
        consumers_limit=_number(raw, "consumers_limit", 0, LIMIT_MAX) or LIMIT_DEFAULT,
    )


def health_query(raw: Mapping[str, list[str]]) -> HealthQuery:
    """Parse the parameters of /healthz. Raises `BadQuery`, in nats-server's words."""
    names = ("js-enabled", "js-enabled-only", "js-server-only", "js-meta-only")
    account, stream, consumer = (_last(raw, one) for one in ("account", "stream", "consumer"))
    if stream and not account:
        raise BadQuery('"account" must not be empty when checking stream health')
    if consumer and not stream:
        raise BadQuery('"stream" must not be empty when checking consumer health')
    return HealthQuery(
        alive=_last(raw, "alive") not in ("0", ""),
        is_api=any(_flag(raw, one) for one in names),
        account=account,
        stream=stream,
        consumer=consumer,
    )


def _subject(raw: Mapping[str, list[str]], name: str) -> bytes:
    from sublist.subject import is_literal

    subject = _last(raw, name).encode("utf-8", "surrogateescape")
    if subject and not is_literal(subject):
        raise BadQuery(f"{name}: is not a subject that can be published to")
    return subject


def _page(raw: Mapping[str, list[str]]) -> Page:
    limit = _number(raw, "limit", 0, LIMIT_MAX)
    return Page(_number(raw, "offset", 0, NUMBER_MAX), limit or LIMIT_DEFAULT)


def _number(raw: Mapping[str, list[str]], name: str, low: int, high: int) -> int:
    text = _last(raw, name)
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or not low <= int(text) <= high:
        raise BadQuery(f"{name}: {_shown(text)} is not a number from {low} to {high}")
    return int(text)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")


def _flag(raw: Mapping[str, list[str]], name: str) -> bool:
    text = _last(raw, name)
    if name == "subs" and text == "detail":
        return True
    if text not in _TRUE and text not in _FALSE:
        raise BadQuery(f"{name}: {text!r} is neither true nor false")
    return text in _TRUE


def _last(raw: Mapping[str, list[str]], name: str) -> str:
    return raw[name][-1] if raw.get(name) else ""
