"""Counts how often something took how long, in buckets: what Prometheus calls a histogram.

One call counts a turn, a batch or a sync, never a single message. Monitoring copies the counts in
the broker's loop, and sums them up in its own thread.
"""

from typing import Final

# The upper bounds of the buckets, in seconds. From what a lone message takes to more than what
# /healthz waits for (5 s). Each is about three times the one before, so a quantile is off by less
# than that, and four histograms are as many time series as 64 plain metrics. All have the same
# bounds, so that they can be compared: a sync of 100 ms with a message that waited for it.
BOUNDS: Final = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0)


class Durations:
    """How long something took, each time so far. Written by one thread."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)  # by bucket; the last one is for what took longer
        self.total = 0  # how often, in all
        self.seconds = 0.0  # all together
        self.bounds = BOUNDS

    def observe(self, seconds: float, times: int) -> int:
        """Count that something took so long, so many times."""
        at = 0
        for bound in self.bounds:
            if seconds <= bound:
                break
            at += 1
        self.counts[at] += times
        self.total += times
        self.seconds += seconds * times
        return 0
