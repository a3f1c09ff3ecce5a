"""Lines on standard error, of which those of one kind are gathered when they come in crowds.

The first of a kind is told whole. What follows within a second is counted, and told as one line
with the last of them, at most once a second for each kind; `end` tells what is left.
"""

import sys
from collections.abc import Hashable

SECONDS = 1.0


class Kind:
    """Lines of one kind: when one was told, and what has come since."""

    __slots__ = ("count", "last", "told")

    def __init__(self, told: float) -> None:
        self.told = told
        self.count = 0
        self.last = ""


class Gathered:
    """Tells lines; the time is an argument."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, Kind] = {}

    def tell(self, kind: Hashable, text: str, now: float) -> None:
        """Tell a line, or count it; a line without a kind (None) is always told."""
        found = None if kind is None else self._kinds.get(kind)
        if found is not None and (found.count or now < found.told + SECONDS):
            found.count, found.last = found.count + 1, text
            return
        say(text)
        if kind is not None:
            self._kinds[kind] = Kind(now)

    def look(self, now: float) -> None:
        """Tell what was counted, where a second has gone by."""
        for kind in self._kinds.values():
            if kind.count and now >= kind.told + SECONDS:
                _tell_counted(kind)
                kind.told, kind.count = now, 0

    def end(self) -> None:
        """Tell all that was counted."""
        for kind in self._kinds.values():
            if kind.count:
                _tell_counted(kind)
        self._kinds.clear()


def _tell_counted(kind: Kind) -> None:
    more = "" if kind.count == 1 else f"{kind.count} more like this, the last one: "
    say(f"{more}{kind.last}")


def say(text: str) -> None:
    """A line of ours on standard error."""
    print(f"seriatim: {text}", file=sys.stderr, flush=True)
