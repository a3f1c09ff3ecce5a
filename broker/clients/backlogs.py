"""Clients with more than one turn had time for: each of them in turn, and one in each turn.

A turn of the event loop serves the clients that are ready, then one of these. So a client that is
ready waits for one of them, and not for all: a thousand clients that bring much work at the same
time delay each other, and nobody else.
"""

import asyncio
from collections import deque
from typing import Protocol


class Behind(Protocol):
    """A client with input that was read, and is to be served later."""

    def go_on(self) -> None:
        """Serve it now, if it still can be."""


class Backlogs:
    """One per broker, for its one thread. Memory: an entry for each, until its turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Behind] = deque()

    def add(self, behind: Behind) -> None:
        """Serve this one when it is its turn."""
        self._waiting.append(behind)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        behind = self._waiting[0]
        try:
            behind.go_on()  # it may add itself again
        finally:
            self._waiting.popleft()
            if self._waiting:
                self._loop.call_soon(self._turn)
