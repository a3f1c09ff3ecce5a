"""Clients with more than one turn had time for: each of them in turn, and one in each turn.

A turn of the event loop serves the clients that are ready, then one of these. So a client that is
ready waits for one of them, and not for all: a thousand clients that bring much work at the same
time delay each other, and nobody else.

Users take turns, and the clients of each user among themselves; without users, addresses do. So
somebody with a thousand connections gets no more turns than somebody with one.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Protocol

from broker.dataplane.user import User
from broker.limits.principal import party_of


class Behind(Protocol):
    """A client with input that was read, and is to be served later."""

    @property
    def user(self) -> User | None: ...
    @property
    def ip(self) -> str: ...
    def go_on(self) -> None:
        """Serve it now, if it still can be."""


class Backlogs:
    """One per broker, for its one thread. Memory: an entry for each, until its turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: OrderedDict[Hashable, deque[Behind]] = OrderedDict()  # by whose they are
        self._scheduled = False

    def add(self, behind: Behind) -> None:
        """Serve this one when it is its turn."""
        self._waiting.setdefault(party_of(behind), deque()).append(behind)
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        party, waiting = self._waiting.popitem(last=False)
        behind = waiting.popleft()
        if waiting:
            self._waiting[party] = waiting
        try:
            behind.go_on()  # it may add itself again
        finally:
            self._schedule()
