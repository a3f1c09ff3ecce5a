"""SUB and UNSUB: begin and end subscriptions, live ones and replays.

A refused SUB gets an error and has no other effect. `Control` adds the other verbs.
"""

import logging
from collections.abc import Callable
from itertools import islice

from broker.clients.shared_groups import SharedGroups
from broker.clients.subscription_reaper import SubscriptionReaper
from broker.dataplane.connection import Connection
from broker.dataplane.kinds import CONTROL_PREFIX, Classifier
from broker.dataplane.ownership import connection_of
from broker.dataplane.plane import Plane
from broker.limits.matches import Matches
from broker.limits.subscription_total import SubscriptionTotal
from broker.limits.user_matches import UserMatches
from broker.replay import requests
from broker.replay.cursor import DEFERRED_MAX, Cursor
from broker.replay.replays import Replays
from broker.wires.disconnect_log import connect_violation, violation
from parser import errors
from sublist.subject import is_pattern
from sublist.subscription import Subscription

log = logging.getLogger("seriatim")

# Refusals are charged above their cost, so a client that sends mostly refused operations gets less
# time.
REFUSAL_WORK = 16_384  # offers, besides the control operation
ERROR_BYTE_WORK = 3  # and for each byte of the report: the subject in it is quoted
# Other members choose a group member by the pattern alone: a message denied to it would be lost.
PARTLY = b"a part of it is denied, which no group may span in a cluster; allow subjects instead"
EVERYTHING = 1 << 20  # more work than one turn may cause: the rest must wait
COUNTED_WORK = 8  # cost of counting a subscription, in offers
COMPARED_WORK = 8  # cost of comparing it with a pattern of the client's permissions, in offers


