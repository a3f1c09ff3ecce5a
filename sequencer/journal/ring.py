"""The newest messages in memory: replay without a disk.

It consists of segments of 256 KiB; the oldest are dropped whole. It takes at most `bytes_max` and
one segment. Readers may hold as much again of what was dropped; above that, `let_go` must make them
release it. Written and read by the broker's one thread.
"""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Final

from sequencer.journal.errors import Damage
from sequencer.journal.protocols import SegmentView

PIECE_BYTES: Final = 256 << 10
ROOM: Final = 1 << 40  # old messages are dropped, so it is never full


class RingSegment:
    """A buffer of records. It stays readable while held, even if the ring has dropped it."""

    __slots__ = (
        *("buffer", "first", "following", "gone", "holders", "last", "newest", "oldest"),
        *("size", "start"),
    )

    def __init__(self, first: int, buffer: bytearray) -> None:
        self.buffer = buffer
        self.first = first
        self.last = first - 1
        self.size = self.start = 0
        self.oldest = self.newest = 0
        self.following: RingSegment | None = None
        self.gone = False
        self.holders = 0

    def __str__(self) -> str:
        return f"the ring's part of numbers {self.first} to {self.last}"

    @property
    def readable(self) -> int:
        return self.size

    def read(self, offset: int, into: memoryview, wait: bool) -> int:
        """Copy the bytes at `offset` into `into`; return how many, 0 at the end."""
        got = min(len(into), self.size - offset)
        if got <= 0:
            return 0
        into[:got] = memoryview(self.buffer)[offset : offset + got]
        return got

    def hold(self) -> None:
        self.holders += 1

    def release(self) -> None:
        assert self.holders, "every release has its hold"
        self.holders -= 1
        if self.gone and not self.holders:
            self.buffer = bytearray()
            self.size = 0


class Ring:
    """The journal in memory. Each process has a new id: the messages end with the process."""

    checked = False  # nothing can change a record between writing and reading it

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.id = os.urandom(8).hex()
        self.salt = int.from_bytes(os.urandom(4), "little")
        self.epoch = 1
        self.damage: list[Damage] = []
        self.last = 0
        self.bytes = 0
        self.newest_time = 0
        self.room = ROOM
        self.let_go: Callable[[], object] = lambda: None  # readers hold too much of the past
        self._held: list[RingSegment] = []  # dropped, but a reader held them
        self._active = RingSegment(1, bytearray())
        self._segments = [self._active]

    @property
    def first(self) -> int:
        """The first number still here; last + 1 if it is empty."""
        return self._segments[0].first

    @property
    def oldest_time(self) -> int:
        return self._segments[0].oldest

    def segments(self) -> list[RingSegment]:
        return self._segments[:]

    def reserve(self, need: int) -> None:
        """Do nothing: there is always room."""

    def write(self, view: memoryview, first: int, last: int, time: int, ids: bool) -> None:
        """Append whole records, numbers `first` to `last`, all of one time."""
        assert first == self.last + 1 <= last, "numbers have no gaps"
        segment = self._active
        size = len(view)
        if segment.size + size > len(segment.buffer):
            segment = self._turn(size)
        memoryview(segment.buffer)[segment.size : segment.size + size] = view  # no copy of it first
        segment.oldest = segment.oldest or time
        segment.newest = self.newest_time = time
        segment.size += size
        segment.last = self.last = last
        self.bytes += size

    def locate(self, number: int) -> tuple[RingSegment, int]:
        """The segment of this number, and its start; for a number after the last one, the end."""
        if number > self.last:
            return self._active, self._active.size
        index = bisect_right(self._segments, number, key=lambda segment: segment.first)
        return self._segments[max(index - 1, 0)], 0

    def locate_time(self, time_ns: int) -> tuple[RingSegment, int]:
        """The segment with the first record at this time or later, and its start."""
        if time_ns > self.newest_time:
            return self._active, self._active.size
        index = bisect_left(self._segments, time_ns, key=lambda segment: segment.oldest)
        return self._segments[max(index - 1, 0)], 0

    def next_good(
        self, segment: SegmentView, offset: int, number: int
    ) -> tuple[RingSegment, int, int] | None:
        """Return None: nothing in memory is damaged, and what was dropped is before `first`."""
        return None

    def _turn(self, need: int) -> RingSegment:
        """Begin a new segment, and drop the oldest ones to make room for it."""
        before = self._active
        unit = min(PIECE_BYTES, self.bytes_max)
        capacity = need
        if need <= self.bytes_max:
            capacity = -(-need // unit) * unit  # whole units, so that a dropped buffer fits again
        free = None
        while self._segments and (self.bytes + capacity > self.bytes_max or before.size == 0):
            free = self._forget(self._segments.pop(0), capacity) or free
        made = RingSegment(self.last + 1, free or bytearray(capacity))
        before.following = made
        self._segments.append(made)
        self._active = made
        return made

    def _forget(self, oldest: RingSegment, capacity: int) -> bytearray | None:
        """Drop a segment; return its buffer, still in the cache, if it fits and is not held."""
        oldest.gone = True
        self.bytes -= oldest.size
        if oldest.holders:
            self._keep(oldest)
            return None
        buffer, oldest.buffer = oldest.buffer, bytearray()
        oldest.size = 0  # a reader that comes to it finds its end and goes on to the next
        return buffer if len(buffer) == capacity else None

    def _keep(self, dropped: RingSegment) -> None:
        """Keep a dropped segment for its readers; make them release it if they hold too much."""
        self._held = [segment for segment in self._held if segment.holders]
        self._held.append(dropped)
        if sum(len(segment.buffer) for segment in self._held) > self.bytes_max:
            self.let_go()
