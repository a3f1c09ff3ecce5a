"""`$SEQ.GET.<number>`: single messages, in the order in which a connection requested them.

The answer contains the message's own headers, plus its subject, number and time. A requester with
netstring frames gets the payload in one, as a subscriber would. A record that is in memory, and
close behind a mark of the index, is sent at once (`NearRecords`). For others, one cursor serves all
requests of a connection, in order: it goes to a record, answers, and goes to the next.
"""

import time
from collections import deque
from typing import TYPE_CHECKING, Final

from broker.dataplane.connection import Connection
from broker.dataplane.outcomes import BAD, ENDED, FULL
from broker.dataplane.plane import Plane
from broker.replay.cursor import BUFFER, Cursor
from parser.errors import PublishForbidden
from sequencer.headers import with_fields
from sequencer.journal.layout import RECORD
from sequencer.journal.protocols import ReadableJournal, SegmentView
from sequencer.journal.record import Walk
from sequencer.netstring import encode_frame

if TYPE_CHECKING:
    from broker.replay.replays import Replays

SECOND_NS: Final = 1_000_000_000
NEAR: Final = 36 << 10  # from one mark of the index to the next, and a short record


class Lookup(Cursor):
    """The cursor for the unanswered requests of one connection."""

    __slots__ = ("_astray", "_is_near", "_replays", "_walk", "wanted")

    def __init__(self, replays: "Replays", connection: Connection) -> None:
        super().__init__(connection, 0)
        self.wanted: deque[tuple[int, bytes, bytes]] = deque()  # number, subject, reply
        self._replays = replays
        self._walk = Walk(replays.journal.salt, replays.journal.checked)
        self._astray = False  # the position may be wrong for the next request
        self._is_near = False  # the position is that of a mark: the record is close behind it

    @property
    def span(self) -> int:
        return NEAR if self._is_near else BUFFER

    def want(self, number: int, subject: bytes, reply: bytes) -> None:
        """Add a request. If it is the only one, the cursor must look up its position."""
        if not self.wanted:
            self._astray = True
            self.number = number
        self.wanted.append((number, subject, reply))

    def play(self, buffer: bytearray, stop: int) -> int:
        """Find the record of the first request, and answer with it."""
        self.outcome = FULL if self.wanted else ENDED
        if not self.wanted:
            return 0
        if self._astray:
            self._replays.move(self)
            return 0
        walk, wanted = self._walk, self.number
        walk.attach(buffer, 0, stop)
        outcome = walk.find(wanted)
        at = walk.at
        self._is_near = False
        self.work += at  # if it then moves elsewhere, nothing counts as consumed
        if outcome != RECORD:
            self.outcome = outcome
            return at
        if walk.number > wanted:
            self._missing()
        else:
            walk.attach(buffer, at, stop)
            if walk.next() != RECORD:  # its checksum is wrong
                self.outcome = BAD
                return at
            self._found(buffer)
        self._next()
        if not self.wanted:
            self.outcome = ENDED
        elif self.number <= self._replays.journal.last:
            self._replays.move(self)
            return 0
        return at

    def locate(self, journal: ReadableJournal) -> tuple[SegmentView, int]:
        self._astray = False
        self._is_near = True
        while self.wanted and self.number < journal.first:  # deleted while it waited
            self._missing()
            self._next()
        return journal.locate(self.number or journal.last)

    def skip_to(self, number: int) -> None:
        """Lose the numbers before `number`; the cursor's number changes only with an answer."""
        self.report_lost(self.number, number - 1)

    def report_lost(self, first: int, last: int) -> None:
        """Answer 404 to the first requests, as long as their messages are lost."""
        while self.wanted and first <= self.number <= last:
            self._missing()
            self._next()
        self._astray = True

    def is_done(self) -> bool:
        return not self.wanted

    def reached_head(self, number: int) -> bool:
        return not self.wanted

    def free(self) -> None:
        self.wanted.clear()
        self.number = 0

    def _next(self) -> None:
        """Remove the first request, which was answered."""
        self.wanted.popleft()
        self.number = self.wanted[0][0] if self.wanted else 0

    def _missing(self) -> None:
        """Answer 404 to the first request: the record is missing, or not readable."""
        number, subject, reply = self.wanted[0]
        kept_from = self._replays.journal.first
        no_such_message(self._replays.plane, self.connection, subject, reply, number, kept_from)

    def _found(self, buffer: bytearray) -> None:
        """Answer with the current record."""
        _, asked, reply = self.wanted[0]
        answer_with(self._walk, buffer, self._replays.plane, self.connection, asked, reply)


