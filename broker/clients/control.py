"""The protocol's rules for everything but plain messages: a table of verbs, without I/O.

The data plane calls `handle` with an operation whose spans are in the connection's parser. For
messages that it cannot handle itself, it calls `publish_special` and similar methods. Answers go
into the connection's outbox; the session does everything else to the connection. A refused
operation gets an error and has no other effect; a fatal one ends the connection after the error.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from broker.clients.admission import Admission
from broker.clients.request_handler import (
    GuardJudge,
    RequestHandler,
    ServiceRequests,
    StreamRequests,
)
from broker.clients.session import Session
from broker.clients.shared_groups import SharedGroups
from broker.clients.subscription_reaper import SubscriptionReaper
from broker.clients.subscriptions import Subscriptions, late_key
from broker.core import Core
from broker.dataplane.connection import Budget, Connection
from broker.dataplane.gate import Gate
from broker.dataplane.kinds import (
    ACK_PREFIXES,
    CONTROL,
    CONTROL_PREFIX,
    DEEP,
    EXCLUDED,
    ORDERED,
    ORDINARY,
    PUBLISH_PREFIX,
    RESERVED,
    STREAMS_PREFIX,
    SYSTEM_PREFIX,
    Classifier,
    is_answerable,
    is_reserved_reply,
)
from broker.dataplane.ledger import Ledger
from broker.dataplane.ownership import connection_of
from broker.dataplane.traced import is_trace_only
from broker.replay import requests
from broker.replay.cursor import DEFERRED_MAX, Cursor
from broker.settings.limits_settings import Limits
from broker.wires.connect import SECRETS, check_options, read_object, read_options
from broker.wires.disconnect_log import connect_violation, violation
from parser import errors
from parser.ops import CONNECT, FAULT, INFO, PING, PONG, SUB, UNSUB
from sequencer.message import Message
from sequencer.netstring import encode
from sublist.pattern_set import hears
from sublist.route import Route
from sublist.subject import is_literal
from sublist.subscription import Subscription

log = logging.getLogger("seriatim")

TOO_MANY_TOKENS = "too many tokens"  # nats-server's text for a subscription
# Refusals are charged above their cost, so a client that sends mostly refused operations gets less
# time.
REFUSAL_WORK = 16_384  # offers, besides the control operation
ERROR_BYTE_WORK = 3  # and for each byte of the report: the subject in it is quoted
# Other members choose a group member by the pattern alone: a message denied to it would be lost.
PARTLY = b"a part of it is denied, which no group may span in a cluster; allow subjects instead"
EVERYTHING = 1 << 20  # more work than one turn may cause: the rest must wait
NEVER_KEPT = frozenset(SECRETS)
COUNTED_WORK = 8  # cost of counting a subscription, in offers
COMPARED_WORK = 8  # cost of comparing it with a pattern of the client's permissions, in offers
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
        for secret in options.keys() & NEVER_KEPT:
            del options[secret]
        session.options = options
        connection.agree(
            options.get("verbose", True),
            options.get("pedantic", True),
            options.get("echo", True),
            options.get("headers", False),
            options.get("no_responders", False),
            options.get("frame", session.listener_frame),
        )
        connection.chose_frame = "frame" in options
        if connection.verbose:
            self._control.plane.send_control(connection, b"+OK\r\n")
        session.connected()


class Control:
    """The handlers of all verbs. One per broker, for its one thread.

    The state of each client is in its connection.
    """

    def __init__(
        self,
        core: Core,
        classifier: Classifier,
        sessions: Mapping[int, Session],
        request_handler: RequestHandler | None = None,
        admission: Admission | None = None,
        groups: SharedGroups | None = None,
        later: Callable[[Callable[[], None]], object] | None = None,
        open_judge: Callable[[], GuardJudge] | None = None,
        streams: StreamRequests | None = None,
    ) -> None:
        """Without `admission` there is no authentication.

        `groups` are queue groups that span several brokers. `later` calls a function in a later
        turn; without it, all subscriptions of a connection are removed at once. `open_judge` is
        called at the first guarded message; without it, guards are not looked at. `streams` answers
        requests about streams.
        """
        self._core = core
        self.plane = core.plane
        self.sublist = core.plane.sublist
        self.replays = core.replays  # None: there is neither a journal nor a ring
        self.keeper = core.keeper  # None: the journal is not on disk
        self.sessions = sessions
        self.request_handler = request_handler
        self.admission = admission
        self.groups = groups
        self.streams = streams
        self.system: ServiceRequests | None = None  # the monitor sets it, if there is one
        self._open_judge = open_judge
        self._judge: GuardJudge | None = None
        self.has_headers = not core.settings.no_header_support  # clients may use them
        self.subscriptions = Subscriptions(self, core, classifier)
        self.unsubscribe = self.subscriptions.unsubscribe
        self.reaper = SubscriptionReaper(self.sublist, self.subscriptions.remove, later)
        self.matches = self.subscriptions.matches
        self.user_matches = self.subscriptions.user_matches
        self.total = self.subscriptions.total
        self.classifier = classifier  # of the sublist: it limits the number of tokens
        self._verbs = {
            CONNECT: self._connect,
            INFO: self._info,
            PING: self._ping,
            PONG: self._pong,
            SUB: self.subscriptions.subscribe,
            UNSUB: self.unsubscribe,
            FAULT: self._fault,
        }

    @property
    def refused_subscriptions(self) -> int:
        """The count of subscriptions that were too many, for their client, their user or in all."""
        refused = self.subscriptions.refused_for_count
        return refused + self.total.refused + self.user_matches.refused

    @property
    def refused_for_tokens(self) -> int:
        """The count of subscriptions and messages with too many tokens."""
        return self.subscriptions.refused_for_tokens

    def limit(self, limits: Limits) -> None:
        """Apply changed limits of subscriptions; existing ones stay."""
        self.matches.limit(limits.max_matches)
        self.user_matches.limit(limits.max_matches_per_user)
        if self.classifier.max_tokens != limits.max_subject_tokens:
            self.classifier.max_tokens = limits.max_subject_tokens
            self.sublist.forget_routes()

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
        elif self.streams is not None and route.subject.startswith(ACK_PREFIXES):
            self._acknowledge(self.streams, connection, message, route.subject, reply)
        elif self.streams is not None and route.subject.startswith(STREAMS_PREFIX):
            self._ask_service(self.streams, connection, message, route.subject, reply)
        elif self.system is not None and route.subject.startswith(SYSTEM_PREFIX):
            self._ask_service(self.system, connection, message, route.subject, reply)
        elif route.subject == ORDERED:
            self._keep_order(connection, reply)
        elif route.kind in (CONTROL, RESERVED) and not acknowledged:
            self.tell(connection, errors.PublishForbidden(route.subject))
        elif not is_answerable(reply):
            self.tell(connection, errors.ReplyForbidden(reply))
        elif route.kind == DEEP and not acknowledged:
            self.subscriptions.refused_for_tokens += 1
            self.tell(connection, errors.PublishForbidden(route.subject, TOO_MANY_TOKENS))
        else:
            subject = route.subject[len(PUBLISH_PREFIX) :]
            self._publish_acknowledged(connection, message, subject, reply)

    def _keep_order(self, connection: Connection, reply: bytes) -> None:
        """Let refusals of a client's messages hold for those behind them, and end the last one.

        A client with messages in flight sends this, and again before it repeats what was refused.
        Otherwise those behind a refused message would overtake it: they may arrive in the moment in
        which messages are taken again.
        """
        if not is_answerable(reply):
            self.tell(connection, errors.ReplyForbidden(reply))
            return
        connection.keeps_order, connection.halted = True, b""
        if connection.verbose:
            self.say(connection, b"+OK\r\n")
        if reply:
            self.answer(connection, reply, b"", b"")

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

    def _ask_service(
        self,
        service: ServiceRequests,
        connection: Connection,
        message: Message,
        subject: bytes,
        reply: bytes,
    ) -> None:
        """Hand a request to a service; answer 503 if it does not take it."""
        if not is_answerable(reply):
            self.tell(connection, errors.ReplyForbidden(reply))
            return
        if connection.verbose:
            self.plane.send_control(connection, b"+OK\r\n")
        headers = bytes(message.buffer[message.body : message.payload])
        body = bytes(message.buffer[message.payload : message.body + message.size])
        taken = service.serve(connection, subject, reply, headers, body)
        if not taken and reply and connection.no_responders:
            self.no_responders(connection, subject, reply)

    def _acknowledge(
        self,
        streams: StreamRequests,
        connection: Connection,
        message: Message,
        subject: bytes,
        reply: bytes,
    ) -> None:
        """Hand an ack to the streams; it is 503 if there is no such consumer."""
        if connection.verbose:
            self.plane.send_control(connection, b"+OK\r\n")
        payload = bytes(message.buffer[message.payload : message.body + message.size])
        answerable = reply if is_answerable(reply) else b""
        taken = streams.acknowledge(connection, subject, answerable, payload)
        if not taken and answerable and connection.no_responders:
            self.no_responders(connection, subject, reply)

    def refuse_guarded(
        self,
        connection: Connection,
        message: Message,
        subject: bytes,
        ledger: Ledger | None,
        acknowledged: bool,
    ) -> bool:
        """Refuse a message whose headers say what must hold, if it does not; True if so.

        Without a reply its publisher gets -ERR: nats-server drops such a message in silence.
        """
        if self._judge is None:
            if self._open_judge is None:
                return False
            self._judge = self._open_judge()
        headers = bytes(message.buffer[message.body : message.payload])
        refusal = self._judge.refusal(connection, ledger, subject, headers)
        if refusal is None:
            return False
        reply = bytes(message.buffer[message.reply : message.reply + message.reply_size])
        answerable = reply and is_answerable(reply)
        if answerable and not acknowledged:
            if connection.verbose:
                self.plane.send_control(connection, b"+OK\r\n")
            self.plane.answer(connection, reply, refusal.answer, b"")
        elif answerable and connection.headers:
            if refusal.may_pass and connection.keeps_order:
                connection.halted = refusal.words.encode()
            status = f"NATS/1.0 {refusal.status} {refusal.words}\r\n\r\n"
            self.answer(connection, reply, b"", status.encode())
        else:
            self.tell(connection, errors.PublishForbidden(subject, refusal.words))
        return True

    def no_room_in_stream(
        self, connection: Connection, subject: bytes, reply: bytes, ledger: Ledger
    ) -> None:
        """Answer a refused message of a stream: the journal, or the ledgers, have no room."""
        error = self.no_room_for(subject)
        shown = {"code": 503, "err_code": 10077, "description": "journal full"}
        if ledger.is_closed_to(subject):
            most = ledger.total.most
            words = "insufficient storage resources available: all streams together have"
            words += f" {most} subjects (streams.max_subjects)"
            shown = {"code": 500, "err_code": 10047, "description": words}
        if reply and is_answerable(reply) and ledger.acknowledges:
            text = json.dumps({"error": shown}, separators=(",", ":"))[:-1].encode()
            # A pub ack begins with the stream, and here it is behind the error.
            text += b",%b0}" % ledger.acknowledgement[1:]
            self.plane.answer_now(connection, reply, text, b"")
        else:
            self.tell(connection, error)

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
        session = connection.session
        if (
            subject.startswith(STREAMS_PREFIX)
            and self.streams is None
            and not session.wants_streams
        ):
            session.wants_streams = True  # one line for each client
            log.warning(
                "%s - asks for JetStream, which is off: use `serve -js` (streams.enabled)",
                session.label,
            )
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

    # Called by those that deliver, replay or reload

    def finished(self, sub: Subscription) -> None:
        """End a subscription that has received as many messages as it asked for."""
        self.subscriptions.finish(sub)

    def make_live(self, sub: Subscription) -> None:
        """Give a subscription live messages, after its replay."""
        connection = connection_of(sub)
        try:
            self.subscriptions.judge(connection, sub.subject)
        except errors.Refused as error:
            self.finished(sub)
            self.tell(connection, error)
        else:
            sub.replay = None
            self.sublist.insert(sub)

    def recheck(self, connection: Connection) -> None:
        """End the subscriptions that a client's new rights do not allow."""
        guard = connection.guard
        for sub in list(connection.subs.values()):
            asked = sub.replay.asked if isinstance(sub.replay, Cursor) else b""
            if guard is not None and not (
                guard.may_subscribe(sub.subject, sub.queue)
                and (not asked or guard.may_subscribe(asked))
            ):
                error = self._forbidden(connection, asked or sub.subject, sub.queue, sub.sid)
                self.finished(sub)
                self.tell(connection, error)
                continue
            denied = None if guard is None else guard.denied_to(sub.subject, sub.queue)
            if denied is not None and sub.queue is not None and self.groups is not None:
                self.finished(sub)
                self.tell(
                    connection, errors.GroupForbidden(sub.subject, sub.queue, PARTLY, sub.sid)
                )
                continue
            if sub.replay is None and (sub.denied is not None or denied is not None):
                owner = sub.owner
                self.sublist.remove(sub)  # so its routes are resolved again
                sub.owner, sub.denied = owner, denied
                self.sublist.insert(sub)
            else:
                sub.denied = denied
        self.plane.release(None)

    # Called by the sessions

    def drop(self, connection: Connection) -> None:
        """Stop routing to a connection that has closed; remove its subscriptions, in turns."""
        if not connection.shutting or connection.subs:
            connection.shut()
            self.plane.drop_answers(connection)
            self.reaper.drop(connection)
        if self.replays is not None:
            self.replays.end_cursors(connection)
        if self.streams is not None:
            self.streams.drop(connection)

    # The verbs

    def _connect(self, connection: Connection) -> None:
        Connecting(self, connection, read_options(self.text_of(connection))).start()

    def _info(self, connection: Connection) -> None:
        read_object(self.text_of(connection))  # ignored, if it is valid

    def _ping(self, connection: Connection) -> None:
        if self.plane.waits(connection):
            self.plane.in_order(connection, lambda: self._answer_ping(connection))
        else:
            self._answer_ping(connection)

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

    # SUB and UNSUB: subscriptions, live ones and replays

    def may_share(
        self, groups: SharedGroups, connection: Connection, subject: bytes, queue: bytes
    ) -> None:
        """Refuse a subscription that may not join a group which spans members of a cluster."""
        guard = connection.guard
        partly = guard is not None and guard.denied_to(subject, queue) is not None
        why = PARTLY if partly else groups.refusal(connection, subject, queue)
        if why:
            raise errors.GroupForbidden(subject, queue, why)

    def check_right(
        self, connection: Connection, wanted: bytes, queue: bytes | None, asked: bytes
    ) -> None:
        """Raise an error about `asked` if the client has no right to the `wanted` subject."""
        guard = connection.guard
        if guard is not None:
            self.plane.charge_work(COMPARED_WORK * guard.subscribe.size)
            if not guard.may_subscribe(wanted, queue):
                raise self._forbidden(connection, asked, queue)

    def _forbidden(
        self, connection: Connection, subject: bytes, queue: bytes | None, sid: bytes = b""
    ) -> errors.Refused:
        """Log a subscription that its client has no right to; return the error for it.

        Give `sid` for one that was allowed before a reload: nats-server names it then.
        """
        error = errors.SubscribeForbidden(subject, queue, sid)
        self.warn(connection, f"Subscription Violation: {error}")
        return error

    def subscribed_to_events(self, sub: Subscription) -> None:
        """Tell the streams of a subscription that may be for their advisories."""
        if self.streams is not None:
            self.streams.subscribed(sub)

    def subscribe_past(
        self, connection: Connection, subject: bytes, sid: bytes, queue: bytes | None
    ) -> None:
        """Subscribe to `$SEQ.FROM` or similar: first old messages, then live ones."""
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
        for wanted in (subject, past.filter):
            self.check_right(connection, wanted, None, subject)
        if sid not in connection.subs:
            self._replay(
                connection, subject, Subscription(past.filter, sid, None, connection), past
            )

    def _replay(
        self, connection: Connection, subject: bytes, sub: Subscription, past: requests.Past
    ) -> None:
        """Begin a replay, if the limits allow one more."""
        assert self.replays is not None, "there is a journal"
        why = self.replays.refusal(connection, past, self._core.settings.limits)
        if why:
            raise errors.ReplayRefused(subject, why)
        self.subscriptions.take_place(sub)
        if connection.guard is not None:
            sub.denied = connection.guard.denied_to(sub.subject)
        connection.subs[sub.sid] = sub
        self.replays.start(sub, past)
        if isinstance(sub.replay, Cursor):
            sub.replay.asked = subject

    def leave_group(self, connection: Connection, sub: Subscription, groups: SharedGroups) -> None:
        """End a group's subscription now, or when the other members no longer count on it."""
        if not groups.end_subscription(sub, lambda: self._finish_late(sub)):
            self.finished(sub)
        elif connection.subs.get(sub.sid) is sub:
            del connection.subs[sub.sid]  # the client may reuse the sid
            connection.subs[late_key(sub)] = sub

    def finish_lagging(self, connection: Connection, sub: Subscription) -> None:
        """End a lagging subscription after the messages that were published before."""
        assert self.replays is not None, "only replays serve a detached connection"
        if sub.queue is None:
            del connection.subs[sub.sid]  # the client may reuse the sid
            connection.subs[late_key(sub)] = sub
            self.replays.in_turn(connection, lambda: self._finish_late(sub))
        elif sub.deferred_numbers:
            sub.limit = sub.delivered + len(sub.deferred_numbers)
        else:
            self.finished(sub)

    def finish_all_lagging(self, connection: Connection) -> None:
        for key, sub in list(islice(connection.subs.items(), DEFERRED_MAX + 1)):
            if sub.replay is not None:
                self.finished(sub)
            elif key == sub.sid:  # else it is already ending
                self.finish_lagging(connection, sub)
        if len(connection.subs) > DEFERRED_MAX:  # too many would wait for messages not yet read
            self.plane.gate.disconnect_slow(connection)

    def _finish_late(self, sub: Subscription) -> None:
        if sub.owner is not None:
            self.finished(sub)

    # `$SEQ.PUB.<subject>`

    def _publish_acknowledged(
        self, connection: Connection, message: Message, subject: bytes, reply: bytes
    ) -> None:
        """Number a message and answer with the number; one without anything asks for the last."""
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
        if message.size == 0:
            self.in_line(connection, lambda: self._say_newest(connection, reply))
        elif connection.halted or not self.plane.acknowledge(
            connection, message, self.sublist.route(subject), reply
        ):
            self.no_room(connection, subject, reply)

    def _say_newest(self, connection: Connection, reply: bytes) -> None:
        if connection.verbose:
            self.plane.send_control(connection, b"+OK\r\n")
        if reply:
            sequencer = self.plane.sequencer
            if self.plane.gate.is_in_trouble():  # newer numbers stay hidden until the disk recovers
                safe = encode(b"%d" % sequencer.safe)
                self.plane.answer_now(connection, reply, safe, b"")
            else:
                number = encode(b"%d" % sequencer.number)
                self.plane.answer(connection, reply, number, b"")

    def no_room(self, connection: Connection, subject: bytes, reply: bytes) -> None:
        """Answer a message that was refused and asked for its number: status, or -ERR."""
        why = connection.halted or self.plane.unavailable
        if connection.keeps_order:
            connection.halted = why
        if why and not (reply and connection.headers):
            self.tell(connection, errors.ClusterUnavailable(PUBLISH_PREFIX + subject, why))
        elif why:
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
            self.subscriptions.refused_for_tokens += 1
            return b"Too Many Tokens"
        if kind == EXCLUDED:
            return b"Subject Is Excluded From Sequencing"
        return b"" if kind == ORDINARY else b"Permissions Violation"

    # Answers

    def warn(self, connection: Connection, what: str) -> None:
        """Log an operation that a client has no right to."""
        user = connection.session.user
        connection.session.warn(f"{what}, {'no user' if user is None else f'user {user.name!r}'}")

    def text_of(self, connection: Connection) -> bytes:
        """Return the arguments of the current operation as one piece."""
        parser = connection.parser
        return bytes(self.plane.buffer[parser.subject : parser.subject_end])

    def in_line(
        self, connection: Connection, operation: Callable[[], None], copied: int = 0
    ) -> None:
        """Do an operation of a client after its earlier ones."""
        if self.plane.waits(connection):
            self.plane.in_order(connection, lambda: self._do_late(connection, operation), copied)
        else:
            operation()

    def _do_late(self, connection: Connection, operation: Callable[[], None]) -> None:
        try:
            operation()
        except errors.WireError as error:
            self.tell(connection, error)
        if connection.closed:
            session = connection.session
            self.plane.release(None)
            session.depart()

    def say(self, connection: Connection, text: bytes) -> None:
        """Send a client text that shows no number, after the answers to its earlier operations."""
        if self.plane.waits(connection):
            self.plane.in_order(connection, lambda: self._say_late(connection, text))
        else:
            self.plane.send_control_now(connection, text)

    def _say_late(self, connection: Connection, text: bytes) -> None:
        self.plane.send_control_now(connection, text)

    def answer(self, connection: Connection, reply: bytes, payload: bytes, headers: bytes) -> None:
        """Send a client a message on its reply subject, after the answers to earlier operations."""
        self.in_line(connection, lambda: self.plane.answer_now(connection, reply, payload, headers))

    def tell(
        self, connection: Connection, error: errors.WireError, of_connect: bool = False
    ) -> None:
        """Send the client an error, and close the connection if the error is fatal.

        `of_connect`: the line is a CONNECT; the parser knows that even if it came in pieces.
        """
        if error.reply:
            self.plane.charge_work(REFUSAL_WORK + ERROR_BYTE_WORK * len(error.reply))
        if not error.closes:
            if error.reply:
                self.say(connection, error.reply)
            log.debug("%s - %s: %s", connection.session.label, type(error).__name__, error)
            return
        parser = connection.parser
        at = parser.subject if parser.fault is None else parser.at
        if of_connect:
            why = connect_violation(str(error))
        else:
            why = violation(str(error), self.plane.buffer, at, parser.stop)
        reply, reason = error.reply, error.reason
        if self.plane.waits(connection):
            connection.session.wait()  # for ever: no more of its input is served
            self.plane.charge_work(EVERYTHING)
        self.in_line(connection, lambda: self._end(connection, reply, why, reason))

    def _end(self, connection: Connection, reply: bytes, why: str, reason: str) -> None:
        """Send the last error, and close."""
        if reply:
            self.plane.send_control_now(connection, reply)
        connection.closed = True
        connection.session.finish(why, reason)
