"""A token bucket with debt: how much may be done now, and when more may be done.

    tokens come at `rate` a second, and `burst` of them are kept at most
    take(n)   always succeeds; below zero it is a debt
    wait()    how long it takes until the debt is paid

What has arrived is never refused, so a debt is as large as what was taken at once. No clock: the
time, in seconds, is an argument.
"""


class TokenBucket:
    """`rate` and `burst` may change at any time; both are above 0."""

    __slots__ = ("_level", "_since", "burst", "rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self.rate = rate
        self.burst = burst
        self._level = burst  # at `_since`
        self._since = now

    def take(self, count: float, now: float) -> None:
        """Take tokens, if need be on credit."""
        self._level = self.level(now) - count
        self._since = now

    def level(self, now: float) -> float:
        """How many tokens there are; below 0: the debt."""
        return min(self._level + (now - self._since) * self.rate, self.burst)

    def wait(self, now: float) -> float:
        """Seconds until nothing is owed; 0 if nothing is."""
        return max(-self.level(now) / self.rate, 0.0)

    def change(self, rate: float, burst: float, now: float) -> None:
        """From now on tokens come at another rate."""
        self._level, self._since = self.level(now), now
        self.rate, self.burst = rate, burst
