"""Checks relations of feeds to each other and to the journal, once each value is right."""

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from broker.addresses import overlap
from broker.settings.catalog import FEEDS
from broker.settings.feed_settings import PACKING_BYTES_MIN, FeedSettings

# IPv6 groups of one machine or one link: the address does not say which interface is meant.
ONE_LINK = {1, 2}
ONLY_WITH_REREQUESTS = (
    "rerequest_host",
    "rerequest_rate",
    "rerequest_total_rate",
    "rerequest_percent",
)


def feed_relations(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield every broken relation of the feeds in `values`."""
    feeds: Sequence[FeedSettings] = values["feeds"]
    for feed in feeds:
        for problem in (*_addressing(feed), *_contents(feed)):
            yield f"the feed {feed.label}: {problem}"
    yield from _shared(feeds)
    yield from _shared_rerequests(feeds, values["host"])
    if feeds and not values["journal.enabled"] and not values["journal.ring_bytes"]:
        yield (
            "a feed sends what is kept, but nothing is kept: leave out --no-journal, or give"
            " --ring_bytes"
        )


def _addressing(feed: FeedSettings) -> Iterator[str]:
    try:
        family: int | None = ipaddress.ip_address(feed.interface).version
    except ValueError:
        family = None  # a name, or nothing
    if family == 6:
        yield f'"{feed.interface}" is an IPv6 address; give the interface by its name'
    elif family and feed.version == 6:
        yield (
            f'"{feed.interface}" is an IPv4 address, and the group is IPv6; give the'
            " interface by its name"
        )
    if feed.version == 6:
        scope = ipaddress.IPv6Address(feed.group).packed[1] & 15
        if scope in ONE_LINK and not feed.interface:
            yield "its group is limited to one link; give the interface"


def _contents(feed: FeedSettings) -> Iterator[str]:
    if feed.packing and feed.packing_bytes < PACKING_BYTES_MIN:
        yield (
            f"a datagram of {feed.datagram_bytes} bytes has no room to pack messages into; give"
            f" datagram_bytes of {PACKING_BYTES_MIN} or more, or no packing"
        )
    if feed.packing_bytes > feed.datagram_max:
        yield (
            f"datagram_bytes of {feed.datagram_bytes} is above {feed.datagram_max}, the longest"
            " datagram of IPv6"
        )
    if feed.rerequest_port and feed.codec != "moldudp64":
        yield (
            f'rerequest_port goes with the codec moldudp64, and the codec here is "{feed.codec}":'
            " its receivers fetch what they missed with $SEQ.READ and $SEQ.INFO; leave the port out"
        )
    yield from _idle(feed)


def _idle(feed: FeedSettings) -> Iterator[str]:
    """Yield settings that would have no effect, although one is expected."""
    if not feed.rerequest_port and feed.codec == "moldudp64":
        remedy = "give that port too, or leave it out"
    else:
        remedy = "leave it out"
    if not feed.rerequest_port:
        for name in ONLY_WITH_REREQUESTS:
            if getattr(feed, name) != FEEDS.settings[name].default:
                yield f"{name} does nothing without rerequest_port; {remedy}"
    if feed.datagram_bytes and not (feed.packing or feed.rerequest_port):
        users = "packing, or rerequest_port" if feed.codec == "moldudp64" else "packing"
        yield f"datagram_bytes does nothing without {users}; give that too, or leave it out"


def _shared(feeds: Sequence[FeedSettings]) -> Iterator[str]:
    for at, feed in enumerate(feeds):
        where = (feed.group, feed.port, feed.interface)
        for other in feeds[:at]:
            if where == (other.group, other.port, other.interface):
                yield (
                    f"the feeds {other.label} and {feed.label} would both go to {feed.address};"
                    " give one of them another group or port"
                )
            elif feed.label == other.label:
                yield f'two feeds are called "{feed.label}"; give each a name of its own'


def _shared_rerequests(feeds: Sequence[FeedSettings], host: str) -> Iterator[str]:
    asked = [feed for feed in feeds if feed.rerequest_port > 0]
    for at, feed in enumerate(asked):
        for other in asked[:at]:
            hosts = (feed.rerequest_host or host, other.rerequest_host or host)
            if feed.rerequest_port == other.rerequest_port and overlap(*hosts):
                yield (
                    f"the feeds {other.label} and {feed.label} would share rerequest_port"
                    f" {feed.rerequest_port}; give one of them another"
                )
