"""`$SEQ.GET.<number>`: single messages, in the order in which a connection requested them.

The answer contains the message's own headers, plus its subject, number and time. A requester with
netstring frames gets the payload in one, as a subscriber would. A record that is in memory, and
close behind a mark of the index, is sent at once (`NearRecords`). For others, one cursor serves all
requests of a connection, in order: it goes to a record, answers, and goes to the next.
"""

import os
from bisect import bisect_right
from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from broker.dataplane.connection import Connection
from broker.dataplane.outcomes import BAD, ENDED, FULL
from broker.dataplane.plane import Plane
from broker.dataplane.time_text import timestamp
from broker.replay.cursor import BUFFER, Cursor
from parser.errors import PublishForbidden
from sequencer.headers import with_fields
from sequencer.journal.index import OFFSET, Marks
from sequencer.journal.layout import RECORD
from sequencer.journal.protocols import ReadableJournal, SegmentView
from sequencer.journal.record import Walk
from sequencer.journal.segment import Segment, read_at
from sequencer.netstring import encode_frame

if TYPE_CHECKING:
    from broker.replay.replays import Replays

NEAR: Final = 36 << 10  # from one mark of the index to the next, and a short record
SPAN_MAX: Final = 64 << 10  # the longest way from mark to mark that is read at once
MARKS_KEPT: Final = 32 << 20  # bytes of marks: those of 64 GiB
OPEN_MAX: Final = 16  # files; this must stay well below the 64 that clients cannot use up
NUMBER_AND_OFFSET: Final = 16  # bytes of a mark
FIRST: Final = attrgetter("first")


class Lookup(Cursor):
    """The cursor for the unanswered requests of one connection."""

    __slots__ = ("_astray", "_replays", "_span", "_walk", "wanted")

    def __init__(self, replays: "Replays", connection: Connection) -> None:
        super().__init__(connection, 0)
        self.wanted: deque[tuple[int, bytes, bytes]] = deque()  # number, subject, reply
        self._replays = replays
        self._walk = Walk(replays.journal.salt, replays.journal.checked)
        self._astray = False  # the position may be wrong for the next request
        self._span = 0  # the position is that of a mark: the record is in so many bytes

    @property
    def span(self) -> int:
        return self._span or BUFFER

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
        self._span = 0
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
        while self.wanted and self.number < journal.first:  # deleted while it waited
            self._missing()
            self._next()
        segment, offset, self._span = self._replays.near_records.place(self.number or journal.last)
        return segment, offset

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


class NearSegment:
    """A sealed segment in which numbers are looked up: its marks, and its file."""

    __slots__ = ("_file", "fd", "numbers", "offsets", "size", "used")

    def __init__(self, segment: Segment, marks: Marks) -> None:
        self._file, self.size = segment.file, segment.size
        self.numbers = marks.words[::3]
        self.offsets = marks.words[2::3]
        # The segment's end, as one more mark.
        self.numbers.append(segment.last + 1)
        self.offsets.append(self.size)
        self.fd = -1
        self.used = True  # since the last `tidy`

    @property
    def kept_bytes(self) -> int:
        return NUMBER_AND_OFFSET * len(self.numbers)

    def open(self) -> bool:
        """Open the file, for single records here and there; return whether that was possible."""
        try:
            self.fd = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_RANDOM)  # else it would read 128 KiB
        return True

    def close(self) -> bool:
        """Close the file; return whether it was open."""
        if self.fd < 0:
            return False
        os.close(self.fd)
        self.fd = -1
        return True


