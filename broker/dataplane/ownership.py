"""Whose a subscription is. The sublist keeps its owner, and does not know what that is."""

from broker.dataplane.connection import Connection
from sublist.subscription import Subscription


def connection_of(sub: Subscription) -> Connection:
    """The connection of a subscription that has not ended."""
    owner = sub.owner
    assert isinstance(owner, Connection), "it has not ended"
    return owner
