"""Removes the subscriptions of connections that end, in slices if there are many.

A closed connection gets nothing more from that moment on; only its subscriptions must be removed.
A client that sends CONNECT again waits until all are removed. A few are removed at once. If there
are many, each turn of the event loop removes `SLICE` of each connection in turn, up to `TURN` of
work, so that no connection waits for another to finish. The broker's own shutdown does not wait for
any of this.
"""

from collections import OrderedDict
from collections.abc import Callable

from broker.dataplane.connection import Connection
from broker.runtime.loop_latency import LOOP_LATENCY
from sublist.sublist import Sublist
from sublist.subscription import Subscription

AT_ONCE = 64  # nearly every connection has no more
SLICE = 512  # subscriptions of one connection, before the next has its turn
TURN = 32_768  # of work, in offers; about 3 ms
REMOVAL = 16  # offers that removing a subscription costs, besides its nodes


class SubscriptionReaper:
    """The connections whose subscriptions are being removed. One per broker, next to the control.

    `remove` removes one subscription; `later` calls a function in a later turn.
    """

    def __init__(
        self,
        sublist: Sublist,
        remove: Callable[[Subscription], None],
        later: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        self._sublist = sublist
        self._remove = remove
        self._links: OrderedDict[Connection, Callable[[], None] | None] = OrderedDict()  # and then
        self.later = later

    @property
    def waiting(self) -> int:
        """The number of connections whose subscriptions are still being removed."""
        return len(self._links)

    def is_quick(self, connection: Connection) -> bool:
        """True if a connection has so few subscriptions that they are removed at once."""
        return self.later is None or len(connection.subs) <= AT_ONCE

    def drop(self, connection: Connection) -> None:
        """Remove all subscriptions of a closed connection, now or soon."""
        if connection in self._links:
            self._links[connection] = None
        else:
            self.clear(connection, None)

    def clear(self, connection: Connection, then: Callable[[], None] | None) -> None:
        """Remove all subscriptions of a connection that stays open, then call `then`."""
        if self.later is None or self.is_quick(connection):
            self._take_out(connection, len(connection.subs))
            if then is not None:
                then()
            return
        self._links[connection] = then
        if len(self._links) == 1:
            self.later(self._turn)

    def _turn(self) -> None:
        begun = LOOP_LATENCY.start_timing()
        sublist = self._sublist
        spent = -sublist.work
        while self._links and spent + sublist.work < TURN:
            connection, then = self._links.popitem(last=False)
            spent += REMOVAL * self._take_out(connection, SLICE)
            if connection.subs:
                self._links[connection] = then
            elif then is not None:
                then()
        if self._links and self.later is not None:
            self.later(self._turn)
        LOOP_LATENCY.end(begun)

    def _take_out(self, connection: Connection, most: int) -> int:
        """Remove up to `most` of a connection's subscriptions; return how many."""
        subs = connection.subs
        count = min(len(subs), most)
        for _ in range(count):
            self._remove(subs.popitem()[1])
        return count
