"""When messages are to be sent: at once, or by an open loop that waits for nobody."""

import time
from dataclasses import dataclass
from typing import Final

from seriatim.cli.bench.bench_plan import BenchPlan

SECOND_NS: Final = 1_000_000_000


@dataclass(slots=True)
class SendPace:
    """The schedule of one publisher: message n is to be sent at `start + n * interval`, in ns.

    Without a rate the interval is 0. A message that is late is not left out, and the next ones
    keep their times: so a broker that stalls is charged for every message that waited meanwhile.
    """

    start: float
    interval: float
    end: float  # no message is to be sent from then on
    share: int  # messages at most

    @classmethod
    def of(cls, plan: BenchPlan, publisher: int, begin_ns: int) -> "SendPace":
        """Return the schedule of a publisher. Publishers take turns, evenly."""
        interval = plan.publishers * SECOND_NS / plan.rate if plan.rate else 0.0
        start = begin_ns + interval * publisher / plan.publishers
        end = begin_ns + plan.seconds * SECOND_NS if plan.seconds is not None else float("inf")
        return cls(start, interval, end, plan.share(publisher))

    def due(self, sent: int) -> int:
        """Return how many messages are to be sent now, behind `sent` ones; -1: it is over."""
        now = time.monotonic_ns()
        if sent >= self.share:
            return -1
        if not self.interval:
            return self.share - sent if now < self.end else -1
        if self.start + sent * self.interval >= self.end:
            return -1
        until = min(now, self.end - 1)
        return min(self.share, int((until - self.start) // self.interval) + 1) - sent

    def seconds_to(self, sent: int) -> float:
        """Return how long it is until the message behind `sent` ones is to be sent."""
        return max(0.0, (self.start + sent * self.interval - time.monotonic_ns()) / SECOND_NS)
