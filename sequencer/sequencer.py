"""The one order: who gives each message its number, and keeps it.

A number is taken when nothing can refuse the message any more, and is never given back.
With a store behind it (`keep`), `take` puts the message's record into a batch, and `release`
writes the batch before anything that shows one of its numbers leaves the process:

    safe <= written <= number       may be seen; in the store; given

What is written the feeds take, and send what is safe.

A store with no room refuses a message before it has a number. Should a write fail all the
same, the batch waits: what it holds is neither lost nor seen, nothing new is taken, and
`resume` goes on where the write stopped. This kernel reads no clock: `tick` brings the time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import cython

from sequencer.journal.record import RecordBatch, record_size
from sequencer.message import Message

if TYPE_CHECKING:  # its modules are loaded where there is one
    from sequencer.feed.feed import Feed

if not cython.compiled:
    BATCH_MAX = 1 << 18  # written before the read event ends: more does not stay in the cache

NUMBER_MAX = (1 << 63) - 1


class Sequencer:
    """Written by the data plane, and its store's keeper between two read events."""

    def __init__(self, number: int = 0) -> None:
        assert 0 <= number < NUMBER_MAX, "a number is 1 to 2^63-1"
        self.number = number  # the last one given; 0 before the first
        self.written = self.safe = number
        self.batch: RecordBatch | None = None
        self.journal: Any = None
        self.room = 0  # bytes that the store can surely take, and no record has claimed
        self.synced_only = False  # what is written may be seen when it is synced, not before
        self.full = False  # the store has no room, or does not take the batch
        self.wanted = 0  # room that there was not
        self.stuck = False  # the batch could not be written
        self.trouble: Callable[[OSError], None] | None = None
        self.feeds: list[Feed] = []  # they need a store; a ring will do
        self.now = 0

    def keep(self, journal: Any, synced_only: bool, trouble: Callable[[OSError], None]) -> None:
        """Keep all that is numbered from now on in a store, and go on after its last number.

        `journal` has `last`, `salt`, `epoch`, `checked`, `newest_time`, `room`, `reserve(need)` and
        `write(view, first, last, time, ids)`; the last two raise `OSError`, which
        `trouble` is told of. The state is then `full`, until `resume`.
        """
        self.journal = journal
        self.batch = RecordBatch(journal.salt, journal.epoch, journal.checked)
        self.number = self.written = self.safe = journal.last
        self.now = journal.newest_time
        self.room = journal.room
        self.synced_only = synced_only
        self.trouble = trouble

    def tick(self, now: int) -> None:
        """It is `now`, in ns since 1970, unless that is before what it was."""
        if now > self.now:
            self.now = now

    def take(self, message: Message) -> int:
        """Give a message its number, one more than the last; 0 if the store has no room for it."""
        batch = self.batch
        if batch is None:
            self.number += 1
            message.number = self.number
            return self.number
        need = record_size(message.subject_size, message.reply_size, message.size)
        if need > self.room and not self._reserve(need):
            message.number = 0
            return 0
        self.room -= need
        self.number += 1
        message.number = self.number
        message.time = self.now
        batch.put(message)
        if batch.end > BATCH_MAX:
            self._write(batch)
        return self.number

    def release(self) -> bool:
        """Write what was numbered so far; whether all of it may be seen now."""
        batch = self.batch
        if batch is None:
            self.written = self.safe = self.number
        elif batch.end and not self.stuck:
            self._write(batch)
        return self.safe == self.number

    def synced(self, number: int) -> None:
        """All up to `number` is as safe as it was asked to be."""
        if number > self.safe:
            self.safe = number
            for feed in self.feeds:
                feed.flush(number)

    def hold_back(self) -> None:
        """Take nothing more until `resume`."""
        self.full = True
        self.wanted = 1
        self.room = 0

    def resume(self) -> None:
        """Try again to write what waits, and to take more. Raises `OSError` as the store does."""
        batch = self.batch
        assert batch is not None, "there is a store"
        if batch.end:
            self._append(batch)
        self.stuck = False
        self.journal.reserve(self.wanted)
        self.full = False
        self.room = self.journal.room

    def _reserve(self, need: int) -> bool:
        """Have the store make room."""
        batch = self.batch
        if self.full or batch is None:
            return False
        try:
            self.journal.reserve(batch.end + need)
        except OSError as error:
            self.full = True
            self.wanted = need
            self._tell(error)
            return False
        self.room = self.journal.room - batch.end
        return True

    def _write(self, batch: RecordBatch) -> int:
        try:
            self._append(batch)
        except OSError as error:
            self.stuck = True
            self.hold_back()
            self._tell(error)
        return 0

    def _append(self, batch: RecordBatch) -> None:
        with batch.view() as view:
            self.journal.write(view, batch.first, batch.last, batch.time, batch.ids)
        self.written = batch.last
        if not self.synced_only:
            self.safe = batch.last
        try:
            for feed in self.feeds:
                feed.take(batch.buffer, batch.end)
                feed.flush(self.safe)
        finally:  # the store has it, whatever becomes of the feeds: it must not be written twice
            batch.clear()

    def _tell(self, error: OSError) -> None:
        if self.trouble is not None:
            self.trouble(error)
