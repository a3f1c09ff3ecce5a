"""Messages of a stream for one request: found, one after the other, as the journal is read.

A read goes through the journal as a replay does, with its fairness and its pauses, and gives what
is visible in the stream to `take`. Segments without a wanted subject are passed by.
"""

from collections.abc import Callable, Sequence
from typing import Final

from broker.dataplane.connection import Connection
from broker.dataplane.ledger import Ledger
from broker.dataplane.outcomes import BAD, ENDED, FULL, MORE
from broker.replay.cursor import Cursor
from broker.replay.replays import Replays
from sequencer.journal.layout import RECORD
from sequencer.journal.protocols import SegmentView
from sequencer.journal.record import Walk
from sublist.pattern_set import PatternSet

HELD_MAX: Final = 1 << 18  # of a client; it gets no more until it has read
LOOK_WORK: Final = 64  # of looking at a record, in bytes consumed
FOREVER: Final = (1 << 63) - 1

Take = Callable[[Walk, bytearray, bytes], bool]


class MessageRead(Cursor):
    """The cursor of one request.

    It gives the visible messages from number `first` to `until`, not older than `since`, to `take`,
    until that returns False; then it calls `ended`, unless the connection has gone.
    """

    __slots__ = (
        *("_ended", "_is_over", "_ledger", "_patterns", "_replays", "_since", "_take", "_until"),
        *("_walk", "_wanted"),
    )

    def __init__(
        self,
        replays: Replays,
        connection: Connection,
        ledger: Ledger | None,
        first: int,
        take: Take,
        ended: Callable[[], None],
        patterns: Sequence[bytes] = (b">",),
        until: int = FOREVER,
        since: int = 0,
    ) -> None:
        super().__init__(connection, max(first, 1))
        self._replays = replays
        self._ledger = ledger
        self._patterns = patterns
        self._wanted = None if b">" in patterns else PatternSet(patterns)
        self._until = until
        self._since = since
        self._take = take
        self._ended = ended
        self._is_over = False
        self._walk = Walk(replays.journal.salt, replays.journal.checked)

    def lacks(self, segment: SegmentView) -> bool:
        return self._replays.lacks(segment, self._patterns)

    def play(self, buffer: bytearray, stop: int) -> int:
        walk, ledger, wanted = self._walk, self._ledger, self._wanted
        last = min(self._until, self._replays.journal.last)
        first = self.number
        walk.attach(buffer, 0, stop)
        while True:
            state = walk.next()
            if state != RECORD:
                self.outcome = BAD if state == BAD else MORE
                return walk.at
            if walk.number > last:
                self.outcome, self._is_over = ENDED, True
                return walk.at
            self.work += LOOK_WORK
            if walk.number < first:
                continue  # it is before the place that was looked for
            self.number = walk.number + 1
            if walk.time < self._since:
                continue
            subject = bytes(buffer[walk.subject : walk.subject + walk.subject_size])
            if wanted is not None and not wanted.takes(subject):
                continue
            if ledger is not None and not ledger.shows(subject, walk.number):
                continue
            if not self._take(walk, buffer, subject):
                self.outcome, self._is_over = ENDED, True
                return walk.after
            if self.connection.held() > HELD_MAX:
                self.outcome = FULL
                return walk.after

    def skip_to(self, number: int) -> None:
        self.number = number

    def report_lost(self, first: int, last: int) -> None:
        """Say nothing: what is lost is not in the stream any more."""

    def is_done(self) -> bool:
        if not self._is_over and self.number <= self._until:
            return False
        self._finish()
        return True

    def reached_head(self, number: int) -> bool:
        self._finish()
        return True

    def _finish(self) -> None:
        ended, self._ended = self._ended, _nothing
        ended()

    def free(self) -> None:
        self._ended = _nothing
        self._take = _refuse


def _nothing() -> None:
    """Do nothing: the read has ended."""


def _refuse(walk: Walk, buffer: bytearray, subject: bytes) -> bool:
    return False
