"""Reads records for one consumer, and has its deliveries written, some of them in one turn.

    step: what the consumer wants is read, and written by the `DeliveryWriter`; then it is its turn
          again, or it waits for what the state machine waits for

A reader keeps its place in the journal from turn to turn. What is not in memory is read by a
thread. A message that comes again is looked up by its number.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from broker.dataplane.connection import Connection
from broker.replay.cursor import Cursor
from broker.replay.stepper import PASSING, RETRY
from broker.streams.journal_scan import JournalScan
from broker.streams.offer_outcomes import BEYOND, ENOUGH, FULL, HELD, UNHEARD
from broker.streams.stream_consumer import State
from sequencer.journal.layout import HEADER_SIZE, LENGTH_MAX, RECORD
from sequencer.journal.protocols import SegmentView
from sequencer.journal.record import Walk
from sequencer.journal.segment import read_piece

if TYPE_CHECKING:
    from broker.streams.consumers import Consumers, RunningConsumer

log = logging.getLogger("seriatim")

PIECE: Final = 1 << 18  # bytes that are read in one step, into the buffer of all consumers
PIECE_OF_ONE: Final = 1 << 16  # those that a thread reads: the consumer keeps them until its turn
PIECE_MIN: Final = 1 << 14  # most messages are shorter
EACH: Final = 256  # bytes for a message, until it is known what it takes
# Deliveries in one step. They take half a millisecond; a step with 256 costs a tenth more for each.
MESSAGES_MAX: Final = 1024
FAR: Final = 4096  # numbers that are skimmed rather than looked up in an index


class ConsumerReader:
    """The reader of one consumer. `Consumers` gives it its turns."""

    def __init__(self, consumers: "Consumers", consumer: "RunningConsumer") -> None:
        self._consumers = consumers
        self._consumer = consumer
        self._segment: SegmentView | None = None
        self._offset = 0
        self._number = 0  # the next record at that place, or a later one
        self._each = EACH  # bytes that are read for a message
        self._is_due = False
        self._awaits_room = False
        self._reading: asyncio.Future[Any] | None = None
        # What a thread has read, or why it could not.
        self._fetched: tuple[SegmentView, int, bytearray | OSError] | None = None
        self._found = 0  # the message that `_record` has, for it comes again
        self._record = Walk(consumers.journal.salt)

    def run(self) -> None:
        """Take a turn soon, if the consumer has something to do."""
        if not self._is_due and self._reading is None and not self._awaits_room:
            self._is_due = True
            self._consumers.queue(self)

    def go_on(self) -> None:
        """Take a turn: there may be room for more unacknowledged messages."""
        self._awaits_room = False
        self.run()

    def step(self) -> None:
        """Deliver some messages, and decide when others are."""
        self._is_due = False
        consumers, machine = self._consumers, self._consumer.machine
        if machine.is_over:
            return
        if machine.config.is_push:
            machine.deliverer.listeners = consumers.listeners(machine.config)
        if self._deliver_some():
            self.run()
        consumers.pending.note(self._consumer)
        consumers.settle(self._consumer)

    def _deliver_some(self) -> bool:
        """Deliver what one step may; return True if there is more to do at once."""
        consumers, machine = self._consumers, self._consumer.machine
        deliverer = machine.deliverer
        left = MESSAGES_MAX
        now = consumers.now()
        room = consumers.pending.room(self._consumer, now) if deliverer.with_acks else left
        while left > 0:
            number = deliverer.wanted(now)
            if not number:
                machine.decide(now)
                return machine.state == State.READING and deliverer.wanted(now) > 0
            if deliverer.again:
                if not self._deliver_again(number, now):
                    return False
                left -= 1
                continue
            if room <= 0:
                self._awaits_room = True
                consumers.await_room(self)
                return False
            done = self._deliver_on(number, min(left, room), now)
            if done < 0:
                return False
            if done == 0:
                return True
            left -= done
            room -= done
        return True

    # Once more

    def _deliver_again(self, number: int, now: int) -> bool:
        """Deliver a message again; False if it must be read first, or nobody takes it now."""
        machine = self._consumer.machine
        if self._found != number:
            record = self._consumers.replays.near_records.find(number)
            if record is None:
                self._search(number)
                return False
        else:
            self._found = 0
            record = self._record
        if record.number != number or not self._is_shown(record):
            machine.gone(number, now)
            return True
        if self._consumers.writer.deliver(machine.deliverer, record, now):
            return True
        return self._wait(now)

    def _is_shown(self, record: Walk) -> bool:
        end = record.subject + record.subject_size
        subject = bytes(record.buffer[record.subject : end])
        return self._consumer.stream.ledger.shows(subject, record.number)

    def _search(self, number: int) -> None:
        """Find a record that is large, or not in memory."""

        def done(task: "asyncio.Future[Walk]") -> None:
            self._reading = None
            if not task.cancelled() and task.exception() is None:
                self._found, self._record = number, task.result()
            self.run()

        self._reading = self._consumers.loop.create_task(self._find(number))
        self._reading.add_done_callback(done)

    async def _find(self, number: int) -> Walk:
        """Return a walk that is at the record of this number; or elsewhere, if there is none."""
        journal = self._consumers.journal
        walk = Walk(journal.salt, journal.checked)
        scan = JournalScan(journal, self._consumers.loop, max(number, journal.first), PIECE_OF_ONE)
        async for buffer, size in scan.pieces():
            walk.attach(buffer, 0, size)
            if walk.find(number) == RECORD:
                walk.attach(buffer[walk.at : walk.after], 0, walk.after - walk.at)
                walk.next()
                break
            scan.advance(walk.at, walk.number + 1)
        return walk

    # The next ones

    def _deliver_on(self, number: int, most: int, now: int) -> int:
        """Deliver from a number on; return how many, 0 to go on later, -1 to wait."""
        consumers = self._consumers
        last = consumers.last_safe
        if number > last:
            return -1
        segment = self._enter(number)
        fetched, self._fetched = self._fetched, None
        if fetched is not None and fetched[:2] == (segment, self._offset) and fetched[2]:
            if isinstance(fetched[2], OSError):
                return self._pass_over(segment, fetched[2], now)
            return self._play(segment, fetched[2], len(fetched[2]), last, most, now)
        buffer = consumers.buffer
        try:
            with memoryview(buffer) as view:
                size = segment.read(self._offset, view[: self._span(most)], False)
        except BlockingIOError:
            self._read_in_thread(segment, self._offset, PIECE_OF_ONE)
            return -1
        except OSError as error:
            return self._pass_over(segment, error, now)
        if size == 0:
            return self._next_segment(segment)
        return self._play(segment, buffer, size, last, most, now)

    def _span(self, most: int) -> int:
        """Return how many bytes to read for so many messages, or for those that are asked for.

        What is read and not delivered is read again: copying it costs more than its delivery.
        """
        waiting = self._consumer.machine.deliverer.waiting
        if waiting is not None and waiting.head is not None:
            most = min(most, waiting.head.left)
        return min(max(PIECE_MIN, most * self._each), PIECE)

    def _pass_over(self, segment: SegmentView, error: OSError, now: int) -> int:
        """Leave a segment that cannot be read: it was just deleted, or the disk fails.

        On a shortage, try again later.
        """
        self._leave(segment)
        if error.errno in PASSING and not segment.gone:
            self._reading = self._consumers.loop.create_task(asyncio.sleep(RETRY))
            self._reading.add_done_callback(self._try_again)
            return -1
        if not segment.gone:
            following = segment.following
            first = self._consumers.journal.last + 1 if following is None else following.first
            log.error("Journal: cannot read %s at %d: %s", segment, self._offset, error)
            self._consumers.pass_over(self._consumer, first, now)
        return 0

    def _try_again(self, done: "asyncio.Future[None]") -> None:
        self._reading = None
        if not done.cancelled():
            self.run()

    def _play(
        self, segment: SegmentView, buffer: bytearray, size: int, last: int, most: int, now: int
    ) -> int:
        """Have what was read delivered; return as `_deliver_on` does."""
        consumers, machine = self._consumers, self._consumer.machine
        writer, deliverer = consumers.writer, machine.deliverer
        used = writer.play(deliverer, buffer, size, last, most, now)
        outcome, done = writer.outcome, writer.messages
        self._offset += used
        self._number = max(self._number, writer.number)
        # What is longer than that, or comes more rarely, is met by longer and longer reads.
        self._each = (used + used // 16) // done + 1 if done else min(2 * self._each, PIECE)
        if outcome in (HELD, FULL, UNHEARD):
            return done if self._wait(now) else -1
        if outcome in (BEYOND, ENOUGH):
            return done if done else -1
        if used == 0:
            return self._lengthen(segment, buffer, size, now)
        return done

    def _wait(self, now: int) -> bool:
        """Let the consumer wait for what the writer met; True if it need not."""
        consumers, machine = self._consumers, self._consumer.machine
        full = consumers.writer.full if consumers.writer.outcome == FULL else None
        if full is not None:
            consumers.plane.release(None)
            if full.closed or not full.held():
                return True
            consumers.park(self._consumer, full)
        elif consumers.writer.outcome == UNHEARD:
            machine.deliverer.listeners = consumers.listeners(machine.config)
            if not machine.deliverer.listeners:
                machine.interest(False, now)
        machine.decide(now)
        return machine.state == State.READING

    def _enter(self, number: int) -> SegmentView:
        """Return the segment to read in, at a place at or before the record of this number."""
        segment = self._segment
        if segment is not None:
            if not segment.gone and 0 <= number - self._number < FAR:
                return segment
            segment.release()
        segment, self._offset = self._consumers.journal.locate(number)
        segment.hold()
        self._segment, self._number = segment, number
        self._each = EACH
        return segment

    def _next_segment(self, segment: SegmentView) -> int:
        following = segment.following
        if following is None:
            return -1
        segment.release()
        following.hold()
        self._segment, self._offset = following, following.start
        return 0

    def _leave(self, segment: SegmentView) -> None:
        segment.release()
        self._segment = None

    def _lengthen(self, segment: SegmentView, buffer: bytearray, size: int, now: int) -> int:
        """Read a longer part, for no whole record is in the buffer; or pass by what is damaged.

        What is in memory may end within a record, so the longer part is read by a thread.
        """
        need = HEADER_SIZE
        if size >= HEADER_SIZE:
            need = (int.from_bytes(buffer[4:8], "little") + 7) & ~7
        if size < need <= min(segment.readable - self._offset, LENGTH_MAX):
            self._read_in_thread(segment, self._offset, need)
            return -1
        good = self._consumers.journal.next_good(segment, self._offset, self._number)
        if good is None:
            return -1
        self._leave(segment)
        good[0].hold()
        self._segment, self._offset, self._number = good
        self._consumers.pass_over(self._consumer, self._number, now)
        return 0

    def _read_in_thread(self, segment: SegmentView, offset: int, span: int) -> None:
        """Read a place of the journal for the next turn."""
        segment.hold()

        def done(future: "asyncio.Future[bytearray]") -> None:
            segment.release()
            self._reading = None
            error = future.exception()
            if error is None or isinstance(error, OSError):
                self._fetched = segment, offset, error or future.result()
            self.run()

        self._reading = self._consumers.loop.run_in_executor(
            None, read_piece, segment, offset, span
        )
        self._reading.add_done_callback(done)

    def stop(self) -> None:
        """Leave the journal."""
        self._fetched = None
        if self._segment is not None:
            self._segment.release()
            self._segment = None


class Unparking(Cursor):
    """Waits until a client's socket takes more; then it calls back."""

    __slots__ = ("_call",)

    def __init__(self, connection: Connection, call: Callable[[], None]) -> None:
        super().__init__(connection, 1)
        self._call: Callable[[], None] | None = call

    def is_done(self) -> bool:
        call, self._call = self._call, None
        if call is not None:
            call()
        return True

    def reached_head(self, number: int) -> bool:
        return self.is_done()

    def free(self) -> None:
        self._call = None
