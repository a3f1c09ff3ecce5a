"""Gathers records into chunks of columns: for `$SEQ.READ`, exports, and other bulk readers.

A buffer of records goes in, a chunk comes out: an array of numbers, one of times, and for
subject, reply, headers and payload the bytes and where each ends (chunk.py has a drawing, and
reads chunks). Every checksum is verified, and numbers must have no gaps. Whatever is wrong is
reported, never skipped:

    take -> MORE  the buffer is used up          -> take the next one, from `at` on
         -> FULL  the chunk is full              -> chunk, clear, take again
         -> END   `last` was reached
         -> GAP   `found` is not `next`          -> report what is missing, skip, take again
         -> BAD   there is no valid record at `at`

Columns that are not wanted (`absent`, the flags of chunk.py) are neither gathered nor sent. A
filter is asked once for each subject; the answer is kept. Memory: up to twice a chunk's bytes,
plus as much for known subjects. A record longer than a chunk needs room for itself.
"""

import struct
from collections.abc import Callable

import cython

from sequencer.journal.chunk import HEAD, HEAD_SIZE, MAGIC, SECTION, SECTIONS, STRINGS
from sequencer.journal.record import Walk

if cython.compiled:
    from cython.cimports.libc.string import memcmp, memcpy
else:
    from sequencer.journal.chunk import (
        END,
        FULL,
        GAP,
        HEADERS,
        NUMBER,
        PAYLOAD,
        REPLY,
        SUBJECT,
        TIME,
    )
    from sequencer.journal.layout import RECORD

    # Besides rows and their bytes: one extra offset in four columns, and padding of the sections.
    FRAME_SIZE = HEAD_SIZE + 4 * 4 + SECTIONS * 8
    ROOM_MIN = 1 << 12
    ROWS_MIN = 1 << 8
    KNOWN_SIZE = 100  # bytes that a subject takes besides its text
    KNOWN_MIN = 1 << 16

NUMBER_MAX = (1 << 63) - 1
ROWS_MAX = 1 << 15
BYTES_MAX = 1 << 20
PADDING = (b"", b"\0" * 7, b"\0" * 6, b"\0" * 5, b"\0" * 4, b"\0" * 3, b"\0\0", b"\0")


class ColumnBuffer:
    """One growing column of byte strings: the bytes, and where each ends."""

    def __init__(self) -> None:
        self.size = self.room = 0
        self.buffer = self.data = bytearray()
        self.offsets = self.ends = bytearray()
        self._make_room(ROOM_MIN)
        self.make_rows(ROWS_MIN)

    def put(self, row: int, source: bytes | bytearray, at: int, size: int) -> int:
        """Store `source[at : at + size]` in `row`; `make_rows` must have made room for it."""
        end = self.size + size
        if end > self.room:
            self._make_room(end)
        if cython.compiled:
            memcpy(self.data + self.size, source + at, size)
            cython.cast("int *", self.ends)[row + 1] = end
        else:
            self.data[self.size : end] = source[at : at + size]
            struct.pack_into("<i", self.ends, 4 * row + 4, end)
        self.size = end
        return 0

    def make_rows(self, rows: int) -> int:
        """Make room for the ends of that many rows, keeping what is there."""
        offsets = bytearray(4 * (rows + 1))
        if self.size:
            offsets[: len(self.offsets)] = self.offsets
        self.offsets = offsets
        self.ends = self.offsets
        return 0

    def clear(self, room_max: int) -> int:
        """Forget the bytes, and free a buffer that grew larger than `room_max`."""
        self.size = 0
        if self.room > room_max:
            self._make_room(ROOM_MIN)
        return 0

    def _make_room(self, need: int) -> int:
        room = ROOM_MIN
        while room < need:
            room *= 2
        buffer = bytearray(room)
        if self.size:
            memoryview(buffer)[: self.size] = memoryview(self.buffer)[: self.size]
        self.buffer = buffer
        self.data = self.buffer
        self.room = room
        return 0


