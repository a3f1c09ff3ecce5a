"""The path of a message from the read to the outboxes.

    serve(connection, buffer, stop)      one read: the bytes from a socket
      parser.next() -> PUB ...           the position of the operation in the buffer
      describe                           the same as a Message, with its publisher
      sublist.find                       the route: the subject's subscribers, and its kind
      sequencer.assign_number            the number
      _fan_out -> outbox_writer.offer    for each subscriber: frame and payload into its outbox
    gate.release_turn                    the journal, then all outboxes, the publishers' last

How each kind of publish is handled. The first must be fast; `_publish` tells it from the others.

    publish                            handled by             number  difference
    PUB or HPUB, silent, no reply      _publish -> submit     yes
    with a reply, or headers of NATS'  _publish_uncommon      yes     no responders, message id
    from a verbose or pedantic client  _publish_uncommon      yes     +OK, the subject is checked
    to an excluded subject             _publish_uncommon      no      unframed, not in the journal
    to a stream, as above              _publish_in_stream     yes     a pub ack; may be refused
    $SEQ.PUB.<subject>, silent client  _publish_acknowledged  yes     the number is the answer
    $SEQ.PUB. in other cases           control -> acknowledge yes     the same, in plain Python
    $SEQ. (a request), reserved        control                no      an answer, or -ERR
    Nats-Trace-Only: true              control.trace_only     no      it is not delivered
    from cquencer, or a stage          submit                 yes     filled by port or stage
"""

# Theory of operation
#
# No object is made for a message. One `Message` contains the positions of its parts in the receive
# buffer, and is filled again for the next message. The payload is copied into the batch that the
# journal writes, and into each outbox, while it is in the processor's cache.
#
# A number is final. So every check that may refuse a message comes before `assign_number`; the
# journal's room is checked last. After that the message is sent, or the journal serves it later.
#
# An outbox is sent at the release, not before: the message goes to the journal first. A turn with a
# thousand messages, from one client or a thousand, is one write to the journal, one to each socket.
#
# A slow subscriber does not slow down its publishers. When its outbox is full, the gate decides:
# from now on the journal serves it (it is `detached`), it is disconnected, or it gets more
# memory. A detached client gets no live messages; a catch-up serves the missing ones from the
# journal. `deferred_numbers` lists the messages that were meant for a member of a queue group.
#
# A frame is written once for all subscribers that see a message the same way.
#
# All rare cases go to `control`. It is plain Python, and may call back: `send_control`, `answer`,
# `acknowledge`. It copies the parts of `message` that it keeps. Fan-outs never change: if a client
# leaves during one, its subscriptions have no owner any more.
#
# Work is counted in offers: the work of putting one small message into one outbox. A turn ends
# after `WORK_MAX`, so that other clients are served. The plane reads no clock and no socket.

from collections import deque
from collections.abc import Callable

import cython

from broker.dataplane.connection import Connection
from broker.dataplane.gate import Gate
from broker.dataplane.guard import Guard, OpenRequests
from broker.dataplane.kinds import is_answerable, is_reserved_reply
from broker.dataplane.ledger import Ledger
from broker.dataplane.outbox_writer import OutboxWriter
from broker.dataplane.plane_control import PlaneControl
from broker.dataplane.reply_publisher import ReplyPublisher
from broker.dataplane.stream_table import AckTaker, StreamTable
from parser.machine import Parser
from sequencer.message import Message
from sequencer.msgids import Window, key_of
from sequencer.netstring import encode
from sequencer.sequencer import Sequencer
from sublist.route import Route
from sublist.subject import is_literal
from sublist.sublist import Sublist
from sublist.subscription import Subscription

