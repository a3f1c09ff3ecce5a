"""One step of a cursor: reads a buffer of records, lets the cursor play it, and moves it on.

    step   nothing to do here      end, park, wait for a number (broker/replay/scheduler.py)
           read from memory        `play` it; a thread reads from the disk (fetcher.py)
           continue by the `outcome` that `play` set:
             MORE    the buffer was played; or it was too short for a record: read a longer part
             FULL    the outbox has enough: continue when it is written
             GAP     numbers are missing: the cursor reports them as lost
             BAD     there is no valid record: report it, and continue at the next good one
             ENDED   everything was played: the next step ends it

A cursor holds the segment of the journal that it is in, so that a deleted file stays readable.
Memory: one buffer for all. Nothing is read ahead of the socket.
"""

import asyncio
import errno
import logging
from collections import OrderedDict
from collections.abc import Callable

from broker.dataplane.outcomes import BAD, ENDED, FULL, GAP, MORE
from broker.dataplane.plane import Plane
from broker.dataplane.replay_writer import ReplayWriter
from broker.replay.cursor import BUFFER, Cursor
from broker.replay.scheduler import Scheduler
from sequencer.journal.layout import HEADER_SIZE, LENGTH_MAX
from sequencer.journal.protocols import ReadableJournal, SegmentView
from sequencer.journal.segment import read_piece

log = logging.getLogger("seriatim")

PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # a shortage, not a fault of the disk
RETRY = 0.1  # seconds until the next attempt
REPORTED_MAX = 1024

FETCHES = 16  # buffers being filled, or waiting for their cursor's turn


# Reads records that are not in the system's memory: in threads, a few buffers at a time.
#
#     fetch -> asked for --(a slot is free)--> read by a thread --> its turn -> collect
#
# Memory: `FETCHES` buffers in all, including those that wait for their cursor's turn.


class Fetcher:
    """The reads that threads make for cursors. One per broker.

    `fetched` and `failed` are called in the loop, unless the cursor has ended.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fetched: Callable[[Cursor], None],
        failed: Callable[[Cursor, BaseException], None],
    ) -> None:
        self._loop = loop
        self._fetched = fetched
        self._failed = failed
        self._asked: OrderedDict[Cursor, int] = OrderedDict()
        self._slots = FETCHES

    def fetch(self, cursor: Cursor, size: int) -> None:
        """Read `size` bytes from the cursor's position."""
        cursor.queue = self
        self._asked[cursor] = size
        self._next()

    def collect(self, cursor: Cursor) -> bytearray | None:
        """Return the buffer read for the cursor, which frees a slot for another."""
        buffer, cursor.fetched = cursor.fetched, None
        if buffer is not None:
            self._vacate()
        return buffer

    def discard(self, cursor: Cursor) -> None:
        """Forget a cursor that has ended, without waiting for a thread that reads for it."""
        self._asked.pop(cursor, None)
        cursor.queue = None

    def _vacate(self) -> None:
        self._slots += 1
        self._next()

    def _next(self) -> None:
        while self._asked and self._slots:
            cursor, size = self._asked.popitem(last=False)
            self._slots -= 1
            self._read(cursor, size)

    def _read(self, cursor: Cursor, size: int) -> None:
        segment, offset = cursor.reading, cursor.offset
        segment.hold()  # the cursor may end in the meantime

        def done(future: "asyncio.Future[bytearray]") -> None:
            segment.release()
            cursor.queue = None
            error = future.exception()
            if error is None and not cursor.ended:
                cursor.fetched = future.result()
                self._fetched(cursor)
                return
            self._vacate()
            if error is not None and not cursor.ended:
                self._failed(cursor, error)

        job = self._loop.run_in_executor(None, read_piece, segment, offset, size)
        job.add_done_callback(done)


# Logs errors of the journal that its readers meet: each error once, not once per reader.
#
# Memory: the last `REPORTED_MAX` errors. A forgotten one is logged again when a reader meets it.


class Faults:
    """The errors logged so far. One per broker, for its one thread."""

    def __init__(self) -> None:
        self._reported: dict[tuple[str, int], None] = {}  # oldest first

    def unreadable(self, segment: SegmentView, offset: int, error: OSError) -> None:
        """Log that the system cannot read a segment: once for each segment and error code."""
        if self._is_new(segment, -(error.errno or 0)):
            level = logging.DEBUG if error.errno == errno.ENOENT else logging.ERROR  # deleted
            log.log(level, "Journal: cannot read %s at %d: %s", segment, offset, error)

    def damaged(self, segment: SegmentView, offset: int, number: int) -> None:
        """Log that there is no valid record of this number where it should be."""
        if self._is_new(segment, offset):
            log.error("Journal: %s is damaged at %d, number %d", segment, offset, number)

    def _is_new(self, segment: SegmentView, position: int) -> bool:
        fault = (str(segment), position)
        if fault in self._reported:
            return False
        self._reported[fault] = None
        if len(self._reported) > REPORTED_MAX:
            del self._reported[next(iter(self._reported))]
        return True


