"""The result of one scenario with Spark."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """`rows` in `seconds` of the clock, during which the broker used `broker_seconds` of CPU."""

    rows: int
    seconds: float
    broker_seconds: float = 0.0
    note: str = ""

    @property
    def rate(self) -> float:
        """Rows per second, end to end."""
        return self.rows / self.seconds
