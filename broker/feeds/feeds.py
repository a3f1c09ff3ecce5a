"""The feeds of a broker: their sockets and codecs, heartbeats, what is told of them, their end.

    settings -> Outlet (socket, codec) -- attach --> Feed of the sequencer: from here on what is
                                                     numbered goes out, and nobody here is asked

One timer looks at all of them a few times in a heartbeat: whether one was silent for long, and
what went wrong. A datagram that could not be sent is not sent again: receivers ask for it.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from broker.addresses import shown
from broker.feeds.multicast import buffer_bytes, open_sender, renew, source
from broker.settings.feed_settings import HEARTBEAT, FeedSettings
from broker.settings.settings import Settings
from sequencer.feed.codecs import codec_named
from sequencer.feed.errors import CodecNotFound
from sequencer.feed.feed import Feed
from sequencer.sequencer import Sequencer
from sublist.subject import covers

if TYPE_CHECKING:
    from broker.feeds.rerequests import RerequestServer

log = logging.getLogger("seriatim")

LOOKS = 4  # in one heartbeat: it comes at most a quarter late
LOOK_MIN, LOOK_MAX = 0.005, 1.0  # seconds between two looks
RENEW = 1.0  # seconds between two tries to get a failing socket's interface back
TELL_AGAIN = 10.0  # seconds between two lines on one feed's troubles
ENDS, END_PAUSE = 3, 0.04  # how often the end is said, and seconds between: one may be lost
UNSAFE_POLL = 0.005  # seconds; what waits for the disk is let out by the store's keeper

# What a send fails with when the interface has gone, is down, or has another address.
NO_INTERFACE = {
    *(errno.ENODEV, errno.ENXIO, errno.EINVAL, errno.EADDRNOTAVAIL),
    *(errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTUNREACH),
}


class Outlet:
    """One feed: its socket, its codec, and what is told of it."""

    def __init__(self, settings: FeedSettings) -> None:
        """Raises `OSError` with the words for whoever starts the broker."""
        self.settings = settings
        try:
            self.codec = codec_named(settings.codec)
        except CodecNotFound as error:
            raise OSError(f"cannot feed {settings.address}: {error}") from error
        self.socket = open_sender(settings)
        self.heartbeats = 0
        self.fault = ""  # of a user's codec, when it was asked for a heartbeat or an end
        self.feed: Feed
        self.rerequests: RerequestServer | None = None
        self._datagrams = 0  # sent when last looked at
        self._sent_at = -inf  # when that was seen to change
        self._errors = 0
        self._stale = False  # its interface may have gone, and be back as another one
        self._renew_at = 0.0
        self._tell_at = 0.0
        self._told = (0, 0, 0)

    def attach(self, sequencer: Sequencer, store: Any, loop: asyncio.AbstractEventLoop) -> None:
        """Send what is numbered from now on. Raises `OSError` if the codec cannot be opened."""
        settings = self.settings
        try:
            self.codec.open(store.journal, store.epoch)
        except Exception as error:  # of whoever wrote the codec
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
            previous=store.last,
        )
        sequencer.feeds.append(self.feed)
        if settings.rerequest_port:
            self.rerequests = self._make_rerequests(sequencer, store, loop, matches)

    def _make_rerequests(
        self,
        sequencer: Sequencer,
        store: Any,
        loop: asyncio.AbstractEventLoop,
        matches: Callable[[bytes], bool] | None,
    ) -> "RerequestServer":
        from broker.feeds.rerequests import RerequestServer  # only where they are asked for
        from sequencer.feed.moldudp64 import MoldUDP64Codec
        from sequencer.feed.rerequest import Rerequests

        settings = self.settings
        assert isinstance(self.codec, MoldUDP64Codec), "the settings were checked"
        rerequests = Rerequests(
            store,
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
        """Answer who asks again, and say in the log what goes where. Raises `OSError`."""
        settings = self.settings
        log.info(
            "Feed %s to %s by %s, codec %s",
            *(settings.label, settings.address, settings.interface or source(self.socket)),
            settings.codec,
        )
        if settings.codec == "netstring" and settings.heartbeat not in (0, HEARTBEAT):
            log.warning("Feed %s: its codec has no heartbeat to send", settings.label)
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

    def look(self, now: float, safe: int) -> None:
        """Send a heartbeat if it is time for one; `safe` is the last number anybody may see."""
        heartbeat, sent = self.settings.heartbeat, self.feed.sent
        if sent.datagrams != self._datagrams:
            self._sent_at = now
        elif heartbeat and now - self._sent_at >= heartbeat and self.feed.previous <= safe:
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

    def say(self, what: Any, after: int) -> bool:
        """Say `what` with the next number, if the codec can; whether it could."""
        try:
            said: bool = what(after)
        except Exception as error:  # a user's codec: it must not stop the others
            self.fault = f"{type(error).__name__}: {error}"
            return False
        return said

    def tell(self) -> bool:
        """Log what went wrong since the last time, in one line; whether anything did."""
        feed, sent = self.feed, self.feed.sent
        counts = (sent.errors, feed.too_long, feed.broken)
        lost, long, broken = (new - old for new, old in zip(counts, self._told, strict=True))
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
            line = " ".join("; ".join(troubles).split())  # an exception may say more than one
            log.warning("Feed %s: %s", self.settings.label, line)
        self._told = counts
        return bool(troubles)

    def _renew(self) -> None:
        try:
            renew(self.socket, self.settings)
        except OSError as error:
            log.debug("Feed %s: %s", self.settings.label, error)
        else:
            self._stale = False


class Feeds:
    """All there are; made before the store is opened, attached before the first number is given."""

    def __init__(
        self, settings: Settings, sequencer: Sequencer, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Raises `OSError` if one of them cannot be."""
        self.outlets: list[Outlet] = []
        self._host = settings.host
        self._sequencer = sequencer
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        try:
            for feed in settings.feeds:
                self.outlets.append(Outlet(feed))
        except OSError:
            self._close()
            raise
        beats = [feed.heartbeat / LOOKS for feed in settings.feeds if feed.heartbeat]
        self._pause = max(min([*beats, LOOK_MAX]), LOOK_MIN)

    def attach(self, store: Any) -> None:
        """Send what is numbered from now on. The store is on disk or a ring; it says who we are."""
        try:
            for outlet in self.outlets:
                outlet.attach(self._sequencer, store, self._loop)
        except OSError:
            self._close()
            raise

    async def start(self) -> None:
        """Begin to look after them. Raises `OSError` if re-requests cannot be answered."""
        for outlet in self.outlets:
            await outlet.start(self._host)
        self._look()

    def _look(self) -> None:
        self._timer = self._loop.call_later(self._pause, self._look)
        now, safe = self._loop.time(), self._sequencer.safe
        for outlet in self.outlets:
            outlet.look(now, safe)

    async def stop(self, deadline: float) -> None:
        """Send what is to be sent by `deadline` (loop time), say the end, and close.

        Meanwhile re-requests are answered, so the store is closed after this.
        """
        if self._timer is not None:
            self._timer.cancel()
        while self._unsent() and self._loop.time() < deadline:
            await asyncio.sleep(UNSAFE_POLL)
        for _ in range(ENDS):
            if any([self._end(outlet) for outlet in self.outlets]):
                await asyncio.sleep(END_PAUSE)
        for outlet in self.outlets:
            if outlet.rerequests is not None:
                await outlet.rerequests.stop()
            outlet.tell()
        self._close()

    def _close(self) -> None:
        self._sequencer.feeds.clear()
        for outlet in self.outlets:
            outlet.socket.close()

    def _unsent(self) -> bool:
        return any(outlet.feed.sent.count for outlet in self.outlets)

    def _end(self, outlet: Outlet) -> bool:
        """Say that nothing more comes; not when something would, that is not safe."""
        if outlet.feed.sent.count or outlet.feed.previous > self._sequencer.safe:
            return False
        return outlet.say(outlet.feed.finish, self._sequencer.safe + 1)
