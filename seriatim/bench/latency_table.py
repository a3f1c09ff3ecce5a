"""Counts latencies: one addition each, however many there are.

A histogram of a library takes microseconds for a value, which is more than the broker takes for a
message. So the workers of a benchmark only count here, and its main process puts the counts into an
HdrHistogram.

    up to 1 s           by microsecond
    up to 18 minutes    by millisecond, which is as exact there as the histogram's three digits
"""

import struct

import cython

if not cython.compiled:
    FINE = 1_000_000  # microseconds, as many as have a counter each
    COARSE = 1 << 20  # milliseconds

COUNTER = 8  # bytes


class LatencyTable:
    """How many latencies there were of each length."""

    def __init__(self) -> None:
        self.table = bytearray(COUNTER * (FINE + COARSE))
        self.used = 0  # the first slots: one of them is not empty
        if cython.compiled:
            self.counts = cython.cast("long long *", cython.cast("unsigned char *", self.table))
        else:
            self.counts = memoryview(self.table).cast("q")

    def add(self, ns: int) -> int:
        """Count one latency, in nanoseconds. A negative one counts as none at all."""
        if ns < 0:
            ns = 0
        slot = ns // 1000
        if slot >= FINE:
            slot = min(FINE + slot // 1000, FINE + COARSE - 1)
        self.counts[slot] += 1
        if slot >= self.used:
            self.used = slot + 1
        return 0

    def pairs(self) -> list[tuple[int, int]]:
        """Return each latency that there was, in microseconds, and how often."""
        found = []
        used = memoryview(self.table)[: COUNTER * self.used]
        for slot, (count,) in enumerate(struct.iter_unpack("=q", used)):
            if count:
                found.append((slot if slot < FINE else (slot - FINE) * 1000, count))
        return found
