"""Memory that all outboxes hold together, when it is too much: those with the most are cut off."""

from collections.abc import Iterable

from broker.dataplane.connection import Budget, Connection
from broker.dataplane.gate import Gate

LEFT = 7 / 8  # of the limit, so that the next one is not looked for with the next message


def relieve(gate: Gate, budget: Budget, connections: Iterable[Connection]) -> None:
    """Cut off the clients with the largest outboxes, until the others are well within."""
    least = budget.limit * LEFT
    alive = [connection for connection in connections if not connection.closed]
    for connection in sorted(alive, key=lambda connection: connection.kept(), reverse=True):
        if budget.bytes <= least:
            return
        held = connection.kept()
        connection.session.cut_reason = (
            f"MaxPendingTotal of {budget.limit} Exceeded, and its {held} bytes are the most of all"
        )
        gate.disconnect_slow(connection)
        connection.drop_output()
