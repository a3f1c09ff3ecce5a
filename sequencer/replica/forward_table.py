"""The forward table: messages of this member's clients that are not answered yet.

    put      a client's message, to be forwarded: a copy of its record      number 0
    note     one that this member's own sequencer has numbered: no copy     its number
    unsent   the next records to forward
    inspect  records that the coordinator sent: own entries get their numbers
    settle   what is committed is final, and is freed

`place` counts the entries from 1. All up to `settled` are final; their numbers are kept until
`free_up_to`. Three facts make it exactly once (rule 14 of sequencer/replica/__init__.py):

* Own records stand in the log in the table's order. A cut removes an end of the log, and only what
  has no number is sent again, in order. So one cursor finds them.
* Only what has no number is sent, and a new connection first inspects what the log has.
* A number above a cut no longer counts. Its entry needs a copy again: from the cut records.

An entry takes 40 bytes, and its copy. Copies lie in the entries' order. Written by the member.
"""

# Theory of operation
#
# A client's message comes to any member, and only the coordinator gives numbers. Between the two,
# connections break and coordinators die. This table has what is needed to send a message again, and
# not twice. An entry is a row; places count rows from 1 and are never used again:
#
#     place    forgotten      settled              sent              placed
#     ------------|--------------|-------------------|------------------|
#      row freed  | final: its   | sent on this      | not sent on this |
#                 | answer waits | connection        | connection       |
#
#     number 0          it has none, so there is a copy of its record, to be sent
#     number n          the log has it as n. It is final once n is committed, and is freed in order
#     number NOBODY     its client was dropped; nothing is sent for it any more
#
# Four cursors walk over the entries that are not final, each only forwards:
#
#     sent      `unsent`: up to here everything was sent on this connection, or has a number
#     tried     the same for all connections so far: these may be in somebody's log
#     looked    `inspect`: the next own record in the log belongs after it
#     replied   `answered`: the next answer about a known id belongs after it
#
# An example. This member has put places 5, 6, 7, and sent them. The coordinator has numbered two of
# them when it dies; the next one has only the first of these in its log:
#
#     5    6    7
#     0    0    0      sent = 7
#     101  102  0      `inspect`: records 101 and 102 came
#     101  0    0      `void_above(101)`: the log here is cut where the new coordinator's ends
#     101  0    0      `rewind`: sent = settled, a new connection
#     101  0    0      `inspect`: whatever the new coordinator has, before anything is sent
#     101  102  103    `unsent`: 6 and 7 again, and they come back
#
# The order is what makes this right. Had 7 been sent before the log was inspected, it could be
# there twice. And since records stand in the log in the table's order, `_find` may search forwards
# from `looked`; nearly always it is the next row.
#
# When it is not, someone is wrong: the record is of a client that was dropped, or the coordinator
# makes records up. A search through a million rows for each such record would stop this member. So
# an origin without entries is remembered as a stranger and found at once, and the rows that were
# searched in vain are counted (`wasted`); with too many the connection is given up.

from typing import Final

import cython

from sequencer.journal.record import Walk
from sequencer.message import Message
from sequencer.replica.errors import BadRecords
from sequencer.replica.forward_copies import ForwardCopies
from sequencer.replica.replicated_log import Inspected

if cython.compiled:
    from cython.cimports.libc.limits import ULLONG_MAX
else:
    from sequencer.journal.layout import BAD, ID_FLAG, MORE, RECORD

    ULLONG_MAX = (1 << 64) - 1
    ROWS_MIN = 1024
    ROWS_KEPT = 1 << 16  # 2.5 MiB: that many come between two commits of a flood
    STRANGERS_MAX = 1 << 16
    WASTE_MAX = 1 << 30  # entries: about a second

NUMBER_MAX = (1 << 63) - 1
NOBODY: Final = (1 << 64) - 1  # in place of a number: no client waits for this entry any more
U64 = 8


