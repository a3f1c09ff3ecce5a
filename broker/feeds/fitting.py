"""Computes how long a message may be so that at least one feed can carry it in a datagram.

The cquencer port needs it, as its messages are received only through the feeds. If none of the
feeds with its subject can carry a message, it is refused before it has a number. A frame contains
the number in decimal, so a message that just fits may be a byte too long once numbers have one more
digit.
"""

from collections.abc import Iterable

from broker.feeds.outlet import Outlet
from sequencer.feed.codecs import BUILT_IN
from sequencer.feed.feed_codec import Codec
from sequencer.feed.feed_message import FeedMessage
from sublist.subject import covers

DIGITS_MAX = 19  # of a number up to 2^63-1


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