class NearRecords:
    """Records that are found without waiting: one buffer, for the broker's one thread.

    Marks of sealed segments stay in memory, `MARKS_KEPT` bytes of those used first; in others a
    part of the index is read each time. At most `OPEN_MAX` files are open, for as long as they are
    used. `tidy` makes room for others.
    """

    def __init__(self, journal: ReadableJournal) -> None:
        self.buffer = bytearray(SPAN_MAX)
        self._view = memoryview(self.buffer)
        self._journal = journal
        self._walk = Walk(journal.salt, journal.checked)
        self._kept: dict[SegmentView, NearSegment] = {}
        self._kept_bytes = 0
        self._open = 0  # files

    def find(self, number: int) -> Walk | None:
        """Return this number's record, in `buffer`; None if it is elsewhere, damaged or gone."""
        journal = self._journal
        if self._walk.salt != journal.salt:  # a member's journal has become another one
            self._walk = Walk(journal.salt, journal.checked)
        segment, near = self._near(number)
        if near is None:
            segment, offset = journal.locate(number)
            return self._record(number, segment, -1, offset, NEAR)
        numbers, offsets = near.numbers, near.offsets
        at = bisect_right(numbers, number)
        if not 0 < at < len(numbers):
            return None
        first, begin = numbers[at - 1], offsets[at - 1] & OFFSET
        count, size = numbers[at] - first, (offsets[at] & OFFSET) - begin
        if size % count == 0:  # records of one size, most likely
            one = size // count
            record = self._record(number, segment, near.fd, begin + (number - first) * one, one)
            if record is not None:
                return record
        return self._record(number, segment, near.fd, begin, size)

    def place(self, number: int) -> tuple[SegmentView, int, int]:
        """Return where to look for a record: its segment, a mark's offset, and how many bytes."""
        segment, near = self._near(number)
        at = 0 if near is None else bisect_right(near.numbers, number)
        if near is None or not 0 < at < len(near.numbers):
            return *self._journal.locate(number), NEAR
        begin = near.offsets[at - 1] & OFFSET
        return segment, begin, min((near.offsets[at] & OFFSET) - begin, SPAN_MAX)

    def tidy(self) -> None:
        """Close what was not used since the last call, and forget it if others need the room.

        A segment that was deleted is forgotten in any case.
        """
        full = self._kept_bytes >= MARKS_KEPT
        for segment, near in list(self._kept.items()):
            if segment.gone or (full and not near.used):
                self._forget(segment, near)
            elif not near.used:
                self._open -= near.close()
            near.used = False

    def _forget(self, segment: SegmentView, near: NearSegment) -> None:
        self._open -= near.close()
        self._kept_bytes -= near.kept_bytes
        del self._kept[segment]

    def _near(self, number: int) -> tuple[SegmentView, NearSegment | None]:
        """Return the segment with a number, and what is kept of it."""
        segments = self._journal.segments()
        segment = segments[max(bisect_right(segments, number, key=FIRST) - 1, 0)]
        near = self._kept.get(segment)
        if near is not None and near.size != segment.size:  # it was cut
            self._forget(segment, near)
            near = None
        if near is None:
            near = self._keep(segment)
        if near is not None:
            near.used = True
            if near.fd < 0 and self._open < OPEN_MAX:
                self._open += near.open()
        return segment, near

    def _keep(self, segment: SegmentView) -> NearSegment | None:
        """Keep the marks of a segment, if there is room; None if they change, or are unknown."""
        if not isinstance(segment, Segment) or segment.following is None or not segment.indexed:
            return None
        if self._kept_bytes >= MARKS_KEPT:
            return None
        marks = segment.own_marks()
        if marks is None:
            return None
        near = self._kept[segment] = NearSegment(segment, marks)
        self._kept_bytes += near.kept_bytes
        return near

    def _record(
        self, number: int, segment: SegmentView, fd: int, offset: int, size: int
    ) -> Walk | None:
        """Return this number's record, if it is in these bytes, and they are in memory.

        They are read from the descriptor, if there is one.
        """
        walk, buffer, view = self._walk, self.buffer, self._view[:size]
        try:
            is_open = fd >= 0
            got = read_at(fd, offset, view, False) if is_open else segment.read(offset, view, False)
        except OSError:  # it must be read from the disk, or cannot be
            return None
        walk.attach(buffer, 0, got)
        if walk.find(number) != RECORD or walk.number != number or segment.gone:
            return None
        walk.attach(buffer, walk.at, got)
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
