"""The owner of a subscription, which the sublist keeps as an opaque object: its Connection."""

from broker.dataplane.connection import Connection
from sublist.subscription import Subscription


def connection_of(sub: Subscription) -> Connection:
    """Return the connection of a subscription that has not ended."""
    owner = sub.owner
    assert isinstance(owner, Connection), "it has not ended"
    return owner
