"""The interface of queue groups that span several brokers, for the protocol's rules."""

from collections.abc import Callable
from typing import Protocol

from broker.dataplane.connection import Connection
from sublist.subscription import Subscription


class SharedGroups(Protocol):
    """The groups of a cluster: broker/cluster/group_members.py."""

    def refusal(self, connection: Connection, subject: bytes, queue: bytes) -> bytes:
        """Return why this client cannot join this group here; empty if it can."""

    def joined(self, sub: Subscription) -> None:
        """Count a subscription of a group that was put into the sublist."""

    def left(self, sub: Subscription) -> None:
        """Count a subscription of a group less: it was removed."""

    def end_subscription(self, sub: Subscription, then: Callable[[], None]) -> bool:
        """Begin to end a subscription; return False if it can be removed at once.

        If True, it must stay until the other members know; `then` is called when they do.
        """

    def in_force(self, connection: Connection, action: Callable[[], None]) -> None:
        """Call `action` once the other members know which groups the client has joined and left."""
