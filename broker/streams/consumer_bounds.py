"""Bounds of what one client, and all together, may take of the memory of consumers.

    ephemeral consumers     of a connection, and of an address: they cost their creator nothing
    pull requests           of a connection, at all consumers together
    pending messages        of all consumers together: 32 bytes each, and a line in the notes

`streams.max_consumers` and the limits of each consumer hold besides.
"""

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.addresses import network_of
from broker.limits.quota import Quota
from broker.runtime.log_bounds import REPEATED

if TYPE_CHECKING:
    from broker.streams.consumers import RunningConsumer

log = logging.getLogger("seriatim")

EPHEMERAL_MOST: Final = 1000  # of a connection; of an address, also half of all consumers
REQUESTS_MOST: Final = 4096  # of a connection; its direct gets may be as many
# Of all consumers' filters together: one byte of them takes up to 50 in the table of subjects.
FILTER_BYTES_MOST: Final = 2 << 20
PENDING_MOST: Final = 2_000_000
# A consumer that has fewer pending gets more, also above that bound: one that never acknowledges
# does not stop those that do.
PENDING_FEW: Final = 100
COUNT_NS: Final = 20_000_000  # between two counts of all that is pending: 1 ms for 10 000 consumers


class ConsumerMaker(NamedTuple):
    """A client that has made a consumer: its address, and the number of its connection."""

    address: str
    connection: int


def maker_of(ip: str, connection: int) -> ConsumerMaker:
    """Return a client at an address, or in a network."""
    return ConsumerMaker(network_of(ip.partition("/")[0]), connection)


class EphemeralBounds:
    """How many ephemeral consumers there are, by connection and by address."""

    def __init__(self) -> None:
        self._of_connections: Quota[int] = Quota()
        self._of_addresses: Quota[str] = Quota()

    def refusal(self, maker: ConsumerMaker, most: int) -> str:
        """Say why a client may have no more of them, if there are `most` consumers at most."""
        has = self._of_connections.of(maker.connection)
        if has >= EPHEMERAL_MOST:
            return f"this connection has {has} ephemeral ones"
        has, share = self._of_addresses.of(maker.address), max(most // 2, EPHEMERAL_MOST)
        return f"this address has {has} ephemeral ones" if has >= share else ""

    def add(self, maker: ConsumerMaker, amount: int) -> None:
        """Count those of a client up, or down."""
        self._of_connections.add(maker.connection, amount)
        self._of_addresses.add(maker.address, amount)


class PendingTotal:
    """How many messages are pending in all consumers.

    Acks are not counted one by one, so the total may be too high: then all are counted again.
    """

    def __init__(self, all: Callable[[], Iterable["RunningConsumer"]]) -> None:
        self._all = all
        self._total = 0
        self._counted_at = 0
        self._is_told = False

    def note(self, consumer: "RunningConsumer") -> None:
        """Count what a consumer has now."""
        count = consumer.machine.deliverer.table.count
        self._total += count - consumer.pending_counted
        consumer.pending_counted = count

    def forget(self, consumer: "RunningConsumer") -> None:
        """Count what a consumer had no more: it has ended."""
        self._total -= consumer.pending_counted
        consumer.pending_counted = 0

    def room(self, consumer: "RunningConsumer", now: int) -> int:
        """Return how many more messages a consumer may have pending."""
        deliverer = consumer.machine.deliverer
        if self._total >= PENDING_MOST and now - self._counted_at >= COUNT_NS:
            self._counted_at = now
            for one in self._all():
                self.note(one)
        room = max(PENDING_MOST - self._total, PENDING_FEW - deliverer.table.count, 0)
        if room <= 0 and not self._is_told:
            log.warning(
                "Streams: %d messages are unacknowledged in all consumers together: those that have"
                " %d of them or more get no others until some are acknowledged",
                *(self._total, PENDING_FEW),
                extra=REPEATED,
            )
        self._is_told = room <= 0
        return room
