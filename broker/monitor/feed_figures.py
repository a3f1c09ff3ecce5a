"""Figures of the feeds: of each feed, its socket and its re-request server."""

from dataclasses import dataclass
from typing import Any

from broker.monitor.observed import Observed, OutletView

# (key, metric name without prefix, description)
COUNTERS = (
    ("messages", "feed_messages", "Messages put into datagrams."),
    ("datagrams", "feed_datagrams", "Datagrams sent, heartbeats included."),
    ("bytes", "feed_bytes", "Bytes of the datagrams sent."),
    ("skipped", "feed_skipped", "Messages left out by the feed's subject."),
    ("too_long", "feed_too_long", "Messages not sent, because they were too long for a datagram."),
    ("broken", "feed_broken", "Messages not sent, because a custom codec failed on them."),
    ("errors", "feed_errors", "Datagrams that the system did not send."),
    ("heartbeats", "feed_heartbeats", "Heartbeats sent."),
)
REREQUEST_COUNTERS = (
    ("requests", "feed_rerequests", "Requests for what receivers missed."),
    ("answered", "feed_rerequests_answered", "Of these, answered."),
    ("messages", "feed_rerequest_messages", "Messages in the answers."),
    ("bytes", "feed_rerequest_bytes", "Bytes of the answers."),
)
REFUSED = ("malformed", "unknown_session", "ahead", "limited", "failed")


@dataclass(frozen=True, slots=True)
class FeedState:
    """One feed at one moment. `rerequests` is empty if it answers none."""

    name: str
    facts: dict[str, Any]
    last: int
    figures: dict[str, int]
    rerequests: dict[str, int]


def take_feeds(server: Observed) -> list[FeedState]:
    """Take the figures; in the broker's loop."""
    return [] if server.feeds is None else [_take(outlet) for outlet in server.feeds.outlets]


def _take(outlet: OutletView) -> FeedState:
    settings, feed, sent = outlet.settings, outlet.feed, outlet.feed.sent
    counted = {
        "messages": feed.messages,
        "datagrams": sent.datagrams,
        "bytes": sent.bytes,
        "skipped": feed.skipped,
        "too_long": feed.too_long,
        "broken": feed.broken,
        "errors": sent.errors,
        "heartbeats": outlet.heartbeats,
    }
    facts = {
        "group": settings.group,
        "port": settings.port,
        "interface": settings.interface,
        "codec": settings.codec,
        "subject": settings.subject,
    }
    asked: dict[str, int] = {}
    if outlet.rerequests is not None:
        answers = outlet.rerequests.rerequests
        keys = [key for key, *_ in REREQUEST_COUNTERS]
        asked = {key: getattr(answers, key) for key in (*keys, *REFUSED)}
        facts["rerequest_port"] = outlet.rerequests.address[1]
    return FeedState(settings.label, facts, feed.previous, counted, asked)


def feeds_page(states: list[FeedState]) -> list[dict[str, Any]]:
    """The part of /varz about the feeds."""
    pages = []
    for state in states:
        page = {"name": state.name, **state.facts, "last": state.last, **state.figures}
        pages.append(page | ({"rerequests": state.rerequests} if state.rerequests else {}))
    return pages
