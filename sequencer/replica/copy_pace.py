"""How fast a member that catches up is sent what it has not got.

It gets closer to the end of the log by `rate` bytes a second, however fast the log grows: what is
written in the meantime comes on top. So copying takes a bounded part of the coordinator's time,
and it always comes to an end.
"""

SECOND = 1000.0  # in the core's time, which is milliseconds


class CopyPace:
    """Of one connection of a member, written by the reign."""

    def __init__(self, burst: int) -> None:
        """At most `burst` bytes are sent at once."""
        self._burst = burst
        self._left = float(burst)
        self._at = -1.0
        self._written = 0

    def allowed(self, now: float, written: int, rate: int) -> bool:
        """Whether more may be sent now. `written`: how many bytes the log got in this reign."""
        if self._at < 0.0:
            self._at, self._written = now, written
        earned = (now - self._at) * rate / SECOND + written - self._written
        self._left = min(self._left + earned, float(self._burst))
        self._at, self._written = now, written
        return self._left > 0.0

    def spend(self, size: int) -> None:
        """So many bytes are sent."""
        self._left -= size
