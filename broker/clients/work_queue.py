"""Clients with more input than one turn had time for; each turn serves one of them.

A turn of the event loop serves the clients that are ready, then one of these. So a client that is
ready waits for one of them, and not for all: a thousand clients that bring much work at the same
time delay only each other.

Users take turns, and so do the clients of each user; without users, addresses do. So a user with a
thousand connections gets no more turns than a user with one.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import TYPE_CHECKING

from broker.limits.principal import principal_of

if TYPE_CHECKING:
    from broker.clients.session import Session


class WorkQueue:
    """The clients that wait for a later turn. One per broker, for its one thread.

    Memory: an entry for each, until its turn.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: OrderedDict[Hashable, deque[Session]] = OrderedDict()  # by party
        self._scheduled = False

    def add(self, behind: "Session") -> None:
        """Serve this client when its turn comes."""
        self._waiting.setdefault(principal_of(behind), deque()).append(behind)
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        principal, waiting = self._waiting.popitem(last=False)
        behind = waiting.popleft()
        if waiting:
            self._waiting[principal] = waiting
        try:
            behind.resume()  # which may call `add` again
        finally:
            self._schedule()
