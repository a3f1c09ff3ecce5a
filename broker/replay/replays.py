"""Who is served from the journal, and whose turn it is: replay, catch-up, bulk reads.

    start, catch_up -> ready --step--> ready again     there is more, and the socket takes it
                         ^   `-------> parked          until the socket takes more (wake)
                         |   `-------> fetched         until a thread has read what is not in memory
                         |   `-------> waiting         for a number not given yet (advance)
                         `------------------ ended: live again, done, or given up by its client

One turn of the event loop gives a few steps of 256 KiB to those that are ready, one after
the other, and then everybody else is served: thousands of replays take half of the time, and
never more. Memory: one buffer for all, and 256 KiB in an outbox. Nothing is read ahead of
the socket.
"""

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import Any

from broker.dataplane.connection import Connection
from broker.dataplane.outcomes import BAD, ENDED, FULL, GAP, MORE
from broker.dataplane.plane import Plane
from broker.dataplane.replay_writer import ReplayWriter
from broker.replay import requests
from broker.replay.cursor import NOBODY, CatchUp, Cursor, Replay
from broker.replay.faults import Faults
from broker.replay.fetcher import Fetcher
from broker.replay.latest import Latest
from broker.replay.memory import Memory
from broker.replay.queues import Parked, Ready, Waiting
from broker.turns import TURNS
from sequencer.journal.layout import HEADER_SIZE, LENGTH_MAX
from sublist.subscription import Subscription

log = logging.getLogger("seriatim")

BUFFER = 1 << 18
LOOK_UP = 1024  # offers that looking into an index costs
STEPS = 16  # in one turn
BYTES = 1 << 19  # consumed in one turn, after which others are served: some 4 ms, a third of the
# time when messages are long. Work that is not compiled counts as 64 bytes a microsecond.
ADVANCED = 1024  # that waited for a number, and go on in one turn
ADVANCE_WORK = 256
FREE_WORK = 16
PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # the disk is well, something else is short
RETRY = 0.1  # seconds until what is short is tried again