class NearRecords:
    """Records that are found without waiting: one buffer, for the broker's one thread."""

    def __init__(self, journal: ReadableJournal) -> None:
        self.buffer = bytearray(NEAR)
        self._journal = journal
        self._walk = Walk(journal.salt, journal.checked)

    def find(self, number: int) -> Walk | None:
        """Return this number's record, in `buffer`; None if it is elsewhere, damaged or gone."""
        segment, offset = self._journal.locate(number)
        if self._walk.salt != self._journal.salt:  # a member's journal has become another one
            self._walk = Walk(self._journal.salt, self._journal.checked)
        walk, buffer = self._walk, self.buffer
        try:
            with memoryview(buffer) as view:
                size = segment.read(offset, view, False)
        except OSError:  # it must be read from the disk, or cannot be
            return None
        walk.attach(buffer, 0, size)
        if walk.find(number) != RECORD or walk.number != number or segment.gone:
            return None
        walk.attach(buffer, walk.at, size)
        return walk if walk.next() == RECORD else None


def answer_with(
    walk: Walk, buffer: bytearray, plane: Plane, connection: Connection, asked: bytes, reply: bytes
) -> None:
    """Answer a request with the current record of `walk`, which is in `buffer`."""
    subject = bytes(buffer[walk.subject : walk.subject + walk.subject_size])
    if connection.guard is not None and not connection.guard.may_receive(subject):
        why = "you may not subscribe to the subject of this message"
        refuse(plane, connection, asked, reply, 403, why)
        return
    headers = bytes(buffer[walk.body : walk.body + walk.header_size])
    payload = bytes(buffer[walk.payload : walk.payload + walk.payload_size])
    if connection.frame == "netstring":
        payload = encode_frame(walk.number, payload)
    fields = b"Nats-Subject: %b\r\nNats-Sequence: %d\r\nNats-Time-Stamp: %b\r\n"
    fields %= (subject, walk.number, timestamp(walk.time))
    plane.answer(connection, reply, payload, with_fields(headers, fields))


def timestamp(time_ns: int) -> bytes:
    """Format a time as RFC 3339, with nanoseconds."""
    moment = time.gmtime(time_ns // SECOND_NS)[:6]
    return b"%04d-%02d-%02dT%02d:%02d:%02d.%09dZ" % (*moment, time_ns % SECOND_NS)


def no_such_message(
    plane: Plane, connection: Connection, subject: bytes, reply: bytes, number: int, kept_from: int
) -> None:
    """Answer why a message is not there. `kept_from` is the first number kept."""
    if number > plane.sequencer.number:
        why = f"message {number} has not been sequenced"
    elif number < kept_from:
        why = f"message {number} is not retained"
    else:
        why = f"message {number} is lost"
    refuse(plane, connection, subject, reply, 404, why)


def refuse(
    plane: Plane, connection: Connection, subject: bytes, reply: bytes, status: int, why: str
) -> None:
    """Refuse a request: with a status header, or with -ERR if the client takes no headers."""
    if reply and connection.headers:
        words = why[0].upper() + why[1:]
        plane.answer(connection, reply, b"", b"NATS/1.0 %d %b\r\n\r\n" % (status, words.encode()))
    else:
        plane.send_control(connection, PublishForbidden(subject, why).reply)
