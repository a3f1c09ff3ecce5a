"""How many PINGs of a client wait for the cluster. With too many, the rest of its input waits.

A cluster that takes nothing answers no PING after a PUB. So without a bound, a client that goes on
sending PINGs would fill the memory.
"""

from typing import Final

from broker.dataplane.connection import Connection

PINGS_MAX: Final = 64  # of one client


class WaitingPings:
    """One per broker, for its one thread."""

    def __init__(self) -> None:
        self._counts: dict[Connection, int] = {}
        self._held: set[Connection] = set()

    def begin(self, connection: Connection) -> None:
        """A PING came, and waits from now on."""
        self._counts[connection] = self._counts.get(connection, 0) + 1

    def end(self, connection: Connection) -> None:
        """One is answered."""
        left = self._counts.pop(connection, 0) - 1
        if left > 0:
            self._counts[connection] = left
        elif connection in self._held:
            self._held.remove(connection)
            connection.session.proceed()

    def hold(self, connection: Connection) -> bool:
        """Whether nothing more of this client is handled until its PINGs are answered."""
        if self._counts.get(connection, 0) < PINGS_MAX or connection in self._held:
            return False
        self._held.add(connection)
        connection.session.wait()
        return True

    def drop(self, connection: Connection) -> None:
        """It has closed."""
        self._counts.pop(connection, None)
        self._held.discard(connection)
