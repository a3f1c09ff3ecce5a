"""Sends a datagram to the group of each feed, as the feed does, and receives it on this machine.

It goes to another port than the feed's, and no further than this machine (ttl 0): receivers of the
feed do not hear it.
"""

import os
import select
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from broker.settings.feed_settings import FeedSettings
from seriatim.cli.check.check_results import CheckResult
from seriatim.cli.doctor.examination import Patient, failed, hint, ok

WAIT_S: Final = 1.0  # on one machine it takes microseconds
TRIES: Final = 3  # a full queue may drop one
WHAT: Final = "multicast"


def multicast(patient: Patient) -> Iterator[CheckResult]:
    """Try the group and interface of each feed once."""
    tried = {(feed.group, feed.interface): feed for feed in patient.settings.feeds}
    for feed in tried.values():
        yield from _try(feed)


def _try(feed: FeedSettings) -> Iterator[CheckResult]:
    from broker.feeds.outlet import open_sender, source
    from seriatim.receiver.errors import GroupError
    from seriatim.receiver.group import Group, join

    port = _free_port(feed)
    try:
        probe = replace(feed, port=port, ttl=0, loop=True)
        with open_sender(probe) as sender:
            by = f"{feed.interface or 'the interface that routes choose'}, from {source(sender)}"
            with join(Group(feed.group, port, feed.interface)) as receiver:
                heard = _is_heard(sender, receiver)
    except (OSError, GroupError) as error:
        alone = "lo" if feed.version == 6 else "127.0.0.1"
        yield failed(
            WHAT,
            str(error).replace(f":{port}", f":{feed.port}"),
            "the feed cannot be sent, or receivers on this machine cannot join it",
            "give the feed an interface that `ip address` shows as UP:"
            f" --feed {feed.address},interface=NAME; for one machine interface={alone}",
        )
        return
    if not heard:
        yield failed(
            WHAT,
            f"a datagram to {feed.group} by {by} was sent, and not received within {WAIT_S:g} s",
            "receivers on this machine hear nothing of the feed, and perhaps others neither",
            "look for a packet filter that drops it (`nft list ruleset`, `iptables -S`): allow UDP"
            f" to {feed.group}",
        )
        return
    text = f"a datagram to {feed.group} by {by} came back"
    if feed.interface:
        yield ok(WHAT, text)
        return
    yield hint(
        WHAT,
        text,
        "routes change, and the route to a group is often the default route: the feed then leaves"
        " by another network than its receivers are in",
        f"give the interface: --feed {feed.address},interface=NAME",
    )


def _is_heard(sender: socket.socket, receiver: socket.socket) -> bool:
    """True if a datagram arrives. Its content is random: others may use the group, too."""
    text = b"seriatim doctor " + os.urandom(16)
    for _ in range(TRIES):
        sender.send(text)
        while select.select([receiver], [], [], WAIT_S / TRIES)[0]:
            if receiver.recv(1 << 16) == text:
                return True
    return False


def _free_port(feed: FeedSettings) -> int:
    family = socket.AF_INET6 if feed.version == 6 else socket.AF_INET
    while True:
        with socket.socket(family, socket.SOCK_DGRAM) as made:
            made.bind(("", 0))
            port: int = made.getsockname()[1]
        if port != feed.port:
            return port
