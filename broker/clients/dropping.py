"""Subscriptions that end all at once: removed from the sublist a few at a time, fairly.

A link that is dropped is closed and full, so it gets nothing from that moment on; what is left is
to take its subscriptions out. A client that says CONNECT again waits until all of them are. A few
are taken out at once. Of a million, each turn of the event loop takes out `SLICE` of one link
after the other, until `TURN` is reached, so that none waits for another to end. Nor does
the broker's own end wait for it.
"""

from collections import OrderedDict
from collections.abc import Callable

from broker.dataplane.connection import Connection
from broker.turns import TURNS
from sublist.sublist import Sublist
from sublist.subscription import Subscription

AT_ONCE = 64  # what nearly every connection has
SLICE = 512  # subscriptions of one link, before it is another's turn
TURN = 32_768  # of work, in offers; some 3 ms
REMOVAL = 16  # offers that taking out a subscription costs, besides its nodes


class Dropping:
    """One per broker, beside the control. `remove` takes one subscription out."""

    def __init__(self, sublist: Sublist, remove: Callable[[Subscription], None]) -> None:
        self._sublist = sublist
        self._remove = remove
        self._links: OrderedDict[Connection, Callable[[], None] | None] = OrderedDict()  # what then
        self.later: Callable[[Callable[[], None]], object] | None = None  # calls in another turn

    @property
    def waiting(self) -> int:
        """Links that still have subscriptions to be removed."""
        return len(self._links)

    def is_quick(self, connection: Connection) -> bool:
        """Whether a link has so few that they are removed at once."""
        return self.later is None or len(connection.subs) <= AT_ONCE

    def drop(self, connection: Connection) -> None:
        """Remove all subscriptions of a link that has closed, now or soon."""
        if connection in self._links:
            self._links[connection] = None
        else:
            self.clear(connection, None)

    def clear(self, connection: Connection, then: Callable[[], None] | None) -> None:
        """The same for a link that lives, and do something when it has none any more."""
        if self.later is None or self.is_quick(connection):
            self._take_out(connection, len(connection.subs))
            if then is not None:
                then()
            return
        self._links[connection] = then
        if len(self._links) == 1:
            self.later(self._turn)

    def _turn(self) -> None:
        begun = TURNS.begin()
        sublist = self._sublist
        spent = -sublist.effort
        while self._links and spent + sublist.effort < TURN:
            connection, then = self._links.popitem(last=False)
            spent += REMOVAL * self._take_out(connection, SLICE)
            if connection.subs:
                self._links[connection] = then
            elif then is not None:
                then()
        if self._links and self.later is not None:
            self.later(self._turn)
        TURNS.end(begun)

    def _take_out(self, connection: Connection, most: int) -> int:
        """Take out so many of a link's subscriptions; how many there were."""
        subs = connection.subs
        count = min(len(subs), most)
        for _ in range(count):
            self._remove(subs.popitem()[1])
        return count
