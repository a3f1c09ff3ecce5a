"""Serves messages from the journal: replays, connections that catch up, requests.

`Replays` is the interface for the rest of the broker. It starts cursors, finds them by connection,
and ends them with it. The Scheduler picks the next cursor, the Stepper does one step, and each
cursor decides what to do with its records.
"""

# Theory of operation
#
# A cursor is a position in the journal, with a receiver for the records there. It is in exactly one
# of the places drawn here; `cursor.queue` says which. So it can leave at any moment, in O(log n),
# and a client that begins and ends a million replays leaves nothing behind.
#
#       start, catch_up, serve_requests
#               |
#               v            more is there, the socket takes it
#      .---> [ ready ] <----------------------------------------.
#      |         | its turn comes: Scheduler._turn              |
#      |         v                                              |
#      |     ( a step ) ----------------------------------------'
#      |         |
#      |         |-- the socket is full, or a fence is up -----> [ parked ]   wake, wake_all
#      |         |-- the next number is not given yet ---------> [ waiting ]  advance
#      |         |-- its records are not in memory ------------> [ fetcher ]  a thread has read them
#      |         |-- others hold the memory it gathers in -----> [ memory ]   they release it
#      |         |                                                    |
#      |         v                                                    |
#      |      ended: live again, done, dropped                        |
#      '--------------------------------------------------------------'
#
# During its step a cursor is nowhere: `queue` is None. A step may then put it anywhere: `play` may
# call `move`, start another cursor, or have its own subscription removed. That is why `drop` only
# marks a cursor during its step: the step ends first, then the cursor.
#
# A subscription is always served by exactly one of these:
#
#     sub.replay is a cursor     that cursor; the subscription is not in the sublist yet
#     connection.detached        its CatchUp, for all live subscriptions of the connection
#     neither                    the data plane, live
#
# A cursor hands over to live delivery when it is at the head: its `number` is above the last one
# given. No number can be given in between, because the broker has one thread, and the step began
# with all numbers given before. `sub.last_seen` is the last number that a subscription has
# received: the plane, a replay and a catch-up all check it, so no message comes twice.
#
# Fairness: the scheduler takes one cursor of a connection, then one of the next connection, but
# catch-ups before others. A turn ends after 16 steps, 768 KiB or 5 ms; before the next, the event
# loop serves everyone else.

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from broker.dataplane.connection import Connection
from broker.dataplane.ownership import connection_of
from broker.dataplane.plane import Plane
from broker.limits.quota import Quota
from broker.replay import requests
from broker.replay.cursor import CatchUp, Cursor, Replay
from broker.replay.latest import Latest, fixed_part
from broker.replay.lookup import NearRecords
from broker.replay.requests import Last, Past
from broker.replay.stepper import Stepper
from broker.runtime.durations import Durations
from broker.settings.limits_settings import Limits
from sequencer.journal.protocols import ReadableJournal, SegmentView
from sequencer.journal.subject_index import SubjectIndexes, probe_of
from sublist.subject import covers, has_wildcard
from sublist.subscription import Subscription

log = logging.getLogger("seriatim")

BEGIN_WORK = 512  # cost of beginning and ending a replay, in offers: 7 us
EVERY = b">"
LACKS_BLOCKS = 4  # of a subject index, that are read to find that a segment can be skipped
LOOK_UP = 1024  # cost of a look-up in an index, in offers
# `$SEQ.LAST` of one connection at a time. Each remembers all subjects that match it, and all share
# `limits.answers_pending`. One `$SEQ.LAST.>` gives the same as many with narrower filters.
LATEST_MAX = 4


# Limits the number of open replays: of one connection, of these `$SEQ.LAST`, and in all.
#
# A replay is open from its SUB until it is live, has ended, or its connection has gone. Catch-ups
# do not count: the broker itself begins them, at most one for each connection.


