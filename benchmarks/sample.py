"""The measurements of one run, and the median of several."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one scenario on one server; 0 where a figure does not apply."""

    messages: int  # sent to the server, or kept by it; connections if a scenario only connects
    deliveries: int  # received from it, over all subscribers
    seconds: float
    server_cpu_seconds: float  # during the flood only, user and system, all threads
    generator_cpu_seconds: float
    peak_bytes: int
    p50_us: float = 0.0
    p99_us: float = 0.0
    p999_us: float = 0.0
    sent: int = 0  # to be kept or received: `messages` says how many were
    start_ms: float = 0.0  # until a connection was accepted
    first_cpu_us: float = 0.0  # per message in the first tenth, and in the last
    last_cpu_us: float = 0.0
    cache_bytes: int = 0  # of the store's files in the page cache, at most

    @property
    def cpu_us(self) -> float:
        """CPU microseconds of the server per incoming message."""
        return self.server_cpu_seconds / self.messages * 1e6

    @property
    def in_per_second(self) -> float:
        return self.messages / self.seconds

    @property
    def out_per_second(self) -> float:
        return self.deliveries / self.seconds

    @property
    def per_cpu_second(self) -> float:
        """Messages per second of the server's CPU."""
        return self.messages / self.server_cpu_seconds if self.server_cpu_seconds else 0.0

    @property
    def growth(self) -> float:
        """The cost of a message of the last tenth, divided by that of the first."""
        return self.last_cpu_us / self.first_cpu_us if self.first_cpu_us else 0.0

    @property
    def cpu_ms(self) -> float:
        return self.server_cpu_seconds * 1000

    @property
    def peak_mib(self) -> float:
        return self.peak_bytes / MIB

    @property
    def cache_mib(self) -> float:
        return self.cache_bytes / MIB

    @property
    def kept_percent(self) -> float:
        return 100 * self.messages / self.sent if self.sent else 0.0

    @property
    def received_percent(self) -> float:
        """The percentage of multicast messages that one receiver got."""
        return 100 * self.deliveries / (self.sent or self.messages)

    @property
    def server_cores(self) -> float:
        """The number of cores the server kept busy; well below 1, it was not the bottleneck."""
        return self.server_cpu_seconds / self.seconds

    @property
    def generator_cores(self) -> float:
        """The number of cores the load generator kept busy, publishers and subscribers together."""
        return self.generator_cpu_seconds / self.seconds


FIGURES = (
    "in_per_second", "out_per_second", "cpu_us", "p50_us", "p99_us", "p999_us", "peak_bytes",
    "server_cores", "generator_cores", "per_cpu_second", "kept_percent",
    "received_percent", "start_ms", "cpu_ms", "first_cpu_us", "last_cpu_us", "growth",
    "peak_mib", "cache_mib",
)  # fmt: skip
# Lower is better; for all others, higher.
COSTS = {
    "cpu_us", "p50_us", "p99_us", "p999_us", "peak_bytes", "start_ms", "cpu_ms", "growth",
    "peak_mib", "cache_mib",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over several runs."""

    median: float
    low: float
    high: float


def spread(samples: Sequence[Sample], figure: str) -> Spread:
    """Return the median, the least and the greatest of one of `FIGURES`."""
    values = [getattr(sample, figure) for sample in samples]
    return Spread(statistics.median(values), min(values), max(values))
