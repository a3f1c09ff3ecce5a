"""One feed of a broker: its socket, its codec, its heartbeats, and its log lines.

    settings -> Outlet (socket, codec) -- attach --> Feed of the sequencer: from now on it sends
                                                     what is numbered, without this module

A datagram that could not be sent is not sent again: receivers request it.
"""

import asyncio
import errno
import logging
import os
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import inf

from broker.addresses import shown
from broker.feeds.rerequests import RerequestServer
from broker.settings.feed_settings import HEARTBEAT, FeedSettings
from sequencer.feed.codecs import codec_named
from sequencer.feed.errors import CodecNotFound
from sequencer.feed.feed import Feed
from sequencer.feed.moldudp64 import MoldUDP64Codec
from sequencer.feed.rerequest import Rerequests
from sequencer.journal.protocols import ReadableJournal
from sequencer.sequencer import Sequencer
from sublist.subject import covers

log = logging.getLogger("seriatim")

RENEW = 1.0  # seconds between two attempts to get a failing socket's interface back
TELL_AGAIN = 10.0  # seconds between two log lines about one feed

# Errors of a send when the interface has gone, is down, or has another address.
NO_INTERFACE = {
    *(errno.ENODEV, errno.ENXIO, errno.EINVAL, errno.EADDRNOTAVAIL),
    *(errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH),
}
SEND_SECONDS = 0.02  # how long a full socket may block the broker; see sequencer/feed/datagrams.py
SO_SNDBUFFORCE = 32  # Linux: beyond net.core.wmem_max, for root


# The UDP socket that a feed sends with, connected to its group through its interface.
#
# Errors say which feed cannot be sent and what to do. If an interface goes away and comes back, the
# system may treat it as another one: `renew` then replaces the socket.


def open_sender(feed: FeedSettings) -> socket.socket:
    """Return a socket that sends to the group. Raises `OSError` with a complete message."""
    six = feed.version == 6
    made = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.settimeout(SEND_SECONDS)
        _enlarge(made, feed.send_buffer)
        (_set_ipv6 if six else _set_ipv4)(made, feed)
        made.connect((feed.group, feed.port))
    except OSError as error:
        made.close()
        by = f" by {feed.interface}" if feed.interface else ""
        raise OSError(f"cannot feed {feed.address}{by}: {_reason(error, feed)}") from error
    return made


def renew(sender: socket.socket, feed: FeedSettings) -> None:
    """Replace `sender` by a new socket with the same descriptor. Raises `OSError`."""
    with open_sender(feed) as fresh:
        os.dup2(fresh.fileno(), sender.fileno(), inheritable=False)


def buffer_bytes(sender: socket.socket) -> int:
    """Return the size of the send buffer, without the half that Linux adds for itself."""
    return sender.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) // 2


def source(sender: socket.socket) -> str:
    """Return the address that the datagrams come from."""
    address: str = sender.getsockname()[0]
    return address