class ForwardTable:
    """The table of a member's process. ULLONG_MAX: NOBODY as a number, none as a time or a copy."""

    def __init__(self, run: int, salt: int) -> None:
        assert 0 <= run < 1 << 31, "a run is 31 bits"
        self.run = run  # the high half of the origins of this member's clients
        self.copies = ForwardCopies()
        self.walk = Walk(salt)
        self.copy_walk = Walk(0, False)
        self.placed = self.settled = 0  # the newest place; the newest final one
        self.forgotten = 0
        self.base = 1  # the place of row 0
        self.room = 0  # rows
        self.table = bytearray()
        if not cython.compiled:
            nothing = memoryview(b"").cast("Q")
            self.numbers = self.origins = self.sequences = self.times = self.ats = nothing
        self._move_rows(ROWS_MIN)
        self.forwarded = self.forwarded_again = 0  # records sent; those tried before
        self.marked = 0  # entries that were found in the log
        self.first_time = self.last_time = 0  # of what `inspect` has walked
        self.has_ids = False
        self.in_flight = 0  # bytes sent on this connection, and not numbered yet
        self.sent = 0  # up to here everything is sent on this connection, or need not be
        self.tried = 0  # up to here everything has been sent or numbered at some time
        self.looked = self.replied = 0  # where the next number in the log, or known one, belongs
        # Origins that were looked for, and have no entry without a number. They make a search
        # short where a client was dropped whose records come nevertheless.
        self.strangers: set[int] = set()
        self.has_strangers = False
        self.wasted = 0  # entries searched without a match; bounded, so that no search takes long

    @property
    def salt(self) -> int:
        """The salt of the journal's records."""
        return self.walk.salt

    @property
    def held_bytes(self) -> int:
        """The bytes of the copies."""
        return self.copies.held

    def know_salt(self, salt: int) -> None:
        """Use the salt of a journal that has begun again."""
        self.walk = Walk(salt)

    # New entries

    def put(self, message: Message, steady: int) -> int:
        """Copy a client's message, which came at this time of a steady clock; return its place."""
        at = self.copies.add(message)
        row = self._add_row(0, message.origin, message.origin_sequence)
        self.ats[row] = at
        self.times[row] = steady if message.flags & ID_FLAG else ULLONG_MAX
        return self.placed

    def note(self, number: int, origin: int = 0, sequence: int = 0, steady: int = 0) -> int:
        """Add an entry that has a number already; return its place."""
        row = self._add_row(number, origin, sequence)
        self.ats[row] = ULLONG_MAX
        self.times[row] = steady  # of an id only, once it has no number: see `_copy_again`
        self.tried = self.placed
        return self.placed

    def known(self, place: int, number: int) -> None:
        """Note that this entry's message has a number: its id had it, or it was just given."""
        assert self.settled < place <= self.placed, "an entry that is not final"
        self._arrive(place)
        self.numbers[place - self.base] = number
        if place > self.tried:
            self.tried = place

    # Messages from the coordinator

    def inspect(self, data: bytes | bytearray | memoryview, first: int, epoch: int) -> Inspected:
        """Check records, and give own entries the numbers that they have there.

        All must be of `epoch`, with consecutive numbers from `first` on, right checksums, and times
        that do not fall. Otherwise raises BadRecords, and no entry has a number from `first` on.
        """
        if not 1 <= first <= NUMBER_MAX:
            raise BadRecords(f"{first} is given as a number")
        walk, tried = self.walk, self.tried
        walk.attach(data, 0, len(data))
        try:
            last = self._inspect(first, epoch)
            if last < first or walk.after != walk.stop:
                raise BadRecords(self._complaint(last + 1, epoch))
            found = Inspected(last, self.first_time, self.last_time, self.has_ids)
        except BadRecords:
            # A half of a bad message must not count: the numbers found before the error are void.
            self._void(first - 1)
            self.tried = tried
            raise
        finally:
            walk.attach(b"", 0, 0)  # the bytes are not kept
        return found

    def answered(self, origin: int, sequence: int, number: int) -> bool:
        """Note the number that the coordinator found for a forwarded message by its id.

        Such answers come in the order of forwarding. False: no entry waits for it.
        """
        if not 1 <= number <= NUMBER_MAX:
            raise BadRecords(f"{number} is given as a number")
        if self.replied < self.settled:
            self.replied = self.settled
        place = self._find(self.replied, origin, sequence)
        if place == 0:
            return False
        self.replied = place
        self.known(place, number)
        return True

    # Messages to the coordinator

    def rewind(self) -> None:
        """Begin a connection: everything without a number is to be sent, again or not."""
        self.sent = self.looked = self.replied = self.settled
        self.in_flight = 0
        self.wasted = 0
        self._forget_strangers()

    def unsent(self, most: int) -> bytes:
        """Return the next records to send: at most `most` bytes, or one record; b"" if none."""
        if self.sent < self.settled:
            self.sent = self.settled
        place = self.sent + 1
        while place <= self.placed and self.numbers[place - self.base]:
            place += 1
        self.sent = place - 1
        if place > self.placed:
            return b""
        first = place
        start = self.ats[place - self.base]
        size = 0
        # Adjacent copies are sent together. The rest begins the next block.
        while place <= self.placed and not self.numbers[place - self.base]:
            at = self.ats[place - self.base]
            length = self.copies.size_at(at)
            if at != start + size or (size and size + length > most):
                break
            size += length
            place += 1
        self.forwarded += place - first
        if self.tried >= first:
            self.forwarded_again += min(self.tried + 1, place) - first
        self.sent = place - 1
        self.in_flight += size
        if self.sent > self.tried:
            self.tried = self.sent
        return self.copies.cut_out(start, size)

    # Cuts and commits

    def void_above(self, number: int, cut: bytes | bytearray | memoryview) -> None:
        """Take back the numbers above this one. `cut` is what the log had above it.

        Entries without a copy get it from there. They are sent after the next `rewind`.
        """
        for place in range(self.settled + 1, self.placed + 1):
            row = place - self.base
            if number < self.numbers[row] < ULLONG_MAX and self.ats[row] == ULLONG_MAX:
                self._copy_again(number, cut)
                break
        self._void(number)

    def settle(self, watermark: int) -> int:
        """Make committed entries final, in order; return the newest place that is final."""
        place = self.settled + 1
        while place <= self.placed:
            row = place - self.base
            number = self.numbers[row]
            if number == 0 or (number > watermark and number != ULLONG_MAX):
                break
            if self.ats[row] != ULLONG_MAX:
                self.copies.free(self.ats[row])
            place += 1
        self.settled = place - 1
        return self.settled

    def number_of(self, place: int) -> int:
        """Return the number of an entry that is not forgotten: 0 while it has none, or NOBODY."""
        assert self.forgotten < place <= self.placed, "an entry that is not forgotten"
        return self.numbers[place - self.base]

    def free_up_to(self, place: int) -> None:
        """Free the numbers up to this place: their answers are given."""
        assert self.forgotten <= place <= self.settled, "only what is final is forgotten"
        self.forgotten = place
        if self.placed == place:
            self.base = place + 1
        live = self.placed - place
        if self.room > ROWS_KEPT and live * 8 < self.room:
            self._move_rows(self.room // 4)

    # Origins

    def sent_origins(self) -> frozenset[int]:
        """The origins of entries that were ever sent or numbered, and are not final."""
        return self._origins(self.tried)

    def all_origins(self) -> frozenset[int]:
        """The origins of all entries that are not final."""
        return self._origins(self.placed)

    def expired(self, before: int) -> frozenset[int]:
        """The origins of entries with an id that were put before this time, without a number."""
        found = set()
        for place in range(self.settled + 1, self.placed + 1):
            row = place - self.base
            if self.times[row] < before and not self.numbers[row]:
                found.add(self.origins[row])
        return frozenset(found)

    def drop(self, origins: frozenset[int]) -> None:
        """Give up what these origins have published: no client waits for it any more."""
        for place in range(self.settled + 1, self.placed + 1):
            row = place - self.base
            if self.origins[row] in origins:
                self._arrive(place)
                self.numbers[row] = ULLONG_MAX

    # For a new coordinator

    def next_unnumbered(self, after: int) -> int:
        """Return the first place after this one whose entry has no number; 0 if there is none."""
        place = max(after, self.settled) + 1
        while place <= self.placed:
            if not self.numbers[place - self.base]:
                return place
            place += 1
        return 0

    def message_at(self, place: int) -> Walk:
        """Return the record of an entry without a number; valid until the next call."""
        self.copies.seek(self.copy_walk, self.ats[place - self.base])
        return self.copy_walk

    # Inside

    def _add_row(self, number: int, origin: int, sequence: int) -> int:
        row = self.placed + 1 - self.base
        if row == self.room:
            self._make_room()
            row = self.placed + 1 - self.base
        if self.has_strangers:
            self._meet(origin)
        self.numbers[row] = number
        self.origins[row] = origin
        self.sequences[row] = sequence
        self.placed += 1
        return row

    def _make_room(self) -> int:
        live = self.placed - self.forgotten
        return self._move_rows(self.room * 2 if live * 2 > self.room else self.room)

    def _move_rows(self, room: int) -> int:
        """Move the rows that are not forgotten to memory with room for `room` rows."""
        first, live = self.forgotten + 1 - self.base, self.placed - self.forgotten
        # New memory costs more than the moves, so the same is used again if it is large enough.
        table = self.table if room == self.room else bytearray(5 * U64 * room)
        if cython.compiled:
            words = cython.cast("unsigned long long *", cython.cast("unsigned char *", table))
            numbers, origins, sequences = words, words + room, words + 2 * room
            times, ats = words + 3 * room, words + 4 * room
        else:
            whole = memoryview(table).cast("Q")
            numbers, origins, sequences, times, ats = (
                whole[at * room : (at + 1) * room] for at in range(5)
            )
        for row in range(live):
            numbers[row] = self.numbers[first + row]
            origins[row] = self.origins[first + row]
            sequences[row] = self.sequences[first + row]
            times[row] = self.times[first + row]
            ats[row] = self.ats[first + row]
        self.numbers, self.origins, self.sequences = numbers, origins, sequences
        self.times, self.ats = times, ats
        self.table = table
        self.room = room
        self.base = self.forgotten + 1
        return 0

    def _inspect(self, first: int, epoch: int) -> int:
        """Walk the records that are sound; return the number of the last one of them."""
        walk = self.walk
        number = first - 1
        time = 0
        ids = False
        while walk.next() == RECORD:
            if walk.number != number + 1 or walk.epoch != epoch or walk.time < time:
                walk.after = walk.at
                break
            number += 1
            time = walk.time
            if number == first:
                self.first_time = time
            if walk.flags & ID_FLAG:
                ids = True
            if walk.origin >> 32 == self.run:
                self._mark(walk.origin, walk.origin_sequence, number)
        self.last_time = time
        self.has_ids = ids
        return number

    def _mark(self, origin: int, sequence: int, number: int) -> int:
        """Give the entry of this record its number, if there is one."""
        if self.looked < self.settled:
            self.looked = self.settled
        place = self._find(self.looked, origin, sequence)
        if place:
            self.looked = place
            self._arrive(place)
            self.marked += 1
            self.numbers[place - self.base] = number
            if place > self.tried:
                self.tried = place
        return 0

    def _arrive(self, place: int) -> int:
        """Prepare an entry for a number: if it was under way, it is no longer."""
        row = place - self.base
        if place <= self.sent and not self.numbers[row]:
            length = self.copies.size_at(self.ats[row])
            # A cut message is not counted until it is sent again.
            self.in_flight -= length if length < self.in_flight else self.in_flight
        return 0

    def _find(self, after: int, origin: int, sequence: int) -> int:
        """Find the first place after this one of an entry without a number; 0: there is none."""
        if self.has_strangers and self._is_stranger(origin):
            return 0
        stranger = True
        start, stop = after + 1 - self.base, self.placed + 1 - self.base
        for row in range(start, stop):
            if self.origins[row] == origin and not self.numbers[row]:
                if self.sequences[row] == sequence:
                    return row + self.base
                stranger = False
        # Not found. Is it a stranger? Rows before `after` do not match, but may be of this origin.
        stop, start = start, self.settled + 1 - self.base
        for row in range(start, stop):
            if self.origins[row] == origin and not self.numbers[row]:
                stranger = False
        self.wasted += self.placed - self.settled
        if self.wasted > WASTE_MAX:
            self._refuse()
        if stranger:
            self._remember_stranger(origin)
        return 0

    def _refuse(self) -> None:
        raise BadRecords("too many records of this member are not known here")

    def _is_stranger(self, origin: int) -> bool:
        return origin in self.strangers

    def _remember_stranger(self, origin: int) -> None:
        if len(self.strangers) == STRANGERS_MAX:
            self.strangers.clear()
        self.strangers.add(origin)
        self.has_strangers = True

    def _meet(self, origin: int) -> None:
        self.strangers.discard(origin)

    def _forget_strangers(self) -> None:
        self.strangers.clear()
        self.has_strangers = False

    def _void(self, number: int) -> None:
        """Take back the numbers above this one, of entries with a copy."""
        for place in range(self.settled + 1, self.placed + 1):
            row = place - self.base
            has_copy = self.ats[row] != ULLONG_MAX
            if has_copy and number < self.numbers[row] < ULLONG_MAX:
                self.numbers[row] = 0
        self.looked = self.replied = self.settled
        self._forget_strangers()

    def _copy_again(self, number: int, cut: bytes | bytearray | memoryview) -> None:
        """Make all copies again, in order, with those of numbers above this one from `cut`."""
        # All, and not only the missing ones: copies lie in the order of the entries and are freed
        # in that order, so none can be added in between.
        before, self.copies = self.copies, ForwardCopies()
        walk, old = self.walk, self.copy_walk
        walk.attach(cut, 0, len(cut))
        for place in range(self.settled + 1, self.placed + 1):
            row = place - self.base
            own = self.numbers[row]
            at = self.ats[row]
            if at != ULLONG_MAX:
                before.seek(old, at)
                self.ats[row] = self.copies.add(old)
                before.free(at)
            elif number < own < ULLONG_MAX:
                while walk.after == 0 or walk.number != own:
                    state = walk.skim()
                    assert state == RECORD, "what is cut has each number that was noted"
                self.ats[row] = self.copies.add(walk)
                self.origins[row] = walk.origin
                self.sequences[row] = walk.origin_sequence
                if not walk.flags & ID_FLAG:
                    self.times[row] = ULLONG_MAX
        walk.attach(b"", 0, 0)
        old.attach(b"", 0, 0)

    def _origins(self, last: int) -> frozenset[int]:
        found = set()
        for place in range(self.settled + 1, last + 1):
            row = place - self.base
            if self.numbers[row] != ULLONG_MAX:
                found.add(self.origins[row])
        return frozenset(found)

    def _complaint(self, number: int, epoch: int) -> str:
        """Return what is wrong with the record at which `_inspect` stopped, instead of `number`."""
        walk = self.walk
        state = walk.next()
        if state == MORE:
            return f"number {number} ends too early" if walk.at < walk.stop else "no records"
        if state == BAD:
            return f"number {number} is damaged"
        if walk.number != number:
            return f"number {walk.number} comes where {number} was to come"
        if walk.epoch != epoch:
            return f"number {number} is of epoch {walk.epoch}, not of {epoch}"
        return f"number {number} has a time before that of the number before it"
