"""Messages into connections' outboxes: the one way in for live, replayed and answered ones.

    offer -> frame       what stands around the payload, written once for each shape of client
          -> deliver     line and head, payload, tail
          -> make_room   where the outbox is full; the gate says whether there may be more

The frames are kept from one delivery to the next, and each has one number at a time. So who
serves other numbers has a writer of its own: the plane, the replays, and the broker's replies.
"""

import cython

from broker.dataplane.connection import Connection
from broker.dataplane.frame import Frame
from broker.dataplane.gate import Gate
from sequencer.message import Message
from sequencer.sequencer import Sequencer
from sublist.route import Route
from sublist.subscription import Subscription

if not cython.compiled:
    from broker.dataplane.frame import BARE, BARE_HEADERS

    GROWN_SHIFT = 6  # 64 bytes of new memory for a client that does not read are an offer more


class OutboxWriter:
    """Five frames, one for each shape of message, and the gate that outboxes are behind.

    `patient`: who reads slowly is waited for. The journal keeps what is replayed.
    """

    def __init__(self, gate: Gate, patient: bool = False) -> None:
        self.gate = gate
        self.sequencer: Sequencer = self.gate.sequencer
        self.patient = patient
        self.frames = tuple(Frame(shape) for shape in range(5))
        self.effort = 0  # offers' worth of work that went into memory, since the start

    def offer(
        self, connection: Connection, sub: Subscription, message: Message, route: Route | None
    ) -> bool:
        """Put a message into one subscriber's outbox; False, and nothing done, without room.

        The next message with the same `route` may keep the line that is written for this one.
        """
        headed = message.header_size != 0 and connection.headers
        counted = message.size if headed else message.payload_size
        shape = connection.headed_shape if headed else connection.shape
        number = message.number
        if number == 0:
            shape = BARE_HEADERS if headed else BARE
        frame = cython.cast(Frame, self.frames[shape])
        if frame.number != number:
            frame.write_head(message)
        if route is None or message.reply_size or not frame.has_line_of(route, sub.sid):
            frame.write_line(message, sub.sid, None if message.reply_size else route)
        if not connection.dirty:
            self.gate.mark_dirty(connection)
        data, payload, size = message.data, message.payload, message.payload_size
        if not connection.deliver(frame, data, payload, size, counted):
            if not self._make_room(connection, frame.end - frame.start + size + 4, number):
                return False
            connection.deliver(frame, data, payload, size, counted)
        if number:
            sub.seen = number
            if number > self.sequencer.safe:
                connection.numbered = True
        else:
            connection.numbered = True  # it may tell a number: most of the broker's replies do
        sub.delivered += 1
        if sub.delivered == sub.limit:
            self.gate.control.finished(sub)
        return True

    def expire(self) -> None:
        """The next message has no number, and is another one than the last without a number."""
        cython.cast(Frame, self.frames[BARE]).expire()
        cython.cast(Frame, self.frames[BARE_HEADERS]).expire()

    def _make_room(self, connection: Connection, need: int, number: int) -> bool:
        """Have room for so many bytes more, if the client may have them."""
        if self.patient:
            held = connection.held()
            if held and (held + need > connection.max_pending or self.gate.budget.is_exceeded()):
                return False
            return self.gate.make_room(connection, need, 0)
        if not self.gate.make_room(connection, need, number):
            return False
        if not connection.writable:
            self.effort += connection.size >> GROWN_SHIFT
        return True
