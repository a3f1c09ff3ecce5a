"""The times at which connections must be checked: one timer for all, ordered by due time."""

import asyncio
from typing import TYPE_CHECKING

from sortedcontainers import SortedSet

if TYPE_CHECKING:
    from broker.clients.session import Session


class Heartbeat:
    """The timer that calls `beat(now)` of every session; the session returns its next due time.

    With a timer each, ten thousand idle connections would be ten thousand timers, and each read
    would move one. Here a read moves nothing: a session that has heard from its client returns a
    later time when it is called.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due = SortedSet()  # of (due, cid)
        self._sessions: dict[int, tuple[float, Session]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._wake_at = 0.0

    def schedule(self, session: "Session", due: float) -> None:
        """Call this session at `due` (loop time), and not at the time set before."""
        self.remove(session)
        self._sessions[session.cid] = (due, session)
        self._due.add((due, session.cid))
        if self._timer is None or due < self._wake_at:
            self._wake(due)

    def remove(self, session: "Session") -> None:
        """Do not call this session any more."""
        known = self._sessions.pop(session.cid, None)
        if known is not None:
            self._due.discard((known[0], session.cid))

    def stop(self) -> None:
        """Do not call any session any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._wake_at = due
        self._timer = self._loop.call_at(due, self._beat)

    def _beat(self) -> None:
        self._timer = None
        now = self._loop.time()
        try:
            while self._due and self._due[0][0] <= now:
                _, cid = self._due.pop(0)
                _, session = self._sessions.pop(cid)
                again = session.beat(now)
                if again:
                    self.schedule(session, max(again, now + 0.001))
        finally:  # an error in one session must not stop the others
            if self._due:
                self._wake(self._due[0][0])
