"""The traffic of clients in both directions, in messages and bytes."""

from typing import NamedTuple

from broker.dataplane.connection import Connection


class Traffic(NamedTuple):
    """Messages and payload bytes since the start, from clients and to clients."""

    in_msgs: int
    in_bytes: int
    out_msgs: int
    out_bytes: int

    def plus(self, connection: Connection) -> "Traffic":
        """Return the sum with the traffic of one more connection."""
        return Traffic(
            self.in_msgs + connection.in_msgs,
            self.in_bytes + connection.in_bytes,
            self.out_msgs + connection.out_msgs,
            self.out_bytes + connection.out_bytes,
        )
