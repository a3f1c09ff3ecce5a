"""Handshakes take turns: one step of one client, then everybody else.

A step of TLS takes up to a millisecond. So a thousand clients that come back at once, or that only
pretend to, delay nobody by more than that.
"""

import asyncio
from collections import deque
from typing import Final, Protocol


class Opening(Protocol):
    """A client in its handshake."""

    def go_on_opening(self) -> None:
        """Do one step with what it has sent; it may have gone."""


REFUSED_MAX: Final = 64  # clients in a handshake who then learn that there is no room for them


class Openings:
    """One per broker, for its one thread. A client waits here once at a time, and reads no more."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._refused = 0
        self._waiting: deque[Opening] = deque()

    def add(self, one: Opening) -> None:
        """It has sent something."""
        self._waiting.append(one)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._step)

    def refuse(self) -> bool:
        """Let one more shake hands to be refused; False if too many do already."""
        if self._refused >= REFUSED_MAX:
            return False
        self._refused += 1
        return True

    def refused(self) -> None:
        """One of them has gone."""
        self._refused -= 1

    def _step(self) -> None:
        try:
            self._waiting[0].go_on_opening()
        finally:
            self._waiting.popleft()
            if self._waiting:
                self._loop.call_soon(self._step)
