"""Whose turn it is to be served from the journal: a few steps in each turn of the event loop.

A turn gives a few steps of 256 KiB to those that are ready, one after the other, and then
everybody else is served: thousands of replays take half of the time, and never more. Where a
cursor stands until its turn is drawn in broker/replay/replays.py.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from broker.dataplane.connection import Connection
from broker.dataplane.plane import Plane
from broker.replay.cursor import Cursor
from broker.replay.memory import Memory
from broker.replay.queues import Parked, Ready, Waiting
from broker.turns import TURNS

STEPS = 16  # in one turn
BYTES = 1 << 19  # consumed in one turn, after which others are served: some 4 ms, a third of the
# time when messages are long. Work that is not compiled counts as 64 bytes a microsecond.
ADVANCED = 1024  # that waited for a number, and go on in one turn
ADVANCE_WORK = 256
FREE_WORK = 16


class Scheduler:
    """One per broker, for its one thread. `serve` makes a step, and returns how much it did."""

    def __init__(
        self,
        plane: Plane,
        journal: Any,
        loop: asyncio.AbstractEventLoop,
        answers_pending: int,
        serve: Callable[[Cursor], int],
    ) -> None:
        self._plane = plane
        self._journal = journal
        self.memory = Memory(answers_pending, self.go_on)
        self.most_work = 0  # in one turn so far
        self._loop = loop
        self._serve = serve
        self.ready = Ready()
        self.parked = Parked()
        self.waiting = Waiting()
        self._scheduled = False
        self._due = False  # somebody waits for a number that has come

    @property
    def waits(self) -> bool:
        """Whether anyone waits for a number."""
        return len(self.waiting) > 0

    def go_on(self, cursor: Cursor) -> None:
        """It has another step to make, when it is its turn."""
        if not cursor.ended:
            self.ready.put(cursor)
            self.schedule()

    def go_first(self, cursor: Cursor) -> None:
        """A thread has read for it: others wait for the place that its buffer takes."""
        self.ready.put_first(cursor)
        self.schedule()

    def park(self, cursor: Cursor) -> None:
        """It goes on when its socket takes more, or a fence is lowered."""
        cursor.parked_at = self._loop.time()
        self.memory.pass_on(cursor)
        self.parked.put(cursor)

    def wake(self, connection: Connection) -> None:
        """This connection's socket takes more, or it has gone."""
        for cursor in self.parked.take(connection):
            self.go_on(cursor)

    def wake_all(self) -> None:
        """Fences were lowered: outboxes may have room though no socket was full."""
        for connection in self.parked.connections:
            if connection.writable or connection.closed:
                self.wake(connection)

    def advance(self) -> None:
        """Numbers were given: those that wait for them go on."""
        if self.waits and self.waiting.lowest <= self._journal.last:
            self._due = True
            self.schedule()

    def schedule(self) -> None:
        """Have a turn soon."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Serve those that are ready a little."""
        self._scheduled = False
        begun = TURNS.begin()
        work = self._advance_some() if self._due else 0
        surveys = self.memory.surveys
        if surveys.thrown_away:
            work += surveys.tidy() * FREE_WORK
        for _ in range(STEPS):
            if not self.ready or work >= BYTES:
                break
            work += self._serve(self.ready.take())
        self.most_work = max(self.most_work, work)
        if self.ready or self._due or surveys.thrown_away:
            self.schedule()
        self._plane.release(None)
        TURNS.end(begun)

    def _advance_some(self) -> int:
        """Those whose number has come go on, some in each turn; how much work that was."""
        for count in range(ADVANCED):
            cursor = self.waiting.take(self._journal.last)
            if cursor is None:
                self._due = False
                return count * ADVANCE_WORK
            self.go_on(cursor)
        return ADVANCED * ADVANCE_WORK
