"""The plane that numbers rows of batches: they are delivered when they are committed, not now."""

from broker.dataplane.plane import Plane
from sequencer.message import Message
from sequencer.sequencer import Sequencer
from sublist.route import Route
from sublist.sublist import Sublist


class RowPlane(Plane):
    """The plane that numbers rows for `Staged`, one per member; it delivers nothing."""

    def __init__(self, sublist: Sublist, numbers: Sequencer) -> None:
        """`numbers` is the sequencer in which the coordinator numbers all messages."""
        super().__init__(sublist, Sequencer(), 0)
        self.numbers = numbers

    def submit(self, message: Message, route: Route) -> int:
        """Number a row; 0: the journal has no room."""
        return self.numbers.assign_number(message)
