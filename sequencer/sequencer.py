"""The sequencer: gives each message its number, and writes it to the journal.

A message gets its number when nothing can refuse it any more; a number is never given back.
With a journal (`keep`), `assign_number` puts the message's record into a batch. `release` writes
the batch before anything that shows one of its numbers leaves the process. A journal with a window
has room for the records there (`write_position`), and they are only committed.

    safe <= written <= number       may be seen; in the journal; given

Feeds take what is written, and send what is safe.

A journal without room refuses a message before it has a number. If a write fails nevertheless,
the batch waits: its messages are neither lost nor seen, nothing new is taken, and `resume`
continues where the write stopped. There is no clock here: `tick` sets the time.

The times of records never fall. Only those are remembered: a clock's time while no message was
numbered leaves no trace. Ages are measured by another clock, `steady`, that does not jump.
"""

from collections.abc import Callable

import cython

from sequencer.journal.protocols import RecordTaker, WindowJournal, WritableJournal
from sequencer.journal.record import RecordBatch, record_size
from sequencer.message import Message

if not cython.compiled:
    BATCH_MAX = 1 << 18  # then write before the turn ends: more does not fit the CPU's cache
    WINDOW_MAX = 1 << 20  # the same with a window: the batch moves there as it grows

NUMBER_MAX = (1 << 63) - 1


