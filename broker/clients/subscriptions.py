"""SUB and UNSUB, and the end of every subscription. A client may send a million of them a second.

    SUB    --> subscribe   --> the limits --> counted, in the client's table, in the sublist
    UNSUB  --> unsubscribe --> finish --> remove: not in the sublist, not counted
    the last message of a limited one --> finish
    the client has gone    --> remove, for each in its table (broker/clients/subscription_reaper.py)

What is rare is done by the control: subscriptions to the past, rights, groups that span a cluster,
clients that lag, operations that wait for a cluster.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

import cython

from broker.core import Core
from broker.dataplane.connection import Connection
from broker.dataplane.kinds import CONTROL_PREFIX, EVENTS_PREFIX, Classifier
from broker.dataplane.plane import Plane
from broker.limits.matches import Matches, UserMatches
from broker.limits.subscription_total import SubscriptionTotal
from parser import errors
from parser.machine import Parser
from sublist.subject import is_pattern
from sublist.sublist import Sublist
from sublist.subscription import Subscription

if TYPE_CHECKING:
    from broker.clients.control import Control

if not cython.compiled:
    DIGITS_MAX = 9  # of the number in an UNSUB; a longer one is none
    COUNTED_WORK = 8  # cost of counting a subscription, in offers

INBOX: Final = b"_INBOX."  # subjects of answers, in all of NATS' clients


class Subscriptions:
    """The subscriptions of all clients. One per broker, next to the control."""

    def __init__(self, control: "Control", core: Core, classifier: Classifier) -> None:
        limits = core.settings.limits
        self.control = control
        self.core = core
        self.plane: Plane = core.plane
        self.sublist: Sublist = core.plane.sublist
        self.classifier: Classifier = classifier
        self.matches = Matches(limits.max_matches)
        self.user_matches = UserMatches(limits.max_matches_per_user)
        self.total = SubscriptionTotal()
        self.refused_for_count = 0  # over `max_subscriptions`
        self.refused_for_tokens = 0

    # SUB

    def subscribe(self, connection: Connection) -> None:
        """Handle the SUB that the connection's parser has read."""
        parser = connection.parser
        subject = span(parser, parser.subject, parser.subject_end)
        queue = span(parser, parser.reply, parser.reply_end) or None
        sid = span(parser, parser.digits, parser.digits_end)
        if self.plane.waits(connection):
            begin = partial(self.begin, connection, subject, queue, sid)
            self.control.in_line(connection, begin)
        else:
            self.begin(connection, subject, queue, sid)

    def begin(
        self, connection: Connection, subject: bytes, queue: bytes | None, sid: bytes
    ) -> None:
        """Begin a subscription. Raises `WireError` if it is refused."""
        subs = connection.subs
        most = self.core.settings.limits.max_subscriptions
        if most and len(subs) >= most:
            self.refused_for_count += 1
            raise errors.SubscriptionsExceeded(f"the limit is {most}")
        if self.classifier.is_deep(subject):
            self.refused_for_tokens += 1
            raise errors.TooManyTokens(subject)
        if len(subs) >= self.matches.low:
            self.plane.charge_work(COUNTED_WORK * self.matches.watch(connection))
        if subject.startswith(CONTROL_PREFIX):
            self.control.subscribe_past(connection, subject, sid, queue)
        else:
            if connection.guard is not None:
                self.control.check_right(connection, subject, queue, subject)
            if sid not in subs:
                self._begin_live(connection, subject, sid, queue)
        if connection.verbose:
            self.plane.send_control(connection, b"+OK\r\n")

    def _begin_live(
        self, connection: Connection, subject: bytes, sid: bytes, queue: bytes | None
    ) -> None:
        if not is_pattern(subject):
            raise errors.InvalidSubject(f"subscription to {errors.shown(subject)}")
        groups = self.control.groups if queue is not None else None
        if queue is not None and groups is not None:
            self.control.may_share(groups, connection, subject, queue)
        sub = Subscription(subject, sid, queue, connection)
        if subject.startswith(INBOX) and not connection.chose_frame:
            # Applications take an answer for what the service has sent, and know of no frame.
            sub.unframed = connection.frame == "netstring"
        self.take_place(sub)
        try:
            self.judge(connection, subject)
        except errors.Refused:
            self.total.release(sub)
            raise
        if connection.guard is not None:
            sub.denied = connection.guard.denied_to(subject, queue)
        self.plane.begin_live(sub)
        connection.subs[sid] = sub
        self.sublist.insert(sub)
        if groups is not None:
            groups.joined(sub)
        if subject.startswith(EVENTS_PREFIX):
            self.control.subscribed_to_events(sub)

    def take_place(self, sub: Subscription) -> None:
        """Count a new subscription among all; refuse it if there are too many."""
        most = self.core.settings.limits.max_subscriptions_total
        if not self.total.acquire(sub, most):
            raise errors.SubscriptionsExceeded(f"limits.max_subscriptions_total: {most}")

    def judge(self, connection: Connection, subject: bytes) -> None:
        """Refuse a pattern that would make single messages too expensive, or count it."""
        if not self.sublist.admits(subject):
            raise errors.TooManyNodes(subject, self.sublist.max_match_nodes)
        self.plane.charge_work(COUNTED_WORK * self.user_matches.watch(connection))
        if not self.user_matches.acquire(connection, subject):
            raise errors.TooManyMatchesOfUser(subject, self.user_matches.most)
        if self.matches.counts and not self.matches.acquire(connection, subject):
            self.user_matches.remove(connection, subject)
            raise errors.TooManyMatches(subject, self.matches.most)

    # UNSUB

    def unsubscribe(self, connection: Connection) -> None:
        """Handle the UNSUB that the connection's parser has read."""
        parser = connection.parser
        sid = span(parser, parser.subject, parser.subject_end)
        most = limit_of(parser)
        if self.plane.waits(connection):
            self.control.in_line(connection, partial(self.end, connection, sid, most))
        else:
            self.end(connection, sid, most)

    def end(self, connection: Connection, sid: bytes, most: int) -> None:
        """End a subscription: now, or when it has received `most` messages."""
        item = connection.subs.get(sid)
        if item is not None:
            sub = cython.cast(Subscription, item)
            if most > sub.delivered:
                sub.limit = most
            elif connection.detached and sub.replay is None:
                self.control.finish_lagging(connection, sub)
            elif sub.queue is not None and self.control.groups is not None:
                self.control.leave_group(connection, sub, self.control.groups)
            else:
                self.finish(sub)
        if connection.verbose:
            self.plane.send_control(connection, b"+OK\r\n")

    # The end

    def finish(self, sub: Subscription) -> None:
        """End a subscription that is in its connection's table."""
        owner = sub.owner
        assert owner is not None, "it has not ended"
        subs = cython.cast(Connection, owner).subs
        found = subs.pop(sub.sid, None)
        if found is not sub:  # it has left its sid, which another may have
            if found is not None:
                subs[sub.sid] = found
            del subs[late_key(sub)]
        self.remove(sub)

    def remove(self, sub: Subscription) -> None:
        """Stop routing to a subscription; a replay has no route yet, so end its cursor."""
        owner = sub.owner
        assert owner is not None, "it has not ended"
        connection = cython.cast(Connection, owner)
        if sub.deferred_numbers:
            connection.deferred_numbers -= len(sub.deferred_numbers)
            sub.deferred_numbers = None
        self.total.release(sub)
        if self.matches.counts:
            self.matches.remove(sub)
        is_live = sub.replay is None
        if is_live:
            self.user_matches.remove(connection, sub.subject)
        if sub.queue is not None and self.control.groups is not None:
            self.control.groups.left(sub)
        if is_live:
            self.sublist.remove(sub)
        else:
            sub.owner = None
            if self.core.replays is not None:
                self.core.replays.abandon(sub)


def span(parser: Parser, at: int, end: int) -> bytes:
    """Return a copy of a span of the receive buffer."""
    data = parser.data
    if cython.compiled:
        return data[at:end]
    else:
        return bytes(data[at:end])


def limit_of(parser: Parser) -> int:
    """Return the number in an UNSUB; 0 if there is none, or it is too long, or something else."""
    data = parser.data
    at, end = parser.digits, parser.digits_end
    if end - at > DIGITS_MAX:
        return 0
    number = 0
    while at < end:
        digit = data[at] - ord("0")
        if not 0 <= digit <= 9:
            return 0
        number = number * 10 + digit
        at += 1
    return number


def late_key(sub: Subscription) -> bytes:
    """Return the key in `subs` for a subscription that ended but still gets earlier messages."""
    return b"%b %d" % (sub.sid, id(sub))  # no sid contains a blank
