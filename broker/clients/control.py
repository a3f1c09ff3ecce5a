"""The protocol's rules for everything but plain messages: a table of verbs, without I/O.

The data plane calls `handle` with an operation whose spans are in the connection's parser. It
calls the `publish_special` family for messages that it does not decide on itself. Answers go into
the connection's outbox; whatever else must happen to the connection goes to its session. A
refused operation gets an error and has no other effect; a fatal one ends the connection after
the error.
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
from broker.clients.shared_groups import SharedGroups
from broker.clients.waiting_pings import WaitingPings
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
from broker.dataplane.ownership import connection_of
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

EVERYTHING = 1 << 20  # more work than one turn may cause: the rest must wait
REFUSAL_WORK = 64  # offers that reporting an error costs, besides the control operation
ERROR_BYTE_WORK = 3  # and each byte of the report: the subject in it is quoted
COUNTED_WORK = 8  # offers that counting a subscription costs
LATEST_MAX = 4  # `$SEQ.LAST` at a time: each remembers all subjects that match it


class Control:
    """One per broker, for its one thread; the state of each client is in its connection."""

    def __init__(self, plane: Plane, max_subscriptions: int, max_matches: int = 0) -> None:
        self.plane = plane
        self.sublist = plane.sublist
        self.max_subscriptions = max_subscriptions
        self.replays: Replays | None = None  # if there is a journal, or a ring
        self.keeper: Keeper | None = None  # if the journal is on disk
        self.request_handler: RequestHandler | None = None
        self.groups: SharedGroups | None = None  # if queue groups span several brokers
        self.pings = WaitingPings()  # for that
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

    # Called by the plane

    def handle(self, connection: Connection, op: int) -> None:
        """Handle one control operation; send an error if the client did something wrong."""
        try:
            self._verbs[op](connection)
        except errors.WireError as error:
            self._tell(connection, error, of_connect=op == CONNECT)

    def invalid_publish_subject(self, connection: Connection) -> None:
        """Send a pedantic client an error; its message is published nevertheless."""
        self.plane.say(connection, errors.InvalidPublishSubject.reply)

    def publish_special(
        self, connection: Connection, message: Message, route: Route, reply: bytes
    ) -> None:
        """Publish to `$SEQ.`, to a reserved subject, or with a reserved reply."""
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
        """Whether the message is only to be traced: it gets no number, and is not delivered.

        The broker makes no traces. A `$SEQ.PUB` request gets the answer that it was not published.
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
        """Nobody received a request: answer 503 to the publisher's subscription on the reply."""
        plain = self.sublist.route(reply).fanout.plain
        if len(connection.subs) < len(plain):
            plain = tuple(connection.subs.values())
        self.plane.spend(8 * len(plain))  # this loop is not compiled
        for sub in plain:
            if sub.owner is connection and sub.queue is None and covers(sub.subject, reply):
                status = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % subject
                size = len(status)
                line = b"HMSG %b %b %d %d\r\n" % (reply, sub.sid, size, size)
                self.plane.say(connection, line + status + b"\r\n")
                return

    def finished(self, sub: Subscription) -> None:
        """A subscription has had as many messages as it asked for: end it."""
        connection = connection_of(sub)
        del connection.subs[sub.sid if connection.subs.get(sub.sid) is sub else _late_key(sub)]
        self.remove(sub)

    def make_live(self, sub: Subscription) -> None:
        """A subscription has finished its replay: give it live messages."""
        connection = connection_of(sub)
        try:
            self._judge(connection, sub.subject)
        except errors.Refused as error:
            self.finished(sub)
            self._tell(connection, error)
        else:
            sub.replay = None
            self.sublist.insert(sub)

    def journal_full(self, connection: Connection, subject: bytes, report: bool = True) -> None:
        """A message was refused: the journal has no room for it, and it has no number."""
        error = self.no_room_for(subject)
        if report:
            self._tell(connection, error)

    def no_room_for(self, subject: bytes) -> errors.Refused:
        """Count a refused message; return the error for its publisher."""
        if self.plane.unavailable:
            return errors.ClusterUnavailable(subject, self.plane.unavailable)
        problem = self.keeper.problem if self.keeper is not None else ""
        if self.keeper is not None:
            self.keeper.refused += 1
        return errors.JournalFull(subject, problem.encode())

    def detached(self, connection: Connection, number: int) -> None:
        """A connection lags: from `number` on the journal serves it."""
        assert self.replays is not None, "only a journal or a ring can serve it"
        self.replays.catch_up(connection, number)

    def relieve(self) -> None:
        """All outboxes together hold more than allowed."""
        connections = [session.connection for session in self.sessions.values()]
        relieve(self.plane.gate, self.plane.gate.budget, connections)

    def unsafe(self) -> None:
        """Something is fenced until it is synced, or written."""
        if self.keeper is not None:
            self.keeper.unsafe()

    # Called by the sessions

    def drop(self, connection: Connection) -> None:
        """Stop routing to a connection that has closed; remove its subscriptions, in turns."""
        connection.shut()
        self.pings.drop(connection)
        self.dropping.drop(connection)
        if self.replays is not None:
            self.replays.leave(connection)

    def remove(self, sub: Subscription) -> None:
        """Stop routing to a subscription; one that is still being replayed has no route yet."""
        if sub.deferred_numbers:
            connection_of(sub).deferred_numbers -= len(sub.deferred_numbers)
            sub.deferred_numbers = None
        if self.matches.counts:
            self.matches.remove(sub)
        if sub.queue is not None and self.groups is not None:
            self.groups.left(sub)
        if sub.replay is None:
            self.sublist.remove(sub)
        else:
            sub.owner = None
            if self.replays is not None:
                self.replays.abandon(sub)

    # The verbs

    def _connect(self, connection: Connection) -> None:
        session = connection.session
        options = session.options | read_options(self._text(connection))
        check_options(options)
        if session.introduced and connection.subs:
            self._begin_anew(connection, options)
        else:
            self._agree(connection, options)

    def _begin_anew(self, connection: Connection, options: dict[str, Any]) -> None:
        """A client that sends CONNECT again loses its subscriptions, as in nats-server.

        If there are many, its next operations wait until they are removed.
        """
        if connection.detached:
            self._finish_all_lagging(connection)
            self._agree(connection, options)
        elif self.dropping.is_quick(connection):
            self.dropping.clear(connection, lambda: self._agree(connection, options))
        else:
            session = connection.session

            def go_on() -> None:
                self._agree(connection, options)
                session.proceed()

            session.wait()
            self.plane.spend(EVERYTHING)
            self.dropping.clear(connection, go_on)

    def _agree(self, connection: Connection, options: dict[str, Any]) -> None:
        """Apply the options of CONNECT."""
        session = connection.session
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
        read_object(self._text(connection))  # ignored, if it is valid

    def _ping(self, connection: Connection) -> None:
        groups = self.groups
        if groups is None:
            self.plane.in_order(connection, lambda: self._pong_after_past(connection))
            return
        self.pings.begin(connection)
        self.plane.in_order(connection, lambda: self._pong_in_force(connection, groups))
        if self.pings.hold(connection):
            self.plane.spend(EVERYTHING)

    def _pong_in_force(self, connection: Connection, groups: SharedGroups) -> None:
        groups.in_force(connection, lambda: self._pong_of_cluster(connection))

    def _pong_of_cluster(self, connection: Connection) -> None:
        self.pings.end(connection)
        self._pong_after_past(connection)

    def _pong_after_past(self, connection: Connection) -> None:
        if connection.detached and self.replays is not None:
            self.replays.in_turn(connection, lambda: self._pong_to(connection))
        else:
            self._pong_to(connection)

    def _pong_to(self, connection: Connection) -> None:
        """PONG says that everything published before was delivered: so it waits for that."""
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
            why = self.groups.refusal(subject, queue) if queue and self.groups else b""
            if why:
                raise errors.GroupForbidden(subject, queue or b"", why)
            self._judge(connection, subject)
            sub = Subscription(subject, sid, queue, connection)
            sub.last_seen = self.plane.sequencer.number
            connection.subs[sid] = sub
            self.sublist.insert(sub)
            if queue is not None and self.groups is not None:
                self.groups.joined(sub)
        if connection.verbose:
            self.plane.say(connection, b"+OK\r\n")

    def _judge(self, connection: Connection, subject: bytes) -> None:
        """Refuse a pattern that would make single messages too expensive; count it otherwise."""
        if not self.sublist.admits(subject):
            raise errors.TooManyNodes(subject, self.sublist.max_match_nodes)
        if self.matches.counts and not self.matches.take(connection, subject):
            raise errors.TooManyMatches(subject, self.matches.most)

    def _subscribe_past(
        self, connection: Connection, subject: bytes, sid: bytes, queue: bytes | None
    ) -> None:
        """Subscribe to `$SEQ.FROM` and its like: first the past, then live."""
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
            raise errors.ReplayRefused(subject, b"too many at once; wait until others have ended")
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
            elif sub.queue is not None and self.groups is not None:
                self._leave_group(connection, sub, self.groups)
            else:
                self.finished(sub)
        if connection.verbose:
            self.plane.say(connection, b"+OK\r\n")

    def _leave_group(self, connection: Connection, sub: Subscription, groups: SharedGroups) -> None:
        """End it now, or when nobody counts on it any more."""
        if not groups.leave(sub, lambda: self._finish_late(sub)):
            self.finished(sub)
        elif connection.subs.get(sub.sid) is sub:
            del connection.subs[sub.sid]  # the client may reuse the sid
            connection.subs[_late_key(sub)] = sub

    def _finish_lagging(self, connection: Connection, sub: Subscription) -> None:
        """End it after the messages that were published before, not earlier."""
        assert self.replays is not None, "only replays serve a detached connection"
        if sub.queue is None:
            del connection.subs[sub.sid]  # the client may reuse the sid
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
            elif key == sub.sid:  # else it is already ending
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
        # Not raised: the traceback would keep the connection alive.
        self._tell(connection, fault, of_connect)

    # `$SEQ.PUB.<subject>`

    def _publish_acknowledged(
        self, connection: Connection, message: Message, subject: bytes, reply: bytes
    ) -> None:
        """Number a message and answer with the number; for an empty one, the current number."""
        problem = self._refusal(subject)
        if problem:
            if reply and connection.headers:
                self.plane.answer(connection, reply, b"", b"NATS/1.0 400 %b\r\n\r\n" % problem)
            else:
                self._tell(connection, errors.PublishForbidden(PUBLISH_PREFIX + subject))
            return
        if message.payload_size == 0:
            if connection.verbose:
                self.plane.say(connection, b"+OK\r\n")
            if reply:
                number = encode(b"%d" % self.plane.sequencer.number)
                self.plane.answer(connection, reply, number, b"")
        elif not self.plane.acknowledge(connection, message, self.sublist.route(subject), reply):
            self.no_room(connection, subject, reply)

    def no_room(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """A message that wants an answer was refused."""
        if reply and connection.headers and self.plane.unavailable:
            status = b"NATS/1.0 503 %b\r\n\r\n" % self.plane.unavailable
            self.plane.answer(connection, reply, b"", status)
        elif reply and connection.headers:
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
        """Return the arguments of the current operation as one piece."""
        parser = connection.parser
        return bytes(self.plane.buffer[parser.subject : parser.subject_end])

    def _tell(
        self, connection: Connection, error: errors.WireError, of_connect: bool = False
    ) -> None:
        """Send the client an error, and close the connection if it cannot go on.

        `of_connect` says that the line is a CONNECT; the parser knows even if it came in pieces.
        """
        if error.reply:
            self.plane.spend(REFUSAL_WORK + ERROR_BYTE_WORK * len(error.reply))
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
    """The key in `subs` of a subscription that ended but still gets earlier messages."""
    return b"%b %d" % (sub.sid, id(sub))  # no sid contains a blank