class Sequencer:
    """Gives numbers. Written by the data plane and, between read events, the journal's keeper."""

    def __init__(self, number: int = 0, batch_max: int = 0) -> None:
        assert 0 <= number < NUMBER_MAX, "a number is 1 to 2^63-1"
        self.number = number  # the last one given; 0 before the first
        self.written = self.safe = number
        self.batch: RecordBatch | None = None
        self.batch_max = batch_max  # bytes that a batch may get; 0: what suits the journal
        self.most = BATCH_MAX
        self.journal: WritableJournal  # where there is a batch
        self.window: WindowJournal | None = None  # the same, if records can be put into its memory
        self.room = 0  # bytes that the journal can surely take, and that no record has claimed
        self.synced_only = False  # whether messages may be seen only after a sync
        self.full = False  # the journal has no room, or the batch could not be written
        self.wanted = 0  # the room that was missing
        self.stuck = False  # the batch could not be written
        self.trouble: Callable[[OSError], None] | None = None
        self.feeds: list[RecordTaker] = []  # feeds need a journal; a ring will do
        self.now = 0  # the time of the next record
        self.steady = 0  # ns of a clock that does not jump, to measure ages with
        self.floor = 0  # the time of the newest record, as far as it was given before `ticked`
        self.ticked = number  # the last number given at the last tick

    def keep(
        self, journal: WritableJournal, synced_only: bool, trouble: Callable[[OSError], None]
    ) -> None:
        """Write everything that is numbered from now on to `journal`, after its last number.

        If the journal fails, `trouble` gets the error. The state is then `full`, until `resume`.
        """
        self.full = self.stuck = False
        self.journal = journal
        self.window = journal if isinstance(journal, WindowJournal) else None
        self.most = self.batch_max or (BATCH_MAX if self.window is None else WINDOW_MAX)
        self.batch = RecordBatch(journal.salt, journal.epoch, journal.checked)
        self.number = self.written = self.safe = journal.last
        self.now = self.floor = journal.newest_time
        self.ticked = self.number
        self.room = journal.room
        self.synced_only = synced_only
        self.trouble = trouble
        if self.room:
            self._take_room(self.batch, 1)

    def skip_to(self, number: int) -> None:
        """Skip to `number`: the next one is the one after it. Only without a journal."""
        assert self.batch is None, "a journal says which number is next"
        assert number >= self.number, "a number is never given twice"
        self.number = self.written = self.safe = number

    def tick(self, now: int, steady: int = 0) -> None:
        """Set the time, in ns since 1970: not before that of the newest record.

        `steady` is the same moment by a clock that does not jump; left out where no age counts.
        """
        if self.number != self.ticked:
            self.ticked = self.number
            if self.batch is not None:  # else no record has a time
                self.floor = self.now
        self.now = now if now > self.floor else self.floor
        self.steady = steady or now

    def assign_number(self, message: Message) -> int:
        """Give a message the next number; return 0 if the journal has no room for it."""
        batch = self.batch
        if batch is None:
            self.number += 1
            message.number = self.number
            message.time = self.now
            return self.number
        message.number = self.number + 1
        message.time = self.now
        size = batch.put(message, self.room)
        if size == 0:
            size = record_size(message.subject_size, message.reply_size, message.size)
            if not self._reserve(size):
                message.number = 0
                return 0
            batch.put(message, size)
        self.room -= size
        self.number += 1
        if batch.moved + batch.end - batch.begin > self.most:  # as `waiting`, without a call
            self._write(batch)
        return self.number

    def pass_on(self, message: Message) -> None:
        """Count a message that has the next number, and its time. Only without a journal."""
        assert self.batch is None, "a journal says which number is next"
        self.number = message.number

    def release(self) -> bool:
        """Write what was numbered so far; return whether all of it may be seen now."""
        batch = self.batch
        if batch is None:
            self.written = self.safe = self.number
        elif batch.waiting() and not self.stuck:
            self._write(batch)
        return self.safe == self.number

    def waiting_bytes(self) -> int:
        """Return the bytes of the records that are numbered and not yet written."""
        return 0 if self.batch is None else self.batch.waiting()

    def synced(self, number: int) -> None:
        """Note that everything up to `number` is now as durable as the settings ask for."""
        if number > self.safe:
            self.safe = number
            for feed in self.feeds:
                feed.flush(number)

    def ask_again(self) -> None:
        """Ask the journal for room again, for it may go on elsewhere: it begins a new segment."""
        batch = self.batch
        if batch is not None and not self.full:
            self.release()
            self.room = 0

    def hold_back(self) -> None:
        """Take no more messages until `resume`."""
        self.full = True
        self.wanted = 1
        self.room = 0

    def resume(self) -> None:
        """Try again to write the waiting batch, then take messages again.

        Raises the journal's `OSError`.
        """
        batch = self.batch
        assert batch is not None, "there is a store"
        if batch.waiting():
            self._append(batch)
        self.stuck = False
        self.journal.reserve(self.wanted)
        self.full = False
        self._take_room(batch, self.wanted)

    def abandon(self) -> bytes:
        """Take back what is numbered and not written; return its records.

        Nothing is numbered after that, until `keep`: another process gives the numbers.
        """
        batch = self.batch
        assert batch is not None, "there is a journal"
        with batch.view() as view:
            records = bytes(view)
        batch.clear()
        self.number = self.written
        self.hold_back()
        return records

    def _reserve(self, need: int) -> bool:
        """Ask the journal to make room."""
        batch = self.batch
        if self.full or batch is None:
            return False
        if batch.has_target and batch.waiting():
            self._write(batch)
            if self.full:
                return False
        try:
            self.journal.reserve(batch.waiting() + need)
        except OSError as error:
            self.full = True
            self.wanted = need
            self._tell(error)
            return False
        self._take_room(batch, need)
        return True

    def _take_room(self, batch: RecordBatch, need: int) -> int:
        """Use the room that was made for `need` bytes, where the journal has it."""
        waiting = batch.waiting()
        room = self.journal.room - waiting
        if waiting == 0:
            found = None
            if self.window is not None and room >= need:  # else it is longer than a slab
                found = self.window.write_position()
            if found is None:
                batch.set_target(None)
            else:
                batch.set_target(found[0], found[1])
        self.room = max(room, need)
        return 0

    def _write(self, batch: RecordBatch) -> int:
        try:
            self._append(batch)
        except OSError as error:
            self.stuck = True
            self.hold_back()
            self._tell(error)
        return 0

    def _append(self, batch: RecordBatch) -> None:
        if batch.has_target and self.window is not None:
            size = batch.seal()
            numbers = (batch.first, batch.last)
            self.window.commit(size, *numbers, batch.time, batch.ids, batch.marks)
        else:
            with batch.view() as view:
                self.journal.write(view, batch.first, batch.last, batch.time, batch.ids)
        self.written = batch.last
        if not self.synced_only:
            self.safe = batch.last
        try:
            for feed in self.feeds:
                with batch.view() as view:
                    feed.add_records(view, len(view))
                feed.flush(self.safe)
        finally:  # the journal has it, whatever the feeds do: it must not be written twice
            batch.clear()

    def _tell(self, error: OSError) -> None:
        if self.trouble is not None:
            self.trouble(error)