class Replays:
    """One per broker, for its one thread. `store` is a Store or a Ring."""

    def __init__(
        self,
        plane: Plane,
        store: Any,
        loop: asyncio.AbstractEventLoop,
        answers_pending: int = 1 << 29,
    ) -> None:
        self.plane = plane
        self.memory = Memory(answers_pending, self.go_on)
        self.most_work = 0  # in one turn so far
        self.store = store
        self.replay_writer = ReplayWriter(plane.gate, plane.sublist, store.salt, store.checked)
        self.active = 0  # cursors that have not ended
        self.started = self.catch_ups = self.catching_up = self.given_up = 0
        self._loop = loop
        self._buffer = bytearray(BUFFER)
        self._ready = Ready()
        self._parked = Parked()
        self._waiting = Waiting()
        self._fetcher = Fetcher(loop, self._go_first, self._not_fetched)
        self._asked: dict[Connection, list[Cursor]] = {}
        self._catching: dict[Connection, CatchUp] = {}
        self._latest: dict[Connection, int] = {}
        self._at_hand: Cursor | None = None  # whose step this is
        self._scheduled = False
        self._due = False  # somebody waits for a number that has come
        self._faults = Faults()

    # What others ask

    def start(self, sub: Subscription, wish: requests.Past) -> None:
        """Play to a new subscription what it asked for; then make it live, or end it."""
        self.plane.sequencer.release()  # what came before it in this read event is the past, too
        match wish:
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
            self._drop(cursor)

    def leave(self, connection: Connection) -> None:
        """A connection has closed, and its subscriptions with it."""
        for cursor in self.asked_by(connection)[:]:
            self._drop(cursor)
        if connection in self._catching:
            self._drop(self._catching[connection])
        self.wake(connection)

    def _drop(self, cursor: Cursor) -> None:
        """It ends now; in its own step, at the end of that."""
        cursor.dropped = True
        if cursor is not self._at_hand:
            self._end(cursor)

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
        """This link's socket takes more, or it has gone."""
        for cursor in self._parked.take(connection):
            self.go_on(cursor)

    def wake_all(self) -> None:
        """Fences were lowered: outboxes may have room though no socket was full."""
        for connection in self._parked.connections:
            if connection.writable or connection.closed:
                self.wake(connection)

    def let_go(self, patience: float) -> None:
        """Leave deleted files to the disk that are open for readers who have long read nothing.

        A reader in the middle of a file may read it to its end, but not hold it for ever.
        """
        before = self._loop.time() - patience
        for cursor in self._parked:
            if cursor.piece is not None and cursor.piece.gone and cursor.parked_at < before:
                self.withdraw(cursor)
        self._make_room(before)

    def _make_room(self, before: float) -> None:
        """Who takes none of its answers, while others wait for that memory, is too slow."""
        for connection in self.memory.reads.slow(self._parked, before):
            log.warning(
                "%s - takes no answers, and others wait for the memory that they take",
                connection.session.label,
            )
            self.plane.gate.cut(connection)
        self.plane.release(None)

    def advance(self) -> None:
        """Numbers were given: those that wait for them go on."""
        if self.waits and self._waiting.lowest <= self.store.last:
            self._due = True
            self._schedule()

    def _advance_some(self) -> int:
        """Those whose number has come go on, some in each turn; how much work that was."""
        for count in range(ADVANCED):
            cursor = self._waiting.take(self.store.last)
            if cursor is None:
                self._due = False
                return count * ADVANCE_WORK
            self.go_on(cursor)
        return ADVANCED * ADVANCE_WORK

    @property
    def waits(self) -> bool:
        """Whether anyone waits for a number."""
        return len(self._waiting) > 0

    def _since(self, sub: Subscription, time_ns: int) -> None:
        """From a time on. What may have been of that time, and is deleted, is told as lost."""
        self.plane.spend(LOOK_UP)
        store = self.store
        if store.newest_time < time_ns or store.last < store.first:
            self.begin(Replay(self, sub, store.last + 1, since=time_ns))
            return
        cursor = Replay(self, sub, 0, since=time_ns)
        if store.first > 1 and time_ns < store.oldest_time:
            cursor.lose(1, store.first - 1)
        self._enter(cursor, *store.locate_time(time_ns))
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
            "%s - lags behind what is retained: %d to %d are gone",
            connection.session.label,
            first,
            last,
        )
        self.plane.gate.cut(connection)

    def move(self, cursor: Cursor) -> None:
        """Go to the place that the cursor asks for."""
        place = cursor.place(self.store)
        while place[0].gone:  # deleted between the look-up and now
            place = cursor.place(self.store)
        self._enter(cursor, *place)

    # Turns

    def go_on(self, cursor: Cursor) -> None:
        """It has another step to make, when it is its turn."""
        if not cursor.ended:
            self._ready.put(cursor)
            self._schedule()

    def _go_first(self, cursor: Cursor) -> None:
        """A thread has read for it: others wait for the place that its buffer takes."""
        self._ready.put_first(cursor)
        self._schedule()

    def _schedule(self) -> None:
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
            if not self._ready or work >= BYTES:
                break
            self._at_hand = cursor = self._ready.take()
            cursor.work = 0
            try:
                work += self._step(cursor)
            except Exception as error:  # a defect must not affect others
                self._fail(cursor, error)
            self._at_hand = None
            work += cursor.work
            if cursor.dropped:
                self._end(cursor)
        self.most_work = max(self.most_work, work)
        if self._ready or self._due or surveys.thrown_away:
            self._schedule()
        self.plane.release(None)
        TURNS.end(begun)

    def _step(self, cursor: Cursor) -> int:
        """Serve one, by one buffer at most, and say where it goes; how much it consumed."""
        connection = cursor.connection
        if connection.held() > BUFFER:
            self.plane.release(None)
        if cursor.ended or connection.closed:
            self._end(cursor)
            return 0
        if cursor.needs_socket and (not connection.writable or connection.held() > BUFFER):
            self._park(cursor)
            return 0
        if cursor.is_done():
            self._finish(cursor)
            return 0
        if cursor.number > self.store.last:
            if cursor.number <= self.plane.sequencer.number or not cursor.at_head(
                self.plane.sequencer.number
            ):
                self._waiting.put(cursor)
            else:
                self._end(cursor)
            return 0
        return self._read(cursor) if cursor.ready() else 0

    def _finish(self, cursor: Cursor) -> None:
        """All is said; a cursor with a long answer ends when that is taken."""
        connection = cursor.connection
        if cursor.lingers and (connection.held() or not connection.writable):
            self.plane.release(None)
            if not connection.closed and (connection.held() or not connection.writable):
                self._park(cursor)
                return
        self._end(cursor)

    def _read(self, cursor: Cursor) -> int:
        """Read the next records and have them played."""
        if cursor.piece is None:
            self.move(cursor)
        buffer = self._fetcher.take(cursor)
        fetched = buffer is not None
        if buffer is None:
            buffer = self._buffer
            try:
                with memoryview(buffer) as view:
                    size = cursor.piece.read(cursor.offset, view, False)
            except BlockingIOError:
                self._fetcher.fetch(cursor, BUFFER)
                return 0
            except OSError as error:
                self._unreadable(cursor, error)
                return 0
        else:
            size = len(buffer)
        if size == 0:
            self._move_on(cursor)
            self.go_on(cursor)
            return 0
        consumed = cursor.play(buffer, size)
        cursor.offset += consumed
        if cursor.outcome == FULL:
            self._relieve(cursor)
        elif cursor.outcome == MORE and consumed == 0:
            self._lengthen(cursor, buffer, size, fetched)
        else:
            self._go_on(cursor)
        return max(consumed, HEADER_SIZE)

    def _go_on(self, cursor: Cursor) -> None:
        """Judge how the buffer ended."""
        if cursor.outcome == GAP:
            found = self.replay_writer.found
            cursor.lose(cursor.number, found - 1)
            cursor.number = found
        elif cursor.outcome == ENDED:
            pass  # is_done will say so
        elif cursor.outcome == BAD:
            self._damaged(cursor)
        self.go_on(cursor)

    def _relieve(self, cursor: Cursor) -> None:
        """Its outbox has enough: it goes on when that is written."""
        connection = cursor.connection
        if connection.held() > BUFFER or connection.fenced:
            self.plane.release(None)
            if (
                connection.held() and not connection.closed
            ):  # the socket is full, or there is a fence
                self._park(cursor)
                return
        self.go_on(cursor)

    def _lengthen(self, cursor: Cursor, buffer: bytearray, size: int, fetched: bool) -> None:
        """There was no whole record in what was read: read more, if there is more."""
        left = cursor.piece.size - cursor.offset
        need = HEADER_SIZE
        if size >= HEADER_SIZE:
            need = (int.from_bytes(buffer[4:8], "little") + 7) & ~7
        if need <= left and need <= LENGTH_MAX and not (fetched and size >= need):
            if cursor.allows(need):
                self._fetcher.fetch(cursor, max(need, BUFFER))
            else:
                self.go_on(cursor)
            return
        self._damaged(cursor)
        self.go_on(cursor)

    def _not_fetched(self, cursor: Cursor, error: BaseException) -> None:
        """A thread could not read for it."""
        if isinstance(error, OSError):
            self._unreadable(cursor, error)
        else:
            self._fail(cursor, error)
            self.plane.release(None)

    def _fail(self, cursor: Cursor, error: BaseException) -> None:
        log.error("Journal: a connection cannot be served from it", exc_info=error)
        self.plane.gate.cut(cursor.connection)
        self._end(cursor)

    def _unreadable(self, cursor: Cursor, error: OSError) -> None:
        """It was deleted just now; or the disk fails, and no more of this piece can be had."""
        piece = cursor.piece
        if error.errno in PASSING and not piece.gone:
            self.withdraw(cursor)
            self._loop.call_later(RETRY, self.go_on, cursor)
            return
        if not piece.gone:
            self._faults.unreadable(piece, cursor.offset, error)
            last = self.store.last if piece.following is None else piece.following.first - 1
            cursor.lose(cursor.number, last)
            cursor.number = last + 1
        self.withdraw(cursor)
        self.go_on(cursor)

    # Places

    def _enter(self, cursor: Cursor, piece: Any, offset: int) -> None:
        self.withdraw(cursor)
        if not cursor.ended:
            piece.hold()
            cursor.piece = piece
            cursor.offset = offset

    def withdraw(self, cursor: Cursor) -> None:
        """It is nowhere now: `place` will say where it goes."""
        if cursor.piece is not None:
            cursor.piece.release()
            cursor.piece = None
        self._fetcher.take(cursor)

    def _move_on(self, cursor: Cursor) -> None:
        """A piece is at its end: go where the cursor wants to go."""
        place = cursor.onward()
        if place is not None:
            self._enter(cursor, *place)
        else:
            self.withdraw(cursor)

    def _damaged(self, cursor: Cursor) -> None:
        """No record where one should be: say so, and go on with the next good one."""
        piece, offset, number = cursor.piece, cursor.offset, cursor.number
        self._faults.damaged(piece, offset, number)
        good = self.store.next_good(piece, offset, number)
        following = self.store.last + 1 if good is None else good[2]
        if number < following:
            cursor.lose(number, following - 1)
        cursor.number = following
        if good is None:
            self._move_on(cursor)
        else:
            self._enter(cursor, good[0], good[1])

    def _park(self, cursor: Cursor) -> None:
        """Until its socket takes more, or a fence is lowered."""
        cursor.parked_at = self._loop.time()
        self.memory.pass_on(cursor)
        self._fetcher.take(cursor)  # it is in the system's memory now
        self._parked.put(cursor)

    def _end(self, cursor: Cursor) -> None:
        """It is served no more, and nothing here knows it any more."""
        if cursor.ended:
            return
        cursor.ended = True
        self.active -= 1
        self.withdraw(cursor)
        if cursor.home is not None:
            cursor.home.discard(cursor)
        if isinstance(cursor, Latest):
            self._latest[cursor.connection] -= 1
            if not self._latest[cursor.connection]:
                del self._latest[cursor.connection]
        elif isinstance(cursor, CatchUp):
            self._catching.pop(cursor.connection, None)
            self.catching_up -= 1
        elif cursor in (asked := self.asked_by(cursor.connection)):
            asked.remove(cursor)
            if not asked:
                del self._asked[cursor.connection]
        cursor.free()
        if self.memory.surveys.thrown_away:
            self._schedule()
