"""Handshakes, one step in each turn of the event loop.

A step of TLS takes up to a millisecond. So a thousand clients that reconnect at once, or that only
pretend to, delay other clients by no more than that in a turn.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

REFUSED_MAX: Final = 64  # clients without room that may finish a handshake, to get the error


class HandshakeQueue:
    """The queue of clients in a handshake. One per broker, for its one thread.

    A queued client is not read, so it is queued once at a time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._refused = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def add(self, step: Callable[[], None]) -> None:
        """Queue the next step of a client that has sent something; it may go meanwhile."""
        self._waiting.append(step)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._step)

    def refuse(self) -> bool:
        """Count a client that finishes its handshake only to be refused; False if too many do."""
        if self._refused >= REFUSED_MAX:
            return False
        self._refused += 1
        return True

    def refused(self) -> None:
        """Count a refused client less: it has gone."""
        self._refused -= 1

    def _step(self) -> None:
        try:
            self._waiting[0]()
        finally:
            self._waiting.popleft()
            if self._waiting:
                self._loop.call_soon(self._step)
