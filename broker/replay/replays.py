"""Who is served from the journal: replays, connections that catch up, questions.

`Replays` is what the rest of the broker asks: it starts cursors, knows them by connection, and
ends them with it. Whose turn it is, is the Scheduler's business; what one step does, the
Stepper's; what a cursor does with the records it gets, its own.
"""

# Theory of operation
#
# A cursor is a place in the journal and somebody who wants what is there. It stands in exactly one
# of the places drawn here, and knows which: `cursor.home`. So it can leave at any moment, in
# O(log n), and a client that begins and ends a million replays leaves nothing behind.
#
#       start, catch_up, ask
#               |
#               v            more is there, the socket takes it
#      .---> [ ready ] <----------------------------------------.
#      |         | its turn comes: Scheduler._turn              |
#      |         v                                              |
#      |     ( a step ) ----------------------------------------'
#      |         |
#      |         |-- the socket is full, or a fence is up -----> [ parked ]   wake, wake_all
#      |         |-- the next number is not given yet ---------> [ waiting ]  advance
#      |         |-- what it wants is not in memory -----------> [ fetcher ]  a thread has read it
#      |         |-- others hold the memory it gathers in -----> [ memory ]   they give it back
#      |         |                                                    |
#      |         v                                                    |
#      |      ended: live again, done, dropped                        |
#      '--------------------------------------------------------------'
#
# During its step a cursor is nowhere: `home` is None. A step may then put it anywhere, itself
# included: `play` may call `move`, `begin` another cursor, or have its own subscription removed.
# The last is why `drop` only marks a cursor whose step it is: the step ends first, then the cursor.
#
# Who serves a subscription is never in doubt, and never two at once:
#
#     sub.replay is a cursor     only that one; the subscription is not in the sublist yet
#     connection.detached        only its CatchUp, for all live subscriptions of the connection
#     neither                    the data plane, live
#
# The step from the journal to live delivery is made when the cursor is at the head: its `number` is
# above the last one given. Nothing can be given in between, for the broker has one thread, and the
# step began with all that was given before. `sub.seen` is the last number a subscription has had:
# the plane, a replay and a catch-up all look at it, so that no message comes twice.
#
# Fairness: the scheduler takes one cursor of a connection, then one of the next connection. A turn
# ends after 16 steps or half a megabyte, and the event loop serves everybody else before the next.

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from broker.dataplane.connection import Connection
from broker.dataplane.plane import Plane
from broker.replay import requests
from broker.replay.cursor import NOBODY, CatchUp, Cursor, Replay
from broker.replay.latest import Latest
from broker.replay.stepper import Stepper
from sublist.subscription import Subscription

log = logging.getLogger("seriatim")

LOOK_UP = 1024  # offers that looking into an index costs


