"""A member's feeds: the coordinator sends committed messages, and the others are silent.

A new coordinator begins after the last number that it had delivered by then. So a number may come
twice, from two members, with the same bytes. If it came from neither, receivers request it from any
member.

`seriatim cluster recover` begins another stream: numbers may be lost, and given again. All
members learn of it from the view, before the coordinator of that view sends.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from sequencer.journal.record import Walk
from sequencer.replica.view import View
from sequencer.sequencer import Sequencer

if TYPE_CHECKING:  # imported only if there is a feed
    from sequencer.feed.feed import Feed

RECORD = 1


class FeedSender:
    """The sender of one member's feeds. `sequencer` counts deliveries, and knows the feeds.

    `begin_stream` is called with the first stream that is known, and with each later one.
    """

    def __init__(self, sequencer: Sequencer, begin_stream: Callable[[int], None]) -> None:
        self.coordinates = False
        self._begin_stream = begin_stream
        self.view: View | None = None
        self._sequencer = sequencer
        self._walk = Walk(0, False)

    def set_role(self, coordinates: bool, view: View | None = None) -> None:
        """Begin after the last delivered number, or stop. `view`: the newest, with the stream."""
        if view is not self.view and view is not None:
            is_new = self.view is None or view.stream != self.view.stream
            self.view = view
            if is_new:
                self._begin_stream(view.stream)
        if coordinates and not self.coordinates:
            for feed in self._sequencer.feeds:
                cast("Feed", feed).previous = self._sequencer.number
        self.coordinates = coordinates

    def send(self, records: bytes) -> None:
        """Send the records that have been delivered."""
        feeds, number, walk = self._sequencer.feeds, self._sequencer.number, self._walk
        if not (feeds and self.coordinates):
            return
        walk.attach(records, 0, len(records))
        stop = 0
        while walk.skim() == RECORD and walk.number <= number:
            stop = walk.after
        buffer = bytearray(records[:stop])
        for feed in feeds:
            feed.add_records(buffer, stop)
            feed.flush(number)
