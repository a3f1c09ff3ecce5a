"""The protocol's rules for all that is not a plain message: one table of verbs, no I/O.

The data plane calls `handle` with an operation whose spans are in the link's parser, and
the `publish_special` family for messages that it will not judge itself. Answers go into the
link's outbox; what must happen to the connection goes to its session. A refused operation
is told so and costs nothing else; a fatal one ends the conversation after its answer.
"""

import logging
from collections.abc import Mapping
from itertools import islice
from typing import Any

from broker.clients.closings import connect_violation, violation
from broker.clients.connect import check_options, read_object, read_options
from broker.clients.dropping import Dropping
from broker.clients.matches import Matches
from broker.clients.relief import relieve
from broker.clients.request_handler import RequestHandler
from broker.clients.session import Session
from broker.dataplane.connection import Connection
from broker.dataplane.kinds import (
    CONTROL,
    CONTROL_PREFIX,
    EXCLUDED,
    ORDINARY,
    PUBLISH_PREFIX,
    RESERVED,
    is_answerable,
    is_reserved_reply,
)
from broker.dataplane.plane import Plane
from broker.dataplane.traced import is_trace_only
from broker.replay import requests
from broker.replay.cursor import DEFERRED_MAX
from broker.replay.replays import Replays
from broker.storage.keeper import Keeper
from parser import errors
from parser.ops import CONNECT, FAULT, INFO, PING, PONG, SUB, UNSUB
from sequencer.message import Message
from sequencer.netstring import encode
from sublist.route import Route
from sublist.subject import covers, is_literal, is_pattern
from sublist.subscription import Subscription

log = logging.getLogger("seriatim")

EVERYTHING = 1 << 20  # more work than one read event may cause: what follows waits
REFUSAL_WORK = 64  # offers that telling an error costs, besides the control operation
TOLD_WORK = 3  # and each byte of what is told: a subject in it is quoted
COUNTED_WORK = 8  # offers that counting a subscription costs
LATEST_MAX = 4  # `$SEQ.LAST` at a time: each remembers all subjects that match it


