"""Disconnects the clients with the most output when all outboxes together hold too much memory.

First it drops the output of clients that are being closed: they have a few seconds to read it, and
many of them could fill the memory in that time. Then it closes others.
"""

from collections.abc import Iterable

from broker.dataplane.connection import Budget, Connection
from broker.dataplane.gate import Gate

LEFT = 7 / 8  # of the limit, so that the next message does not cause another search


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