class Collector:
    """Takes records, gives chunks of at most `rows_max` rows and about `bytes_max` bytes.

    A single record may be longer than `bytes_max`; it then gets a chunk of its own.
    """

    def __init__(
        self,
        salt: int,
        rows_max: int = ROWS_MAX,
        bytes_max: int = BYTES_MAX,
        checked: bool = True,
    ) -> None:
        assert rows_max > 0, "a chunk without rows never ends"
        assert bytes_max <= 1 << 30, "offsets have 32 bits"
        self.walk = Walk(salt, checked)
        self.rows_max = rows_max
        self.bytes_max = bytes_max
        self.numbers, self.times = bytearray(), bytearray()
        self.rows_room = 0
        self.size = FRAME_SIZE
        self.subjects = ColumnBuffer()
        self.replies = ColumnBuffer()
        self.headers = ColumnBuffer()
        self.payloads = ColumnBuffer()
        self.rows = 0
        self.absent = -1
        self.start_range(1, NUMBER_MAX, None)

    def start_range(
        self,
        first: int,
        last: int,
        wanted: Callable[[bytes], bool] | None,
        absent: int = 0,
    ) -> int:
        """Start again: numbers `first` to `last`, of the subjects that `wanted` accepts."""
        self.next = first
        self.last = last
        self.found = 0
        self.at = 0
        self.wanted = wanted
        self.filtered = wanted is not None
        self.known: dict[bytes, bool] = {}
        self.known_size = 0
        self.subject = b""
        self.subject_taken = False
        self.clear()
        if absent != self.absent:
            self._choose(absent)
        return 0

    def _choose(self, absent: int) -> int:
        """Gather all columns but these; forget the rows gathered so far."""
        self.absent = absent
        self.row_size = 0
        for flag in (NUMBER, TIME):
            self.row_size += 0 if absent & flag else 8
        for flag in STRINGS:
            self.row_size += 0 if absent & flag else 4
        self.rows_room = 0
        self._make_rows(min(ROWS_MIN, self.rows_max))
        return 0

    def collect(self, buffer: bytes | bytearray, at: int, stop: int) -> int:
        """Take the records of `buffer[at:stop]`, up to `self.at`. For the results, see above."""
        walk = self.walk
        walk.attach(buffer, at, stop)
        while True:
            if self.next > self.last:
                self.at = walk.after
                return END
            state = walk.next()
            self.at = walk.at
            if state != RECORD:
                return state
            if walk.number != self.next:
                if walk.number < self.next:
                    continue  # before the first number: the buffer begins earlier
                if walk.number > self.last:
                    self.found = self.last + 1
                else:
                    self.found = walk.number
                return GAP
            if self.filtered and not self._is_wanted(buffer):
                self.next += 1
                continue
            size = self.size + self.row_size
            if self.absent == 0:
                size += walk.payload + walk.payload_size - walk.subject
            else:
                size += self._size_of_wanted()
            if self.rows == self.rows_max or (size > self.bytes_max and self.rows):
                return FULL
            self.size = size
            self._append(buffer)

    def skip(self, number: int) -> None:
        """Go on at `number`: the numbers before it are known to be missing."""
        assert number >= self.next, "numbers only rise"
        self.next = number

    def chunk(self) -> bytes:
        """Return the rows taken since `clear` as one chunk."""
        rows, absent = self.rows, self.absent
        sections: list[memoryview] = [
            memoryview(self.numbers)[: 0 if absent & NUMBER else 8 * rows],
            memoryview(self.times)[: 0 if absent & TIME else 8 * rows],
        ]
        columns = (self.subjects, self.replies, self.headers, self.payloads)
        for flag, strings in zip(STRINGS, columns, strict=True):
            sections.append(memoryview(strings.offsets)[: 0 if absent & flag else 4 * (rows + 1)])
            sections.append(memoryview(strings.buffer)[: strings.size])
        head = [HEAD.pack(MAGIC, rows, absent, SECTIONS)]
        body: list[bytes | memoryview] = []
        offset = HEAD_SIZE
        for section in sections:
            size = len(section)
            head.append(SECTION.pack(offset, size))
            body += [section, PADDING[size % 8]]
            offset += size + len(PADDING[size % 8])
        return b"".join((*head, *body))

    def clear(self) -> None:
        """Begin the next chunk. `next`, `last` and the filter stay."""
        self.rows = 0
        self.size = FRAME_SIZE
        self.first = 0
        room_max = max(2 * self.bytes_max, ROOM_MIN)
        self.subjects.clear(room_max)
        self.replies.clear(room_max)
        self.headers.clear(room_max)
        self.payloads.clear(room_max)

    def _append(self, buffer: bytes | bytearray) -> int:
        walk, absent = self.walk, self.absent
        row = self.rows
        if row == self.rows_room:
            self._make_rows(min(2 * row, self.rows_max))
        if cython.compiled:
            if not absent & NUMBER:
                cython.cast("unsigned long long *", self.number_at)[row] = walk.number
            if not absent & TIME:
                cython.cast("unsigned long long *", self.time_at)[row] = walk.time
            source = walk.data
        else:
            if not absent & NUMBER:
                struct.pack_into("<q", self.numbers, 8 * row, walk.number)
            if not absent & TIME:
                struct.pack_into("<q", self.times, 8 * row, walk.time)
            source = buffer
        if absent == 0:
            self.subjects.put(row, source, walk.subject, walk.subject_size)
            self.replies.put(row, source, walk.reply, walk.reply_size)
            self.headers.put(row, source, walk.body, walk.header_size)
            self.payloads.put(row, source, walk.payload, walk.payload_size)
        else:
            self._put_wanted(row, source)
        if row == 0:
            self.first = walk.number
        self.rows = row + 1
        self.next = walk.number + 1
        return 0

    def _put_wanted(self, row: int, source: bytes | bytearray) -> int:
        """Store those strings of the current record that go into the chunk."""
        walk, absent = self.walk, self.absent
        if not absent & SUBJECT:
            self.subjects.put(row, source, walk.subject, walk.subject_size)
        if not absent & REPLY:
            self.replies.put(row, source, walk.reply, walk.reply_size)
        if not absent & HEADERS:
            self.headers.put(row, source, walk.body, walk.header_size)
        if not absent & PAYLOAD:
            self.payloads.put(row, source, walk.payload, walk.payload_size)
        return 0

    def _size_of_wanted(self) -> int:
        """The bytes of the current record's strings that go into the chunk."""
        walk, absent = self.walk, self.absent
        size = 0 if absent & SUBJECT else walk.subject_size
        size += 0 if absent & REPLY else walk.reply_size
        size += 0 if absent & HEADERS else walk.header_size
        size += 0 if absent & PAYLOAD else walk.payload_size
        return size

    def _make_rows(self, rows: int) -> int:
        """Make room for `rows` rows of the wanted columns, keeping what is there."""
        absent = self.absent
        numbers = bytearray(0 if absent & NUMBER else 8 * rows)
        times = bytearray(0 if absent & TIME else 8 * rows)
        if self.rows_room:
            numbers[: len(self.numbers)] = self.numbers
            times[: len(self.times)] = self.times
        self.numbers, self.times = numbers, times
        self.number_at = self.numbers
        self.time_at = self.times
        self.subjects.make_rows(0 if absent & SUBJECT else rows)
        self.replies.make_rows(0 if absent & REPLY else rows)
        self.headers.make_rows(0 if absent & HEADERS else rows)
        self.payloads.make_rows(0 if absent & PAYLOAD else rows)
        self.rows_room = rows
        return 0

    def _is_wanted(self, buffer: bytes | bytearray) -> bool:
        """True if the filter accepts the current subject; it is usually the same as before."""
        walk = self.walk
        if cython.compiled:
            subject_at = walk.data + walk.subject
            before = cython.cast("const unsigned char *", self.subject)
            size = walk.subject_size
            if size == len(self.subject) and memcmp(subject_at, before, size) == 0:
                return self.subject_taken
            subject = cython.cast("const char *", subject_at)[:size]
        else:
            subject = bytes(buffer[walk.subject : walk.subject + walk.subject_size])
        taken = self.known.get(subject)
        if taken is None:
            if self.known_size > max(self.bytes_max, KNOWN_MIN):
                self.known.clear()
                self.known_size = 0
            self.known_size += len(subject) + KNOWN_SIZE
            taken = bool(self.wanted(subject)) if self.wanted else True
            self.known[subject] = taken
        self.subject = subject
        self.subject_taken = taken
        return taken
