"""Lame duck mode: closes clients one after the other, so that they do not all reconnect at once.

Before that, they get INFO with `ldm: true`. Each client is closed when it has the answers to its
messages, and has received its own output.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from broker.clients.info_push import InfoPush
from broker.clients.session import Session
from broker.core import Core
from broker.dataplane.connection import Connection

POLL: Final = 0.02  # seconds; the kernel sends no event when a client has acknowledged its data
LOOK: Final = 1.0  # seconds between two checks which clients have left
GRACE_MAX: Final = 0.5  # of the time
BETWEEN_MAX: Final = 1.0  # seconds between two clients, as in nats-server: a few go quickly


class LameDuck:
    """The state of lame duck mode. One per broker, for its one thread."""

    def __init__(
        self,
        core: Core,
        sessions: Mapping[int, Session],
        info_push: InfoPush,
        is_awaiting: Callable[[Connection], bool],
    ) -> None:
        self._core = core
        self._loop = core.loop
        self._sessions = sessions
        self._info_push = info_push
        self.is_on = False  # INFO says so
        self._sending_away: asyncio.Task[None] | None = None
        self._closing: list[tuple[Session, float]] = []  # each with its deadline
        self._is_awaiting = is_awaiting

    def announce(self) -> None:
        """Tell the clients to go elsewhere."""
        self.stop()
        self.is_on = True
        self._info_push.changed(at_once=True)

    def send_away(self) -> bool:
        """Tell the clients to go elsewhere, and close them in the background.

        False if that is already under way.
        """
        if self.is_on:
            return False
        self.announce()
        self._sending_away = self._loop.create_task(self.close_all())
        return True

    def call_back(self) -> bool:
        """Leave lame duck mode; False if clients were not sent away."""
        if self._sending_away is None:
            return False
        self.stop()
        for session, _ in self._closing:
            session.close()  # its input since then was discarded
        self._closing = []
        self.is_on = False
        self._info_push.changed(at_once=True)
        return True

    def stop(self) -> None:
        """Stop closing clients."""
        if self._sending_away is not None:
            self._sending_away.cancel()
            self._sending_away = None

    async def close_all(self) -> None:
        """Close the clients that are connected now; return when all are closed.

        This takes `limits.lame_duck`; the first is closed after `lame_duck_grace`, each within
        `drain_timeout`.
        """
        waiting = deque(self._sessions)
        begun, count = self._loop.time(), len(waiting)
        limits = self._core.settings.limits
        grace = min(limits.lame_duck_grace, limits.lame_duck * GRACE_MAX)
        looked = begun
        while waiting or self._closing:
            now = self._loop.time()
            if now - looked >= LOOK:
                looked = now
                waiting = deque(cid for cid in waiting if cid in self._sessions)
            due = self._due(now - begun - grace, count, grace)
            while waiting and count - len(waiting) < due:
                session = self._sessions.get(waiting.popleft())
                if session is not None:
                    session.take_nothing_more()
                    self._closing.append((session, now + self._core.settings.limits.drain_timeout))
            self._closing = [one for one in self._closing if not self._close(*one)]
            await asyncio.sleep(POLL)  # no event to await

    def _due(self, passed: float, count: int, grace: float) -> int:
        """Return how many of `count` clients should be closed, `passed` seconds after the first."""
        seconds = self._core.settings.limits.lame_duck
        between = min((seconds - grace) / max(count, 1), BETWEEN_MAX)
        if passed < 0:
            return 0
        return 1 + int(passed / between) if between > 0 else count

    def _close(self, session: Session, deadline: float) -> bool:
        """Close a client if it has everything, or at its deadline; return True if it is closed."""
        late = self._loop.time() >= deadline
        if not late and self._is_awaiting(session.connection):
            return False
        session.start_draining()
        if late or session.is_drained():
            session.close()
            return True
        return False