if not cython.compiled:
    from broker.dataplane.kinds import ACKNOWLEDGED, CONTROL, ORDINARY
    from broker.dataplane.reply_publisher import is_plain_reply, under
    from parser.ops import HPUB, IGNORED, MORE, PUB, UNSUB
    from parser.table import START
    from sequencer.journal.layout import ID_FLAG

    SCOPED_ID = 3  # ID_FLAG, and the flag of an id that counts for its subject only
    IN_STREAM = 4  # the flag of an id that counts for a stream only
    PREFIX_SIZE = 9  # of `$SEQ.PUB.`
    DEFERRED_NUMBERS_MAX = 1 << 18  # of one connection, 10 MiB; then it is disconnected
    ROUTES_NEAR = 8192  # more do not stay in the processor's own cache
    # Offers in one turn, during which no other work is done. With twice as many, a delivery to a
    # hundred subscribers costs half as much again: their outboxes fill more than the caches hold.
    WORK_MAX = 1 << 17
    SHARE_MIN = 1 << 13  # of one client, if many are served in a turn; more than a usual read needs
    MASK32 = 0xFFFFFFFF
    COPY_SHIFT = 7  # copying 128 bytes, here and into the kernel, counts as one more offer
    DEFERRED_SHIFT = 3  # eight offers left to the journal count as one
    CASE_BIT = 0x20  # makes an ASCII letter small
    CONTROL_WORK = 64  # cost of one control operation, which is not compiled, in offers


