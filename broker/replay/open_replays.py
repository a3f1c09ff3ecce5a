"""Limits the number of open replays: of one connection, of these `$SEQ.LAST`, and in all.

A replay is open from its SUB until it is live, has ended, or its connection has gone. Catch-ups do
not count: the broker itself begins them, at most one for each connection.
"""

from broker.dataplane.connection import Connection
from broker.replay.requests import Last, Past


class OpenReplays:
    """The count of open replays. One per broker, for its one thread.

    The limits may change at any time; 0 is no limit.
    """

    def __init__(self) -> None:
        self.most = 0  # of one connection
        self.most_total = 0
        self.most_latest = 0  # `$SEQ.LAST` of one connection
        self.open = 0
        self.refused = 0
        self._open: dict[Connection, int] = {}
        self._latest: dict[Connection, int] = {}

    def of(self, connection: Connection) -> int:
        """Return how many replays of one connection are open."""
        return self._open.get(connection, 0)

    def refusal(self, connection: Connection, past: Past) -> bytes:
        """Return why one more replay would be too many; empty if it would not be."""
        why = self._refusal(connection, isinstance(past, Last))
        self.refused += bool(why)
        return why

    def _refusal(self, connection: Connection, latest: bool) -> bytes:
        if self.most and self.of(connection) >= self.most:
            whose, setting = f"this connection has {self.most} replays open", "max_replays"
        elif latest and 0 < self.most_latest <= self._latest.get(connection, 0):
            whose = f"this connection has {self.most_latest} $SEQ.LAST open"
            setting = "max_last_replays"
        elif self.most_total and self.open >= self.most_total:
            whose, setting = f"{self.most_total} replays are open", "max_replays_total"
        else:
            return b""
        return f"{whose} (limits.{setting}); wait until some have ended".encode()

    def begin(self, connection: Connection, latest: bool) -> None:
        """Count a new replay."""
        self.open += 1
        self._open[connection] = self.of(connection) + 1
        if latest:
            self._latest[connection] = self._latest.get(connection, 0) + 1

    def end(self, connection: Connection, latest: bool) -> None:
        """Count a replay less: it has ended."""
        self.open -= 1
        _count_down(self._open, connection)
        if latest:
            _count_down(self._latest, connection)


def _count_down(counts: dict[Connection, int], connection: Connection) -> None:
    counts[connection] -= 1
    if not counts[connection]:
        del counts[connection]
