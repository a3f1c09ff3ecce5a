"""Limits how many subscriptions one message may match: of a connection, and of a user.

Both are checked at each SUB.

    Matches        a connection's
    UserMatches    those of all connections of a user; of an address, if there are no users

All offers of one message are made in one turn of the event loop. Suppose one connection has a
million subscriptions to one subject: each message to it, of 20 bytes, would delay all other clients
for a quarter of a second. PUB must not pay for a check, so SUB does.

Two patterns have the same shape if they have the same number of tokens, `*` at the same places and
`>` at the same place. Two patterns of one shape can match the same subject only if they are equal.
All literal subjects are one shape. So a message matches at most the sum, over all shapes, of the
subscriptions to each shape's most frequent pattern. Patterns are counted by part of their hash, so
a million of them take at most 65 536 counters. Patterns that share a counter raise the bound by a
few dozen; they never lower it. Python seeds the hash, so no client can choose subjects that
share a counter.

Only connections and users with thousands of subscriptions are counted. A replay matches nothing
until it is live.

A connection's own limit is not enough: with 16 connections of 16 384 subscriptions to `>`, each
message costs 30 ms. A user may have any number of connections, so one subscription of each is free;
the limit of a user bounds the others. Clients without a user count together if they come from one
address.

    connection --.
    connection --+--> MatchOwner    how many live subscriptions; from `START` on, their `Counts`
    connection --'

A connection stays with its owner while it has subscriptions, even if its user changes.
"""

import logging
import sys
from collections.abc import Hashable, Iterable

import cython

from broker.dataplane.connection import Connection
from broker.dataplane.ownership import connection_of
from broker.limits.principal import principal_of
from parser.errors import quoted
from sublist.subject import has_wildcard
from sublist.subscription import Subscription

log = logging.getLogger("seriatim")

START = 4096  # subscriptions at which counting begins, which takes milliseconds
COUNTERS = 1 << 16  # for one shape, at most; a power of two

if not cython.compiled:
    LAST_COUNTER = COUNTERS - 1


class Shape:
    """The patterns of one shape, and the most subscriptions that one of them may have."""

    __slots__ = ("counters", "heights")

    def __init__(self) -> None:
        self.counters: dict[int, int] = {}  # subscriptions, by part of their pattern's hash
        self.heights = [0]  # the number of counters with each value, up to the highest; 0 is unused

    def rises(self, pattern: bytes) -> bool:
        """True if one more subscription to the pattern increases the highest value."""
        value = self.counters.get(hash(pattern) & LAST_COUNTER, 0)
        return value == len(self.heights) - 1

    def add(self, pattern: bytes) -> bool:
        """Count one more; return True if the highest value increased."""
        place = hash(pattern) & LAST_COUNTER
        value = self.counters.get(place, 0)
        self.counters[place] = value + 1
        heights = self.heights
        heights[value] -= 1
        if value + 1 < len(heights):
            heights[value + 1] += 1
            return False
        heights.append(1)
        return True

    def remove(self, pattern: bytes) -> bool:
        """Count one less; return True if the highest value decreased."""
        place = hash(pattern) & LAST_COUNTER
        value = self.counters[place]
        if value == 1:
            del self.counters[place]
        else:
            self.counters[place] = value - 1
        heights = self.heights
        heights[value] -= 1
        heights[value - 1] += 1
        if heights[len(heights) - 1]:
            return False
        heights.pop()
        return True


class Counts:
    """The subscriptions of one connection, or user. No message matches more than `bound`."""

    def __init__(self, subs: Iterable[Subscription]) -> None:
        self.shapes: dict[bytes, Shape] = {}
        self.bound = 0
        self.reported = False  # a refusal was logged already
        for item in subs:
            sub = cython.cast(Subscription, item)
            if sub.replay is None:
                self.add(sub.subject)

    def admits(self, pattern: bytes, most: int) -> bool:
        """True if the bound stays within `most` with one more subscription."""
        if self.bound < most:
            return True
        shape = self.shapes.get(shape_of(pattern))
        return shape is not None and not shape.rises(pattern)

    def add(self, pattern: bytes) -> None:
        """Count one more subscription."""
        key = shape_of(pattern)
        shape = self.shapes.get(key)
        if shape is None:
            shape = self.shapes[key] = Shape()
        self.bound += shape.add(pattern)

    def remove(self, pattern: bytes) -> None:
        """Count one subscription less."""
        key = shape_of(pattern)
        shape = self.shapes[key]
        self.bound -= shape.remove(pattern)
        if not shape.counters:
            del self.shapes[key]

    def report(self, connection: Connection, pattern: bytes, limit: str) -> None:
        """Log that a subscription was refused, unless one of these was before."""
        if not self.reported:
            self.reported = True
            log.warning(
                "%s - refused a subscription to %s: one message may match %s",
                connection.session.label,
                quoted(pattern).decode(),
                limit,
            )


# A connection or a user is counted once it has `start` subscriptions, until it has fewer than
# `low`. So if its number goes up and down around `start`, it is not counted from zero each time.
# Below `start`, all of them together are within the limit.


