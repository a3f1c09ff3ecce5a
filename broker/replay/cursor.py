"""Places in the journal that readers have reached, and what each does with what is there.

`broker.replay.stepper` moves them: it reads a buffer of records, and `play` consumes of it what it
can. A Replay serves one subscription from a number on and then makes it live; a CatchUp
serves all of a link's subscriptions, from where live delivery left it.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from broker.dataplane.connection import Connection
from broker.dataplane.outcomes import MORE
from broker.dataplane.plane import Plane
from broker.dataplane.replay_writer import ReplayWriter
from sublist.subscription import Subscription

DEFERRED_MAX = 1 << 12  # PINGs of one that lags, 1 MiB; with more, its client waits for no PONG
LOOK_WORK = 8  # bytes consumed that looking at one subscription costs as much time as
NOBODY: Final = object()  # plays to a subscription that lives, for its cursor had a defect


class CursorHost(Protocol):
    """What cursors ask of whoever serves them: broker.replay.replays."""

    plane: Plane
    journal: Any  # a Store or a Ring
    replay_writer: ReplayWriter
    started: int

    def begin(self, cursor: "Cursor") -> None:
        """Serve this one from now on."""

    def go_on(self, cursor: "Cursor") -> None:
        """It has another step to make, when it is its turn."""

    def move(self, cursor: "Cursor") -> None:
        """Go to the place that the cursor asks for."""

    def withdraw(self, cursor: "Cursor") -> None:
        """It is nowhere now: `place` will say where it goes."""

    def tell(self, sub: Subscription, subject: bytes) -> None:
        """Say something of the broker's own to one subscription, in an empty message."""

    def conclude(self, sub: Subscription) -> None:
        """All that it wanted was played: it ends."""

    def make_live(self, sub: Subscription, number: int) -> None:
        """All up to `number`, the last one given, was played: the plane goes on."""

    def give_up(self, connection: Connection, first: int, last: int) -> None:
        """What a lagging connection needs is not there any more."""


class Home(Protocol):
    """Where a cursor stands until its turn: one of broker.replay.queues, or the fetcher."""

    def discard(self, cursor: "Cursor") -> None:
        """It has ended."""


class Cursor:
    """Written by the stepper, but for `number` and `outcome`, which `play` leaves."""

    __slots__ = (
        *("dropped", "ended", "fetched", "home", "connection", "number", "offset", "outcome"),
        *("parked_at", "piece", "place_in_heap", "work"),
    )

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number  # the next one wanted; 0: whichever comes first
        self.piece: Any = None  # the part of the journal it is in, held while it is
        self.offset = 0
        self.parked_at = 0.0  # loop time
        self.outcome = MORE
        self.ended = False
        self.dropped = False  # it has no listener any more: it ends with its step
        self.home: Home | None = None  # where it stands until its turn
        self.place_in_heap = 0  # while it waits for a number
        self.work = 0  # done in a step beside what it consumed, in bytes consumed
        self.fetched: bytearray | None = None  # what a thread has read for it

    @property
    def needs_socket(self) -> bool:
        """Whether it can only go on when its socket takes more."""
        return True

    @property
    def lingers(self) -> bool:
        """Whether it ends only when its client has taken what it said."""
        return False

    def ready(self) -> bool:
        """Whether it may read on; False: it is somewhere else by now, or is refused."""
        return True

    def allows(self, size: int) -> bool:
        """Whether it has room for one record of this size; False: it will be ready again first."""
        return True

    def play(self, buffer: bytearray, stop: int) -> int:
        """Use the records in `buffer[:stop]`; how many bytes were consumed."""
        raise NotImplementedError

    def place(self, journal: Any) -> tuple[Any, int]:
        """Where in the journal to read, when it is not known yet."""
        if self.number < journal.first:
            self.skip_to(journal.first)
        piece, offset = journal.locate(self.number)
        return piece, offset

    def onward(self) -> tuple[Any, int] | None:
        """Where to go at the end of a piece; None: to be looked up by the number."""
        following = self.piece.following
        if following is None or following.gone or following.first < self.number:
            return None
        return following, following.start

    def skip_to(self, number: int) -> None:
        """What comes before `number` is not there: lose it, and go on from there."""
        self.lose(self.number, number - 1)
        self.number = number

    def lose(self, first: int, last: int) -> None:
        """The numbers from `first` to `last` are not there."""
        raise NotImplementedError

    def is_done(self) -> bool:
        """Whether all that was asked for has been played; ends it then."""
        raise NotImplementedError

    def at_head(self, number: int) -> bool:
        """Nothing is left to play up to `number`, the last one given. True: it has ended."""
        raise NotImplementedError

    def free(self) -> None:
        """It has ended: let go of all that it holds.

        The collector of cycles does not look at subscriptions, so none may be left.
        """


