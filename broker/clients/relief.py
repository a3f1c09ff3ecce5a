"""When all outboxes together hold too much memory: disconnects the clients that hold the most."""

from collections.abc import Iterable

from broker.dataplane.connection import Budget, Connection
from broker.dataplane.gate import Gate

LEFT = 7 / 8  # of the limit, so that the next message does not cause another search


def relieve(gate: Gate, budget: Budget, connections: Iterable[Connection]) -> None:
    """Disconnect the clients with the largest outboxes until the rest is well within the limit."""
    least = budget.limit * LEFT
    alive = [connection for connection in connections if not connection.closed]
    for connection in sorted(alive, key=lambda connection: connection.kept(), reverse=True):
        if budget.bytes <= least:
            return
        held = connection.kept()
        connection.session.cut_reason = (
            f"MaxPendingTotal of {budget.limit} Exceeded; this client held the most, {held} bytes"
        )
        gate.disconnect_slow(connection)
        connection.drop_output()
