"""The latencies of all workers in one HdrHistogram: percentiles, and the rows of a drawing."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, Final

Pairs = Iterable[tuple[int, int]]  # a latency in microseconds, and how often

HIGHEST_US: Final = 3_600_000_000  # an hour
DIGITS: Final = 3  # that are exact
PERCENTILES: Final = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9, "p99.99": 99.99}
EDGES: Final = [step * 10**power for power in range(10) for step in (1, 2, 5)]


class Latencies:
    """A distribution of latencies, in microseconds."""

    def __init__(self, counted: Iterable[Pairs]) -> None:
        from hdrh.histogram import HdrHistogram

        self._histogram: Any = HdrHistogram(1, HIGHEST_US, DIGITS)
        for pairs in counted:
            for microseconds, count in pairs:
                self._histogram.record_value(min(max(microseconds, 1), HIGHEST_US), count)

    @property
    def count(self) -> int:
        """How many latencies there are."""
        return int(self._histogram.get_total_count())

    def figures(self) -> dict[str, int]:
        """Return the least, the percentiles and the greatest latency."""
        at = self._histogram.get_value_at_percentile
        found = {name: int(at(percent)) for name, percent in PERCENTILES.items()}
        least, most = self._histogram.get_min_value(), self._histogram.get_max_value()
        return {"min": int(least), **found, "max": int(most)}

    def encoded(self) -> str:
        """Return the whole histogram in HdrHistogram's compressed form (V2), in base64."""
        return bytes(self._histogram.encode()).decode()

    def rows(self) -> list[tuple[int, int, int]]:
        """Return the rows of a drawing: from and below how many microseconds, and how many.

        A row begins at 1, 2 or 5 of each power of ten, so a long tail has few of them. The empty
        ones between the least and the greatest latency are there, too.
        """
        counts = [0] * (len(EDGES) - 1)
        for item in self._histogram.get_recorded_iterator():
            row = bisect_right(EDGES, item.value_iterated_to) - 1
            counts[row] += item.count_at_value_iterated_to
        used = [at for at, count in enumerate(counts) if count]
        whole = range(used[0], used[-1] + 1) if used else range(0)
        return [(EDGES[at], EDGES[at + 1], counts[at]) for at in whole]
