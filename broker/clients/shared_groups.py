"""What the protocol's rules ask for where queue groups span several brokers."""

from collections.abc import Callable
from typing import Protocol

from broker.dataplane.connection import Connection
from sublist.subscription import Subscription


class SharedGroups(Protocol):
    """The groups of a cluster: broker/cluster/group_takers.py."""

    def refusal(self, connection: Connection, subject: bytes, queue: bytes) -> bytes:
        """Why this client cannot join this group here; empty if it can."""

    def joined(self, sub: Subscription) -> None:
        """A subscription of a group is in the sublist."""

    def left(self, sub: Subscription) -> None:
        """It is not any more."""

    def leave(self, sub: Subscription, then: Callable[[], None]) -> bool:
        """Whether it must stay until the other members know; `then` is called when they do."""

    def in_force(self, connection: Connection, action: Callable[[], None]) -> None:
        """Call it once the other members know which groups this client has joined and left."""
