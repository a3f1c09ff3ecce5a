"""Share what the scenarios with Spark need: a run's result, warm code before the clock, streams."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.errors import BenchmarkError
from benchmarks.process import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

WARM = 20  # a fraction of the rows, for warming up
STREAM_SECONDS_MAX = 600


@dataclass(frozen=True, slots=True)
class Run:
    """`rows` in `seconds` of the clock, during which the broker used `broker_seconds` of CPU."""

    rows: int
    seconds: float
    broker_seconds: float = 0.0
    note: str = ""

    @property
    def rate(self) -> float:
        """Rows per second, end to end."""
        return self.rows / self.seconds


Scenario = Callable[["SparkSession", int], Run]


def seconds_of(work: Callable[[], object]) -> float:
    """Return how long `work` takes by the clock."""
    begun = perf_counter()
    work()
    return perf_counter() - begun


def measured(
    rows: int,
    once: Callable[[int], float],
    server: ServerProcess | None = None,
    note: str = "",
) -> Run:
    """Measure `once`, which returns its seconds, after workers are started and code is warm."""
    once(rows // WARM)
    before = server.cpu_seconds() if server else 0.0
    seconds = once(rows)
    return Run(rows, seconds, server.cpu_seconds() - before if server else 0.0, note)


def drain(writer: "DataStreamWriter", path: str | None = None) -> list[float]:
    """Write all that a stream has now; return the seconds of the triggers that had rows."""
    query = writer.trigger(availableNow=True).start(path)
    if not query.awaitTermination(STREAM_SECONDS_MAX):
        raise BenchmarkError(f"a stream has not ended in {STREAM_SECONDS_MAX} s")
    progress = [one for one in query.recentProgress if one["numInputRows"]]
    return [one["durationMs"]["triggerExecution"] / 1000 for one in progress]
