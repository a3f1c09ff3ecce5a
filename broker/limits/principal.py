"""Who answers for what a client uses: its user; without users, its address."""

from collections.abc import Hashable
from typing import Protocol

from broker.addresses import network_of
from broker.dataplane.user import User


class Accountable(Protocol):
    """A session: broker/clients/session.py."""

    @property
    def user(self) -> User | None: ...
    @property
    def ip(self) -> str: ...


def party_of(client: Accountable) -> Hashable:
    """A key that all clients of a user have in common, or of an address; none is equal to both."""
    return client.user.name if client.user is not None else (network_of(client.ip),)
