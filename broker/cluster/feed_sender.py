"""A member's feeds: the coordinator sends what is committed, and everyone else is silent.

It begins with the number after the one that it had delivered when its reign began. So a number may
come twice, from two members, with the same bytes. One that came from neither is requested by the
receivers, from any member.
"""

from sequencer.journal.record import Walk
from sequencer.sequencer import Sequencer

RECORD = 1


class FeedSender:
    """One per member. `sequencer` counts what is delivered, and knows the feeds."""

    def __init__(self, sequencer: Sequencer) -> None:
        self.coordinates = False
        self._sequencer = sequencer
        self._walk = Walk(0, False)

    def set_role(self, coordinates: bool) -> None:
        """Begin after what is delivered, or fall silent."""
        if coordinates and not self.coordinates:
            for feed in self._sequencer.feeds:
                feed.previous = self._sequencer.number
        self.coordinates = coordinates

    def send(self, records: bytes) -> None:
        """Send those of these records that are delivered now."""
        feeds, number, walk = self._sequencer.feeds, self._sequencer.number, self._walk
        if not (feeds and self.coordinates):
            return
        walk.begin(records, 0, len(records))
        stop = 0
        while walk.skim() == RECORD and walk.number <= number:
            stop = walk.after
        buffer = bytearray(records[:stop])
        for feed in feeds:
            feed.take(buffer, stop)
            feed.flush(number)