class OpenReplays:
    """The count of open replays. One per broker, for its one thread.

    The limits may change at any time; 0 is no limit.
    """

    def __init__(self) -> None:
        self.refused = 0
        self._all: Quota[Connection] = Quota()
        self._latest: Quota[Connection] = Quota()

    @property
    def open(self) -> int:
        """The number of open replays."""
        return self._all.total

    def of(self, connection: Connection) -> int:
        """Return how many replays of one connection are open."""
        return self._all.of(connection)

    def refusal(self, connection: Connection, past: Past, limits: Limits) -> bytes:
        """Return why one more replay would be too many; empty if it would not be."""
        why = self._refusal(connection, isinstance(past, Last), limits)
        self.refused += bool(why)
        return why

    def _refusal(self, connection: Connection, latest: bool, limits: Limits) -> bytes:
        most, most_total = limits.max_replays, limits.max_replays_total
        if most and self.of(connection) >= most:
            why = f"this connection has {most} replays open (limits.max_replays)"
        elif latest and self._latest.of(connection) >= LATEST_MAX:
            why = f"this connection has {LATEST_MAX} $SEQ.LAST open, the maximum"
        elif most_total and self.open >= most_total:
            why = f"{most_total} replays are open (limits.max_replays_total)"
        else:
            return b""
        return f"{why}; wait until some have ended".encode()

    def count_opened(self, connection: Connection, latest: bool) -> None:
        """Count a new replay."""
        self._all.add(connection)
        if latest:
            self._latest.add(connection)

    def end(self, connection: Connection, latest: bool) -> None:
        """Count a replay less: it has ended."""
        self._all.add(connection, -1)
        if latest:
            self._latest.add(connection, -1)


class OpenCursor(NamedTuple):
    """One reader of the journal, for monitoring."""

    cid: int
    kind: str  # replay, catch-up or read
    asked: bytes  # the subject: as it was subscribed to, or of the replies
    number: int  # the next one wanted
    state: str  # where it is: ready, parked (its client reads too slowly), waiting or reading


