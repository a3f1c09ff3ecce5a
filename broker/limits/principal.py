"""The key that a client's resource use is charged to: its user, or else its address."""

from collections.abc import Hashable

from broker.addresses import network_of
from broker.dataplane.client_session import ClientSession


def principal_of(client: ClientSession) -> Hashable:
    """Return the key of a client's user, or of its address. User and address keys never collide."""
    return client.user.name if client.user is not None else (network_of(client.ip),)