class SubscriptionRules:
    """The rules of SUB and UNSUB. One per broker, for its one thread.

    The state of each client is in its connection.
    """

    def __init__(self, plane: Plane, max_subscriptions: int, max_matches: int) -> None:
        self.plane = plane
        self.sublist = plane.sublist
        self.max_subscriptions = max_subscriptions
        self.replays: Replays | None = None  # if there is a journal, or a ring
        self.groups: SharedGroups | None = None  # if queue groups span several brokers
        self.reaper = SubscriptionReaper(self.sublist, self.remove)
        self.matches = Matches(max_matches)
        self.user_matches = UserMatches(0)  # without a limit, until the server sets it
        self.total = SubscriptionTotal(0)  # without a limit, until the server sets it
        self.classifier = Classifier()  # the server's: it limits the number of tokens
        self.refused_for_count = 0  # subscriptions over `max_subscriptions`
        self.refused_for_tokens = 0

    @property
    def refused_subscriptions(self) -> int:
        """The count of subscriptions that were too many, for their client, their user or in all."""
        return self.refused_for_count + self.total.refused + self.user_matches.refused

    # Called by others

    def finished(self, sub: Subscription) -> None:
        """End a subscription that has received as many messages as it asked for."""
        connection = connection_of(sub)
        del connection.subs[sub.sid if connection.subs.get(sub.sid) is sub else _late_key(sub)]
        self.remove(sub)

    def make_live(self, sub: Subscription) -> None:
        """Give a subscription live messages, after its replay."""
        connection = connection_of(sub)
        try:
            self._judge(connection, sub.subject)
        except errors.Refused as error:
            self.finished(sub)
            self.tell(connection, error)
        else:
            sub.replay = None
            self.sublist.insert(sub)

    def remove(self, sub: Subscription) -> None:
        """Stop routing to a subscription; a replay has no route yet, so end its cursor."""
        if sub.deferred_numbers:
            connection_of(sub).deferred_numbers -= len(sub.deferred_numbers)
            sub.deferred_numbers = None
        self.total.release(sub)
        if self.matches.counts:
            self.matches.remove(sub)
        if sub.replay is None:
            self.user_matches.remove(connection_of(sub), sub.subject)
        if sub.queue is not None and self.groups is not None:
            self.groups.left(sub)
        if sub.replay is None:
            self.sublist.remove(sub)
        else:
            sub.owner = None
            if self.replays is not None:
                self.replays.abandon(sub)

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

    # The verbs

    def subscribe(self, connection: Connection) -> None:
        parser, buffer = connection.parser, self.plane.buffer
        subject = bytes(buffer[parser.subject : parser.subject_end])
        queue = bytes(buffer[parser.reply : parser.reply_end]) or None
        sid = bytes(buffer[parser.digits : parser.digits_end])
        self.in_line(connection, lambda: self._subscribe(connection, subject, queue, sid))

    def _subscribe(
        self, connection: Connection, subject: bytes, queue: bytes | None, sid: bytes
    ) -> None:
        if self.max_subscriptions and len(connection.subs) >= self.max_subscriptions:
            self.refused_for_count += 1
            raise errors.SubscriptionsExceeded(f"the limit is {self.max_subscriptions}")
        if self.classifier.is_deep(subject):
            self.refused_for_tokens += 1
            raise errors.TooManyTokens(subject)
        if len(connection.subs) >= self.matches.low:
            self.plane.charge_work(COUNTED_WORK * self.matches.watch(connection))
        if subject.startswith(CONTROL_PREFIX):
            self._subscribe_past(connection, subject, sid, queue)
        else:
            self._check_right(connection, subject, queue, subject)
            if sid not in connection.subs:
                self._subscribe_live(connection, subject, sid, queue)
        if connection.verbose:
            self.plane.send_control(connection, b"+OK\r\n")

    def _subscribe_live(
        self, connection: Connection, subject: bytes, sid: bytes, queue: bytes | None
    ) -> None:
        if not is_pattern(subject):
            raise errors.InvalidSubject(f"subscription to {errors.shown(subject)}")
        if queue is not None and self.groups is not None:
            self._may_share(self.groups, connection, subject, queue)
        sub = Subscription(subject, sid, queue, connection)
        self._count(connection, sub)
        if connection.guard is not None:
            sub.denied = connection.guard.denied_to(subject, queue)
        self.plane.begin_live(sub)
        connection.subs[sid] = sub
        self.sublist.insert(sub)
        if queue is not None and self.groups is not None:
            self.groups.joined(sub)

    def _count(self, connection: Connection, sub: Subscription) -> None:
        """Count a new live subscription, or refuse it."""
        if not self.total.acquire(sub):
            raise errors.SubscriptionsExceeded(f"limits.max_subscriptions_total: {self.total.most}")
        try:
            self._judge(connection, sub.subject)
        except errors.Refused:
            self.total.release(sub)
            raise

    def _may_share(
        self, groups: SharedGroups, connection: Connection, subject: bytes, queue: bytes
    ) -> None:
        """Refuse a subscription that may not join a group which spans members of a cluster."""
        guard = connection.guard
        partly = guard is not None and guard.denied_to(subject, queue) is not None
        why = PARTLY if partly else groups.refusal(connection, subject, queue)
        if why:
            raise errors.GroupForbidden(subject, queue, why)

    def _check_right(
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

    def _judge(self, connection: Connection, subject: bytes) -> None:
        """Refuse a pattern that would make single messages too expensive, or count it."""
        if not self.sublist.admits(subject):
            raise errors.TooManyNodes(subject, self.sublist.max_match_nodes)
        self.plane.charge_work(COUNTED_WORK * self.user_matches.watch(connection))
        if not self.user_matches.acquire(connection, subject):
            raise errors.TooManyMatchesOfUser(subject, self.user_matches.most)
        if self.matches.counts and not self.matches.acquire(connection, subject):
            self.user_matches.remove(connection, subject)
            raise errors.TooManyMatches(subject, self.matches.most)

    def _subscribe_past(
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
            self._check_right(connection, wanted, None, subject)
        if sid not in connection.subs:
            self._replay(
                connection, subject, Subscription(past.filter, sid, None, connection), past
            )

    def _replay(
        self, connection: Connection, subject: bytes, sub: Subscription, past: requests.Past
    ) -> None:
        """Begin a replay, if the limits allow one more."""
        assert self.replays is not None, "there is a journal"
        why = self.replays.refusal(connection, past)
        if why:
            raise errors.ReplayRefused(subject, why)
        if not self.total.acquire(sub):
            raise errors.SubscriptionsExceeded(f"limits.max_subscriptions_total: {self.total.most}")
        if connection.guard is not None:
            sub.denied = connection.guard.denied_to(sub.subject)
        connection.subs[sub.sid] = sub
        self.replays.start(sub, past)
        if isinstance(sub.replay, Cursor):
            sub.replay.asked = subject

    def unsubscribe(self, connection: Connection) -> None:
        parser, buffer = connection.parser, self.plane.buffer
        sid = bytes(buffer[parser.subject : parser.subject_end])
        words = bytes(buffer[parser.digits : parser.digits_end])
        limit = int(words) if words.isdigit() and len(words) <= 9 else 0
        self.in_line(connection, lambda: self._unsubscribe(connection, sid, limit))

    def _unsubscribe(self, connection: Connection, sid: bytes, limit: int) -> None:
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
            self.plane.send_control(connection, b"+OK\r\n")

    def _leave_group(self, connection: Connection, sub: Subscription, groups: SharedGroups) -> None:
        """End a group's subscription now, or when the other members no longer count on it."""
        if not groups.end_subscription(sub, lambda: self._finish_late(sub)):
            self.finished(sub)
        elif connection.subs.get(sub.sid) is sub:
            del connection.subs[sub.sid]  # the client may reuse the sid
            connection.subs[_late_key(sub)] = sub

    def _finish_lagging(self, connection: Connection, sub: Subscription) -> None:
        """End a lagging subscription after the messages that were published before."""
        assert self.replays is not None, "only replays serve a detached connection"
        if sub.queue is None:
            del connection.subs[sub.sid]  # the client may reuse the sid
            connection.subs[_late_key(sub)] = sub
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
                self._finish_lagging(connection, sub)
        if len(connection.subs) > DEFERRED_MAX:  # too many would wait for messages not yet read
            self.plane.gate.disconnect_slow(connection)

    def _finish_late(self, sub: Subscription) -> None:
        if sub.owner is not None:
            self.finished(sub)

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


def _late_key(sub: Subscription) -> bytes:
    """Return the key in `subs` for a subscription that ended but still gets earlier messages."""
    return b"%b %d" % (sub.sid, id(sub))  # no sid contains a blank
