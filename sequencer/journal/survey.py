"""Reads a segment through once: where its records end, what is lost, and its marks.

       records ---- not a record: search on ----> records ... ---> end
                          |
                          `---- no good record follows ----> the tail is `torn`

A crash leaves a torn tail: bytes with no good record after them. Bytes before good records with
higher numbers are damage; so are missing numbers. This module tells the two apart and changes
nothing; recovery.py decides what to do.

`step` reads a bounded part, so that a large segment need not be read in one go. Memory: one
chunk of 4 MiB, or the longest record.
"""

import os
import struct
from collections.abc import Callable
from typing import Final

from sequencer.journal.errors import Damage
from sequencer.journal.header import START
from sequencer.journal.index import Marks, Summary
from sequencer.journal.layout import HEADER_SIZE, ID_FLAG, LENGTH_MAX, MORE, RECORD
from sequencer.journal.record import Walk

CHUNK: Final = 4 << 20
LENGTH: Final = struct.Struct("<I")
HEAD: Final = struct.Struct("<IIQQQQIHHHHI")
# How many bytes of possible records a search may check, as a multiple of what it searches. A
# long payload full of forged heads can make it slower only up to this.
SEARCH_FACTOR: Final = 64


class Survey:
    """The survey of one segment. Written by the caller of `step`."""

    def __init__(
        self,
        fd: int,
        salt: int,
        first: int,
        size: int,
        limit: int = 1 << 63,
        looks: Callable[[int], None] = lambda at: None,
    ) -> None:
        """`limit` is the first number of the next segment: no record here may have it.

        `looks` is called with an offset as a search goes on; it may raise.
        """
        self.fd = fd
        self.walk = Walk(salt)
        self.first = first
        self.size = size
        self.limit = limit
        self.marks = Marks()
        self.damage: list[Damage] = []
        self.disorder: list[int] = []  # numbers with a time before that of the previous number
        self.last = first - 1
        self.first_time = self.last_time = 0
        self.epoch = 0
        self.end = START  # after the last good record
        self.torn = False  # the bytes from `end` on are not records of this segment
        self.certain = True  # False if the search after them was given up
        self._looks = looks
        self.done = size <= START
        self.chunk = bytearray()  # made by the first step, which may begin near the end

    def begin_at(self, offset: int, number: int) -> None:
        """Begin with record `number` at `offset` instead of the first."""
        self.end = offset
        self.last = number - 1

    def take_index(self, summary: Summary, marks: Marks, damage: list[Damage]) -> None:
        """Use what an index says of the records before the one where it began."""
        self.marks, self.damage, self.first_time = marks, damage, summary.first_time

    def extend(self, size: int) -> None:
        """Go on after the last good record: more was appended there."""
        self.size = size
        self.done = self.torn = False
        self.certain = True
        self.chunk = bytearray(min(CHUNK, max(size - self.end, HEADER_SIZE)))
        self.run()

    def run(self) -> "Survey":
        while not self.done:
            self.step()
        return self

    def step(self) -> None:
        """Read about 4 MiB more."""
        base = self.end
        if not self.chunk:
            self.chunk = bytearray(min(CHUNK, max(self.size - base, HEADER_SIZE)))
        want = min(len(self.chunk), self.size - base)
        got = self._load(base, want)
        walk = self.walk
        walk.attach(self.chunk, 0, got)
        state = self._records(base)
        at = base + walk.at
        self.end = at
        if state == MORE and at == self.size:
            self.done = True
        elif state == MORE and got == want and (at > base or self._grow(at)):
            pass  # the rest of the record comes with the next chunk
        else:
            self._search(at)

    def _records(self, base: int) -> int:
        """Walk the records of the chunk. Stops with MORE, or at anything that is not in order."""
        walk = self.walk
        marks, limit = self.marks, self.limit
        expected = self.last + 1
        before = self.last_time
        epoch = self.epoch
        state = walk.next()
        while state == RECORD:  # for each mark, and what is out of the ordinary
            number = walk.number
            if number != expected or number >= limit:
                if number < expected or number >= limit:
                    break
                at = base + walk.at
                self.damage.append(Damage(self.first, at, at, expected, number - 1))
                marks.next = 0
            time = walk.time
            if time < before:
                self.disorder.append(number)
            else:
                before = time
            epoch = walk.epoch
            if base + walk.at >= marks.next:
                marks.add(number, before, base + walk.at)
                self.first_time = self.first_time or time
            if walk.flags & ID_FLAG:
                marks.note_ids()
            if time == before:
                walk.advance(limit, marks.next - base)
                number, before = walk.number, walk.time
            expected = number + 1
            state = walk.next()
        self.last = expected - 1
        self.last_time = before
        self.epoch = epoch
        return state

    def _load(self, base: int, want: int) -> int:
        """Read the chunk; it is shorter than wanted only if the file has become shorter."""
        view = memoryview(self.chunk)
        got = 0
        while got < want:
            count = os.preadv(self.fd, [view[got:want]], base + got)
            if count == 0:
                break
            got += count
        return got

    def _grow(self, at: int) -> bool:
        """Make the chunk as long as the record at its start; False if none can be that long."""
        if self.size - at < HEADER_SIZE:
            return False
        (length,) = LENGTH.unpack_from(self.chunk, 4)
        padded = (length + 7) & ~7
        if length > LENGTH_MAX or padded <= len(self.chunk) or at + padded > self.size:
            return False
        self.chunk = bytearray(padded)
        return True

    def _search(self, bad: int) -> None:
        """Go on at the next good record after an invalid one, or find that there is none."""
        found, self.certain = self.next_good(bad) if self.last + 1 < self.limit else (0, True)
        if found:
            number = self.walk.number
            self.damage.append(Damage(self.first, bad, found, self.last + 1, number - 1))
            self.last = number - 1
            self.end = found
            self.marks.next = 0
        else:
            self.done = self.torn = True

    def next_good(self, bad: int) -> tuple[int, bool]:
        """Return the offset of the next good record after `bad`, or 0; and whether that is certain.

        `walk` is then at that record, whose number has not been seen yet.
        """
        low = self.last + 1
        budget = SEARCH_FACTOR * (self.size - bad) + LENGTH_MAX
        high = min(self.limit, self.first + self.size // HEADER_SIZE + 2)
        base = bad - bad % 8
        while base + HEADER_SIZE <= self.size:
            self._looks(base)
            window = os.pread(self.fd, min(CHUNK, self.size - base), base)
            usable = (len(window) - HEADER_SIZE) // 8 + 1 if len(window) >= HEADER_SIZE else 0
            if usable <= 0:
                break
            words = memoryview(window)[: len(window) & ~7].cast("Q")
            heads = [at - 1 for at, word in enumerate(words) if low <= word < high and at]
            for head in heads:
                at = base + 8 * head
                if at <= bad or head >= usable:
                    continue
                self._looks(at)
                length = self._length(window, 8 * head, at)
                if not length:
                    continue
                budget -= length
                if budget < 0:
                    return 0, False
                if self._is_record(at, length, low, high):
                    return at, True
            base += 8 * usable
        return 0, True

    def _length(self, window: bytes, at: int, offset: int) -> int:
        """The padded length of the record whose head may be here; 0 if it cannot be one."""
        _, length, _, _, _, _, _, _, subject, reply, zero, headers = HEAD.unpack_from(window, at)
        padded = (length + 7) & ~7
        if zero or length > LENGTH_MAX or length < HEADER_SIZE + subject + reply + headers:
            return 0
        return padded if offset + padded <= self.size else 0

    def _is_record(self, at: int, length: int, low: int, high: int) -> bool:
        data = os.pread(self.fd, length, at)
        self.walk.attach(data, 0, len(data))
        return self.walk.next() == RECORD and low <= self.walk.number < high


def first_record(fd: int, salt: int, first: int) -> Walk | None:
    """The first record of a segment; None if it is damaged, or missing."""
    data = os.pread(fd, HEADER_SIZE, START)
    if len(data) < HEADER_SIZE:
        return None
    length = int.from_bytes(data[4:8], "little")
    data = os.pread(fd, min(length, LENGTH_MAX) + 7 & ~7, START)
    walk = Walk(salt)
    walk.attach(data, 0, len(data))
    return walk if walk.next() == RECORD and walk.number == first else None
