"""The protocol's rules for everything but plain messages: a table of verbs, without I/O.

The data plane calls `handle` with an operation whose spans are in the connection's parser. For
messages that it cannot handle itself, it calls `publish_special` and similar methods. Answers go
into the connection's outbox; the session does everything else to the connection. A refused
operation gets an error and has no other effect; a fatal one ends the connection after the error.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from broker.clients.admission import Admission
from broker.clients.request_handler import RequestHandler
from broker.clients.session import Session
from broker.clients.subscribing import EVERYTHING, SubscriptionRules
from broker.dataplane.connection import Budget, Connection
from broker.dataplane.gate import Gate
from broker.dataplane.kinds import (
    CONTROL,
    CONTROL_PREFIX,
    DEEP,
    EXCLUDED,
    ORDINARY,
    PUBLISH_PREFIX,
    RESERVED,
    is_answerable,
    is_reserved_reply,
)
from broker.dataplane.plane import Plane
from broker.dataplane.traced import is_trace_only
from broker.storage.keeper import Keeper
from broker.wires.connect import SECRETS, check_options, read_object, read_options
from parser import errors
from parser.ops import CONNECT, FAULT, INFO, PING, PONG, SUB, UNSUB
from sequencer.message import Message
from sequencer.netstring import encode
from sublist.pattern_set import hears
from sublist.route import Route
from sublist.subject import is_literal

log = logging.getLogger("seriatim")

TOO_MANY_TOKENS = "too many tokens"  # nats-server's text for a subscription
LEFT = 7 / 8  # of the limit, so that the next message does not cause another search


# Disconnects the clients with the most output when all outboxes together hold too much memory.
#
# First it drops the output of clients that are being closed: they have a few seconds to read it,
# and many of them could fill the memory in that time. Then it closes others.


def relieve(gate: Gate, budget: Budget, connections: Iterable[Connection]) -> None:
    """Disconnect the clients with the largest outboxes until the rest is well within the limit."""
    over = budget.bytes - budget.limit * LEFT
    ordered = sorted(connections, key=lambda connection: connection.kept(), reverse=True)
    for connection in ordered:
        if over > 0 and connection.closed and connection.unsent:
            over -= connection.kept()
            connection.session.close()
            connection.note_unsent(0)
    for connection in ordered:
        if over <= 0:
            return
        if connection.closed:
            continue
        held = connection.kept()
        connection.session.cut_reason = (
            f"MaxPendingTotal of {budget.limit} Exceeded; this client held the most, {held} bytes"
        )
        gate.disconnect_slow(connection)
        connection.drop_output()
        over -= held  # the transport's part is dropped the next time, if necessary


class Connecting:
    """One CONNECT, from its options to the agreement. Each step may have to wait:

        begin --> find_user --> check --> (remove the subscriptions of an earlier CONNECT) --> agree
          |           |                            |
          |           |                            `-- in turns, if they are many
          |           `-- until the authenticator answers; a wrong user is closed there
          `-- until what this client has sent before is answered

    While it waits, the client is not read: the options decide how its next input is understood.
    """

    __slots__ = ("_connection", "_control", "_given", "_is_again", "_options")

    def __init__(self, control: "Control", connection: Connection, given: dict[str, Any]) -> None:
        self._control = control
        self._connection = connection
        self._given = given
        self._options: dict[str, Any] = {}
        self._is_again = False  # the client has sent a CONNECT before

    def start(self) -> None:
        control, connection = self._control, self._connection
        if control.plane.waits(connection):
            self._hold()
            control.in_line(connection, self._find_user_in_turn)
        else:
            self._find_user()

    def _hold(self) -> None:
        """Read no more of the client until `proceed`."""
        self._connection.session.wait()
        self._control.plane.charge_work(EVERYTHING)

    def _find_user_in_turn(self) -> None:
        self._find_user()
        if not self._connection.closed:
            self._connection.session.proceed()

    def _find_user(self) -> None:
        """Check the user first, as nats-server does, and then the options."""
        control, session = self._control, self._connection.session
        self._options = session.options | self._given
        if not control.has_headers:
            self._options["headers"] = False
        self._is_again = session.introduced or session.user is not None
        if control.admission is None:
            self._check()
        else:
            control.admission.admit(self._connection, self._given, self._check)

    def _check(self) -> None:
        try:
            check_options(self._options)
        except errors.WireError as error:
            self._control.tell(self._connection, error, of_connect=True)
            return
        if self._is_again and self._connection.subs:
            self._remove_subscriptions()
        else:
            self._agree()

    def _remove_subscriptions(self) -> None:
        """Remove the subscriptions of a client that sends CONNECT again, as nats-server does.

        If there are many, its next operations wait until they are removed.
        """
        control, connection = self._control, self._connection
        if connection.detached:
            control.finish_all_lagging(connection)
            self._agree()
        elif control.reaper.is_quick(connection):
            control.reaper.clear(connection, self._agree)
        else:
            self._hold()
            control.reaper.clear(connection, self._agree_and_proceed)

    def _agree_and_proceed(self) -> None:
        self._agree()
        self._connection.session.proceed()

    def _agree(self) -> None:
        """Apply the options."""
        connection, options = self._connection, self._options
        session = connection.session
        session.introduced = True
        session.options = {key: one for key, one in options.items() if key not in SECRETS}
        connection.verbose = options.get("verbose", True)
        connection.pedantic = options.get("pedantic", True)
        connection.echo = options.get("echo", True)
        connection.headers = options.get("headers", False)
        connection.no_responders = options.get("no_responders", False)
        connection.settle(options.get("frame", session.listener_frame))
        if connection.verbose:
            self._control.plane.send_control(connection, b"+OK\r\n")
        session.connected()


class Control(SubscriptionRules):
    """The handlers of all verbs. One per broker, for its one thread.

    The state of each client is in its connection.
    """

    def __init__(self, plane: Plane, max_subscriptions: int, max_matches: int = 0) -> None:
        super().__init__(plane, max_subscriptions, max_matches)
        self.keeper: Keeper | None = None  # if the journal is on disk
        self.request_handler: RequestHandler | None = None
        self.sessions: Mapping[int, Session] = {}
        self.has_headers = True  # clients may use them
        self.admission: Admission | None = None  # None: no authentication
        self._verbs = {
            CONNECT: self._connect,
            INFO: self._info,
            PING: self._ping,
            PONG: self._pong,
            SUB: self.subscribe,
            UNSUB: self.unsubscribe,
            FAULT: self._fault,
        }

    # Called by the plane

    def handle(self, connection: Connection, op: int) -> None:
        """Handle one control operation; send the client an error if it is wrong."""
        try:
            self._verbs[op](connection)
        except errors.WireError as error:
            self.tell(connection, error, of_connect=op == CONNECT)

    def lets_begin(self, connection: Connection) -> bool:
        """True if a client may begin without CONNECT; otherwise it is refused and closed."""
        return self.admission is not None and self.admission.stranger(connection)

    def publish_forbidden(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """Refuse a message that its client has no right to publish."""
        error = errors.PublishForbidden(subject)
        if connection.pedantic and not is_literal(subject):
            self.invalid_publish_subject(connection)
        self.warn(connection, f"Publish Violation: {error}")
        if subject.startswith(CONTROL_PREFIX) and is_answerable(reply) and connection.headers:
            self.answer(connection, reply, b"", b"NATS/1.0 403 Permissions Violation\r\n\r\n")
        self.tell(connection, error)

    def invalid_publish_subject(self, connection: Connection) -> None:
        """Send a pedantic client an error; its message is still published."""
        self.say(connection, errors.InvalidPublishSubject.reply)

    def publish_special(
        self, connection: Connection, message: Message, route: Route, reply: bytes
    ) -> None:
        """Publish to `$SEQ.`, to a reserved subject, or with a reserved reply."""
        acknowledged = route.subject.startswith(PUBLISH_PREFIX)
        if self.request_handler is not None and self.request_handler.takes(route.subject):
            self._request(self.request_handler, connection, message, route.subject, reply)
        elif route.kind in (CONTROL, RESERVED) and not acknowledged:
            self.tell(connection, errors.PublishForbidden(route.subject))
        elif not is_answerable(reply):
            self.tell(connection, errors.ReplyForbidden(reply))
        elif route.kind == DEEP and not acknowledged:
            self.refused_for_tokens += 1
            self.tell(connection, errors.PublishForbidden(route.subject, TOO_MANY_TOKENS))
        else:
            subject = route.subject[len(PUBLISH_PREFIX) :]
            self._publish_acknowledged(connection, message, subject, reply)

    def _request(
        self,
        handler: RequestHandler,
        connection: Connection,
        message: Message,
        subject: bytes,
        reply: bytes,
    ) -> None:
        if not self.plane.waits(connection):
            handler.answer(connection, message, subject, reply)
            return
        kept = self.plane.kept(message)
        self.in_line(
            connection, lambda: handler.answer(connection, kept, subject, reply), message.size
        )

    def trace_only(self, connection: Connection, message: Message, route: Route) -> bool:
        """Handle a message that asks for a trace only; False if it does not.

        Such a message gets no number, and is not delivered. The broker makes no traces. A
        `$SEQ.PUB` request is answered with the status that it was not published.
        """
        buffer = message.buffer
        if not is_trace_only(bytes(buffer[message.body : message.payload])):
            return False
        reply = bytes(buffer[message.reply : message.reply + message.reply_size])
        if connection.pedantic and not is_literal(route.subject):
            self.invalid_publish_subject(connection)
        if route.kind == RESERVED:
            self.tell(connection, errors.PublishForbidden(route.subject))
        elif is_reserved_reply(reply):
            self.tell(connection, errors.ReplyForbidden(reply))
        else:
            self.in_line(connection, lambda: self._traced(connection, route, reply))
        return True

    def _traced(self, connection: Connection, route: Route, reply: bytes) -> None:
        if connection.verbose:
            self.plane.send_control(connection, b"+OK\r\n")
        wanted = route.fanout.plain or route.fanout.groups is not None
        if reply and connection.no_responders and not wanted and route.kind == ORDINARY:
            self.no_responders(connection, route.subject, reply)
        if reply and route.subject.startswith(CONTROL_PREFIX) and is_answerable(reply):
            status = b"NATS/1.0 400 Nats-Trace-Only: Not Published\r\n\r\n"
            self.plane.answer(connection, reply, b"", status)

    def unheard(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """Confirm a message without a number, in a cluster: no subscription can match it."""
        self.in_line(connection, lambda: self._confirm_unheard(connection, subject, reply))

    def _confirm_unheard(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        if connection.verbose:
            self.plane.send_control(connection, b"+OK\r\n")
        if reply and connection.no_responders:
            self.no_responders(connection, subject, reply)

    def no_responders(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """Answer 503 to a request without receivers, on the publisher's own subscription."""
        plain = self.sublist.route(reply).fanout.plain
        if len(connection.subs) < len(plain):
            plain = tuple(connection.subs.values())
        self.plane.charge_work(8 * len(plain))  # this loop is not compiled
        for sub in plain:
            if sub.owner is connection and sub.queue is None and hears(sub, reply):
                status = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % subject
                size = len(status)
                line = b"HMSG %b %b %d %d\r\n" % (reply, sub.sid, size, size)
                self.plane.send_control(connection, line + status + b"\r\n")
                return

    def journal_full(self, connection: Connection, subject: bytes, report: bool = True) -> None:
        """Count a message that the journal has no room for; send an error if `report`.

        The message has no number.
        """
        error = self.no_room_for(subject)
        if report:
            self.tell(connection, error)

    def no_room_for(self, subject: bytes) -> errors.Refused:
        """Count a refused message; return the error for its publisher."""
        if self.plane.unavailable:
            return errors.ClusterUnavailable(subject, self.plane.unavailable)
        problem = self.keeper.problem if self.keeper is not None else ""
        if self.keeper is not None:
            self.keeper.refused += 1
        return errors.JournalFull(subject, problem.encode())

    def detached(self, connection: Connection, number: int) -> None:
        """Serve a lagging connection from the journal, from `number` on."""
        assert self.replays is not None, "only a journal or a ring can serve it"
        self.replays.catch_up(connection, number)

    def relieve(self) -> None:
        """Free memory: all outboxes together hold more than allowed."""
        connections = [session.connection for session in self.sessions.values()]
        relieve(self.plane.gate, self.plane.gate.budget, connections)

    def unsafe(self) -> None:
        """Ask the keeper to sync, or write: output is fenced until then."""
        if self.keeper is not None:
            self.keeper.unsafe()

    # Called by the sessions

    def drop(self, connection: Connection) -> None:
        """Stop routing to a connection that has closed; remove its subscriptions, in turns."""
        connection.shut()
        self.plane.drop_answers(connection)
        self.reaper.drop(connection)
        if self.replays is not None:
            self.replays.end_cursors(connection)

    # The verbs

    def _connect(self, connection: Connection) -> None:
        Connecting(self, connection, read_options(self.text_of(connection))).start()

    def _info(self, connection: Connection) -> None:
        read_object(self.text_of(connection))  # ignored, if it is valid

    def _ping(self, connection: Connection) -> None:
        self.plane.in_order(connection, lambda: self._answer_ping(connection))

    def _answer_ping(self, connection: Connection) -> None:
        if self.groups is None:
            self._pong_after_past(connection)
            return
        self.plane.pause(connection)
        self.groups.in_force(connection, lambda: self._pong_in_force(connection))

    def _pong_in_force(self, connection: Connection) -> None:
        self._pong_after_past(connection)
        self.plane.resume(connection)

    def _pong_after_past(self, connection: Connection) -> None:
        if connection.detached and self.replays is not None:
            self.replays.in_turn(connection, lambda: self._pong_to(connection))
        else:
            self._pong_to(connection)

    def _pong_to(self, connection: Connection) -> None:
        """Send PONG after everything that was published before, because PONG confirms it.

        While the disk fails, PONG to a client that has only listened does not wait for fenced
        messages: the client would take the connection for dead. To a client that has published,
        PONG confirms its messages, so it waits.
        """
        if connection.in_msgs:
            self.plane.send_control(connection, b"PONG\r\n")
        else:
            self.plane.send_control_now(connection, b"PONG\r\n")
        connection.session.pinged()

    def _pong(self, connection: Connection) -> None:
        connection.session.ponged()

    def _fault(self, connection: Connection) -> None:
        fault = connection.parser.fault
        assert isinstance(fault, errors.WireError), "the parser says what broke it"
        if isinstance(fault, errors.PayloadUnended) and connection.pedantic:
            parser, buffer = connection.parser, self.plane.buffer
            if not is_literal(bytes(buffer[parser.subject : parser.subject_end])):
                self.invalid_publish_subject(connection)
        of_connect = isinstance(fault, errors.ControlLineTooLong) and fault.of_connect
        # Not raised: the traceback would keep the connection object alive.
        self.tell(connection, fault, of_connect)

    # `$SEQ.PUB.<subject>`

    def _publish_acknowledged(
        self, connection: Connection, message: Message, subject: bytes, reply: bytes
    ) -> None:
        """Number a message and answer with the number; for an empty one, the current number."""
        if connection.guard is not None and not connection.guard.may_publish_to(subject):
            self.publish_forbidden(connection, PUBLISH_PREFIX + subject, reply)
            return
        problem = self._refusal(subject)
        if problem:
            if reply and connection.headers:
                self.answer(connection, reply, b"", b"NATS/1.0 400 %b\r\n\r\n" % problem)
            else:
                self.tell(connection, errors.PublishForbidden(PUBLISH_PREFIX + subject))
            return
        if message.payload_size == 0:
            self.in_line(connection, lambda: self._say_newest(connection, reply))
        elif not self.plane.acknowledge(connection, message, self.sublist.route(subject), reply):
            self.no_room(connection, subject, reply)

    def _say_newest(self, connection: Connection, reply: bytes) -> None:
        if connection.verbose:
            self.plane.send_control(connection, b"+OK\r\n")
        if reply:
            sequencer = self.plane.sequencer
            if self.plane.gate.is_failing():  # newer numbers stay hidden until the disk recovers
                safe = encode(b"%d" % sequencer.safe)
                self.plane.answer_now(connection, reply, safe, b"")
            else:
                number = encode(b"%d" % sequencer.number)
                self.plane.answer(connection, reply, number, b"")

    def no_room(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """Answer a message that was refused and asked for its number: status, or -ERR."""
        if reply and connection.headers and self.plane.unavailable:
            why = self.plane.unavailable
            status = b"NATS/1.0 %d %b\r\n\r\n" % (errors.AGAIN, why[:1].upper() + why[1:])
            self.answer(connection, reply, b"", status)
        elif reply and connection.headers:
            self.answer(connection, reply, b"", b"NATS/1.0 507 Journal Full\r\n\r\n")
            if self.keeper is not None:
                self.keeper.refused += 1
        else:
            self.journal_full(connection, PUBLISH_PREFIX + subject)

    def _refusal(self, subject: bytes) -> bytes:
        """Return why a subject cannot be published to with an answer; empty if it can."""
        if not is_literal(subject):
            return b"Invalid Publish Subject"
        kind = self.sublist.route(subject).kind
        if kind == DEEP:
            self.refused_for_tokens += 1
            return b"Too Many Tokens"
        if kind == EXCLUDED:
            return b"Subject Is Excluded From Sequencing"
        return b"" if kind == ORDINARY else b"Permissions Violation"
