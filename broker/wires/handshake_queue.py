"""Handshakes, one step in each turn of the event loop.

A step of TLS takes up to a millisecond. So a thousand clients that reconnect at once, or that only
pretend to, delay other clients by no more than that in a turn.
"""

import asyncio
from collections import deque
from typing import Final, Protocol


class Opening(Protocol):
    """A client in its handshake."""

    def go_on_opening(self) -> None:
        """Do one step with the client's input; the client may have gone."""


REFUSED_MAX: Final = 64  # clients without room that may finish a handshake, to get the error


class HandshakeQueue:
    """The queue of clients in a handshake. One per broker, for its one thread.

    A queued client is not read, so it is queued once at a time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._refused = 0
        self._waiting: deque[Opening] = deque()

    def add(self, one: Opening) -> None:
        """Queue a client that has sent something."""
        self._waiting.append(one)
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
            self._waiting[0].go_on_opening()
        finally:
            self._waiting.popleft()
            if self._waiting:
                self._loop.call_soon(self._step)
