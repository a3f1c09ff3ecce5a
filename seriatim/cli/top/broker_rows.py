"""The rows of each view, made of a page; the same keys, whatever broker it is.

    ROWS       by the name of the page: the function that makes a view's rows of it
    COUNTERS   by the same name: which keys of a row only rise, and the keys of their rates

A figure that this broker does not have is None. A row's `id` stays the same from round to round.
Rates are added by broker_watch.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from seriatim.cli.top.amounts_shown import read_moment, read_span
from seriatim.cli.top.page_values import Page, number, part, parts, text, texts, whole

Row = dict[str, Any]
TRAFFIC: Final = ("in_msgs", "out_msgs", "in_bytes", "out_bytes")
RATES: Final = tuple(f"{name}_rate" for name in TRAFFIC)

DEPTH_MAX: Final = 8  # of a page's objects; a broker has three

# (the counter, the key of its rate)
COUNTERS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "connections": tuple(zip(TRAFFIC, RATES, strict=True)),
    "closed": (),
    "streams": (("messages", "messages_rate"), ("bytes", "bytes_rate")),
    "consumers": (("deliveries", "deliveries_rate"), ("acks", "acks_rate")),
    "subscriptions": (("msgs", "msgs_rate"),),
    "feeds": (("messages", "messages_rate"), ("bytes", "bytes_rate")),
    "members": (("last", "last_rate"),),
    "figures": (("value", "rate"),),
    "one connection": tuple(zip(TRAFFIC, RATES, strict=True)),
    "its subscriptions": (("msgs", "msgs_rate"),),
}
# Why a consumer sends nothing, by the `state` of /jsz, unless more is known (see _why).
STATES: Final = {
    "idle": "all was sent",
    "reading": "it is sending",
    "held": "held by flow control, a rate or replay times",
    "parked": "the client does not read what it gets",
    "asleep": "nobody listens to the deliver subject",
    "paused": "it is paused",
    "counting": "it counts what is pending",
}


def _connections(page: Page) -> Iterator[Row]:
    for one in parts(page, "connections"):
        address = text(one, "ip")
        address = f"[{address}]" if ":" in address else address
        language = " ".join(filter(None, (text(one, "lang"), text(one, "version"))))
        yield {
            "id": whole(one, "cid"),
            "name": text(one, "name"),
            "address": f"{address}:{whole(one, 'port')}",
            "user": text(one, "authorized_user"),
            "account": text(one, "account"),
            "language": language,
            **{name: whole(one, name) for name in TRAFFIC},
            "pending": whole(one, "pending_bytes"),
            "subscriptions": whole(one, "subscriptions"),
            "rtt": read_span(text(one, "rtt")),
            "uptime": read_span(text(one, "uptime")),
            "idle": read_span(text(one, "idle")),
            "type": text(one, "type"),
            "frame": text(one, "frame"),
            "tls": text(one, "tls_version"),
            "awaits_commit": one.get("awaits_commit") is True,
            "stopped": read_moment(text(one, "stop")),
            "reason": text(one, "reason"),
        }


def _streams(page: Page) -> Iterator[Row]:
    for account, one in _all_streams(page):
        state = part(one, "state")
        yield {
            "id": f"{account} {text(one, 'name')}",
            "name": text(one, "name"),
            "account": account,
            "subjects": ", ".join(texts(one, "config", "subjects")),
            "messages": whole(state, "messages"),
            "bytes": whole(state, "bytes"),
            "first": whole(state, "first_seq"),
            "last": whole(state, "last_seq"),
            "last_time": read_moment(text(state, "last_ts")),
            "consumers": whole(state, "consumer_count"),
            "page": one,
        }


def _consumers(page: Page) -> Iterator[Row]:
    for account, stream in _all_streams(page):
        for one in parts(stream, "consumer_detail"):
            config = part(one, "config")
            filters = texts(config, "filter_subjects") or [text(config, "filter_subject")]
            unacked = text(config, "ack_policy") != "none"
            yield {
                "id": f"{account} {text(stream, 'name')} {text(one, 'name')}",
                "stream": text(stream, "name"),
                "name": text(one, "name"),
                "account": account,
                "kind": "push" if text(config, "deliver_subject") else "pull",
                "filter": ", ".join(filter(None, filters)) or ">",
                "pending": whole(one, "num_pending"),
                "ack_pending": whole(one, "num_ack_pending") if unacked else None,
                "redelivered": whole(one, "num_redelivered") if unacked else None,
                "waiting": None if text(config, "deliver_subject") else whole(one, "num_waiting"),
                "delivered": whole(one, "delivered", "stream_seq"),
                "deliveries": whole(one, "delivered", "consumer_seq"),
                "acks": whole(one, "ack_floor", "consumer_seq") if unacked else None,
                "lost": whole(one, "lost") if "lost" in one else None,
                "state": text(one, "state"),
                "why": _why(one, config),
                "page": one,
            }


def _all_streams(page: Page) -> Iterator[tuple[str, Page]]:
    for account in parts(page, "account_details"):
        for stream in parts(account, "stream_detail"):
            yield text(account, "name"), stream


def _why(one: Page, config: Page) -> str:
    """Say why a consumer sends nothing. nats-server gives no `state`: what its figures tell."""
    state, unacked = text(one, "state"), whole(one, "num_ack_pending")
    most, target = whole(config, "max_ack_pending"), text(config, "deliver_subject")
    if state == "paused" or one.get("paused") is True:
        until = text(config, "pause_until")
        return f"it is paused until {until[:19]}" if until else STATES["paused"]
    if not whole(one, "num_pending"):
        return STATES.get(state, STATES["idle"]) if state != "held" else STATES["idle"]
    if state != "reading" and most > 0 and unacked >= most:
        return f"{unacked:,} of {most:,} unacknowledged"
    asleep = state == "asleep" or (not state and one.get("push_bound") is not True)
    if target and asleep:
        return f"nobody listens to {target}"
    if not target and state in ("", "idle") and not whole(one, "num_waiting"):
        return "no pull request waits"
    return STATES.get(state, STATES["reading"])


def _subscriptions(page: Page) -> Iterator[Row]:
    for one in parts(page, "subscriptions_list"):
        yield _subscription(one)


def _subscription(one: Page) -> Row:
    """Return one subscription. Only its connection and its sid say which one it is."""
    return {
        "id": f"{text(one, 'account')} {whole(one, 'cid')} {text(one, 'sid')}",
        "subject": text(one, "subject"),
        "queue": text(one, "qgroup"),
        "cid": whole(one, "cid"),
        "sid": text(one, "sid"),
        "msgs": whole(one, "msgs"),
        "account": text(one, "account"),
    }


def _of_connection(page: Page) -> Iterator[Row]:
    for connection in parts(page, "connections"):
        found = parts(connection, "subscriptions_list_detail")
        yield from map(_subscription, found)


def _feeds(page: Page) -> Iterator[Row]:
    for one in parts(page, "feeds"):
        asked = part(one, "rerequests")
        names = ("last", "messages", "datagrams", "bytes", "skipped", "too_long", "broken")
        yield {
            "id": text(one, "name"),
            "name": text(one, "name"),
            "group": f"{text(one, 'group')}:{whole(one, 'port')}",
            "codec": text(one, "codec"),
            "subject": text(one, "subject"),
            **{name: whole(one, name) for name in (*names, "errors", "heartbeats")},
            "requests": whole(asked, "requests") if asked else None,
            "answered": whole(asked, "answered") if asked else None,
        }


def _members(page: Page) -> Iterator[Row]:
    for one in parts(page, "routes"):
        address = text(one, "ip")
        address = f"[{address}]" if ":" in address else address
        yield {
            "id": f"{text(one, 'remote_id')} {whole(one, 'rid')}",
            "name": text(one, "remote_name") or text(one, "remote_id"),
            "address": f"{address}:{whole(one, 'port')}",
            "role": text(one, "role"),
            "in_sync": _yes(one, "in_sync"),
            "connected": _yes(one, "connected"),
            "last": whole(one, "last") if "last" in one else None,
            "lag_bytes": whole(one, "lag_bytes") if "lag_bytes" in one else None,
            "lag": number(one, "lag_seconds") if "lag_seconds" in one else None,
            "pulse": number(one, "pulse_seconds") if "pulse_seconds" in one else None,
            "clock": number(one, "clock_seconds") if "clock_seconds" in one else None,
            "rtt": read_span(text(one, "rtt")),
            "version": text(one, "version"),
        }


def _yes(page: Page, name: str) -> str:
    return {True: "yes", False: "no"}.get(page.get(name, ""), "")


def _figures(page: Page, path: str = "") -> Iterator[Row]:
    """Yield every number of /varz with its path, down to `DEPTH_MAX`."""
    if path.count(".") >= DEPTH_MAX:
        return
    for name, value in page.items():
        here = f"{path}.{name}" if path else name
        if isinstance(value, bool):
            continue
        if isinstance(value, int | float):
            yield {"id": here, "name": here, "value": value}
        elif isinstance(value, dict):
            yield from _figures(value, here)
        elif isinstance(value, list):
            for at, one in enumerate(value):
                inside = text(one, "name") or str(at)
                yield from _figures(one if isinstance(one, dict) else {}, f"{here}.{inside}")


ROWS: Final[Mapping[str, Callable[[Page], Iterator[Row]]]] = {
    "connections": _connections,
    "closed": _connections,
    "streams": _streams,
    "consumers": _consumers,
    "subscriptions": _subscriptions,
    "feeds": _feeds,
    "members": _members,
    "figures": _figures,
    "one connection": _connections,
    "its subscriptions": _of_connection,
}