def _enlarge(made: socket.socket, size: int) -> None:
    """Set the size of the send buffer: as root any size, else as much as the system grants."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
    if buffer_bytes(made) < size and sys.platform == "linux":
        with suppress(PermissionError):
            made.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, size)


def _set_ipv4(made: socket.socket, feed: FeedSettings) -> None:
    made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, feed.ttl)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, int(feed.loop))
    if feed.interface:
        address, index = bytes(4), 0
        try:
            address = socket.inet_pton(socket.AF_INET, feed.interface)
        except OSError:  # not an address but a name
            index = socket.if_nametoindex(feed.interface)
        by = struct.pack("@4s4si", bytes(4), address, index)  # struct ip_mreqn
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, by)


def _set_ipv6(made: socket.socket, feed: FeedSettings) -> None:
    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, feed.ttl)
    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, int(feed.loop))
    if feed.interface:
        index = socket.if_nametoindex(feed.interface)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)


def _reason(error: OSError, feed: FeedSettings) -> str:
    reason = error.strerror or str(error)
    if error.errno in (errno.ENODEV, errno.ENXIO) or "no interface" in reason:
        names = ", ".join(name for _, name in socket.if_nameindex())
        return f"there is no such interface; this machine has {names}"
    if error.errno == errno.EADDRNOTAVAIL and feed.interface:
        return "no interface has that address; `ip address` lists the addresses"
    if error.errno == errno.ENETUNREACH and feed.interface:
        why = f"{reason}: the interface is down, or has no address or no route"
        if feed.version == 6:
            why += "; `ip -6 route add local ff00::/8 dev lo table local` makes one on loopback"
        return why
    if error.errno == errno.ENETUNREACH:
        return f"{reason}: there is no route to it; give the interface"
    return reason


class Outlet:
    """One feed: its socket, its codec, and its problems."""

    def __init__(self, settings: FeedSettings) -> None:
        """Raises `OSError` with a message for the operator."""
        self.settings = settings
        try:
            self.codec = codec_named(settings.codec)
        except CodecNotFound as error:
            raise OSError(f"cannot feed {settings.address}: {error}") from error
        self.socket = open_sender(settings)
        self.heartbeats = 0
        self.fault = ""  # the last error of a user's codec in a heartbeat or an end
        self.feed: Feed
        self.rerequests: RerequestServer | None = None
        self._datagrams = 0  # sent at the last check
        self._sent_at = -inf  # when that last changed
        self._errors = 0
        self._stale = False  # its interface may have gone and come back as another one
        self._renew_at = 0.0
        self._tell_at = 0.0
        self._reported = (0, 0, 0)

    def attach(
        self, sequencer: Sequencer, journal: ReadableJournal, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Send messages numbered from now on. Raises `OSError` if the codec cannot be opened."""
        settings = self.settings
        try:
            self.codec.open(journal.id, journal.epoch)
        except Exception as error:  # a user's codec may raise anything
            raise OSError(
                f"cannot feed {settings.address}: codec {settings.codec!r}: cannot be opened:"
                f" {type(error).__name__}: {error}"
            ) from error
        pattern = settings.subject.encode()
        matches = None if pattern == b">" else partial(covers, pattern)
        self.feed = Feed(
            self.codec,
            self.socket,
            datagram_max=settings.datagram_max,
            packing=settings.packing_bytes,
            segment=settings.segmentation,
            matches=matches,
            previous=journal.last,
        )
        sequencer.feeds.append(self.feed)
        if settings.rerequest_port:
            self.rerequests = self._make_rerequests(sequencer, journal, loop, matches)

    def identify(self, journal: str, stream: int) -> None:
        """Announce this stream from now on. Raises what a user's codec raises."""
        self.codec.open(journal, stream)
        if self.rerequests is not None and isinstance(self.codec, MoldUDP64Codec):
            self.rerequests.rerequests.begin_stream(self.codec.session)

    def begin_stream(self, journal: str, stream: int) -> None:
        """Do as `identify` while the feed is being sent: errors are logged."""
        try:
            self.identify(journal, stream)
        except Exception as error:  # a user's codec: it must not stop the others
            why = " ".join(f"{type(error).__name__}: {error}".split())
            log.error("Feed %s: its codec failed on another stream: %s", self.settings.label, why)

    def _make_rerequests(
        self,
        sequencer: Sequencer,
        journal: ReadableJournal,
        loop: asyncio.AbstractEventLoop,
        matches: Callable[[bytes], bool] | None,
    ) -> RerequestServer:
        settings = self.settings
        assert isinstance(self.codec, MoldUDP64Codec), "the settings were checked"
        rerequests = Rerequests(
            journal,
            self.codec.session,
            datagram_bytes=settings.fill_bytes,
            datagram_max=settings.datagram_max,
            rate=settings.rerequest_rate,
            total_rate=settings.rerequest_total_rate,
            share=settings.rerequest_percent / 100,
            matches=matches,
        )
        return RerequestServer(rerequests, sequencer, loop)

    async def start(self, host: str) -> None:
        """Answer re-requests, and log what is sent where. Raises `OSError`."""
        settings = self.settings
        log.info(
            "Feed %s to %s by %s, codec %s",
            *(settings.label, settings.address, settings.interface or source(self.socket)),
            settings.codec,
        )
        if settings.codec == "netstring" and settings.heartbeat not in (0, HEARTBEAT):
            log.warning("Feed %s: its codec cannot send heartbeats", settings.label)
        granted = buffer_bytes(self.socket)
        if granted < settings.send_buffer:
            log.warning(
                "Feed %s: its send buffer is %d bytes instead of %d: raise net.core.wmem_max",
                *(settings.label, granted, settings.send_buffer),
            )
        if self.rerequests is not None:
            await self.rerequests.start(settings.rerequest_host or host, settings.rerequest_port)
            where = shown(*self.rerequests.address)
            log.info("Feed %s: answering re-requests on %s", settings.label, where)

    def check(self, now: float, safe: int, speaks: bool = True) -> None:
        """Send a heartbeat if one is due; `safe` is the last number that may be seen."""
        heartbeat, sent = self.settings.heartbeat, self.feed.sent
        if sent.datagrams != self._datagrams:
            self._sent_at = now
        elif (
            speaks and heartbeat and now - self._sent_at >= heartbeat and self.feed.previous <= safe
        ):
            self._sent_at = now
            self.heartbeats += self.say(self.feed.heartbeat, safe + 1)
        self._datagrams = sent.datagrams
        if sent.errors != self._errors:
            self._errors = sent.errors
            self._stale = self._stale or sent.error in NO_INTERFACE
        if self._stale and now >= self._renew_at:
            self._renew_at = now + RENEW
            self._renew()
        if now >= self._tell_at and self.tell():
            self._tell_at = now + TELL_AGAIN

    def say(self, what: Callable[[int], bool], after: int) -> bool:
        """Send what the codec's `what` returns for the next number; True: there was something."""
        try:
            return what(after)
        except Exception as error:  # a user's codec: it must not stop the others
            self.fault = f"{type(error).__name__}: {error}"
            return False

    def tell(self) -> bool:
        """Log the problems since the last time in one line; True: there were any."""
        feed, sent = self.feed, self.feed.sent
        counts = (sent.errors, feed.too_long, feed.broken)
        lost, long, broken = (new - old for new, old in zip(counts, self._reported, strict=True))
        fault, self.fault = self.fault, ""
        troubles = []
        if lost:
            troubles.append(f"{lost} datagrams were not sent: {os.strerror(sent.error)}")
        if long:
            troubles.append(f"{long} messages were too long for a datagram")
        if broken:
            troubles.append(f"its codec failed on {broken} messages: {feed.fault}")
        if fault:
            troubles.append(f"its codec failed on a heartbeat or an end: {fault}")
        if troubles:
            line = " ".join("; ".join(troubles).split())  # an exception may have several lines
            log.warning("Feed %s: %s", self.settings.label, line)
        self._reported = counts
        return bool(troubles)

    def _renew(self) -> None:
        try:
            renew(self.socket, self.settings)
        except OSError as error:
            log.debug("Feed %s: %s", self.settings.label, error)
        else:
            self._stale = False
