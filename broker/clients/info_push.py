"""Sends INFO again to clients that understand it (`protocol: 1`), when it has changed.

A few clients at a time: a hundred thousand get it within eight seconds, and the broker's other work
goes on meanwhile. Several changes in quick succession are sent once.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from broker.clients.session import Session
from broker.dataplane.plane import Plane

AT_ONCE: Final = 64  # clients; about a millisecond
PAUSE: Final = 0.005  # seconds between two turns
AGAIN: Final = 1.0  # seconds between the beginnings of two rounds


class InfoPush:
    """The rounds in which clients get the new INFO. One per broker, for its one thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, plane: Plane, sessions: Mapping[int, Session]
    ) -> None:
        self._loop = loop
        self._plane = plane
        self._sessions = sessions
        self._left: list[int] = []  # cids that this round has not reached, the next one last
        self._is_stale = False  # INFO has changed since this round began
        self._next_round = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def changed(self, at_once: bool = False) -> None:
        """Send the changed INFO to all clients; `at_once`: do not wait for other changes."""
        self._is_stale = True
        if at_once:
            self._begin()
        elif self._timer is None:
            self._timer = self._loop.call_at(self._next_round, self._turn)

    def stop(self) -> None:
        """Stop sending."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        """Begin a round of all clients."""
        self.stop()
        self._is_stale = False
        self._left = list(self._sessions)[::-1]
        self._next_round = self._loop.time() + AGAIN
        self._turn()

    def _turn(self) -> None:
        self._timer = None
        if not self._left and self._is_stale:
            self._begin()
            return
        for _ in range(min(AT_ONCE, len(self._left))):
            session = self._sessions.get(self._left.pop())
            if session is not None:
                session.push_info()
        self._plane.release(None)
        if self._left:
            self._timer = self._loop.call_later(PAUSE, self._turn)
        elif self._is_stale:
            self._timer = self._loop.call_at(self._next_round, self._turn)
