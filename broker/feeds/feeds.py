"""All feeds of a broker: starts them, checks them regularly, and stops them.

One timer checks all of them a few times per heartbeat interval, for a long silence and for errors
(broker/feeds/outlet.py).
"""

import asyncio
from collections.abc import Callable, Iterable

from broker.feeds.outlet import Outlet
from broker.settings.settings import Settings
from sequencer.feed.codecs import BUILT_IN
from sequencer.feed.feed_codec import Codec
from sequencer.feed.feed_message import FeedMessage
from sequencer.journal.protocols import ReadableJournal
from sequencer.sequencer import Sequencer
from sublist.subject import covers

LOOKS = 4  # checks per heartbeat interval: a heartbeat is at most a quarter late
LOOK_MIN, LOOK_MAX = 0.005, 1.0  # seconds between two checks
ENDS, END_PAUSE = 3, 0.04  # how often the end is sent, as one may be lost; seconds between
UNSAFE_POLL = 0.005  # seconds; the journal's keeper releases messages that wait for the disk
DIGITS_MAX = 19  # of a number up to 2^63-1


# Computes how long a message may be so that at least one feed can carry it in a datagram.
#
# The cquencer port needs it, as its messages are received only through the feeds. If none of the
# feeds with its subject can carry a message, it is refused before it has a number. A frame contains
# the number in decimal, so a message that just fits may be a byte too long once numbers have one
# more digit.


class Fitting:
    """The longest messages to one subject that these feeds can carry."""

    def __init__(self, outlets: Iterable[Outlet], subject: bytes) -> None:
        taking = [one for one in outlets if covers(one.settings.subject.encode(), subject)]
        # Only the author of a user's codec knows how long its messages become.
        self.is_known = bool(taking) and all(_is_ours(one.codec) for one in taking)
        self._subject = subject
        self._taking = taking
        self._most: dict[int, int] = {}  # by number of digits

    @property
    def always(self) -> int:
        """The bytes that a message may have, whatever its number."""
        return self._of(DIGITS_MAX)

    def most(self, number: int) -> int:
        """Return how many bytes the message with this number may have."""
        return self._of(len(str(number)))

    def _of(self, digits: int) -> int:
        if digits not in self._most:
            number = min(10**digits - 1, (1 << 63) - 1)
            self._most[digits] = max(self._longest(one, number) for one in self._taking)
        return self._most[digits]

    def _longest(self, outlet: Outlet, number: int) -> int:
        room = outlet.settings.datagram_max
        fits, too_long = 0, room + 1
        while fits < too_long - 1:
            size = (fits + too_long) // 2
            message = FeedMessage(number, bytes(size), self._subject)
            if len(outlet.codec.datagram([message], number - 1)) <= room:
                fits = size
            else:
                too_long = size
        return fits


def _is_ours(codec: Codec) -> bool:
    return type(codec) in BUILT_IN.values()


class Feeds:
    """All feeds; made before the journal is opened, attached before the first number is given."""

    def __init__(
        self,
        settings: Settings,
        sequencer: Sequencer,
        loop: asyncio.AbstractEventLoop,
        speaks: Callable[[], bool] = lambda: True,
    ) -> None:
        """Raises `OSError` if a feed cannot be made. `speaks`: False while another member sends."""
        self.outlets: list[Outlet] = []
        self._host = settings.host
        self._sequencer = sequencer
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._speaks = speaks
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
        self._check_outlets()

    def _check_outlets(self) -> None:
        self._timer = self._loop.call_later(self._pause, self._check_outlets)
        now, safe = self._loop.time(), self._sequencer.safe
        for outlet in self.outlets:
            outlet.check(now, safe, self._speaks())

    async def stop(self, deadline: float, ends: bool = True) -> None:
        """Send the rest by `deadline` (loop time), announce the end of the stream, and close.

        Without `ends` the stream goes on: another member sends it.

        Re-requests are answered in the meantime, so close the journal after this.
        """
        if self._timer is not None:
            self._timer.cancel()
        while self._unsent() and self._loop.time() < deadline:
            await asyncio.sleep(UNSAFE_POLL)
        for _ in range(ENDS if ends else 0):
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
