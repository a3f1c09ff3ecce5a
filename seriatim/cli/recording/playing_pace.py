"""The pace of `seriatim play`: when each message is due. No clock: the caller says what time it is.

Messages that are late are made up for without waiting, but not more than `LAG_MAX`: after a long
pause of the broker, the rest comes at its pace, and not all at once.
"""

from typing import Final

LAG_MAX: Final = 1.0  # seconds
NS: Final = 1_000_000_000


class Pace:
    """The schedule of one recording.

    `speed` is how many times faster it goes than it was recorded, infinite for no waiting. A
    `rate`, in messages a second, counts instead if it is not 0.
    """

    def __init__(self, speed: float, rate: float = 0.0) -> None:
        self._speed = speed
        self._gap = 1 / rate if rate else 0.0
        self._due: float | None = None
        self._recorded = 0  # when the last message was recorded, in ns

    def due(self, time_ns: int, now: float) -> float:
        """Return when the next message, recorded at this time, is due; `now` is monotonic.

        If the recorded times go back, it is due at once.
        """
        passed = max(time_ns - self._recorded, 0) / NS / self._speed
        self._recorded = time_ns
        if self._due is None:
            self._due = now
            return now
        due = self._due + (self._gap or passed)
        self._due = now if now - due > LAG_MAX else due
        return self._due
