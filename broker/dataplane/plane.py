"""What happens to every message between being read and being written.

    receive(link, store, stop)     one read event: the bytes a socket has brought
      parser.next() -> PUB ...     spans of the store, no object
      sublist.find                 who wants the subject
      sequencer.take               the number, when nothing can refuse the message any more
      _offer, per subscriber       the frame's head, the payload, the tail, to its outbox
    release                        journal, then subscribers' outboxes, then the publisher's

What the journal has no room for is refused before it has a number. A subscriber that lags is
detached: messages pass it by, and the journal has them for it (broker/replay/replays.py). Control
operations go to `control`. The straight way is for `PUB subject size` from a silent client to an
ordinary subject; a reply, headers, +OK and `$SEQ.` subjects take `_publish_uncommon`.

The plane reads no clock and touches no socket. What leaves when, the gate says (dataplane/gate.py).
"""

from collections import deque
from typing import Any

import cython

from broker.dataplane.connection import Connection
from broker.dataplane.frame import Frame
from broker.dataplane.gate import Gate
from broker.dataplane.kinds import is_reserved_reply
from broker.dataplane.reply_publisher import ReplyPublisher
from parser.machine import Parser
from sequencer.msgids import id_of
from sequencer.sequencer import Sequencer
from sublist.route import Route
from sublist.subject import is_literal
from sublist.sublist import Sublist
from sublist.subscription import Subscription

if not cython.compiled:
    from broker.dataplane.frame import BARE, BARE_HEADERS, FRAMED_HEADERS
    from broker.dataplane.kinds import ACKNOWLEDGED, CONTROL, ORDINARY
    from broker.dataplane.reply_publisher import is_plain_reply
    from parser.ops import HPUB, IGNORED, MORE, PUB
    from sequencer.journal.layout import ID_FLAG
    from sublist.subject import digest_span

    PREFIX_SIZE = 9  # of `$SEQ.PUB.`
    OWED_MAX = 1 << 18  # numbers a link, 10 MiB; its queue groups have not been read for so long
    ROUTES_NEAR = 8192  # more do not stay in the processor's own cache
    WORK_MAX = 1 << 18  # offers in one read event; in the time they take nobody else is served
    MASK32 = 0xFFFFFFFF
    COPY_SHIFT = 7  # copying 128 bytes, here and into the kernel, is one offer more
    GROWN_SHIFT = 6  # so are 64 bytes of new memory for a client that does not read
    CONTROL_WORK = 64  # offers that one control operation costs, which is not compiled


