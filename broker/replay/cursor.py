"""Cursors: positions in the journal, each with its use of the records there.

`broker.replay.stepper` moves them: it reads a buffer of records, and `play` consumes some of them.
A Replay serves one subscription from a number on and then makes it live. A CatchUp serves all
subscriptions of a connection, from where live delivery left off.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from broker.dataplane.connection import Connection
from broker.dataplane.outcomes import MORE
from broker.dataplane.ownership import connection_of
from broker.dataplane.replay_writer import ReplayWriter
from sequencer.journal.protocols import ReadableJournal, SegmentView
from sublist.subscription import Subscription

if TYPE_CHECKING:
    from broker.replay.replays import Replays

BUFFER: Final = 1 << 18  # what one step reads, for most cursors
DEFERRED_MAX = 1 << 12  # PINGs of a lagging connection, 1 MiB; no real client sends more
PASS_WORK = 8192  # of asking a subject index, if it must be read
LOOK_WORK = 8  # looking at one subscription takes as long as consuming this many bytes
NOBODY: Final = object()  # the `replay` of a subscription whose cursor failed


class Home(Protocol):
    """A place where a cursor waits for its turn: one of broker.replay.queues, or the fetcher."""

    def discard(self, cursor: "Cursor") -> None:
        """Remove a cursor that has ended."""


class Cursor:
    """A position in the journal. The stepper writes it; only `play` sets `number` and `outcome`."""

    __slots__ = (
        *("asked", "asked_at", "dropped", "ended", "fetched", "queue", "connection", "number"),
        *("offset", "outcome", "parked_at", "segment", "heap_index", "work"),
    )
    is_catch_up = False  # it serves live subscriptions, so it goes before those that do not

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.asked = b""  # the `$SEQ.` subject that a subscription asked for
        self.asked_at = 0.0  # loop time, while a subscription waits for its first message
        self.number = number  # the next one wanted; 0: the first one
        self.segment: SegmentView | None = None  # the part of the journal that it is in, and holds
        self.offset = 0
        self.parked_at = 0.0  # loop time
        self.outcome = MORE
        self.ended = False
        self.dropped = False  # not needed any more: it ends after its step
        self.queue: Home | None = None  # where it waits for its turn
        self.heap_index = 0  # while it waits for a number
        self.work = 0  # work of a step besides consuming bytes, in bytes consumed
        self.fetched: bytearray | None = None  # the buffer that a thread has read for it

    @property
    def reading(self) -> SegmentView:
        """The segment that it is in, between `move` and `withdraw`."""
        assert self.segment is not None, "it was moved to its place"
        return self.segment

    @property
    def span(self) -> int:
        """How many bytes its next step reads, at most `BUFFER`."""
        return BUFFER

    @property
    def needs_socket(self) -> bool:
        """True if it can continue only when its socket takes more."""
        return True

    @property
    def lingers(self) -> bool:
        """True if it ends only when its client has taken the answer."""
        return False

    def ready(self) -> bool:
        """Return True if it may read on; False if it waits elsewhere, or was refused."""
        return True

    def allows(self, size: int) -> bool:
        """Return True if it has room for a record of this size; if False, call `ready` first."""
        return True

    def play(self, buffer: bytearray, stop: int) -> int:
        """Use the records in `buffer[:stop]`; return how many bytes were consumed."""
        raise NotImplementedError

    def locate(self, journal: ReadableJournal) -> tuple[SegmentView, int]:
        """Return where to read in the journal, for a cursor without a position."""
        if self.number < journal.first:
            self.skip_to(journal.first)
        return self.pass_by(*journal.locate(self.number))

    def lacks(self, segment: SegmentView) -> bool:
        """True if nothing in this segment is wanted."""
        return False

    def pass_by(self, segment: SegmentView, offset: int) -> tuple[SegmentView, int]:
        """Return this position; or the segment's end, if nothing in it is wanted."""
        if 0 < self.number <= segment.last and self.lacks(segment):
            self.work += PASS_WORK
            self.number = segment.last + 1
            return segment, segment.size
        return segment, offset

    def onward(self) -> tuple[SegmentView, int] | None:
        """Return the position after the end of a segment; None: look up the number."""
        following = self.reading.following
        if following is None or following.gone or following.first < self.number:
            return None
        return self.pass_by(following, following.start)

    def skip_to(self, number: int) -> None:
        """Report the numbers before `number` as lost, and continue at `number`."""
        self.report_lost(self.number, number - 1)
        self.number = number

    def report_lost(self, first: int, last: int) -> None:
        """Report that the numbers from `first` to `last` are lost."""
        raise NotImplementedError

    def is_done(self) -> bool:
        """Return True if it has played everything that was asked for; then it must be ended."""
        raise NotImplementedError

    def reached_head(self, number: int) -> bool:
        """Finish if everything up to `number`, the last one given, was played; True if it ended."""
        raise NotImplementedError

    def free(self) -> None:
        """Release everything that a cursor holds, at its end.

        The garbage collector does not track subscriptions, so no reference to one may be left.
        """


