"""A token bucket with debt, for limits of a rate.

    tokens come at `rate` a second, and `burst` of them are kept at most
    spend(n)   always succeeds; below zero it is a debt
    wait()     how long it takes until the debt is paid

`spend` never refuses, because what it is for has happened already: messages have arrived, time has
passed. So something large makes a large debt. No clock: the time, in seconds, is an argument.
"""


class TokenBucket:
    """A bucket of tokens. `rate` and `burst` are above 0; `change` sets others at any time."""

    __slots__ = ("_level", "_since", "burst", "rate")

    def __init__(self, rate: float, burst: float) -> None:
        self.rate = rate
        self.burst = burst
        self._level = burst  # at `_since`; it is full, whatever the time
        self._since = 0.0

    def spend(self, count: float, now: float) -> None:
        """Take tokens, on credit if necessary."""
        self._level = self.level(now) - count
        self._since = now

    def level(self, now: float) -> float:
        """Return the number of tokens; below 0, it is the debt."""
        return min(self._level + (now - self._since) * self.rate, self.burst)

    def wait(self, now: float) -> float:
        """Return the seconds until the debt is paid; 0 without a debt."""
        return max(-self.level(now) / self.rate, 0.0)

    def change(self, rate: float, burst: float, now: float) -> None:
        """Set another rate and burst; the level stays."""
        self._level, self._since = self.level(now), now
        self.rate, self.burst = rate, burst