def start_of(most: int) -> int:
    """Return the number of subscriptions at which counting begins; 0: there is no limit."""
    return min(START, most) if most else sys.maxsize


class Matches:
    """The counts of all large connections. One per broker, next to the control."""

    def __init__(self, most: int) -> None:
        self.counts: dict[Connection, Counts] = {}  # of the connections that are counted
        self.limit(most)

    def limit(self, most: int) -> None:
        """Set the limit; existing subscriptions stay."""
        self.most = most
        self.start = start_of(most)
        self.low = max(self.start // 2, 1)
        if not most:
            self.counts.clear()

    def watch(self, connection: Connection) -> int:
        """Count a connection from now on, if it has `start` subscriptions.

        Returns how many subscriptions were looked at for that.
        """
        if len(connection.subs) < self.start or connection in self.counts:
            return 0
        self.counts[connection] = Counts(connection.subs.values())
        return len(connection.subs)

    def acquire(self, connection: Connection, pattern: bytes) -> bool:
        """Count a new subscription; return False, and do not count it, if it exceeds the limit.

        A connection that is not counted has fewer than the limit in all, so it is not checked.
        """
        counts = self.counts.get(connection)
        if counts is None:
            return True
        if counts.admits(pattern, self.most):
            counts.add(pattern)
            return True
        counts.report(connection, pattern, f"{self.most} of a connection's (limits.max_matches)")
        return False

    def remove(self, sub: Subscription) -> None:
        """Count a subscription less: it has ended, and is no longer in its connection's table."""
        connection = connection_of(sub)
        counts = self.counts.get(connection)
        if counts is None:
            return
        if len(connection.subs) < self.low:
            del self.counts[connection]
        elif sub.replay is None:
            counts.remove(sub.subject)


class MatchOwner:
    """A user, or an address, with live subscriptions."""

    __slots__ = ("connections", "counts", "key", "live")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        # With the number of live subscriptions. Not a Quota: SUB and UNSUB would pay for calls.
        self.connections: dict[Connection, int] = {}
        self.live = 0  # the sum of these
        self.counts: Counts | None = None  # if there are enough to be counted


class UserMatches:
    """The owners of live subscriptions. One per broker, next to the control.

    `most` bounds the matches besides one for each connection.
    """

    def __init__(self, most: int) -> None:
        self.refused = 0
        self._owners: dict[Hashable, MatchOwner] = {}
        self._of: dict[Connection, MatchOwner] = {}  # of those with live subscriptions
        self.limit(most)

    def limit(self, most: int) -> None:
        """Set the limit; existing subscriptions stay."""
        self.most = most
        self.start = start_of(most)
        self.low = max(self.start // 2, 1)
        if not most:
            for owner in self._owners.values():
                owner.counts = None

    @property
    def owners(self) -> int:
        """The number of users and addresses with live subscriptions."""
        return len(self._owners)

    def watch(self, connection: Connection) -> int:
        """Count the patterns of a connection's owner from now on, if it has `start`.

        Returns how many subscriptions were looked at for that.
        """
        owner = self._of.get(connection) or self._owners.get(principal_of(connection.session))
        if owner is None or owner.live < self.start or owner.counts is not None:
            return 0
        owner.counts = Counts([])
        for one in owner.connections:
            for sub in one.subs.values():
                if sub.replay is None:
                    owner.counts.add(sub.subject)
        return owner.live

    def acquire(self, connection: Connection, pattern: bytes) -> bool:
        """Count a new live subscription; return False, and do not count it, if over the limit."""
        owner = self._of.get(connection)
        if owner is None:
            key = principal_of(connection.session)
            owner = self._owners.get(key) or MatchOwner(key)
        counts = owner.counts
        if counts is not None:
            free = len(owner.connections) + (connection not in owner.connections)
            if not counts.admits(pattern, self.most + free):
                self.refused += 1
                counts.report(
                    connection,
                    pattern,
                    f"{self.most} of a user's, besides one of each connection"
                    " (limits.max_matches_per_user)",
                )
                return False
            counts.add(pattern)
        self._owners[owner.key] = self._of[connection] = owner
        owner.connections[connection] = owner.connections.get(connection, 0) + 1
        owner.live += 1
        return True

    def remove(self, connection: Connection, pattern: bytes) -> None:
        """Count a live subscription less: it has ended, and has left its connection's table."""
        owner = self._of[connection]
        owner.live -= 1
        left = owner.connections[connection] - 1
        if left:
            owner.connections[connection] = left
        else:
            del owner.connections[connection], self._of[connection]
        if not owner.live:
            del self._owners[owner.key]
        elif owner.live < self.low:
            owner.counts = None
        elif owner.counts is not None:
            owner.counts.remove(pattern)


def shape_of(pattern: bytes) -> bytes:
    """Return the shape of a pattern: its wildcards and token count. Empty for literal subjects."""
    if not has_wildcard(pattern):
        return b""
    tokens = pattern.split(b".")
    return b".".join([token if token in (b"*", b">") else b"" for token in tokens])