class Replay(Cursor):
    """The cursor of `$SEQ.FROM`, `$SEQ.RANGE` or `$SEQ.SINCE`: one subscription, not live yet."""

    __slots__ = ("replay_writer", "replays", "since", "sub", "until")

    def __init__(
        self, replays: "Replays", sub: Subscription, number: int, until: int = 0, since: int = 0
    ) -> None:
        super().__init__(connection_of(sub), number)
        self.replays = replays
        self.replay_writer: ReplayWriter = replays.replay_writer
        self.sub = sub
        self.until = until
        self.since = since
        sub.replay = self

    def lacks(self, segment: SegmentView) -> bool:
        return self.replays.lacks(segment, (self.sub.subject,))

    def play(self, buffer: bytearray, stop: int) -> int:
        replay_writer = self.replay_writer
        before = replay_writer.messages
        last = self.replays.journal.last  # in a cluster, later records must not be shown yet
        until = min(self.until, last) if self.until else last
        consumed = replay_writer.play(
            self.connection, self.sub, self.number, until, self.since, buffer, 0, stop
        )
        if replay_writer.messages > before:
            self.replays.count_wait(self)
        self.number = replay_writer.number
        self.outcome = replay_writer.outcome
        return consumed

    def report_lost(self, first: int, last: int) -> None:
        if first == 0:  # it was to begin with the first record of this segment
            first = self.segment.first if self.segment is not None else 1
        if self.until:
            last = min(last, self.until)
        self.replays.tell(self.sub, b"$SEQ.LOST.%d.%d" % (first, last), last)

    def is_done(self) -> bool:
        if self.sub.owner is None:
            return True
        if self.until == 0 or self.number <= self.until:
            return False
        self.replays.tell(self.sub, b"$SEQ.END.%d" % self.until, self.until)
        self.replays.conclude(self.sub)
        return True

    def free(self) -> None:
        unlink(self.sub, self)

    def reached_head(self, number: int) -> bool:
        if self.until or self.number > number + 1:
            return False  # the numbers that it wants have not been given yet
        if self.since > self.replays.plane.sequencer.now:
            return False  # its time has not come yet
        self.replays.make_live(self.sub, number)
        return True


class CatchUp(Cursor):
    """The cursor of a lagging connection: its live subscriptions, from the first missing number.

    Some actions must not overtake earlier messages: a PONG, the end of a subscription. They
    wait until those messages were played.
    """

    __slots__ = ("_deferred", "replay_writer", "replays")
    is_catch_up = True

    def __init__(self, replays: "Replays", connection: Connection, number: int) -> None:
        super().__init__(connection, number)
        self.replays = replays
        self.replay_writer: ReplayWriter = replays.replay_writer
        self._deferred: deque[tuple[int, Callable[[], None]]] = deque()

    def defer(self, number: int, action: Callable[[], None]) -> None:
        """Run an action once everything up to `number`, the last one given, was played."""
        self._deferred.append((number, action))
        if len(self._deferred) > DEFERRED_MAX:
            self.replays.plane.gate.disconnect_slow(self.connection)

    def play(self, buffer: bytearray, stop: int) -> int:
        replay_writer = self.replay_writer
        last = self.replays.journal.last
        until = min(self._deferred[0][0], last) if self._deferred else last
        consumed = replay_writer.play(self.connection, None, self.number, until, 0, buffer, 0, stop)
        self.work += LOOK_WORK * replay_writer.looked
        self.number = replay_writer.number
        self.outcome = replay_writer.outcome
        return consumed

    def report_lost(self, first: int, last: int) -> None:
        self.replays.give_up(self.connection, first, last)

    def is_done(self) -> bool:
        while self._deferred and self._deferred[0][0] < self.number:
            self._deferred.popleft()[1]()
        return False

    def reached_head(self, number: int) -> bool:
        if self.number > number + 1:
            return False
        self.connection.detached = False
        return True

    def free(self) -> None:
        self._deferred.clear()


def unlink(sub: Subscription, cursor: Cursor) -> None:
    """Remove a cursor that has ended from its subscription."""
    if sub.replay is cursor:
        sub.replay = None if sub.owner is None else NOBODY
