"""Sets of numbers that the audit passes between tasks, in buckets of 2^20 numbers.

    numbers --> split: by bucket, offsets in it --> pack: bytes --> Bucket.add --> Bucket.ranges

The packed form is the shorter of two: ranges of offsets, or a bitmap of 131 072 bytes. A range
takes 8 bytes, so a bucket without gaps takes 8, and a few scattered numbers take little. So a set
never takes more than 8 bytes a number, nor more than the bitmap. Unpacked, it takes a byte a
number, 1 MiB.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

BITS: Final = 20
SIZE: Final = 1 << BITS  # numbers in a bucket
BITMAP_BYTES: Final = SIZE // 8
RANGES_MAX: Final = BITMAP_BYTES // 8 - 1  # more ranges take more space than the bitmap
FEW: Final = 64  # so few ranges are faster to set one by one

Offsets = NDArray[np.uint32]


def split(numbers: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """The buckets of ascending numbers, each with the slice of its numbers."""
    if not len(numbers):
        return
    first, last = int(numbers[0]) >> BITS, int(numbers[-1]) >> BITS
    if first == last:
        yield first, 0, len(numbers)
        return
    buckets = numbers >> BITS
    ends = np.flatnonzero(buckets[1:] != buckets[:-1]) + 1
    begin = 0
    for end in [*ends.tolist(), len(numbers)]:
        yield int(buckets[begin]), begin, end
        begin = end


def ranges_of(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ascending values without duplicates as ranges: their first and their last values."""
    breaks = np.flatnonzero(values[1:] - values[:-1] != 1)
    firsts = np.concatenate((values[:1], values[breaks + 1]))
    lasts = np.concatenate((values[breaks], values[-1:]))
    return firsts, lasts


def pack(offsets: Offsets) -> bytes:
    """Ascending offsets of one bucket, without duplicates, as bytes."""
    firsts, lasts = ranges_of(offsets)
    if len(firsts) <= RANGES_MAX:
        return np.stack((firsts, lasts), axis=1).astype("<u4").tobytes()
    seen = np.zeros(SIZE, np.bool_)
    seen[offsets] = True
    return np.packbits(seen, bitorder="little").tobytes()


def unpack(packed: bytes) -> NDArray[np.bool_]:
    """The inverse of `pack`: a boolean for each number of the bucket."""
    if len(packed) == BITMAP_BYTES:
        bits = np.frombuffer(packed, np.uint8)
        return np.unpackbits(bits, bitorder="little").view(np.bool_)
    pairs = np.frombuffer(packed, "<u4").reshape(-1, 2).astype(np.int64)
    if len(pairs) <= FEW:
        seen = np.zeros(SIZE, np.bool_)
        for first, last in pairs.tolist():
            seen[first : last + 1] = True
        return seen
    steps = np.zeros(SIZE + 1, np.int8)
    steps[pairs[:, 0]] += 1
    steps[pairs[:, 1] + 1] -= 1
    return np.cumsum(steps[:-1], dtype=np.int8).view(np.bool_)


class Bucket:
    """The numbers of one side in one bucket: those seen, and those seen more than once."""

    __slots__ = ("doubled", "rows", "seen")

    def __init__(self) -> None:
        self.rows = 0
        self.seen: NDArray[np.bool_] = np.zeros(SIZE, np.bool_)
        self.doubled: NDArray[np.bool_] | None = None

    def add(self, rows: int, numbers: bytes, doubled: bytes | None) -> None:
        """Add one task's sets, both packed; `rows` is its count of rows."""
        seen = unpack(numbers)
        if self.rows:
            again = self.seen & seen
            if again.any():
                self._double(again)
            self.seen |= seen
        else:
            self.seen = seen
        self.rows += rows
        if doubled is not None:
            self._double(unpack(doubled))

    def _double(self, truths: NDArray[np.bool_]) -> None:
        self.doubled = truths if self.doubled is None else self.doubled | truths


def true_ranges(truths: NDArray[np.bool_], base: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The ranges of numbers where `truths` holds: firsts and lasts; `base` is the number of [0]."""
    steps = np.flatnonzero(truths[1:] != truths[:-1]) + 1
    begins = [0] if truths[0] else []
    ends = [len(truths)] if truths[-1] else []
    edges = np.concatenate((begins, steps, ends)).astype(np.int64)
    return edges[::2] + base, edges[1::2] - 1 + base