class Control:
    """One per broker, for its one thread; the conversations' state is in their links."""

    def __init__(self, plane: Plane, max_subscriptions: int, max_matches: int = 0) -> None:
        self.plane = plane
        self.sublist = plane.sublist
        self.max_subscriptions = max_subscriptions
        self.replays: Replays | None = None  # where there is a journal, or a ring
        self.keeper: Keeper | None = None  # where it is on disk
        self.request_handler: RequestHandler | None = None
        self.sessions: Mapping[int, Session] = {}
        self.dropping = Dropping(self.sublist, self.remove)
        self.matches = Matches(max_matches)
        self._verbs = {
            CONNECT: self._connect,
            INFO: self._info,
            PING: self._ping,
            PONG: self._pong,
            SUB: self._subscribe,
            UNSUB: self._unsubscribe,
            FAULT: self._fault,
        }

    # What the plane asks for

    def handle(self, connection: Connection, op: int) -> None:
        """See to one control operation; what a peer did wrong is answered here."""
        try:
            self._verbs[op](connection)
        except errors.WireError as error:
            self._tell(connection, error, of_connect=op == CONNECT)

    def invalid_publish_subject(self, connection: Connection) -> None:
        """A pedantic client is told; its message goes on all the same."""
        self.plane.say(connection, errors.InvalidPublishSubject.reply)

    def publish_special(
        self, connection: Connection, message: Message, route: Route, reply: bytes
    ) -> None:
        """A message to `$SEQ.`, to a reserved subject, or with a reserved reply."""
        acknowledged = route.subject.startswith(PUBLISH_PREFIX)
        if self.request_handler is not None and self.request_handler.takes(route.subject):
            self.request_handler.answer(connection, message, route.subject, reply)
        elif route.kind in (CONTROL, RESERVED) and not acknowledged:
            self._tell(connection, errors.PublishForbidden(route.subject))
        elif not is_answerable(reply):
            self._tell(connection, errors.ReplyForbidden(reply))
        else:
            subject = route.subject[len(PUBLISH_PREFIX) :]
            self._publish_acknowledged(connection, message, subject, reply)

    def trace_only(self, connection: Connection, message: Message, route: Route) -> bool:
        """Whether the message is only to be traced: it gets no number, and is delivered to nobody.

        Traces are not made here. A request to the broker itself is answered that it was none.
        """
        buffer = message.buffer
        if not is_trace_only(bytes(buffer[message.body : message.payload])):
            return False
        reply = bytes(buffer[message.reply : message.reply + message.reply_size])
        if connection.pedantic and not is_literal(route.subject):
            self.invalid_publish_subject(connection)
        if route.kind == RESERVED:
            self._tell(connection, errors.PublishForbidden(route.subject))
        elif is_reserved_reply(reply):
            self._tell(connection, errors.ReplyForbidden(reply))
        else:
            if connection.verbose:
                self.plane.say(connection, b"+OK\r\n")
            wanted = route.fanout.plain or route.fanout.groups is not None
            if reply and connection.no_responders and not wanted and route.kind == ORDINARY:
                self.no_responders(connection, route.subject, reply)
            if reply and route.subject.startswith(CONTROL_PREFIX) and is_answerable(reply):
                self.plane.answer(
                    connection, reply, b"", b"NATS/1.0 400 Nats-Trace-Only: Not Published\r\n\r\n"
                )
        return True

    def no_responders(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """Nobody got a request: tell a plain subscription of the publisher's own on the reply."""
        plain = self.sublist.route(reply).fanout.plain
        if len(connection.subs) < len(plain):
            plain = tuple(connection.subs.values())
        self.plane.spend(8 * len(plain))  # it is not compiled
        for sub in plain:
            if sub.owner is connection and sub.queue is None and covers(sub.subject, reply):
                status = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % subject
                size = len(status)
                line = b"HMSG %b %b %d %d\r\n" % (reply, sub.sid, size, size)
                self.plane.say(connection, line + status + b"\r\n")
                return

    def finished(self, sub: Subscription) -> None:
        """A subscription has had as many messages as it asked for."""
        connection: Connection = sub.owner
        del connection.subs[sub.sid if connection.subs.get(sub.sid) is sub else _late_key(sub)]
        self.remove(sub)

    def make_live(self, sub: Subscription) -> None:
        """A subscription has had the past, and gets what comes."""
        connection: Connection = sub.owner
        try:
            self._judge(connection, sub.subject)
        except errors.Refused as error:
            self.finished(sub)
            self._tell(connection, error)
        else:
            sub.replay = None
            self.sublist.insert(sub)

    def journal_full(self, connection: Connection, subject: bytes, told: bool = True) -> None:
        """A message was refused: there is no room for it, and it has no number."""
        error = self.no_room_for(subject)
        if told:
            self._tell(connection, error)

    def no_room_for(self, subject: bytes) -> errors.JournalFull:
        """Count a message that is refused; what its publisher is to be told."""
        problem = self.keeper.problem if self.keeper is not None else ""
        if self.keeper is not None:
            self.keeper.refused += 1
        return errors.JournalFull(subject, problem.encode())

    def detached(self, connection: Connection, number: int) -> None:
        """A link lags; from `number` on it is served from the journal."""
        assert self.replays is not None, "only a journal can serve it"
        self.replays.catch_up(connection, number)

    def relieve(self) -> None:
        """All outboxes together hold more than they may."""
        connections = [session.connection for session in self.sessions.values()]
        relieve(self.plane.gate, self.plane.gate.budget, connections)

    def unsafe(self) -> None:
        """Something waits at the gate until it is synced, or written."""
        if self.keeper is not None:
            self.keeper.unsafe()

    # What the sessions ask for

    def drop(self, connection: Connection) -> None:
        """Route nothing to a connection that has closed, and forget its subscriptions, in turns."""
        connection.shut()
        self.dropping.drop(connection)
        if self.replays is not None:
            self.replays.leave(connection)

    def remove(self, sub: Subscription) -> None:
        """Route nothing more to it; one that is still being replayed to has no route yet."""
        if sub.deferred_numbers:
            sub.owner.deferred_numbers -= len(sub.deferred_numbers)
            sub.deferred_numbers = None
        if self.matches.counts:
            self.matches.remove(sub)
        if sub.replay is None:
            self.sublist.remove(sub)
        else:
            sub.owner = None
            if self.replays is not None:
                self.replays.abandon(sub)

    # The verbs

    def _connect(self, connection: Connection) -> None:
        session: Session = connection.session
        options = session.options | read_options(self._text(connection))
        check_options(options)
        if session.introduced and connection.subs:
            self._begin_anew(connection, options)
        else:
            self._agree(connection, options)

    def _begin_anew(self, connection: Connection, options: dict[str, Any]) -> None:
        """A client that sends CONNECT again loses its subscriptions, as with nats-server.

        Where there are many, what it says next waits until they are taken out.
        """
        if connection.detached:
            self._finish_all_lagging(connection)
            self._agree(connection, options)
        elif self.dropping.is_quick(connection):
            self.dropping.clear(connection, lambda: self._agree(connection, options))
        else:
            session: Session = connection.session

            def go_on() -> None:
                self._agree(connection, options)
                session.proceed()

            session.wait()
            self.plane.spend(EVERYTHING)
            self.dropping.clear(connection, go_on)

    def _agree(self, connection: Connection, options: dict[str, Any]) -> None:
        """Do as CONNECT says from now on."""
        session: Session = connection.session
        session.introduced = True
        session.options = options
        connection.verbose = options.get("verbose", True)
        connection.pedantic = options.get("pedantic", True)
        connection.echo = options.get("echo", True)
        connection.headers = options.get("headers", False)
        connection.no_responders = options.get("no_responders", False)
        connection.settle(options.get("frame", session.listener_frame))
        if connection.verbose:
            self.plane.say(connection, b"+OK\r\n")
        session.connected()

    def _info(self, connection: Connection) -> None:
        read_object(self._text(connection))  # ignored, if it can be read at all

    def _ping(self, connection: Connection) -> None:
        if connection.detached and self.replays is not None:
            self.replays.in_turn(connection, lambda: self._pong_to(connection))
        else:
            self._pong_to(connection)

    def _pong_to(self, connection: Connection) -> None:
        """PONG says that all that was published before was delivered: it waits for that."""
        self.plane.say(connection, b"PONG\r\n")
        connection.session.pinged()

    def _pong(self, connection: Connection) -> None:
        connection.session.ponged()

    def _subscribe(self, connection: Connection) -> None:
        parser, buffer = connection.parser, self.plane.buffer
        subject = bytes(buffer[parser.subject : parser.subject_end])
        queue = bytes(buffer[parser.reply : parser.reply_end]) or None
        sid = bytes(buffer[parser.digits : parser.digits_end])
        if self.max_subscriptions and len(connection.subs) >= self.max_subscriptions:
            raise errors.SubscriptionsExceeded(f"the limit is {self.max_subscriptions}")
        if len(connection.subs) >= self.matches.low:
            self.plane.spend(COUNTED_WORK * self.matches.watch(connection))
        if subject.startswith(CONTROL_PREFIX):
            self._subscribe_past(connection, subject, sid, queue)
        elif sid not in connection.subs:
            if not is_pattern(subject):
                raise errors.InvalidSubject(f"subscription to {subject!r}")
            self._judge(connection, subject)
            sub = Subscription(subject, sid, queue, connection)
            sub.seen = self.plane.sequencer.number
            connection.subs[sid] = sub
            self.sublist.insert(sub)
        if connection.verbose:
            self.plane.say(connection, b"+OK\r\n")

    def _judge(self, connection: Connection, subject: bytes) -> None:
        """Refuse a pattern that would make single messages too much work; count it if it is not."""
        if not self.sublist.admits(subject):
            raise errors.TooManyNodes(subject, self.sublist.max_match_nodes)
        if self.matches.counts and not self.matches.take(connection, subject):
            raise errors.TooManyMatches(subject, self.matches.most)

    def _subscribe_past(
        self, connection: Connection, subject: bytes, sid: bytes, queue: bytes | None
    ) -> None:
        """`$SEQ.FROM` and its like: the past first, then live."""
        try:
            past = requests.parse(subject)
        except requests.BadRequest as error:
            raise errors.ReplayRefused(subject, str(error).encode()) from error
        if past is None or not isinstance(past, requests.PAST):
            raise errors.SubscribeForbidden(subject, queue)
        if queue is not None:
            raise errors.ReplayRefused(subject, b"a replay cannot be shared in a queue group")
        if self.replays is None:
            raise errors.ReplayRefused(subject, b"this broker keeps no messages")
        if isinstance(past, requests.Last) and self.replays.latest_of(connection) >= LATEST_MAX:
            raise errors.ReplayRefused(subject, b"too many at once; wait for the others")
        if sid not in connection.subs:
            sub = Subscription(past.filter, sid, None, connection)
            connection.subs[sid] = sub
            self.replays.start(sub, past)

    def _unsubscribe(self, connection: Connection) -> None:
        parser, buffer = connection.parser, self.plane.buffer
        sid = bytes(buffer[parser.subject : parser.subject_end])
        words = bytes(buffer[parser.digits : parser.digits_end])
        limit = int(words) if words.isdigit() and len(words) <= 9 else 0
        sub = connection.subs.get(sid)
        if sub is not None:
            if limit > sub.delivered:
                sub.limit = limit
            elif connection.detached and sub.replay is None:
                self._finish_lagging(connection, sub)
            else:
                self.finished(sub)
        if connection.verbose:
            self.plane.say(connection, b"+OK\r\n")

    def _finish_lagging(self, connection: Connection, sub: Subscription) -> None:
        """It ends when it has had what was published before, and not earlier."""
        assert self.replays is not None, "nobody else detaches a link"
        if sub.queue is None:
            del connection.subs[sub.sid]  # the client may give its sid to another one
            connection.subs[_late_key(sub)] = sub
            self.replays.in_turn(connection, lambda: self._finish_late(sub))
        elif sub.deferred_numbers:
            sub.limit = sub.delivered + len(sub.deferred_numbers)
        else:
            self.finished(sub)

    def _finish_all_lagging(self, connection: Connection) -> None:
        for key, sub in list(islice(connection.subs.items(), DEFERRED_MAX + 1)):
            if sub.replay is not None:
                self.finished(sub)
            elif key == sub.sid:  # else it is ending by now
                self._finish_lagging(connection, sub)
        if len(connection.subs) > DEFERRED_MAX:  # more would have to wait for what it has not read
            self.plane.gate.disconnect_slow(connection)

    def _finish_late(self, sub: Subscription) -> None:
        if sub.owner is not None:
            self.finished(sub)

    def _fault(self, connection: Connection) -> None:
        fault = connection.parser.fault
        assert isinstance(fault, errors.WireError), "the parser says what broke it"
        if isinstance(fault, errors.PayloadUnended) and connection.pedantic:
            parser, buffer = connection.parser, self.plane.buffer
            if not is_literal(bytes(buffer[parser.subject : parser.subject_end])):
                self.invalid_publish_subject(connection)
        of_connect = isinstance(fault, errors.ControlLineTooLong) and fault.of_connect
        # Not raised: its traceback would keep the connection alive.
        self._tell(connection, fault, of_connect)

    # `$SEQ.PUB.<subject>`

    def _publish_acknowledged(
        self, connection: Connection, message: Message, subject: bytes, reply: bytes
    ) -> None:
        """Sequence a message, and answer its number; for an empty one, the current number."""
        problem = self._refusal(subject)
        if problem:
            if reply and connection.headers:
                self.plane.answer(connection, reply, b"", b"NATS/1.0 400 %b\r\n\r\n" % problem)
            else:
                self._tell(connection, errors.PublishForbidden(PUBLISH_PREFIX + subject))
            return
        if message.payload_size == 0:
            number = self.plane.sequencer.number
            if connection.verbose:
                self.plane.say(connection, b"+OK\r\n")
        else:
            number = self.plane.sequence(connection, message, self.sublist.route(subject))
            if number == 0:
                self.no_room(connection, subject, reply)
                return
        if reply:
            self.plane.answer(connection, reply, encode(b"%d" % number), b"")

    def no_room(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """A message that wants an answer was refused."""
        if reply and connection.headers:
            self.plane.answer(connection, reply, b"", b"NATS/1.0 507 Journal Full\r\n\r\n")
            if self.keeper is not None:
                self.keeper.refused += 1
        else:
            self.journal_full(connection, PUBLISH_PREFIX + subject)

    def _refusal(self, subject: bytes) -> bytes:
        """Why a subject cannot be published to with an answer; empty if it can."""
        if not is_literal(subject):
            return b"Invalid Publish Subject"
        kind = self.sublist.route(subject).kind
        if kind == EXCLUDED:
            return b"Subject Is Excluded From Sequencing"
        return b"" if kind == ORDINARY else b"Permissions Violation"

    # Answers

    def _text(self, connection: Connection) -> bytes:
        """The arguments of the operation at hand, in one piece."""
        parser = connection.parser
        return bytes(self.plane.buffer[parser.subject : parser.subject_end])

    def _tell(
        self, connection: Connection, error: errors.WireError, of_connect: bool = False
    ) -> None:
        """Answer what a peer did wrong, and hang up if it cannot go on.

        `of_connect`: the parser, which knows it even where the line came in pieces, says that it
        is a CONNECT.
        """
        if error.reply:
            self.plane.spend(REFUSAL_WORK + TOLD_WORK * len(error.reply))
            self.plane.say(connection, error.reply)
        if error.closes:
            parser = connection.parser
            at = parser.subject if parser.fault is None else parser.at
            connection.closed = True
            if of_connect:
                why = connect_violation(str(error))
            else:
                why = violation(str(error), self.plane.buffer, at, parser.stop)
            connection.session.finish(why)
        else:
            log.debug("%s - %s: %s", connection.session.label, type(error).__name__, error)


def _late_key(sub: Subscription) -> bytes:
    """Under which a link has a subscription that ended, but gets what was published before."""
    return b"%b %d" % (sub.sid, id(sub))  # no sid has a blank
