"""Numbering: a message gets its number from this member's sequencer, or the coordinator's.

    take             a client's message: numbered here by a coordinator; else to be forwarded
    take_forwarded   what another member's clients have published
    reclaim          a new coordinator numbers what its own clients still wait for

Only a coordinator looks for a Nats-Msg-Id. A message whose id has a number gets no other one: it
is answered with the old number, as soon as that is committed. All others only remember the ids
of what is committed, because they may come to coordinate.
"""

from collections.abc import Callable

import cython

from sequencer.journal.record import Walk
from sequencer.message import Message
from sequencer.msgids import Window, key_of
from sequencer.replica.errors import BadRecords
from sequencer.replica.forward_table import ForwardTable
from sequencer.replica.member_messages import AlreadyNumbered
from sequencer.replica.replicated_log import EpochJournal
from sequencer.sequencer import Sequencer

if cython.compiled:
    from cython.cimports.libc.limits import ULLONG_MAX
    from cython.cimports.libc.string import memcpy
else:
    from sequencer.journal.layout import ID_FLAG, RECORD, SCOPE_FLAG


class Numbering:
    """The numbering of one process of a member, for its one thread."""

    def __init__(self, table: ForwardTable, sequencer: Sequencer, window: Window | None) -> None:
        self.table = table
        self.sequencer = sequencer
        self.window = window
        self.walk = Walk(0, False)
        self.is_coordinator = False
        # Entries of the table wait for a number, and come before new ones.
        self.has_unnumbered = False
        self.repeated = False  # the last message had a number already, by its id
        self.ids_from = 0  # ids of messages before are too old, as the coordinator has said
        self.has_known_ids = False  # an entry got such an old number: it may be final already

    def submit(self, message: Message, now: int, steady: int = 0) -> int:
        """Take a client's message at a time as in `Sequencer.tick`; return its place in the table.

        If the journal has no room, the message waits for its number: there may be room soon, or
        another member takes over.
        """
        steady = steady or now
        if not self.is_coordinator:
            return self.table.put(message, steady)
        self.sequencer.tick(now, steady)
        if self.has_unnumbered and not self.sequencer.full:
            self._reclaim()
        if self.has_unnumbered:
            return self.table.put(message, steady)
        number = self._number(message)
        if number == 0:
            self.has_unnumbered = True
            return self.table.put(message, steady)
        if not self.repeated:
            return self.table.note(number, message.origin, message.origin_sequence, steady)
        # With a copy: the record of that number is another message. If it is cut, only the copy
        # has this one.
        place = self.table.put(message, steady)
        self.table.known(place, number)
        self.has_known_ids = True
        return place

    def take_forwarded(
        self, data: bytes | bytearray | memoryview, now: int, run: int, steady: int = 0
    ) -> tuple[list[AlreadyNumbered], int]:
        """Number the records that the member of this run has forwarded, in their order.

        Return which of them have a number by their id, and how many bytes were taken: all, unless
        the journal has no room. Raises BadRecords; what comes before the bad record is numbered.
        """
        self.sequencer.tick(now, steady)
        self.walk.attach(data, 0, len(data))
        answers: list[AlreadyNumbered] = []
        try:
            while self._take_next(run):
                walk = self.walk
                answers.append(AlreadyNumbered(walk.origin, walk.origin_sequence, walk.number))
            return answers, self.walk.at
        finally:
            self.walk.attach(b"", 0, 0)  # the bytes are not kept

    # Epochs of this member as the coordinator

    def start(self, log: EpochJournal, epoch: int, trouble: Callable[[OSError], None]) -> None:
        """Give the numbers after the log's end, in this epoch; `trouble` is as in `keep`."""
        log.begin_epoch(epoch)
        self.sequencer.keep(log, False, trouble)
        self.is_coordinator = True

    def reclaim(self, now: int = 0, steady: int = 0) -> int:
        """Number every entry of the table that has no number; return how many.

        If the journal has no room, the rest gets its numbers before the next message does.
        """
        assert self.is_coordinator, "only a coordinator gives numbers"
        self.sequencer.tick(now, steady)
        return self._reclaim()

    def stop(self) -> None:
        """Stop giving numbers. Messages that are numbered and not written are to be forwarded."""
        self.is_coordinator = self.has_unnumbered = False
        unwritten = self.sequencer.abandon()
        self.void_above(self.sequencer.number, unwritten)

    def void_above(self, number: int, cut: bytes | bytearray | memoryview) -> None:
        """Forget the numbers above `number`, where the log ends; `cut` contains their records."""
        self.table.void_above(number, cut)
        if self.window is not None:
            self.window.forget_above(number)

    def committed(self, walk: Walk, steady: int) -> None:
        """Remember the id of a committed record; skip one that is remembered already.

        It counts from now on, whatever the record's time: another member's clock has set that. A
        member that catches up hears which ids are too old (`forget_ids`).
        """
        window, number = self.window, walk.number
        if walk.flags & ID_FLAG and window is not None and number > window.newest:
            key = self._key_of(walk) if number >= self.ids_from else b""
            if key:
                window.add(key, number, steady)

    def forget_ids(self, before: int) -> None:
        """Forget the ids of messages before this number: the coordinator has forgotten them."""
        if before > self.ids_from and self.window is not None:
            self.ids_from = before
            self.window.forget_before(before)

    def ids_counting(self, steady: int) -> int:
        """Return the number of the oldest message whose id counts; 0 if there is none."""
        return self.window.oldest_counting(steady) if self.window is not None else 0

    # Inside

    def _number(self, message: Message) -> int:
        """Return the number of a message, or 0 if there is no room; `repeated`: its id had it."""
        self.repeated = False
        if message.flags & ID_FLAG and self.window is not None:
            return self._number_once(message)
        return self.sequencer.assign_number(message)

    def _number_once(self, message: Message) -> int:
        window = self.window
        assert window is not None, "ids are looked for where there is a window"
        key = self._key_of(message)
        if not key:
            return self.sequencer.assign_number(message)
        number = window.find(key, self.sequencer.steady)
        if number:
            message.number = number
            self.repeated = True
        elif number := self.sequencer.assign_number(message):
            window.add(key, number, self.sequencer.steady)
        return number

    def _take_next(self, run: int) -> bool:
        """Number records until one has a number by its id. False: the end, or no room."""
        walk = self.walk
        while walk.next() == RECORD:
            if walk.number or walk.time or walk.epoch or not walk.subject_size:
                raise BadRecords(f"a forwarded record at byte {walk.at} is not a new message")
            if walk.origin >> 32 != run:
                raise BadRecords(
                    f"a record of run {walk.origin >> 32} is forwarded by the member of run {run}"
                )
            if not is_text(walk):
                raise BadRecords(f"a forwarded record at byte {walk.at} has a blank in its subject")
            if self._number(walk) == 0:
                return False
            if self.repeated:
                return True
        if walk.after != walk.stop:
            raise BadRecords(f"a forwarded record at byte {walk.at} is damaged")
        return False

    def _reclaim(self) -> int:
        table = self.table
        count = place = 0
        self.has_unnumbered = True
        while True:
            place = table.next_unnumbered(place)
            if place == 0:
                self.has_unnumbered = False
                return count
            number = self._number(table.message_at(place))
            if number == 0:
                return count
            table.known(place, number)
            if self.repeated:
                self.has_known_ids = True
            count += 1

    def _key_of(self, message: Message) -> bytes:
        scope_size = message.subject_size if message.flags & SCOPE_FLAG else 0
        if cython.compiled:
            text = cython.cast("const char *", message.subject_data) + message.subject
            data = cython.cast("const char *", message.data) + message.body
            return key_of(text[:scope_size], data[: message.header_size])
        else:
            scope = message.subject_data[message.subject : message.subject + scope_size]
            return key_of(
                bytes(scope), message.data[message.body : message.body + message.header_size]
            )


def is_text(message: Message) -> bool:
    """True if subject and reply have no blank and no line end: no client can send those.

    Subscribers get both in a line, so a line end there would be the start of another message.
    """
    if cython.compiled:
        text = cython.cast("const unsigned char *", message.data) + message.subject
        left = message.subject_size + message.reply_size
        each = ULLONG_MAX // 255
        found = word = 0
        while left >= 8:
            memcpy(cython.address(word), text, 8)
            found |= (word - each * 33) & ~word
            text += 8
            left -= 8
        if left:  # with what is before it in the record, which does not count
            memcpy(cython.address(word), text + left - 8, 8)
            word |= ULLONG_MAX >> (8 * left)
            found |= (word - each * 33) & ~word
        if not found & (each * 128):
            return True  # nothing is below 33
    start = message.subject
    span = bytes(message.buffer[start : start + message.subject_size + message.reply_size])
    return not (b" " in span or b"\t" in span or b"\n" in span)
