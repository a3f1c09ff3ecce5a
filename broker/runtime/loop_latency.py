"""Measures for how long the broker's one thread was busy at a stretch, while everyone else waited.

Code that may take long between two checks of the sockets reports its beginning and its end: read
events, replays, the cquencer port, removal of subscriptions, copying for monitoring. That costs
two reads of the clock each, and none per message.
"""

import time

from broker.runtime.durations import Durations

WINDOW = 60.0  # seconds; a turn is remembered for one to two windows, so that every scrape sees it


class LoopLatency:
    """The turns of a process, which has one such thread."""

    def __init__(self) -> None:
        self.durations = Durations()  # of all turns
        self._worst = self._worst_before = 0.0
        self._window_end = 0.0

    def start_timing(self) -> float:
        """Begin a turn; pass the result to `end`."""
        return time.monotonic()

    def end(self, begun: float) -> None:
        """End a turn."""
        self.note(time.monotonic(), begun)

    def note(self, now: float, begun: float) -> int:
        """Note a turn that lasted from `begun` to `now`."""
        if now >= self._window_end:
            self._next_window(now)
        if now - begun > self._worst:
            self._worst = now - begun
        return self.durations.observe(now - begun, 1)

    def worst(self, now: float | None = None) -> float:
        """Return the longest turn of the last one to two minutes, in seconds."""
        now = time.monotonic() if now is None else now
        if now >= self._window_end:
            self._next_window(now)
        return max(self._worst, self._worst_before)

    def _next_window(self, now: float) -> None:
        late = now >= self._window_end + WINDOW
        self._worst_before = 0.0 if late else self._worst
        self._worst = 0.0
        self._window_end = now + WINDOW


LOOP_LATENCY = LoopLatency()
