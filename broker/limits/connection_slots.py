"""Limits the number of connected clients: in all, and from one address.

    enter(ip, limits) -> ""     the client is counted, until `leave(ip)`
                      -> why    the client is refused, and not counted

Clients of every kind count: NATS clients and those of cquencer's port. An IPv6 network of 2^64
counts as one address. Memory: one entry for each address that has a client.
"""

from collections.abc import Callable, Hashable

from broker.addresses import network_of
from broker.limits.quota import Quota

EXCEEDED = "maximum connections exceeded"


class ConnectionSlots:
    """The count of connected clients. One per broker, for its one thread.

    A proxy's address has no limit of its own.
    """

    def __init__(self, is_proxy: Callable[[str], bool] = lambda ip: False) -> None:
        self._is_proxy = is_proxy
        self.refused = 0  # clients above the limit for all
        self.refused_by_address = 0  # clients above the limit for their address
        self._networks: Quota[Hashable] = Quota()

    def enter(self, ip: str, most: int, most_per_address: int) -> str:
        """Count a client from this address; return the reason if it is refused, else empty.

        `most_per_address` 0 is no limit.
        """
        if self.connected >= most:
            self.refused += 1
            return EXCEEDED
        network = network_of(ip)
        count = self._networks.of(network)
        crowded = most_per_address and count >= most_per_address
        if crowded and not self._is_proxy(ip):
            self.refused_by_address += 1
            return (
                f"{EXCEEDED}: limits.max_connections_per_address is {most_per_address},"
                f" and this address has {count}"
            )
        self._networks.add(network)
        return ""

    def release(self, ip: str) -> None:
        """Count a client less: it has gone."""
        self._networks.add(network_of(ip), -1)

    @property
    def connected(self) -> int:
        """The number of clients."""
        return self._networks.total

    @property
    def networks(self) -> int:
        """The number of addresses with clients."""
        return len(self._networks)

    @property
    def most_from_one(self) -> int:
        """The number of clients from the address with the most."""
        return max((count for _, count in self._networks.items()), default=0)
