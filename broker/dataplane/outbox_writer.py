"""Puts messages into connections' outboxes: live messages, replayed ones and replies.

    offer -> frame       the bytes around the payload, written once for each shape of client
          -> deliver     line and head, payload, tail
          -> make_room   if the outbox is full; the gate decides if it may hold more

The frames are kept from one delivery to the next, and each is for one number at a time. So the
plane, the replays, and the broker's replies have a writer each: they serve different numbers.
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
    from broker.dataplane.frame import BARE, BARE_HEADERS, NUMBERED_HEADERS, STAMPED_HEADERS

    GROWN_SHIFT = 6  # 64 bytes of new memory, for a client that does not read, count as one offer


class OutboxWriter:
    """The writer into outboxes: six frames, one for each shape of message, and the gate.

    `patient`: wait for a slow reader; replayed messages stay in the journal.
    """

    def __init__(self, gate: Gate, patient: bool = False) -> None:
        self.gate = gate
        self.sequencer: Sequencer = self.gate.sequencer
        self.patient = patient
        self.frames = tuple(Frame(shape) for shape in range(6))
        self.work = 0  # cost of new memory since the start, in offers

    def offer(
        self, connection: Connection, sub: Subscription, message: Message, route: Route | None
    ) -> bool:
        """Put a message into one subscriber's outbox; return False, and do nothing, if it is full.

        The next message with the same `route` can reuse the line written for this one.
        """
        headed = message.header_size != 0 and connection.headers
        counted = message.size if headed else message.payload_size
        shape = connection.headed_shape if headed else connection.shape
        number = message.number
        if number == 0 or sub.unframed:
            if not headed:
                shape = BARE
            elif shape < NUMBERED_HEADERS:  # else the frame leaves out lines that look like ours
                shape = BARE_HEADERS
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
            sub.last_seen = number
            if number > self.sequencer.safe:
                connection.shows_number = True
        else:
            connection.shows_number = True  # its payload may show a number, as most replies do
        sub.delivered += 1
        if sub.delivered == sub.limit:
            self.gate.control.finished(sub)
        return True

    def expire(self) -> None:
        """Make the frames without a number stale: the next such message needs a new head."""
        cython.cast(Frame, self.frames[BARE]).expire()
        cython.cast(Frame, self.frames[BARE_HEADERS]).expire()
        cython.cast(Frame, self.frames[NUMBERED_HEADERS]).expire()
        cython.cast(Frame, self.frames[STAMPED_HEADERS]).expire()

    def _make_room(self, connection: Connection, need: int, number: int) -> bool:
        """Make room for `need` more bytes, if the limits allow it."""
        if self.patient:
            held = connection.held()
            if held and (held + need > connection.max_pending or self.gate.budget.is_exceeded()):
                return False
            return self.gate.make_room(connection, need, 0)
        if not self.gate.make_room(connection, need, number):
            return False
        if not connection.writable:
            self.work += connection.size >> GROWN_SHIFT
        return True