class Replays:
    """The cursors of all connections. One per broker, for its one thread."""

    def __init__(
        self,
        plane: Plane,
        journal: ReadableJournal,
        loop: asyncio.AbstractEventLoop,
        answers_pending: int = 1 << 29,
    ) -> None:
        self.plane = plane
        self.journal = journal
        self.active = 0  # cursors that have not ended
        self.started = self.catch_ups = self.catching_up = self.given_up = 0
        self.asked_last = False  # True once a client has asked for the last message of a subject
        self._loop = loop
        self._stepper = Stepper(plane, journal, loop, answers_pending, self._ended)
        self.replay_writer = self._stepper.replay_writer
        self.scheduler = self._stepper.scheduler
        self.memory = self.scheduler.memory
        self.waits_for_first = Durations()  # from a SUB to the first that it gets
        self._asked: dict[Connection, list[Cursor]] = {}
        self._catching: dict[Connection, CatchUp] = {}
        self._replaying: dict[Replay | Latest, None] = {}  # oldest first
        self.opened = OpenReplays()
        self.indexes = SubjectIndexes(journal)
        self.near_records = NearRecords(journal)

    # Called by others

    def start(self, sub: Subscription, past: requests.Past) -> None:
        """Replay the messages that a new subscription asked for; then make it live, or end it."""
        self.plane.charge_work(BEGIN_WORK)
        self.plane.sequencer.release()  # earlier messages of this turn must be in the journal
        match past:
            case requests.From(number=number):
                self.start_cursor(Replay(self, sub, number))
            case requests.Range(first=first, last=last):
                self.start_cursor(Replay(self, sub, first, last))
            case requests.Since(ms=ms):
                self._since(sub, ms * 1_000_000)
            case requests.Last():
                self.asked_last = True
                self.start_cursor(Latest(self, sub))
        if isinstance(sub.replay, Cursor):
            sub.replay.asked_at = self._loop.time()

    def refusal(self, connection: Connection, past: requests.Past, limits: Limits) -> bytes:
        """Return why one more replay of a connection would be too many; empty if it would not."""
        why = self.opened.refusal(connection, past, limits)
        if why:
            self.plane.charge_work(BEGIN_WORK)
        return why

    def start_cursor(self, cursor: Cursor) -> None:
        """Serve this cursor from now on."""
        self.active += 1
        self.started += 1
        if isinstance(cursor, Replay | Latest):
            self.opened.count_opened(cursor.connection, isinstance(cursor, Latest))
            self._replaying[cursor] = None
        self.step_again(cursor)

    def serve_requests(self, cursor: Cursor) -> None:
        """Serve a cursor that belongs to a connection's requests, not to a subscription."""
        self._asked.setdefault(cursor.connection, []).append(cursor)
        self.start_cursor(cursor)

    def asked_by(self, connection: Connection) -> list[Cursor]:
        """Return the cursors that serve the requests of one connection."""
        return self._asked.get(connection, [])

    def abandon(self, sub: Subscription) -> None:
        """End the cursor of a subscription that has ended during its replay."""
        cursor, sub.replay = sub.replay, None
        if isinstance(cursor, Cursor):  # else it had a defect, and has ended
            self._stepper.drop(cursor)

    def end_cursors(self, connection: Connection) -> None:
        """End the cursors of a connection that has closed."""
        if not (self._asked or self._catching or self.scheduler.parked):
            return
        for cursor in self.asked_by(connection)[:]:
            self._stepper.drop(cursor)
        if connection in self._catching:
            self._stepper.drop(self._catching[connection])
        self.wake(connection)

    def catch_up(self, connection: Connection, number: int) -> None:
        """Serve a detached connection, from the first number that its outbox had no room for."""
        self.catch_ups += 1
        self.catching_up += 1
        self._catching[connection] = cursor = CatchUp(self, connection, number)
        self.start_cursor(cursor)

    def in_turn(self, connection: Connection, action: Callable[[], None]) -> None:
        """Run an action after all messages published before were sent to a client: now or later."""
        cursor = self._catching.get(connection)
        if cursor is None:
            action()
        else:
            cursor.defer(self.plane.sequencer.number, action)

    def lagging(self) -> list[Connection]:
        """Return the connections that catch up."""
        return list(self._catching)

    def open_cursors(self) -> Iterator[OpenCursor]:
        """Yield what reads the journal now: catch-ups first, then replays, then requests."""
        for catching in self._catching.values():
            yield self._open_cursor(catching, "catch-up", b"")
        for replay in self._replaying:
            yield self._open_cursor(replay, "replay", replay.asked or replay.sub.subject)
        for cursors in self._asked.values():
            for cursor in cursors:
                yield self._open_cursor(cursor, "read", cursor.asked)

    def _open_cursor(self, cursor: Cursor, kind: str, asked: bytes) -> OpenCursor:
        cid = cursor.connection.session.cid
        return OpenCursor(cid, kind, asked, cursor.number, self.scheduler.state_of(cursor))

    def behind(self) -> dict[Connection, int]:
        """Return how many numbers behind the newest each connection is that catches up."""
        last = self.plane.sequencer.number
        return {one: max(last + 1 - cursor.number, 0) for one, cursor in self._catching.items()}

    def wake(self, connection: Connection) -> None:
        """Continue the cursors of a connection whose socket takes more, or that has gone."""
        self.scheduler.wake(connection)

    def wake_all(self) -> None:
        """Continue parked cursors after fences were lowered: outboxes may have room again."""
        self.scheduler.wake_all()

    @property
    def waits(self) -> bool:
        """True if any cursor waits for a number."""
        return self.scheduler.waits

    def advance(self) -> None:
        """Continue the cursors that wait for numbers which were given now."""
        self.scheduler.advance()

    def let_go(self, patience: float) -> None:
        """Release deleted files that are open for clients that have read nothing for long.

        A client may read a file to its end, but must not keep a deleted one open for ever.
        """
        self.indexes.forget_deleted()
        self.near_records.tidy()
        before = self._loop.time() - patience
        for cursor in self.scheduler.parked:
            if cursor.segment is not None and cursor.segment.gone and cursor.parked_at < before:
                self.withdraw(cursor)
        self._make_room(before)

    def let_go_of_memory(self) -> None:
        """Release dropped segments of the ring: parked cursors lose the records there."""
        for cursor in self.scheduler.parked:
            if cursor.segment is not None and cursor.segment.gone:
                self.withdraw(cursor)

    def _make_room(self, before: float) -> None:
        """Disconnect clients that do not take their answers while others wait for that memory."""
        for connection in self.memory.reads.slow(self.scheduler.parked, before):
            log.warning(
                "%s - does not read its answers, and others wait for the memory they take",
                connection.session.label,
            )
            self.plane.gate.disconnect_slow(connection)
        self.plane.release(None)

    def _since(self, sub: Subscription, time_ns: int) -> None:
        """Start a `$SEQ.SINCE` replay.

        Messages of that period that may have been deleted are reported as `$SEQ.LOST`.
        """
        self.plane.charge_work(LOOK_UP)
        journal = self.journal
        first, newest = journal.first, journal.newest_time
        if journal.last < first:  # all is deleted; a member that was reset does not know when
            cursor = Replay(self, sub, first, since=time_ns)
            if first > 1 and (time_ns <= newest or not newest):
                cursor.report_lost(1, first - 1)
        elif newest < time_ns:
            cursor = Replay(self, sub, journal.last + 1, since=time_ns)
        else:
            cursor = Replay(self, sub, 0, since=time_ns)
            # Another thread deletes meanwhile, so the lost numbers are those before this segment.
            segment, offset = journal.locate_time(time_ns)
            if (
                segment.first > 1 and time_ns <= segment.oldest
            ):  # messages before it may be in range
                cursor.report_lost(1, segment.first - 1)
            self._stepper.enter(cursor, segment, offset)
        self.start_cursor(cursor)

    # Called by cursors

    def count_wait(self, cursor: object) -> None:
        """Count how long a subscription has waited for the first that it gets, which is now."""
        if isinstance(cursor, Cursor) and cursor.asked_at:
            self.waits_for_first.observe(self._loop.time() - cursor.asked_at, 1)
            cursor.asked_at = 0.0

    def lacks(self, segment: SegmentView, patterns: Sequence[bytes]) -> bool:
        """True if a segment surely has no message that one of these patterns matches.

        Its subject index must say so, and cheaply. A damaged segment has none.
        """
        if segment.following is None or segment.last > self.journal.last or EVERY in patterns:
            return False
        index = self.indexes.of(segment)
        if index is None:
            return False
        for pattern in patterns:
            if not has_wildcard(pattern):
                if index.may_have(probe_of(pattern)):
                    return False
                continue
            subjects = index.subjects_from(fixed_part(pattern), LACKS_BLOCKS)
            if subjects is None or any(covers(pattern, subject) for subject in subjects):
                return False
        return True

    def tell(self, sub: Subscription, subject: bytes, number: int) -> None:
        """Send one subscription an empty message of the broker's own, which shows this number."""
        if sub.owner is None:
            return
        self.count_wait(sub.replay)
        connection = connection_of(sub)
        said = self.plane.send_control(connection, b"MSG %b %b 0\r\n\r\n" % (subject, sub.sid))
        if said and number > self.plane.sequencer.safe:
            connection.shows_number = True

    def conclude(self, sub: Subscription) -> None:
        """End a subscription that has received everything that it asked for."""
        if sub.owner is not None:
            self.plane.control.finished(sub)

    def make_live(self, sub: Subscription, number: int) -> None:
        """Make a subscription live that has received everything up to `number`, the last given."""
        if sub.owner is not None:
            self.count_wait(sub.replay)
            sub.last_seen = number
            self.plane.control.make_live(sub)

    def give_up(self, connection: Connection, first: int, last: int) -> None:
        """Disconnect a slow consumer whose next message was deleted, as nats-server does.

        May be called twice in one step: retention runs in another thread.
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

    def step_again(self, cursor: Cursor) -> None:
        """Give a cursor another step, when its turn comes."""
        self.scheduler.step_again(cursor)

    def move(self, cursor: Cursor) -> None:
        """Move a cursor to the position that its `locate` returns."""
        self._stepper.move(cursor)

    def withdraw(self, cursor: Cursor) -> None:
        """Release a cursor's position; its next step calls `locate` for a new one."""
        self._stepper.withdraw(cursor)

    def _ended(self, cursor: Cursor) -> None:
        """Forget a cursor that has ended."""
        self.active -= 1
        connection = cursor.connection
        if isinstance(cursor, Replay | Latest):
            self.opened.end(connection, isinstance(cursor, Latest))
            del self._replaying[cursor]
        elif isinstance(cursor, CatchUp):
            self._catching.pop(connection, None)
            self.catching_up -= 1
        elif cursor in (asked := self.asked_by(connection)):
            asked.remove(cursor)
            if not asked:
                del self._asked[connection]
