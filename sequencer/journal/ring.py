"""The newest messages in memory, with the face of a store: what serves replay without a disk.

Pieces of 256 KiB, the oldest forgotten whole; never more than `bytes_max` and a piece beside
what readers still hold. Written and read by the broker's one thread.
"""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

from sequencer.journal.backwards import Ids
from sequencer.journal.errors import Damage

PIECE_BYTES: Final = 256 << 10
ROOM: Final = 1 << 40  # it forgets, so it is never full


class RingPiece:
    """A buffer of records. Its bytes stay while it is held, whatever the ring forgets."""

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
        self.following: RingPiece | None = None
        self.gone = False
        self.holders = 0

    def __str__(self) -> str:
        return f"the ring's part of numbers {self.first} to {self.last}"

    def read(self, offset: int, into: memoryview, wait: bool) -> int:
        """Copy what is at `offset` into `into`; the bytes copied, 0 at the end."""
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


class Ring:
    """The journal in memory. Its id is another in every process: what it had is gone with it."""

    checked = False  # records need no checksums: nothing comes between writing and reading them

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.path = ""
        self.journal = os.urandom(8).hex()
        self.salt = int.from_bytes(os.urandom(4), "little")
        self.epoch = 1
        self.report: list[tuple[str, str]] = []
        self.damage: list[Damage] = []
        self.last = 0
        self.bytes = 0
        self.newest_time = 0
        self.room = ROOM
        self._active = RingPiece(1, bytearray())
        self._pieces = [self._active]

    @property
    def first(self) -> int:
        """The first number still here; last + 1 when nothing is."""
        return self._pieces[0].first

    @property
    def oldest_time(self) -> int:
        return self._pieces[0].oldest

    def pieces(self) -> list[RingPiece]:
        return self._pieces[:]

    def reserve(self, need: int) -> None:
        """There is always room."""

    def write(self, view: memoryview, first: int, last: int, time: int, ids: bool) -> None:
        """Append whole records, numbers `first` to `last`, all of one time."""
        assert first == self.last + 1 <= last, "numbers have no gaps"
        piece = self._active
        size = len(view)
        if piece.size + size > len(piece.buffer):
            piece = self._turn(size)
        memoryview(piece.buffer)[piece.size : piece.size + size] = view  # no copy of it first
        piece.oldest = piece.oldest or time
        piece.newest = self.newest_time = time
        piece.size += size
        piece.last = self.last = last
        self.bytes += size

    def sync(self) -> int:
        """What is in memory is as safe as it gets."""
        return self.last

    def rewrite_unsynced(self) -> None:
        """There is nothing that a disk could have lost."""

    def roll(self, now: int) -> None:
        """Pieces turn by their size alone."""

    def roll_if_due(self, now: int) -> None:
        """Pieces turn by their size alone."""

    def retain(self, now: int) -> list[tuple[int, int]]:
        """What is over the limit is forgotten when more is written."""
        return []

    def locate(self, number: int) -> tuple[RingPiece, int]:
        """The piece of this number and its start; the end for a number behind the last one."""
        if number > self.last:
            return self._active, self._active.size
        place = bisect_right(self._pieces, number, key=lambda piece: piece.first)
        return self._pieces[max(place - 1, 0)], 0

    def locate_time(self, time_ns: int) -> tuple[RingPiece, int]:
        """The piece with the first record of this time or later, and its start."""
        if time_ns > self.newest_time:
            return self._active, self._active.size
        place = bisect_left(self._pieces, time_ns, key=lambda piece: piece.oldest)
        return self._pieces[max(place - 1, 0)], 0

    def next_good(
        self, piece: RingPiece, offset: int, number: int
    ) -> tuple[RingPiece, int, int] | None:
        """Nothing in memory goes bad; what was forgotten is behind `first`."""
        return None

    def recent_ids(self, since: int, most: int) -> Iterator[Ids]:
        """A ring begins empty, and who writes it remembers the ids."""
        return iter(())

    def build_indexes(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is open."""

    def _turn(self, need: int) -> RingPiece:
        """Begin a new piece, and forget the oldest ones that are too much with it."""
        before = self._active
        unit = min(PIECE_BYTES, self.bytes_max)
        capacity = need
        if need <= self.bytes_max:
            capacity = -(-need // unit) * unit  # so that one that is forgotten fits again
        free = None
        while self._pieces and (self.bytes + capacity > self.bytes_max or before.size == 0):
            free = self._forget(self._pieces.pop(0), capacity) or free
        made = RingPiece(self.last + 1, free or bytearray(capacity))
        before.following = made
        self._pieces.append(made)
        self._active = made
        return made

    def _forget(self, oldest: RingPiece, capacity: int) -> bytearray | None:
        """Forget a piece; its buffer, still in the cache, if it fits and nobody holds it."""
        oldest.gone = True
        self.bytes -= oldest.size
        if oldest.holders:
            return None
        buffer, oldest.buffer = oldest.buffer, bytearray()
        oldest.size = 0  # who comes to it now finds its end, and then what follows
        return buffer if len(buffer) == capacity else None
