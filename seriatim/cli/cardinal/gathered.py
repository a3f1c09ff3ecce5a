"""Lines on standard error; many of the same kind are summarized.

The first line of a kind is printed in full. Those that follow within a second are counted, and
reported as one line that quotes the last, at most once a second per kind. `end` reports the rest.
"""

import sys
from collections.abc import Hashable

SECONDS = 1.0


class Kind:
    """Lines of one kind: the time of the last printed one, and the lines counted since."""

    __slots__ = ("count", "last", "reported_at")

    def __init__(self, reported_at: float) -> None:
        self.reported_at = reported_at
        self.count = 0
        self.last = ""


class Gathered:
    """Printer that prints or counts lines; the time is an argument."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, Kind] = {}

    def tell(self, kind: Hashable, text: str, now: float) -> None:
        """Print a line, or count it; a line without a kind (None) is always printed."""
        found = None if kind is None else self._kinds.get(kind)
        if found is not None and (found.count or now < found.reported_at + SECONDS):
            found.count, found.last = found.count + 1, text
            return
        say(text)
        if kind is not None:
            self._kinds[kind] = Kind(now)

    def look(self, now: float) -> None:
        """Report the counted lines of each kind whose second has passed."""
        for kind in self._kinds.values():
            if kind.count and now >= kind.reported_at + SECONDS:
                _tell_counted(kind)
                kind.reported_at, kind.count = now, 0

    def end(self) -> None:
        """Report all counted lines."""
        for kind in self._kinds.values():
            if kind.count:
                _tell_counted(kind)
        self._kinds.clear()


def _tell_counted(kind: Kind) -> None:
    more = "" if kind.count == 1 else f"{kind.count} more like this, the last one: "
    say(f"{more}{kind.last}")


def say(text: str) -> None:
    """Print a line of this program on standard error."""
    print(f"seriatim: {text}", file=sys.stderr, flush=True)