class Plane:
    """One per broker, for its one thread. Owns the message at hand while it is handed out."""

    def __init__(self, sublist: Sublist, sequencer: Sequencer, hold_pending: int) -> None:
        self.sublist = sublist
        self.sequencer = sequencer
        self.gate = Gate(sequencer, hold_pending)
        self.reply_publisher = ReplyPublisher(sublist, self.gate)
        self.control: Any = None
        self.frames = tuple(Frame(shape) for shape in range(5))
        self.work = 0  # offers made, and routes found, in this read event
        self.interrupted = self.named = False  # named: a header of NATS' own may be there
        self.random = 2463534242  # xorshift32, for queue groups
        self.store = bytearray()
        self.data = self.store
        self.route: Route | None = None
        self.mute: Connection | None = None  # the link that must not hear itself
        self.window: Any = None
        self.message_id = self.sizes = b""  # sizes: header size and size, as they were written
        self.refused = False  # the publisher at hand knows by now that there is no room
        self.number = self.size = self.header_size = self.payload = self.payload_size = 0
        self.body = self.digits = self.digits_end = self.subject = self.reply = self.reply_size = 0
        self.renamed = False  # the message goes out under another subject than it came with

    def attach(self, control: Any) -> None:
        """Say who handles what is not a message. Once, before the first `receive`."""
        self.control = self.gate.control = self.reply_publisher.control = control

    def know_ids(self, window: Any) -> None:
        """Sequence no message whose Nats-Msg-Id is in this window."""
        self.window = window

    def receive(self, connection: Connection, store: bytearray, stop: int) -> int:
        """Serve the operations in `store[:stop]`; return where the unserved rest begins.

        After `WORK_MAX` of work it stops with `interrupted` set: the rest is for a later turn.
        """
        parser = connection.parser
        parser.begin(store, 0, stop)
        self.work = -self.sublist.effort
        self.interrupted = False
        self.store = store
        self.gate.reader = connection
        self.sequencer.origin = connection.origin
        self.data = self.store
        self.mute = None if connection.echo else connection
        self.gate.crowded.clear()
        self.refused = False
        while True:
            op = parser.next()
            if op == PUB:
                if self.sublist.routes > ROUTES_NEAR:
                    self.sublist.fetch(parser.peek())
                self._publish(connection, parser)
            elif op == MORE:
                break
            elif op == HPUB:
                self._publish_headers(connection, parser)
            elif op != IGNORED:
                self.work += CONTROL_WORK
                self.control.handle(connection, op)
                self.mute = None if connection.echo else connection
            if connection.closed:
                break
            if self.work + self.sublist.effort > WORK_MAX:
                self.interrupted = True
                break
        self.gate.release(connection)
        return parser.at

    def spend(self, work: int) -> None:
        """Count work that was done for the message at hand outside the plane."""
        self.work += work

    def _publish(self, connection: Connection, parser: Parser) -> int:
        """PUB: the straight way, or the other one."""
        route = self.sublist.find(
            self.data, parser.subject, parser.subject_end - parser.subject, parser.digest
        )
        self.route = route
        if connection.chatty or route.kind != ORDINARY or parser.reply_end:
            if route.kind == ACKNOWLEDGED and not connection.chatty:
                return self._publish_acknowledged(connection, parser, 0)
            return self._publish_uncommon(connection, parser, 0)
        connection.in_msgs += 1
        connection.in_bytes += parser.size
        self._describe(parser, 0)
        if self._give_out(connection.in_msgs, route) == 0:
            return self._refuse(connection, route)
        return 0

    def begin(self) -> None:
        """Begin an event in which messages come by `submit`; `Gate.release` ends it."""
        self.work = -self.sublist.effort
        self.mute = None
        self.gate.reader = None
        self.gate.crowded.clear()

    def is_spent(self) -> bool:
        """Whether others should have their turn before the next message."""
        return self.work + self.sublist.effort > WORK_MAX

    def submit(
        self, route: Route, origin: int, nth: int, store: bytearray, at: int, size: int
    ) -> int:
        """Publish `size` bytes of `store` from `at` on; the number, 0 if there is no room.

        They are the `nth` message of a publisher that has no link, and lead to an ordinary route.
        """
        self.sequencer.origin = origin
        self.store = store
        self.data = self.store
        self.route = route
        self.renamed = True
        self.body = self.payload = at
        self.size = self.payload_size = size
        self.header_size = self.reply_size = self.digits = self.digits_end = 0
        return self._give_out(nth, route)

    def submit_staged(self, parser: Parser, header_size: int, origin: int, nth: int) -> int:
        """The same for the operation that `parser` has found; its subject was judged before."""
        self.sequencer.origin = origin
        self.store = parser.store
        self.data = self.store
        route = self.sublist.find(
            self.data, parser.subject, parser.subject_end - parser.subject, parser.digest
        )
        self.route = route
        if header_size:
            self._note_sizes(parser)
        self._describe(parser, header_size)
        return self._give_out(nth, route)

    def _give_out(self, nth: int, route: Route) -> int:
        """Take a number for the message at hand, and hand it out if there is one."""
        if self._take(nth):
            fanout = route.fanout
            if fanout.plain or fanout.groups is not None:
                self._fan_out()
        return self.number

    def _take(self, nth: int) -> int:
        """Take a number for the message at hand, which is the `nth` of its publisher."""
        sequencer = self.sequencer
        flags = ID_FLAG if self.message_id else 0
        if cython.compiled:
            subject = self.data + self.subject
            if self.renamed:
                subject = self.route.text
            self.number = sequencer.take(
                flags,
                nth,
                subject,
                self.route.size,
                self.data + self.reply,
                self.reply_size,
                self.data + self.body,
                self.header_size,
                self.size,
            )
        else:
            assert self.route is not None, "there is a message at hand"
            reply = self.store[self.reply : self.reply + self.reply_size]
            body = self.store[self.body : self.body + self.size]
            self.number = sequencer.take(
                *(flags, nth, self.route.subject, self.route.size, reply, len(reply)),
                *(body, self.header_size, len(body)),
            )
        return self.number

    def _refuse(self, connection: Connection, route: Route) -> int:
        """Say that the journal has no room: to a verbose client always, else once an event."""
        told = connection.verbose or not self.refused
        self.refused = True
        self.work += CONTROL_WORK
        self.control.journal_full(connection, route.subject, told)
        return 0

    def _describe(self, parser: Parser, header_size: int) -> int:
        """Note where the message at hand lies, for whoever it is offered to."""
        self.body = parser.body
        self.size = parser.size
        self.header_size = header_size
        self.payload = parser.body + header_size
        self.payload_size = parser.size - header_size
        self.digits = parser.digits
        self.digits_end = parser.digits_end
        self.subject = parser.subject
        self.renamed = False
        self.reply = parser.reply
        self.reply_size = parser.reply_end - parser.reply
        return 0

    def _publish_headers(self, connection: Connection, parser: Parser) -> int:
        """HPUB; without headers to speak of it is a PUB."""
        self.route = self.sublist.find(
            self.data, parser.subject, parser.subject_end - parser.subject, parser.digest
        )
        self._note_sizes(parser)
        self.named = parser.mentions(b"Nats-", 5)
        if self.named and parser.mentions(b"Nats-Trace-Dest", 15):
            self.work += CONTROL_WORK
            if self.control.trace_only(connection, self.route):
                connection.in_msgs += 1
                connection.in_bytes += parser.size
                return 0
        if self.route.kind == ACKNOWLEDGED and not connection.chatty:
            return self._publish_acknowledged(connection, parser, parser.header_size)
        return self._publish_uncommon(connection, parser, parser.header_size)

    def _note_sizes(self, parser: Parser) -> int:
        """Both sizes of an HPUB as they were written."""
        headers = self.store[parser.header_digits : parser.header_digits_end]
        self.sizes = bytes(headers + b" " + self.store[parser.digits : parser.digits_end])
        return 0

    def _publish_acknowledged(
        self, connection: Connection, parser: Parser, header_size: int
    ) -> int:
        """`$SEQ.PUB.<subject>`: its number is answered. The control does what is unusual of it."""
        reply, reply_size = parser.reply, parser.reply_end - parser.reply
        if parser.size == header_size or not is_plain_reply(self.data, reply, reply_size):
            return self._publish_uncommon(connection, parser, header_size)
        connection.in_msgs += 1
        connection.in_bytes += parser.size
        self._describe(parser, header_size)
        self.reply_size = 0
        self.subject += PREFIX_SIZE
        size = parser.subject_end - self.subject
        digest = digest_span(self.data, self.subject, size)
        self.route = self.sublist.find(self.data, self.subject, size, digest)
        fresh = self._take_once(connection)
        if self.number == 0:
            self.work += CONTROL_WORK
            answer_to = bytes(self.store[reply : reply + reply_size])
            self.control.no_room(connection, self.route.subject, answer_to)
            return 0
        if fresh:
            self._fan_out()
        if reply_size:
            self.work += self.reply_publisher.acknowledge(
                connection, self.data, reply, reply_size, self.number
            )
        return 0

    def _publish_uncommon(self, connection: Connection, parser: Parser, header_size: int) -> int:
        """A message with a reply or headers, from a verbose client, or to a special subject."""
        connection.in_msgs += 1
        connection.in_bytes += parser.size
        route = self.route
        assert route is not None, "it was found before"
        self._describe(parser, header_size)
        reply = bytes(self.store[parser.reply : parser.reply_end])
        if connection.pedantic and not is_literal(route.subject):
            self.control.invalid_publish_subject(connection)
        if route.kind >= CONTROL or (reply and is_reserved_reply(reply)):
            self.work += CONTROL_WORK
            self.control.publish_special(connection, route, reply)
            return 0
        self.number = 0
        fresh = route.kind != ORDINARY or self._take_once(connection)
        if fresh and self.number == 0 and route.kind == ORDINARY:
            return self._refuse(connection, route)
        self._confirm(connection)
        if fresh and self._fan_out() == 0 and reply and connection.no_responders:
            self.work += CONTROL_WORK
            self.control.no_responders(connection, route.subject, reply)
        return 0

    def sequence(self, connection: Connection, route: Route) -> int:
        """Publish the message at hand under another subject, without its reply.

        Its number, or the old one of a message whose id is known; 0 if there is no room.
        """
        self.route = route
        self.renamed = True
        self.reply_size = 0
        fresh = self._take_once(connection)
        if self.number:
            self._confirm(connection)
            if fresh:
                self._fan_out()
        return self.number

    def _confirm(self, connection: Connection) -> int:
        """+OK for a message that was taken, before its own MSG, as nats-server has it."""
        if connection.verbose:
            self.say(connection, b"+OK\r\n")
            connection.numbered = True
        return 0

    def _take_once(self, connection: Connection) -> bool:
        """Take a number, unless the message's id has one: then False, and `number` is that."""
        found = b""
        ours = self.header_size and self.named and self.window is not None
        if ours and connection.parser.mentions(b"Nats-Msg-Id", 11):
            found = id_of(bytes(self.store[self.body : self.body + self.header_size]))
        if not found:
            self._take(connection.in_msgs)
            return True
        self.work += CONTROL_WORK
        self.number = self.window.find(found, self.sequencer.now)
        if self.number:
            return False
        self.message_id = found
        if self._take(connection.in_msgs):
            self.window.add(found, self.number, self.sequencer.now)
        self.message_id = b""
        return True

    def payload_bytes(self) -> int:
        """The size of the payload of the message at hand, without headers."""
        return self.payload_size

    def _fan_out(self) -> int:
        """Offer the message at hand to all that its route leads to; how many took it."""
        assert self.route is not None, "there is a message at hand"
        fanout = self.route.fanout
        reached = 0
        if self.number == 0:  # unnumbered: a bare frame is stale though its number is the same
            for shape in (BARE, BARE_HEADERS):
                cython.cast(Frame, self.frames[shape]).expire()
        self.work += len(fanout.plain) * (1 + (self.payload_size >> COPY_SHIFT))
        for item in fanout.plain:
            reached += self._offer(cython.cast(Subscription, item))
        if fanout.groups is not None:
            for members in fanout.groups:
                reached += self._offer_group(members)
        return reached

    def _offer_group(self, members: tuple[Subscription, ...]) -> bool:
        """Offer to one member, chosen at random; those that lag come last."""
        self.random ^= (self.random << 13) & MASK32
        self.random ^= self.random >> 17
        self.random ^= (self.random << 5) & MASK32
        count = len(members)
        self.work += count
        first = self.random % count
        for turn in range(2):
            for at in range(count):
                sub = cython.cast(Subscription, members[(first + at) % count])
                if sub.owner is None:
                    continue
                connection = cython.cast(Connection, sub.owner)
                able = connection.writable and not connection.detached
                if able != (turn == 0) or connection.closed or connection is self.mute:
                    continue
                if self._offer(sub):
                    return True
        return False

    def _offer(self, sub: Subscription) -> bool:
        """Put the message at hand into one subscriber's outbox; whether it took it."""
        if sub.owner is None:
            return False  # it has gone while this message was handed out
        connection = cython.cast(Connection, sub.owner)
        if connection is self.mute:
            return False
        if connection.detached and self.number:
            return self._owe(connection, sub)
        counted = self.size if self.header_size and connection.headers else self.payload_size
        frame = cython.cast(Frame, self.frames[self._shape(connection)])
        if frame.number != self.number:
            self._stamp(frame)
        if self.reply_size or not frame.is_addressed(self.route, sub.sid):
            self._address(frame, sub)
        if not connection.dirty:
            self.gate.mark_dirty(connection)
        if not connection.deliver(frame, self.data, self.payload, self.payload_size, counted):
            need = frame.end - frame.start + self.payload_size + 4
            if not self.gate.make_room(connection, need, self.number):
                return connection.detached and self.number != 0 and self._owe(connection, sub)
            if not connection.writable:
                self.work += connection.size >> GROWN_SHIFT
            connection.deliver(frame, self.data, self.payload, self.payload_size, counted)
        connection.numbered = True
        if self.number:
            sub.seen = self.number
        sub.delivered += 1
        if sub.delivered == sub.limit:
            self.control.finished(sub)
        return True

    def _shape(self, connection: Connection) -> int:
        """What the message at hand looks like to this link."""
        shape = (
            connection.headed_shape if self.header_size and connection.headers else connection.shape
        )
        if self.number == 0:
            shape = BARE_HEADERS if shape >= FRAMED_HEADERS and self.header_size else BARE
        return shape

    def _owe(self, connection: Connection, sub: Subscription) -> bool:
        """The journal will serve this; a member of a queue group must know what was its."""
        if sub.queue is None:
            return True
        if sub.owed is None:
            sub.owed = deque()
        if sub.limit and sub.delivered + len(sub.owed) >= sub.limit:
            return False  # it will have had all it wants by then
        if connection.owed >= OWED_MAX:
            self.gate.cut(connection)
            return False
        connection.owed += 1
        sub.owed.append(self.number)
        return True

    def _stamp(self, frame: Frame) -> int:
        """Write the frame's head for the message at hand."""
        if frame.shape >= FRAMED_HEADERS and self.header_size:
            frame.stamp_headers(
                self.number, self.data, self.body, self.header_size, self.size, self.sizes
            )
        elif self.header_size:
            frame.stamp(self.number, self.data, self.payload_size, 0, 0)
        else:
            frame.stamp(self.number, self.data, self.payload_size, self.digits, self.digits_end)
        return 0

    def _address(self, frame: Frame, sub: Subscription) -> int:
        """Write the frame's line for one subscriber; one with a reply is not kept."""
        route = self.route
        assert route is not None, "there is a message at hand"
        owner = route if self.reply_size == 0 else None
        if cython.compiled:
            # From the receive buffer, which is at hand, rather than from the route's own copy.
            subject = route.text if self.renamed else self.data + self.subject
            frame.address(
                owner, subject, route.size, sub.sid, self.data + self.reply, self.reply_size
            )
        else:
            reply = self.data[self.reply : self.reply + self.reply_size]
            frame.address(owner, route.subject, route.size, sub.sid, reply, self.reply_size)
        return 0

    def say(self, connection: Connection, text: bytes) -> bool:
        """Put what is no message, or a message of the broker's own, into an outbox."""
        return self.gate.say(connection, text)

    def answer(self, asker: Connection, reply: bytes, payload: bytes, headers: bytes) -> None:
        """Send a message of the broker's own to the client that asked, without number or frame."""
        self.work += self.reply_publisher.answer(asker, reply, payload, headers)

    def listens(self, asker: Connection, reply: bytes) -> bool:
        """Whether the client that asked would get an answer; otherwise none needs to be made."""
        heard = self.reply_publisher.listens(asker, reply)
        self.work += self.reply_publisher.looked
        return heard

    def release(self, last: Connection | None) -> None:
        """Let out what was caused so far; `last` after all others."""
        self.gate.release(last)