class Stepper:
    """The steps of all cursors. One per broker, for its one thread.

    `ended` is called for every cursor that has ended.
    """

    def __init__(
        self,
        plane: Plane,
        journal: ReadableJournal,
        loop: asyncio.AbstractEventLoop,
        answers_pending: int,
        ended: Callable[[Cursor], None],
    ) -> None:
        self.scheduler = Scheduler(plane, journal, loop, answers_pending, self._serve)
        self.replay_writer = ReplayWriter(plane.gate, plane.sublist, journal.salt, journal.checked)
        self._plane = plane
        self._journal = journal
        self._loop = loop
        self._ended = ended
        self._buffer = bytearray(BUFFER)
        self._fetcher = Fetcher(loop, self.scheduler.go_first, self._not_fetched)
        self._at_hand: Cursor | None = None  # the cursor whose step this is
        self._faults = Faults()

    def move(self, cursor: Cursor) -> None:
        """Move a cursor to the position that its `locate` returns."""
        position = cursor.locate(self._journal)
        while position[0].gone:  # deleted since the look-up
            position = cursor.locate(self._journal)
        self.enter(cursor, *position)

    def enter(self, cursor: Cursor, segment: SegmentView, offset: int) -> None:
        """Move a cursor to this position, and hold the segment."""
        self.withdraw(cursor)
        if not cursor.ended:
            segment.hold()
            cursor.segment = segment
            cursor.offset = offset

    def withdraw(self, cursor: Cursor) -> None:
        """Release a cursor's position; its next step calls `locate` for a new one."""
        if cursor.segment is not None:
            cursor.segment.release()
            cursor.segment = None
        self._fetcher.collect(cursor)

    def drop(self, cursor: Cursor) -> None:
        """End a cursor now, or after its step if it is in one."""
        cursor.dropped = True
        if cursor is not self._at_hand:
            self._end(cursor)

    def fail(self, cursor: Cursor, error: BaseException) -> None:
        """Handle a defect: disconnect the client, and continue with all others."""
        log.exception("Journal: a connection cannot be served from it", exc_info=error)
        self._plane.gate.disconnect_slow(cursor.connection)
        self._end(cursor)

    def _serve(self, cursor: Cursor) -> int:
        """Do a step of the cursor whose turn it is; return the step's work."""
        self._at_hand = cursor
        cursor.work = work = 0
        try:
            work = self._step(cursor)
        except Exception as error:  # a defect must not affect others
            self.fail(cursor, error)
        self._at_hand = None
        work += cursor.work
        if cursor.dropped:
            self._end(cursor)
        return work

    def _step(self, cursor: Cursor) -> int:
        """Serve one buffer at most, and decide where the cursor goes; return the bytes consumed."""
        connection = cursor.connection
        if connection.held() > BUFFER:
            self._plane.release(None)
        if cursor.ended or connection.closed:
            self._end(cursor)
            return 0
        if cursor.needs_socket and (not connection.writable or connection.held() > BUFFER):
            self._park(cursor)
            return 0
        if cursor.is_done():
            self._finish(cursor)
            return 0
        if cursor.number > self._journal.last:
            if cursor.number <= self._plane.sequencer.number or not cursor.reached_head(
                self._plane.sequencer.number
            ):
                self.scheduler.waiting.put(cursor)
            else:
                self._end(cursor)
            return 0
        return self._read(cursor) if cursor.ready() else 0

    def _finish(self, cursor: Cursor) -> None:
        """End a cursor; if it `lingers`, only after its client has taken the answer."""
        connection = cursor.connection
        if cursor.lingers and (connection.held() or not connection.writable):
            self._plane.release(None)
            if not connection.closed and (connection.held() or not connection.writable):
                self._park(cursor)
                return
        self._end(cursor)

    def _read(self, cursor: Cursor) -> int:
        """Read the next records, and let the cursor play them."""
        if cursor.segment is None:
            self.move(cursor)
        buffer = self._fetcher.collect(cursor)
        fetched = buffer is not None
        asked = cursor.span
        span = min(asked, self.scheduler.budget)
        if buffer is None:
            buffer = self._buffer
            try:
                with memoryview(buffer) as view:
                    size = cursor.reading.read(cursor.offset, view[:span], False)
            except BlockingIOError:
                self._fetcher.fetch(cursor, span)
                return 0
            except OSError as error:
                self._unreadable(cursor, error)
                return 0
        else:
            size = len(buffer)
        if size == 0:
            self._move_on(cursor)
            self.scheduler.step_again(cursor)
            return 0
        consumed = cursor.play(buffer, size)
        cursor.offset += consumed
        if cursor.outcome == FULL:
            self._relieve(cursor)
        elif cursor.outcome == MORE and consumed == 0 and asked == size < cursor.span:
            self.scheduler.step_again(cursor)  # it asks for more now
        elif cursor.outcome == MORE and consumed == 0:
            self._lengthen(cursor, buffer, size, fetched)
        else:
            self._go_on(cursor)
        return max(consumed, HEADER_SIZE)

    def _go_on(self, cursor: Cursor) -> None:
        """Continue by the outcome of `play`."""
        if cursor.outcome == GAP:
            cursor.skip_to(self.replay_writer.found)
        elif cursor.outcome == ENDED:
            pass  # is_done will notice
        elif cursor.outcome == BAD:
            self._damaged(cursor)
        self.scheduler.step_again(cursor)

    def _relieve(self, cursor: Cursor) -> None:
        """Continue when the outbox, which has enough, is written."""
        connection = cursor.connection
        if connection.held() > BUFFER or connection.fenced:
            self._plane.release(None)
            # Held: the socket is full, or there is a fence.
            if connection.held() and not connection.closed:
                self._park(cursor)
                return
        self.scheduler.step_again(cursor)

    def _lengthen(self, cursor: Cursor, buffer: bytearray, size: int, fetched: bool) -> None:
        """Read a longer part, if there is more: the buffer contained no whole record."""
        left = cursor.reading.readable - cursor.offset
        need = HEADER_SIZE
        if size >= HEADER_SIZE:
            need = (int.from_bytes(buffer[4:8], "little") + 7) & ~7
        if need <= left and need <= LENGTH_MAX and not (fetched and size >= need):
            if cursor.allows(need):
                self._fetcher.fetch(cursor, max(need, BUFFER))
            else:
                self.scheduler.step_again(cursor)
            return
        self._damaged(cursor)
        self.scheduler.step_again(cursor)

    def _not_fetched(self, cursor: Cursor, error: BaseException) -> None:
        """Handle an error of a thread that read for a cursor."""
        if isinstance(error, OSError):
            self._unreadable(cursor, error)
        else:
            self.fail(cursor, error)
            self._plane.release(None)

    def _unreadable(self, cursor: Cursor, error: OSError) -> None:
        """Leave a segment that cannot be read: it was just deleted, or the disk fails.

        On a shortage, try again later.
        """
        segment = cursor.reading
        if error.errno in PASSING and not segment.gone:
            self.withdraw(cursor)
            self._loop.call_later(RETRY, self.scheduler.step_again, cursor)
            return
        if not segment.gone:
            self._faults.unreadable(segment, cursor.offset, error)
            last = self._journal.last if segment.following is None else segment.following.first - 1
            cursor.skip_to(last + 1)
        self.withdraw(cursor)
        self.scheduler.step_again(cursor)

    def _move_on(self, cursor: Cursor) -> None:
        """Leave a segment at its end, and go to the cursor's next position."""
        position = cursor.onward()
        if position is not None:
            self.enter(cursor, *position)
        else:
            self.withdraw(cursor)

    def _damaged(self, cursor: Cursor) -> None:
        """Report that there is no valid record, and continue at the next good one."""
        segment, offset, number = cursor.reading, cursor.offset, cursor.number
        self._faults.damaged(segment, offset, number)
        good = self._journal.next_good(segment, offset, number)
        following = self._journal.last + 1 if good is None else good[2]
        if number < following:
            cursor.skip_to(following)
        if good is None:
            self._move_on(cursor)
        else:
            self.enter(cursor, good[0], good[1])

    def _park(self, cursor: Cursor) -> None:
        """Let a cursor wait until its socket takes more, or a fence is lowered."""
        self.scheduler.park(cursor)
        self._fetcher.collect(cursor)  # the data stays in the system's memory

    def _end(self, cursor: Cursor) -> None:
        """Stop serving a cursor, and forget it."""
        if cursor.ended:
            return
        cursor.ended = True
        self.withdraw(cursor)
        if cursor.queue is not None:
            cursor.queue.discard(cursor)
        self._ended(cursor)
        cursor.free()
        if self.scheduler.memory.surveys.thrown_away:
            self.scheduler.schedule()
