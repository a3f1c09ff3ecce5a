"""Decides which cursor is served next: a few steps in each turn of the event loop.

A turn gives a few steps of 256 KiB to the cursors that are ready, one after another; then the
broker's other work is done. So thousands of replays take half of the time, and never more. For the
places where cursors wait for their turn, see the drawing in broker/replay/replays.py.

    catch-ups       first, with all of a turn but a third: they serve live subscribers
    other cursors   what is left of it, and one step in any turn
    5 ms            a turn begins no step later than that
    over 10 ms      such a turn halves the bytes of the next turns; each short one adds an eighth
"""

import asyncio
import time
from collections.abc import Callable

from broker.dataplane.connection import Connection
from broker.dataplane.plane import Plane
from broker.replay.cursor import Cursor
from broker.replay.memory import Memory
from broker.replay.queues import CursorQueue, Waiting
from broker.runtime.loop_latency import LOOP_LATENCY
from sequencer.journal.protocols import ReadableJournal

STEPS = 16  # in one turn
# Bytes consumed in one turn, after which other work is done. More than the records that one turn of
# clients publishes (RECEIVE_BYTES in broker/clients/inbox.py), if messages are not short: otherwise
# a reader catches up with a fast publisher only when that pauses.
# Work that is not compiled counts as 64 bytes a microsecond: at most 12 ms, and one step.
BYTES = 3 << 18
# A live message may wait for one turn, and in a turn of its own. So a turn begins no step after
# half of what a message should wait at most. One that took all of it (records cost more than their
# bytes tell, or the machine is busy) was too much: the next ones do less.
TURN_S = 0.005
LONG_S = 0.01
BYTES_MIN = 1 << 14  # a step of these costs about as much as its system calls
GROW_SHIFT = 3
ADVANCED = 1024  # cursors that waited for a number and continue in one turn
ADVANCE_WORK = 256
FREE_WORK = 16


class Scheduler:
    """The queues of all cursors, and their turns. One per broker, for its one thread.

    `serve` does a step, and returns its work.
    """

    def __init__(
        self,
        plane: Plane,
        journal: ReadableJournal,
        loop: asyncio.AbstractEventLoop,
        answers_pending: int,
        serve: Callable[[Cursor], int],
    ) -> None:
        self._plane = plane
        self._journal = journal
        self.memory = Memory(answers_pending, self.step_again)
        self.most_work = 0  # in one turn so far
        self._loop = loop
        self._serve = serve
        self.clock = time.monotonic
        self.budget = BYTES  # of one turn; less after a long one
        self.lagging = CursorQueue()  # catch-ups that are ready: they go before all others
        self.ready = CursorQueue()
        self.parked = CursorQueue()  # the socket takes no more, or the outbox is fenced
        self.waiting = Waiting()
        self._scheduled = False
        self._due = False  # a cursor waits for a number that has come

    @property
    def waits(self) -> bool:
        """True if any cursor waits for a number."""
        return len(self.waiting) > 0

    def state_of(self, cursor: Cursor) -> str:
        """Name the place where a cursor is: ready, parked, waiting (for a number) or reading."""
        if cursor.queue is self.parked:
            return "parked"
        if cursor.queue is self.waiting:
            return "waiting"
        return "ready" if cursor.queue in (self.ready, self.lagging) else "reading"

    def step_again(self, cursor: Cursor) -> None:
        """Give a cursor another step, when its turn comes."""
        if not cursor.ended:
            (self.lagging if cursor.is_catch_up else self.ready).put(cursor)
            self.schedule()

    def go_first(self, cursor: Cursor) -> None:
        """Serve a cursor first that a thread has read for: others wait for its buffer."""
        (self.lagging if cursor.is_catch_up else self.ready).put_first(cursor)
        self.schedule()

    def park(self, cursor: Cursor) -> None:
        """Let a cursor wait until its socket takes more, or a fence is lowered."""
        cursor.parked_at = self._loop.time()
        self.memory.pass_on(cursor)
        self.parked.put(cursor)

    def wake(self, connection: Connection) -> None:
        """Continue the cursors of a connection whose socket takes more, or that has gone."""
        for cursor in self.parked.pop_key(connection):
            self.step_again(cursor)

    def wake_all(self) -> None:
        """Continue parked cursors after fences were lowered: outboxes may have room again."""
        for connection in self.parked.keys:
            if connection.writable or connection.closed:
                self.wake(connection)

    def advance(self) -> None:
        """Continue the cursors that wait for numbers which were given now."""
        if self.waits and self.waiting.lowest <= self._journal.last:
            self._due = True
            self.schedule()

    def schedule(self) -> None:
        """Take a turn soon."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Serve some of the cursors that are ready."""
        self._scheduled = False
        begun, timing = self.clock(), LOOP_LATENCY.start_timing()
        work = self._advance_some() if self._due else 0
        surveys = self.memory.surveys
        if surveys.thrown_away:
            work += surveys.tidy() * FREE_WORK
        work = self._serve_some(work, begun + TURN_S)
        self.most_work = max(self.most_work, work)
        if self.lagging or self.ready or self._due or surveys.thrown_away:
            self.schedule()
        self._plane.release(None)
        self._adjust(self.clock() - begun)
        LOOP_LATENCY.end(timing)

    def _serve_some(self, work: int, until: float) -> int:
        """Serve cursors for as long as a turn may last; return the turn's work so far."""
        most = self.budget - self.budget // 3 if self.ready else self.budget
        steps = STEPS
        while self.lagging and steps > 1 and work < most and self.clock() < until:
            work += self._serve(self.lagging.pop())
            steps -= 1
        served = False  # one of the others
        while self.ready and steps and work < BYTES:
            if served and (work >= self.budget or self.clock() >= until):
                break
            work += self._serve(self.ready.pop())
            steps -= 1
            served = True
        return work

    def _adjust(self, took: float) -> None:
        """Do less in the next turns after a long one, and more again after short ones."""
        if took > LONG_S:
            self.budget = max(self.budget >> 1, BYTES_MIN)
        elif self.budget < BYTES:
            self.budget = min(self.budget + (self.budget >> GROW_SHIFT), BYTES)

    def _advance_some(self) -> int:
        """Continue some of the cursors whose number has come; return the work of that."""
        for count in range(ADVANCED):
            cursor = self.waiting.pop_reached(self._journal.last)
            if cursor is None:
                self._due = False
                return count * ADVANCE_WORK
            self.step_again(cursor)
        return ADVANCED * ADVANCE_WORK
