"""Limits how many subscriptions of one user a message may match, over all the user's connections.

A connection's own limit is not enough: with 16 connections of 16 384 subscriptions to `>`, each
message costs 30 ms. A user may have any number of connections, so one subscription of each is free;
the limit bounds the others. Clients without a user count together if they come from one address.

    connection --.
    connection --+--> MatchOwner    how many live subscriptions; from `START` on, their `Counts`
    connection --'

A connection stays with its holder while it has subscriptions, even if its user changes.
"""

import logging
import sys
from collections.abc import Hashable

from broker.dataplane.connection import Connection
from broker.limits.matches import START, Counts
from broker.limits.principal import principal_of
from parser.errors import quoted

log = logging.getLogger("seriatim")


class MatchOwner:
    """A user, or an address, with live subscriptions."""

    __slots__ = ("connections", "counts", "key", "live")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.connections: dict[Connection, int] = {}  # with the number of live subscriptions
        self.live = 0  # the sum of these
        self.counts: Counts | None = None  # if there are enough to be counted


class UserMatches:
    """The holders of live subscriptions. One per broker, next to the control.

    `most` bounds the matches besides one for each connection; 0 means no limit. A holder's patterns
    are counted once it has `start` subscriptions, until it has fewer than `low`. Below `start`, all
    of them together are within the limit.
    """

    def __init__(self, most: int) -> None:
        self.refused = 0
        self._holders: dict[Hashable, MatchOwner] = {}
        self._of: dict[Connection, MatchOwner] = {}  # of those with live subscriptions
        self.limit(most)

    def limit(self, most: int) -> None:
        """Set the limit; existing subscriptions stay."""
        self.most = most
        self._start = min(START, most) if most else sys.maxsize
        self._low = max(self._start // 2, 1)
        if not most:
            for holder in self._holders.values():
                holder.counts = None

    @property
    def holders(self) -> int:
        """The number of users and addresses with live subscriptions."""
        return len(self._holders)

    def watch(self, connection: Connection) -> int:
        """Count the patterns of a connection's holder from now on, if it has `start`.

        Returns how many subscriptions were looked at for that.
        """
        holder = self._of.get(connection) or self._holders.get(principal_of(connection.session))
        if holder is None or holder.live < self._start or holder.counts is not None:
            return 0
        holder.counts = Counts([])
        for one in holder.connections:
            for sub in one.subs.values():
                if sub.replay is None:
                    holder.counts.add(sub.subject)
        return holder.live

    def acquire(self, connection: Connection, pattern: bytes) -> bool:
        """Count a new live subscription; return False, and do not count it, if over the limit."""
        holder = self._of.get(connection)
        if holder is None:
            key = principal_of(connection.session)
            holder = self._holders.get(key) or MatchOwner(key)
        counts = holder.counts
        if counts is not None:
            free = len(holder.connections) + (connection not in holder.connections)
            if not counts.admits(pattern, self.most + free):
                self._refuse(connection, counts, pattern)
                return False
            counts.add(pattern)
        self._holders[holder.key] = self._of[connection] = holder
        holder.connections[connection] = holder.connections.get(connection, 0) + 1
        holder.live += 1
        return True

    def remove(self, connection: Connection, pattern: bytes) -> None:
        """Count a live subscription less: it has ended, and has left its connection's table."""
        holder = self._of[connection]
        holder.live -= 1
        left = holder.connections[connection] - 1
        if left:
            holder.connections[connection] = left
        else:
            del holder.connections[connection], self._of[connection]
        if not holder.live:
            del self._holders[holder.key]
        elif holder.live < self._low:
            holder.counts = None
        elif holder.counts is not None:
            holder.counts.remove(pattern)

    def _refuse(self, connection: Connection, counts: Counts, pattern: bytes) -> None:
        self.refused += 1
        if not counts.reported:
            counts.reported = True
            log.warning(
                "%s - refused a subscription to %s: one message may match %d of a user's, besides"
                " one of each connection (limits.max_matches_per_user)",
                connection.session.label,
                quoted(pattern).decode(),
                self.most,
            )
