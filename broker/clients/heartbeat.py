"""The times at which connections must be checked: one timer for all, ordered by due time."""

import asyncio
from heapq import heapify, heappop, heappush
from typing import Final, Protocol

STALE_MAX: Final = (
    1024  # entries of sessions that have ended, or have another time, besides as many
)


class Numbered(Protocol):
    """A client with a cid."""

    @property
    def cid(self) -> int: ...


class Beating(Numbered, Protocol):
    """The receiver of a call when it is due: a session, or a `LateStranger`."""

    def beat(self, now: float) -> float:
        """Do what is due; return when to call again, 0 for never."""


class Heartbeat:
    """The timer that calls `beat(now)` of every session; the session returns its next due time.

    With a timer each, ten thousand idle connections would be ten thousand timers, and each read
    would move one. Here a read moves nothing: a session that has heard from its client returns a
    later time when it is called.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # A heap. An entry counts if `_sessions` has the same time; the others go when they are due,
        # or when most are such.
        self._due: list[tuple[float, int]] = []  # when, and the cid
        self._sessions: dict[int, tuple[float, Beating]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._wake_at = 0.0

    def __len__(self) -> int:
        return len(self._sessions)

    def schedule(self, session: Beating, due: float) -> None:
        """Call this session at `due` (loop time), and not at the time set before."""
        self._sessions[session.cid] = (due, session)
        heappush(self._due, (due, session.cid))
        if len(self._due) > 2 * len(self._sessions) + STALE_MAX:
            self._due = [(when, cid) for cid, (when, _) in self._sessions.items()]
            heapify(self._due)
        if self._timer is None or due < self._wake_at:
            self._wake(due)

    def remove(self, session: Numbered) -> None:
        """Do not call this session any more."""
        self._sessions.pop(session.cid, None)

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
                due, cid = heappop(self._due)
                known = self._sessions.get(cid)
                if known is None or known[0] != due:
                    continue
                del self._sessions[cid]
                again = known[1].beat(now)
                if again:
                    self.schedule(known[1], max(again, now + 0.001))
        finally:  # an error in one session must not stop the others
            if self._due:
                self._wake(self._due[0][0])
