"""What one scenario with Spark has measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """`rows` in `seconds` of the clock, of which the broker's process took `broker_seconds` CPU."""

    rows: int
    seconds: float
    broker_seconds: float = 0.0
    note: str = ""

    @property
    def rate(self) -> float:
        """Rows a second, all included."""
        return self.rows / self.seconds