class Replays:
    """One per broker, for its one thread. `journal` is a Store or a Ring."""

    def __init__(
        self,
        plane: Plane,
        journal: Any,
        loop: asyncio.AbstractEventLoop,
        answers_pending: int = 1 << 29,
    ) -> None:
        self.plane = plane
        self.journal = journal
        self.active = 0  # cursors that have not ended
        self.started = self.catch_ups = self.catching_up = self.given_up = 0
        self._loop = loop
        self._stepper = Stepper(plane, journal, loop, answers_pending, self._ended)
        self.replay_writer = self._stepper.replay_writer
        self.scheduler = self._stepper.scheduler
        self.memory = self.scheduler.memory
        self._asked: dict[Connection, list[Cursor]] = {}
        self._catching: dict[Connection, CatchUp] = {}
        self._latest: dict[Connection, int] = {}

    # What others ask

    def start(self, sub: Subscription, past: requests.Past) -> None:
        """Play to a new subscription what it asked for; then make it live, or end it."""
        self.plane.sequencer.release()  # what came before it in this read event is the past, too
        match past:
            case requests.From(number=number):
                self.begin(Replay(self, sub, number))
            case requests.Range(first=first, last=last):
                self.begin(Replay(self, sub, first, last))
            case requests.Since(ms=ms):
                self._since(sub, ms * 1_000_000)
            case requests.Last():
                self._latest[sub.owner] = self.latest_of(sub.owner) + 1
                self.begin(Latest(self, sub))

    def latest_of(self, connection: Connection) -> int:
        """How many `$SEQ.LAST` of one client are being looked for, or played."""
        return self._latest.get(connection, 0)

    def begin(self, cursor: Cursor) -> None:
        """Serve this one from now on."""
        self.active += 1
        self.started += 1
        self.go_on(cursor)

    def ask(self, cursor: Cursor) -> None:
        """The same for one that no subscription has, but a connection's questions."""
        self._asked.setdefault(cursor.connection, []).append(cursor)
        self.begin(cursor)

    def asked_by(self, connection: Connection) -> list[Cursor]:
        """The cursors that serve the questions of one connection."""
        return self._asked.get(connection, [])

    def abandon(self, sub: Subscription) -> None:
        """A subscription has ended that was being played to: so has what played."""
        cursor, sub.replay = sub.replay, None
        if cursor is not NOBODY:
            self._stepper.drop(cursor)

    def leave(self, connection: Connection) -> None:
        """A connection has closed, and its subscriptions with it."""
        for cursor in self.asked_by(connection)[:]:
            self._stepper.drop(cursor)
        if connection in self._catching:
            self._stepper.drop(self._catching[connection])
        self.wake(connection)

    def catch_up(self, connection: Connection, number: int) -> None:
        """Serve a link that was detached, from the number that it had no room for."""
        self.catch_ups += 1
        self.catching_up += 1
        self._catching[connection] = cursor = CatchUp(self, connection, number)
        self.begin(cursor)

    def in_turn(self, connection: Connection, action: Callable[[], None]) -> None:
        """Do something for a client when it has all that was published before: now, or later."""
        cursor = self._catching.get(connection)
        if cursor is None:
            action()
        else:
            cursor.defer(self.plane.sequencer.number, action)

    def wake(self, connection: Connection) -> None:
        """This connection's socket takes more, or it has gone."""
        self.scheduler.wake(connection)

    def wake_all(self) -> None:
        """Fences were lowered: outboxes may have room though no socket was full."""
        self.scheduler.wake_all()

    @property
    def waits(self) -> bool:
        """Whether anyone waits for a number."""
        return self.scheduler.waits

    def advance(self) -> None:
        """Numbers were given: those that wait for them go on."""
        self.scheduler.advance()

    def let_go(self, patience: float) -> None:
        """Leave deleted files to the disk that are open for readers who have long read nothing.

        A reader in the middle of a file may read it to its end, but not hold it for ever.
        """
        before = self._loop.time() - patience
        for cursor in self.scheduler.parked:
            if cursor.piece is not None and cursor.piece.gone and cursor.parked_at < before:
                self.withdraw(cursor)
        self._make_room(before)

    def _make_room(self, before: float) -> None:
        """Who takes none of its answers, while others wait for that memory, is too slow."""
        for connection in self.memory.reads.slow(self.scheduler.parked, before):
            log.warning(
                "%s - does not read its answers, and others wait for the memory they take",
                connection.session.label,
            )
            self.plane.gate.disconnect_slow(connection)
        self.plane.release(None)

    def _since(self, sub: Subscription, time_ns: int) -> None:
        """From a time on. What may have been of that time, and is deleted, is told as lost."""
        self.plane.spend(LOOK_UP)
        journal = self.journal
        if journal.newest_time < time_ns or journal.last < journal.first:
            self.begin(Replay(self, sub, journal.last + 1, since=time_ns))
            return
        cursor = Replay(self, sub, 0, since=time_ns)
        if journal.first > 1 and time_ns < journal.oldest_time:
            cursor.lose(1, journal.first - 1)
        self._stepper.enter(cursor, *journal.locate_time(time_ns))
        self.begin(cursor)

    # What cursors ask

    def tell(self, sub: Subscription, subject: bytes) -> None:
        """Say something of the broker's own to one subscription, in an empty message."""
        connection: Connection = sub.owner
        if connection is not None and self.plane.say(
            connection, b"MSG %b %b 0\r\n\r\n" % (subject, sub.sid)
        ):
            connection.numbered = True  # it shows one

    def conclude(self, sub: Subscription) -> None:
        """All that it wanted was played: it ends."""
        if sub.owner is not None:
            self.plane.control.finished(sub)

    def make_live(self, sub: Subscription, number: int) -> None:
        """All up to `number`, the last one given, was played: the plane goes on."""
        if sub.owner is not None:
            sub.seen = number
            self.plane.control.make_live(sub)

    def give_up(self, connection: Connection, first: int, last: int) -> None:
        """What a lagging link needs is not there any more: NATS' way.

        In the same step more of it may turn out to be gone, which a thread deletes meanwhile.
        """
        if connection.closed:
            return
        self.given_up += 1
        log.warning(
            "%s - too slow: %d to %d were deleted before it read them",
            connection.session.label,
            first,
            last,
        )
        self.plane.gate.disconnect_slow(connection)

    def go_on(self, cursor: Cursor) -> None:
        """It has another step to make, when it is its turn."""
        self.scheduler.go_on(cursor)

    def move(self, cursor: Cursor) -> None:
        """Go to the place that the cursor asks for."""
        self._stepper.move(cursor)

    def withdraw(self, cursor: Cursor) -> None:
        """It is nowhere now: `place` will say where it goes."""
        self._stepper.withdraw(cursor)

    def _ended(self, cursor: Cursor) -> None:
        """One has ended: forget it."""
        self.active -= 1
        connection = cursor.connection
        if isinstance(cursor, Latest):
            self._latest[connection] -= 1
            if not self._latest[connection]:
                del self._latest[connection]
        elif isinstance(cursor, CatchUp):
            self._catching.pop(connection, None)
            self.catching_up -= 1
        elif cursor in (asked := self.asked_by(connection)):
            asked.remove(cursor)
            if not asked:
                del self._asked[connection]
