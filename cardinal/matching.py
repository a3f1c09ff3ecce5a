"""How a pattern is matched: by `re` where that takes linear time, by a walk where it might not.

`re` tries one way after the other. That is fast, but where a text can be taken in several ways, as
by `(?:a+)+b` or `a/.*/b/.*/c`, it may try them all: twice as many for each character more. The
reference's expressions never do. So a pattern is asked first whether it is `straight`: whatever the
key, no state is reached in two ways at one place of it. Then `re` does one thing at most for each
state and character, and nothing is faster. Whatever has a prefix of fixed length, or parts that the
next character ends (`[^/]+/`), is straight.

Any other is walked: all ways at once, the preferred first, each set of them remembered with what
follows on a character. This takes 0.1 us a character; of a step that is not remembered, some 1 us
for each state that is in it.

Memory: a walk remembers steps that lead to `STATES_KEPT` states together, 10 MB at most, and
begins anew when it has more.
"""

from collections.abc import Sequence
from itertools import combinations

from cardinal.pattern import Pattern, common

STATES_KEPT = 20_000
LOOKED_MAX = 100_000  # pairs of states, in some tenths of a second; a pattern of more is walked


class _Crossing(Exception):
    """Some text can be taken in two ways."""


def straight(pattern: Pattern) -> bool:
    """Whether each text leads to each state in one way at most; the end of a match is no state."""
    try:
        behind = {at: _apart(pattern, at) for at in {pattern.start, *pattern.after} if at}
        pairs = {pair for states in behind.values() for pair in combinations(states, 2)}
        waiting = list(pairs)
        while waiting:
            one, other = waiting.pop()
            if not common(pattern.chars[one], pattern.chars[other]):
                continue
            some = behind.get(pattern.after[one], ())
            others = behind.get(pattern.after[other], ())
            fresh = {(min(a, b), max(a, b)) for a in some for b in others} - pairs
            if len(pairs) + len(fresh) > LOOKED_MAX or any(a == b for a, b in fresh):
                return False
            pairs |= fresh
            waiting += fresh
    except _Crossing:
        return False
    return True


def _apart(pattern: Pattern, begin: int) -> list[int]:
    """The states that take a character, reached from here without one. Raises `_Crossing`."""
    seen, found, states = {begin}, [], [begin]
    while states:
        state = states.pop()
        if pattern.chars[state]:
            found.append(state)
        for one in pattern.free[state]:
            if one in seen:
                raise _Crossing
            if one:
                seen.add(one)
                states.append(one)
    if len(found) ** 2 > 2 * LOOKED_MAX:
        raise _Crossing
    return sorted(found)


class _Place:
    """The states a walk is in, the preferred first; whether a match ends; where characters lead."""

    __slots__ = ("ends", "states", "steps")

    def __init__(self, states: tuple[int, ...]) -> None:
        self.states = states
        self.ends = 0 in states
        self.steps: dict[str, _Place] = {}


class PatternWalk:
    """One pattern, matched in all ways at once; what is found is what `re` would find."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self._begin()

    def _begin(self) -> None:
        self._places: dict[tuple[int, ...], _Place] = {}
        self._kept = 0
        self._first = self._place([self.pattern.start])

    def end(self, key: str) -> int:
        """Where the match ends that the key begins with; -1 if it begins with none."""
        place, found = self._first, -1
        for at, char in enumerate(key):
            if place.ends:
                found = at
            place = place.steps.get(char) or self._step(place, char)
            if not place.states:
                return found
        return len(key) if place.ends else found

    def _step(self, place: _Place, char: str) -> _Place:
        if self._kept >= STATES_KEPT:
            self._begin()
        code, chars, after = ord(char), self.pattern.chars, self.pattern.after
        states = (state for state in place.states if state)  # a match is not gone on with
        found = place.steps[char] = self._place(
            [after[one] for one in states if any(low <= code <= high for low, high in chars[one])]
        )
        self._kept += 1 + len(found.states)
        return found

    def _place(self, states: Sequence[int]) -> _Place:
        """Where these lead without a character; a match ends all that is less preferred."""
        free, chars = self.pattern.free, self.pattern.chars
        seen: set[int] = set()
        found, waiting = [], [*reversed(states)]
        while waiting:
            state = waiting.pop()
            if state in seen:
                continue
            seen.add(state)
            if state == 0 or chars[state]:
                found.append(state)
            if state == 0:
                break
            waiting += reversed(free[state])
        return self._places.setdefault(tuple(found), _Place(tuple(found)))
