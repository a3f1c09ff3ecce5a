"""The key that a client's resource use is charged to: its user, or else its address."""

from collections.abc import Hashable
from typing import Protocol

from broker.addresses import network_of
from broker.dataplane.user import User


class HasPrincipal(Protocol):
    """A session: broker/clients/session.py."""

    @property
    def user(self) -> User | None: ...
    @property
    def ip(self) -> str: ...


def principal_of(client: HasPrincipal) -> Hashable:
    """Return the key of a client's user, or of its address. User and address keys never collide."""
    return client.user.name if client.user is not None else (network_of(client.ip),)