class Replay(Cursor):
    """`$SEQ.FROM`, `$SEQ.RANGE`, `$SEQ.SINCE`: one subscription, which nobody else serves yet."""

    __slots__ = ("replay_writer", "replays", "since", "sub", "until")

    def __init__(
        self, replays: CursorHost, sub: Subscription, number: int, until: int = 0, since: int = 0
    ) -> None:
        super().__init__(sub.owner, number)
        self.replays = replays
        self.replay_writer: ReplayWriter = replays.replay_writer
        self.sub = sub
        self.until = until
        self.since = since
        sub.replay = self

    def play(self, buffer: bytearray, stop: int) -> int:
        replay_writer = self.replay_writer
        consumed = replay_writer.play(
            self.connection, self.sub, self.number, self.until, self.since, buffer, 0, stop
        )
        self.number = replay_writer.number
        self.outcome = replay_writer.outcome
        return consumed

    def lose(self, first: int, last: int) -> None:
        if first == 0:  # it was to begin with whatever comes first, somewhere in this piece
            first = self.piece.first if self.piece is not None else 1
        if self.until:
            last = min(last, self.until)
        self.replays.tell(self.sub, b"$SEQ.LOST.%d.%d" % (first, last))

    def is_done(self) -> bool:
        if self.sub.owner is None:
            return True
        if self.until == 0 or self.number <= self.until:
            return False
        self.replays.tell(self.sub, b"$SEQ.END.%d" % self.until)
        self.replays.conclude(self.sub)
        return True

    def free(self) -> None:
        unlink(self.sub, self)

    def at_head(self, number: int) -> bool:
        if self.until or self.number > number + 1:
            return False  # what it wants has not been given yet
        if self.since > self.replays.plane.sequencer.now:
            return False  # nor is it time
        self.replays.make_live(self.sub, number)
        return True


class CatchUp(Cursor):
    """A link that lagged: its live subscriptions, from the number that it had no room for.

    What the client asked for meanwhile, and what must not overtake the messages before it (a
    PONG, the end of a subscription), waits until they were played.
    """

    __slots__ = ("_deferred", "replay_writer", "replays")

    def __init__(self, replays: CursorHost, connection: Connection, number: int) -> None:
        super().__init__(connection, number)
        self.replays = replays
        self.replay_writer: ReplayWriter = replays.replay_writer
        self._deferred: deque[tuple[int, Callable[[], None]]] = deque()

    def defer(self, number: int, action: Callable[[], None]) -> None:
        """Do something when all up to `number`, the last one given, was played."""
        self._deferred.append((number, action))
        if len(self._deferred) > DEFERRED_MAX:
            self.replays.plane.gate.disconnect_slow(self.connection)

    def play(self, buffer: bytearray, stop: int) -> int:
        replay_writer = self.replay_writer
        until = self._deferred[0][0] if self._deferred else 0
        consumed = replay_writer.play(self.connection, None, self.number, until, 0, buffer, 0, stop)
        self.work += LOOK_WORK * replay_writer.looked
        self.number = replay_writer.number
        self.outcome = replay_writer.outcome
        return consumed

    def lose(self, first: int, last: int) -> None:
        self.replays.give_up(self.connection, first, last)

    def is_done(self) -> bool:
        while self._deferred and self._deferred[0][0] < self.number:
            self._deferred.popleft()[1]()
        return False

    def at_head(self, number: int) -> bool:
        if self.number > number + 1:
            return False
        self.connection.detached = False
        return True

    def free(self) -> None:
        self._deferred.clear()


def unlink(sub: Subscription, cursor: Cursor) -> None:
    """A cursor that played to this subscription has ended."""
    if sub.replay is cursor:
        sub.replay = None if sub.owner is None else NOBODY
