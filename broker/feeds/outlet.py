"""One feed of a broker: its socket, its codec, its heartbeats, and its log lines.

    settings -> Outlet (socket, codec) -- attach --> Feed of the sequencer: from now on it sends
                                                     what is numbered, without this module

A datagram that could not be sent is not sent again: receivers request it.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Callable
from functools import partial
from math import inf

from broker.addresses import shown
from broker.feeds.multicast import buffer_bytes, open_sender, renew, source
from broker.feeds.rerequests import RerequestServer
from broker.settings.feed_settings import HEARTBEAT, FeedSettings
from sequencer.feed.codecs import codec_named
from sequencer.feed.errors import CodecNotFound
from sequencer.feed.feed import Feed
from sequencer.feed.moldudp64 import MoldUDP64Codec
from sequencer.feed.rerequest import Rerequests
from sequencer.journal.faces import ReadableJournal
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

    def look(self, now: float, safe: int, speaks: bool = True) -> None:
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
