"""How long the broker's one thread was busy at a stretch, at worst: for all others that is a wait.

Whoever does much between two looks at the sockets says when it began and when it is done: read
events, replays, cquencer's port, what is taken out of the sublist, what monitoring copies. That
is two looks at the clock for each, and none for a message.
"""

import time

WINDOW = 60.0  # seconds; a turn is remembered for one to two of them, so that every scrape sees it


class Turns:
    """One per process, as its thread is."""

    def __init__(self) -> None:
        self._worst = self._worst_before = 0.0
        self._window_end = 0.0

    def begin(self) -> float:
        """A turn begins now; what it returns is for `end`."""
        return time.monotonic()

    def end(self, begun: float) -> None:
        """The turn has ended."""
        self.note(time.monotonic(), begun)

    def note(self, now: float, begun: float) -> None:
        """A turn has lasted from `begun` to `now`."""
        if now >= self._window_end:
            self._next_window(now)
        if now - begun > self._worst:
            self._worst = now - begun

    def worst(self, now: float | None = None) -> float:
        """The longest of the last one to two minutes, in seconds."""
        now = time.monotonic() if now is None else now
        if now >= self._window_end:
            self._next_window(now)
        return max(self._worst, self._worst_before)

    def _next_window(self, now: float) -> None:
        late = now >= self._window_end + WINDOW
        self._worst_before = 0.0 if late else self._worst
        self._worst = 0.0
        self._window_end = now + WINDOW


TURNS = Turns()
