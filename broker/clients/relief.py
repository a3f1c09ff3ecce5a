"""Memory that all outboxes hold together, when it is too much: those with the most are cut off."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.dataplane.gate import Gate
from broker.dataplane.link import Budget

if TYPE_CHECKING:
    from broker.clients.session import Session

LEFT = 7 / 8  # of the limit, so that the next one is not looked for with the next message


def relieve(gate: Gate, budget: Budget, sessions: Iterable["Session"]) -> None:
    """Cut off the clients with the largest outboxes, until the others are well within."""
    least = budget.limit * LEFT
    links = [session.link for session in sessions if not session.link.closed]
    for link in sorted(links, key=lambda link: link.kept(), reverse=True):
        if budget.bytes <= least:
            return
        held = link.kept()
        link.session.cut_reason = (
            f"MaxPendingTotal of {budget.limit} Exceeded, and its {held} bytes are the most of all"
        )
        gate.cut(link)
        link.drop_output()
