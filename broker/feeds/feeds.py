"""All feeds of a broker: starts them, checks them regularly, and stops them.

One timer checks all of them a few times per heartbeat interval, for a long silence and for errors
(broker/feeds/outlet.py).
"""

import asyncio
from collections.abc import Callable

from broker.feeds.fitting import Fitting
from broker.feeds.outlet import Outlet
from broker.settings.settings import Settings
from sequencer.journal.faces import ReadableJournal
from sequencer.sequencer import Sequencer

LOOKS = 4  # checks per heartbeat interval: a heartbeat is at most a quarter late
LOOK_MIN, LOOK_MAX = 0.005, 1.0  # seconds between two checks
ENDS, END_PAUSE = 3, 0.04  # how often the end is sent, as one may be lost; seconds between
UNSAFE_POLL = 0.005  # seconds; the journal's keeper releases messages that wait for the disk


class Feeds:
    """All feeds; made before the journal is opened, attached before the first number is given."""

    def __init__(
        self, settings: Settings, sequencer: Sequencer, loop: asyncio.AbstractEventLoop
    ) -> None:
        """Raises `OSError` if a feed cannot be made."""
        self.outlets: list[Outlet] = []
        self._host = settings.host
        self._sequencer = sequencer
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self.speaks: Callable[[], bool] = lambda: True  # False: another member sends
        self.ends = True  # False: the stream goes on when this broker stops
        try:
            for feed in settings.feeds:
                self.outlets.append(Outlet(feed))
        except OSError:
            self._close()
            raise
        beats = [feed.heartbeat / LOOKS for feed in settings.feeds if feed.heartbeat]
        self._pause = max(min([*beats, LOOK_MAX]), LOOK_MIN)

    def attach(self, journal: ReadableJournal) -> None:
        """Send the messages numbered from now on. `journal` is a Store or a Ring."""
        try:
            for outlet in self.outlets:
                outlet.attach(self._sequencer, journal, self._loop)
        except OSError:
            self._close()
            raise

    def identify(self, journal: str, stream: int) -> None:
        """Announce this stream from now on. Raises what a user's codec raises."""
        for outlet in self.outlets:
            outlet.identify(journal, stream)

    def begin_stream(self, journal: str, stream: int) -> None:
        """Do as `identify` while the feeds are being sent: errors are logged."""
        for outlet in self.outlets:
            outlet.begin_stream(journal, stream)

    def fitting(self, subject: bytes) -> Fitting | None:
        """Return how long a message to this subject may be; None if no limit is known."""
        fitting = Fitting(self.outlets, subject)
        return fitting if fitting.is_known else None

    async def start(self) -> None:
        """Start checking the feeds. Raises `OSError` if re-requests cannot be answered."""
        for outlet in self.outlets:
            await outlet.start(self._host)
        self._look()

    def _look(self) -> None:
        self._timer = self._loop.call_later(self._pause, self._look)
        now, safe = self._loop.time(), self._sequencer.safe
        for outlet in self.outlets:
            outlet.look(now, safe, self.speaks())

    async def stop(self, deadline: float) -> None:
        """Send the rest by `deadline` (loop time), announce the end of the stream, and close.

        Re-requests are answered in the meantime, so close the journal after this.
        """
        if self._timer is not None:
            self._timer.cancel()
        while self._unsent() and self._loop.time() < deadline:
            await asyncio.sleep(UNSAFE_POLL)
        for _ in range(ENDS if self.ends else 0):
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
        """Send end-of-stream, unless messages that are not safe yet are still queued."""
        if outlet.feed.sent.count or outlet.feed.previous > self._sequencer.safe:
            return False
        return outlet.say(outlet.feed.finish, self._sequencer.safe + 1)