class Plane:
    """The core of the broker: it serves clients' input, and fans messages out. One per broker.

    For the broker's one thread. `message` is the one being read.
    """

    def __init__(self, sublist: Sublist, sequencer: Sequencer, hold_pending: int) -> None:
        self.sublist = sublist
        self.sequencer = sequencer
        self.gate = Gate(sequencer, hold_pending)
        self.outbox_writer = OutboxWriter(self.gate)
        self.reply_publisher = ReplyPublisher(sublist, self.gate)
        self.control: PlaneControl  # from `attach` on
        self.window: Window | None = None
        self.streams: StreamTable | None = None  # the subjects of streams, if there may be any
        self.acks: AckTaker | None = None  # takes what their consumers' clients acknowledge
        self.message = Message()
        self.excluded: Connection | None = (
            None  # the publisher, if it does not want its own messages
        )
        self.work = 0  # offers made, and routes resolved, in this turn
        self.deferred = 0  # offers of the last fan-out that were left to the journal
        self.interrupted = False
        self.refused = False  # the current publisher was told already that there is no room
        self.random = 2463534242  # xorshift32, for queue groups
        self.entered = 0  # in a cluster: the place of the last message entered, until it is read
        self.unavailable = b""  # why a cluster refuses messages at the moment; empty: it does not

    def attach(self, control: PlaneControl) -> None:
        """Set the handler of everything but plain messages. Once, before the first `receive`."""
        self.control = self.gate.control = control

    def know_ids(self, window: Window) -> None:
        """Set the window of message ids: a message whose id is in it is not numbered again."""
        self.window = window

    def open_streams(self, table: StreamTable, acks: AckTaker) -> None:
        """Answer publishers to the streams in this table with pub acks, and take acks."""
        self.streams = table
        self.acks = acks

    @property
    def buffer(self) -> bytearray:
        """The buffer being read: the current operation is a span of it."""
        buffer = self.message.buffer
        assert isinstance(buffer, bytearray), "clients are read into one"
        return buffer

    # Input

    def receive(self, connection: Connection, buffer: bytearray, stop: int) -> int:
        """Serve one client in a turn of its own, and release the output."""
        self.begin_turn()
        rest = self.serve(connection, buffer, stop)
        self.gate.release(connection)
        return rest

    def serve(self, connection: Connection, buffer: bytearray, stop: int) -> int:
        """Serve the operations in `buffer[:stop]`; return where the unserved rest begins.

        Call it between `begin_turn` and `Gate.release_turn`, for one connection after the other.
        After the client's share of work it stops with `interrupted` set: the rest is for a later
        turn.
        """
        parser, message = connection.parser, self.message
        parser.attach(buffer, 0, stop)
        self.gate.reader = connection
        self.excluded = None if connection.echo else connection
        self.interrupted = self.refused = False
        limit = min(self.work + self.sublist.work + self.outbox_writer.work + self.share, WORK_MAX)
        if connection.stranger and not self._is_admitted(connection, buffer, stop):
            return stop
        message.buffer = buffer
        message.data = buffer
        message.origin = connection.origin
        while True:
            op = parser.next()
            if op == PUB:
                if self.sublist.routes > ROUTES_NEAR:
                    size = parser.peek()
                    if size:
                        self.sublist.fetch(message.data, parser.peeked, size)
                self._publish(connection, parser, 0)
            elif op == MORE:
                break
            elif op == HPUB:
                self._publish(connection, parser, parser.header_size)
            elif op == UNSUB:
                self.work += CONTROL_WORK
                self.control.unsubscribe(connection)
            elif op != IGNORED:
                self.work += CONTROL_WORK
                self.control.handle(connection, op)
                self.excluded = None if connection.echo else connection
            if connection.closed:
                break
            if self.is_spent(limit):
                self.interrupted = True
                break
        return parser.at

    def _is_admitted(self, connection: Connection, buffer: bytearray, stop: int) -> bool:
        """True if a client may continue before authentication: with CONNECT, or if control lets it.

        A read within an operation always continues.
        """
        if stop == 0 or connection.parser.state != START or (buffer[0] | CASE_BIT) == ord("c"):
            return True
        return self.control.lets_begin(connection)

    def begin_turn(self) -> None:
        """Begin a turn; `Gate.release` ends it."""
        self.work = -self.sublist.work - self.outbox_writer.work
        self.share = WORK_MAX  # how much of this turn's work one client may cause
        self.excluded = None
        self.gate.reader = None
        self.gate.crowded.clear()

    def share_among(self, clients: int) -> None:
        """Divide this turn's work among its clients; a client above its share continues later."""
        self.share = max(WORK_MAX // max(clients, 1), SHARE_MIN)

    def is_spent(self, most: int = WORK_MAX) -> bool:
        """True if this turn's work is spent: others are served before the next message."""
        return self.work + self.sublist.work + self.outbox_writer.work > most

    def charge_work(self, work: int) -> None:
        """Count work that was done for the current message outside the plane."""
        self.work += work

    def submit(self, message: Message, route: Route) -> int:
        """Number a message and fan it out; return its number, or 0 if there is no room.

        The route must be an ordinary one. Callers other than `receive` call it between `begin_turn`
        and `Gate.release`, with a message that they have filled.
        """
        number = self.sequencer.assign_number(message)
        if number:
            fanout = route.fanout
            if fanout.plain or fanout.groups is not None:
                self._fan_out(message, route)
        return number

    def submit_from_port(self, message: Message, route: Route) -> int:
        """Submit a port's message. In a cluster, return 0; `entered` is the message's place."""
        return self.submit(message, route)

    # The kinds of publish

    def _publish(self, connection: Connection, parser: Parser, header_size: int) -> int:
        """Handle PUB and HPUB, on the fast path or one of the others."""
        message = self.message
        connection.in_msgs += 1
        connection.in_bytes += parser.size
        message.origin_sequence = connection.in_msgs
        describe(message, parser, header_size)
        if self.acks is not None and message.data[message.subject] == ord("$"):
            usual = connection.guard is None and not connection.chatty
            if usual and self.acks.take(message):
                return 0
        route = self.sublist.find(message.data, message.subject, message.subject_size)
        if connection.guard is not None and not self._may_publish(connection, route):
            return self._forbid(connection, message, route.subject)
        if connection.chatty or route.kind != ORDINARY or parser.reply_end:
            return self._publish_uncommon(connection, message, route)
        if header_size:
            message.mentions_nats = parser.mentions(b"Nats-", 5)
            if message.mentions_nats:  # an id, or a trace
                return self._publish_uncommon(connection, message, route)
        if self.submit(message, route) == 0:
            return self._refuse(connection, route)
        return 0

    def _publish_uncommon(self, connection: Connection, message: Message, route: Route) -> int:
        """Publish with a reply or headers, from a verbose client, or to a special subject."""
        if message.header_size and self._trace_only(connection, message, route):
            return 0
        ledger: Ledger | None = None
        if self.streams is not None and route.kind == ORDINARY:
            ledger = self.streams.find(message.data, message.subject, message.subject_size)
        guarded = message.header_size and message.mentions_nats and route.kind == ORDINARY
        if guarded and self._refuse_guarded(connection, message, route.subject, ledger, False):
            return 0
        plain = is_plain_reply(message.data, message.reply, message.reply_size)
        if ledger is not None and plain and not connection.pedantic:
            return self._publish_in_stream(connection, message, route, ledger)
        usual = route.kind == ACKNOWLEDGED and not connection.chatty and message.size
        if usual and plain:
            return self._publish_acknowledged(connection, message, route)
        reply = bytes(message.buffer[message.reply : message.reply + message.reply_size])
        if connection.pedantic and not is_literal(route.subject):
            self.control.invalid_publish_subject(connection)
        if route.kind >= CONTROL or (reply and is_reserved_reply(reply)):
            self.work += CONTROL_WORK
            self.control.publish_special(connection, message, route, reply)
            return 0
        if ledger is not None:
            if not is_answerable(reply):
                message.reply_size = 0
            return self._publish_in_stream(connection, message, route, ledger)
        return self._publish_ordinary(connection, message, route, reply)

    def _refuse_guarded(
        self,
        connection: Connection,
        message: Message,
        subject: bytes,
        ledger: Ledger | None,
        acknowledged: bool,
    ) -> bool:
        """Refuse a message whose headers say what must hold, if it does not; True if so.

        `acknowledged`: it was published to `$SEQ.PUB.<subject>`.
        """
        parser = connection.parser
        guarded = parser.mentions(b"Nats-Expected-", 14)
        if not guarded and ledger is not None:
            guarded = (
                parser.mentions(b"Nats-Rollup", 11)
                or parser.mentions(b"Nats-TTL", 8)
                or parser.mentions(b"Nats-Incr", 9)
                or parser.mentions(b"Nats-Schedule", 13)
                or parser.mentions(b"Nats-Batch-Id", 13)
            )
        if not guarded:
            return False
        self.work += CONTROL_WORK
        return self.control.refuse_guarded(connection, message, subject, ledger, acknowledged)

    def _publish_in_stream(
        self, connection: Connection, message: Message, route: Route, ledger: Ledger
    ) -> int:
        """Number a message of a stream, deliver it, and answer with a pub ack.

        Refuse one that asks for a pub ack if the ledger has no room for its subject.
        """
        fresh, message.number = False, 0
        if not message.reply_size or not ledger.is_closed_to(route.subject):
            fresh = self._take_once(connection, message, route)
        if message.number == 0:
            self.work += CONTROL_WORK
            reply = bytes(message.buffer[message.reply : message.reply + message.reply_size])
            self.control.no_room_in_stream(connection, route.subject, reply, ledger)
            return 0
        self._confirm(connection)
        if fresh:
            self._fan_out(message, route)
        if message.reply_size and ledger.acknowledges:
            self.work += self.reply_publisher.acknowledge_in_stream(
                connection, message, ledger.acknowledgement, not fresh
            )
        return 0

    def _publish_ordinary(
        self, connection: Connection, message: Message, route: Route, reply: bytes
    ) -> int:
        """Number a message and deliver it; confirm it, or report that there is no room."""
        message.number = 0
        fresh = route.kind != ORDINARY or self._take_once(connection, message, route)
        if fresh and message.number == 0 and route.kind == ORDINARY:
            return self._refuse(connection, route)
        self._confirm(connection)
        if fresh and self._fan_out(message, route) == 0 and reply and connection.no_responders:
            self.work += CONTROL_WORK
            self.control.no_responders(connection, route.subject, reply)
        return 0

    def _publish_acknowledged(self, connection: Connection, message: Message, route: Route) -> int:
        """Publish to `$SEQ.PUB.<subject>`; the answer is the number. Control handles rare cases."""
        reply_size = message.reply_size
        if connection.halted:
            self.work += CONTROL_WORK
            answer_to = bytes(message.buffer[message.reply : message.reply + reply_size])
            self.control.no_room(connection, route.subject[PREFIX_SIZE:], answer_to)
            return 0
        message.subject += PREFIX_SIZE
        message.subject_size -= PREFIX_SIZE
        message.reply_size = 0  # subscribers do not get it
        route = self.sublist.find(message.data, message.subject, message.subject_size)
        if connection.guard is not None and not connection.guard.may_publish(route):
            message.reply_size = reply_size
            return self._forbid(connection, message, b"$SEQ.PUB." + route.subject)
        if message.header_size and message.mentions_nats:
            ledger: Ledger | None = None
            if self.streams is not None:
                ledger = self.streams.find(message.data, message.subject, message.subject_size)
            message.reply_size = reply_size
            if self._refuse_guarded(connection, message, route.subject, ledger, True):
                return 0
            message.reply_size = 0
        return self._acknowledge(connection, message, route, reply_size)

    def _acknowledge(
        self, connection: Connection, message: Message, route: Route, reply_size: int
    ) -> int:
        """Number a message, deliver it without its reply, and answer with the number."""
        fresh = self._take_once(connection, message, route)
        if message.number == 0:
            self.work += CONTROL_WORK
            answer_to = bytes(message.buffer[message.reply : message.reply + reply_size])
            self.control.no_room(connection, route.subject, answer_to)
            return 0
        if fresh:
            self._fan_out(message, route)
        if reply_size:
            message.reply_size = reply_size
            self.work += self.reply_publisher.acknowledge(connection, message)
        return 0

    def acknowledge(
        self, connection: Connection, message: Message, route: Route, reply: bytes
    ) -> bool:
        """Publish a message under the subject of a route, without its reply, and answer that.

        The answer is its number, or that of its id; False if there is no room.
        """
        under(message, route)
        fresh = self._take_once(connection, message, route)
        if message.number == 0:
            return False
        self._confirm(connection)
        if fresh:
            self._fan_out(message, route)
        if reply:
            self.answer(connection, reply, encode(b"%d" % message.number), b"")
        return True

    def begin_live(self, sub: Subscription) -> None:
        """Start a new subscription after the last number given. Insert it next."""
        sub.last_seen = self.sequencer.number

    # In a cluster, answers wait until the messages before them are committed: cluster_plane.py

    def waits(self, connection: Connection) -> bool:
        """True if this client's operations must wait now. Only in a cluster."""
        return False

    def in_order(self, connection: Connection, action: Callable[[], None], copied: int = 0) -> None:
        """Run an action after the answers to this client's earlier operations: here, at once."""
        action()

    def kept(self, message: Message) -> Message:
        """Return the message, in a form that can be kept until its turn."""
        return message

    def pause(self, connection: Connection) -> None:
        """Delay further answers until `resume`, because a PONG before them waits."""

    def resume(self, connection: Connection) -> None:
        """Send the answers that have waited since `pause`."""

    def drop_answers(self, connection: Connection) -> None:
        """Drop the waiting answers of a closed connection."""

    def _trace_only(self, connection: Connection, message: Message, route: Route) -> bool:
        """True if a message with headers asks for a trace only; control has then handled it."""
        parser = connection.parser
        message.mentions_nats = parser.mentions(b"Nats-", 5)
        if not message.mentions_nats or not parser.mentions(b"Nats-Trace-Dest", 15):
            return False
        self.work += CONTROL_WORK
        return self.control.trace_only(connection, message, route)

    def _take_once(self, connection: Connection, message: Message, route: Route) -> bool:
        """Take a number. If the message's id has one already, use it and return False."""
        window, key = self.window, b""
        scope = b"" if connection.guard is None else route.subject
        ours = message.header_size and message.mentions_nats and window is not None
        if ours and connection.parser.mentions(b"Nats-Msg-Id", 11):
            key = key_of(scope, bytes(message.buffer[message.body : message.payload]))
        if window is None or not key:
            self.sequencer.assign_number(message)
            return True
        self.work += CONTROL_WORK
        age, flags = 0, SCOPED_ID if scope else ID_FLAG
        if self.streams is not None:
            ledger = self.streams.find(message.subject_data, message.subject, message.subject_size)
            if ledger is not None:
                key, age, flags = ledger.scope + key, ledger.window, flags | IN_STREAM
        message.number = window.find(key, self.sequencer.steady, age)
        if message.number:
            return False
        message.flags = flags
        if self.sequencer.assign_number(message):
            window.add(key, message.number, self.sequencer.steady)
        return True

    def _may_publish(self, connection: Connection, route: Route) -> bool:
        """True if a client with permissions may publish to this subject, also as a response."""
        if cython.cast(Guard, connection.guard).may_publish(route):
            return True
        if route.subject == b"$SEQ.ORDERED":  # it concerns only this client's own messages
            return True
        requests = connection.requests
        return requests is not None and requests.allow(route.subject, self.sequencer.steady)

    def _note_request(self, connection: Connection, message: Message) -> int:
        """Remember a request that a client has received and may respond to."""
        data, start = message.buffer, message.reply
        reply = bytes(data[start : start + message.reply_size])
        cython.cast(OpenRequests, connection.requests).note(reply, self.sequencer.steady)
        return 0

    def _forbid(self, connection: Connection, message: Message, subject: bytes) -> int:
        """Refuse a message that its publisher has no right to publish."""
        self.work += CONTROL_WORK
        reply = bytes(message.buffer[message.reply : message.reply + message.reply_size])
        self.control.publish_forbidden(connection, subject, reply)
        return 0

    def _refuse(self, connection: Connection, route: Route) -> int:
        """Report that the journal is full: to a verbose client always, else once per read."""
        report = connection.verbose or not self.refused
        self.refused = True
        self.work += CONTROL_WORK
        self.control.journal_full(connection, route.subject, report)
        return 0

    def _confirm(self, connection: Connection) -> int:
        """Send +OK for an accepted message, before the message itself, as nats-server does."""
        if connection.verbose:
            self.send_control(connection, b"+OK\r\n")
            connection.shows_number = True
        return 0

    # Fan-out

    def _fan_out(self, message: Message, route: Route) -> int:
        """Offer a message to all subscriptions of its route; return how many took it."""
        fanout = route.fanout
        reached = 0
        if message.number == 0:  # the frames cannot see that this is another message
            self.outbox_writer.expire()
        copy = 1 + (message.payload_size >> COPY_SHIFT)
        self.work += len(fanout.plain) * copy
        self.deferred = 0
        for item in fanout.plain:
            reached += self._offer(message, route, cython.cast(Subscription, item))
        self.work -= self.deferred * copy - (self.deferred >> DEFERRED_SHIFT)
        if fanout.groups is not None:
            for members in fanout.groups:
                reached += self._offer_group(message, route, members)
        return reached

    def _offer_group(
        self, message: Message, route: Route, members: tuple[Subscription, ...]
    ) -> bool:
        """Offer to one member, chosen at random; lagging members come last."""
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
                if able != (turn == 0) or connection.closed or connection is self.excluded:
                    continue
                if self._offer(message, route, sub):
                    return True
        return False

    def _offer(self, message: Message, route: Route, sub: Subscription) -> bool:
        """Offer to one subscriber; return True if it got the message, or will from the journal."""
        if sub.owner is None:
            return False  # it left during this fan-out
        connection = cython.cast(Connection, sub.owner)
        if connection is self.excluded:
            return False
        if not connection.detached or message.number == 0:
            if self.outbox_writer.offer(connection, sub, message, route):
                if message.reply_size and connection.requests is not None:
                    self._note_request(connection, message)
                return True
            if not connection.detached or message.number == 0:
                return False
        return self._defer_to_journal(connection, sub, message.number)

    def _defer_to_journal(self, connection: Connection, sub: Subscription, number: int) -> bool:
        """Leave a message to the journal; for a member of a queue group, note its number."""
        if sub.queue is None:
            self.deferred += 1
            return True
        if sub.deferred_numbers is None:
            sub.deferred_numbers = deque()
        if sub.limit and sub.delivered + len(sub.deferred_numbers) >= sub.limit:
            return False  # its limit is reached before this message
        if connection.deferred_numbers >= DEFERRED_NUMBERS_MAX:
            self.gate.disconnect_slow(connection)
            return False
        connection.deferred_numbers += 1
        sub.deferred_numbers.append(number)
        return True

    # The broker's own messages

    def send_control(self, connection: Connection, text: bytes) -> bool:
        """Put bytes that are not a message, or a message of the broker's own, into an outbox."""
        return self.gate.say(connection, text)

    def send_control_now(self, connection: Connection, text: bytes) -> bool:
        """Say text that shows no number: see `Gate.say_now`."""
        return self.gate.say_now(connection, text)

    def answer(self, asker: Connection, reply: bytes, payload: bytes, headers: bytes) -> None:
        """Send a message of the broker's own to the requester, without number or frame."""
        self.work += self.reply_publisher.answer(asker, reply, payload, headers, True)

    def answer_now(self, asker: Connection, reply: bytes, payload: bytes, headers: bytes) -> None:
        """Send an answer that shows no unsafe number: see `Gate.say_now`."""
        self.work += self.reply_publisher.answer(asker, reply, payload, headers, False)

    def send_status(self, asker: Connection, inbox: bytes, headers: bytes) -> None:
        """Send headers alone to the requester's inbox; they show no unsafe number."""
        self.work += self.reply_publisher.send_status(asker, inbox, headers)

    def hand_to(
        self, sub: Subscription, subject: bytes, reply: bytes, payload: bytes, headers: bytes
    ) -> None:
        """Send one subscription a message of the broker's own that shows no unsafe number."""
        self.reply_publisher.hand_to(sub, subject, reply, payload, headers, False)

    def listens(self, asker: Connection, reply: bytes) -> bool:
        """True if the requester would get an answer; if not, none need be made."""
        heard = self.reply_publisher.listens(asker, reply)
        self.work += self.reply_publisher.looked
        return heard

    def release(self, last: Connection | None) -> None:
        """Release the output so far; `last` is flushed after all others."""
        self.gate.release(last)


def describe(message: Message, parser: Parser, header_size: int) -> int:
    """Set the spans of the message that the parser has found, in the buffer that it reads."""
    message.subject_data = message.data
    message.subject = parser.subject
    message.subject_size = parser.subject_end - parser.subject
    message.reply = parser.reply
    message.reply_size = parser.reply_end - parser.reply
    message.body = parser.body
    message.size = parser.size
    message.header_size = header_size
    message.payload = parser.body + header_size
    message.payload_size = parser.size - header_size
    message.digits = parser.digits
    message.digits_end = parser.digits_end
    message.flags = 0
    if header_size:
        message.header_digits = parser.header_digits
        message.header_digits_end = parser.header_digits_end
    return 0
