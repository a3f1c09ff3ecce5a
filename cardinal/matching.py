"""Matches patterns: by `re` where that takes linear time, else by walking an automaton.

`re` tries one alternative after the other. That is fast, but a text that matches in several ways,
as with `(?:a+)+b` or `a/.*/b/.*/c`, may take time that doubles with each character. The reference's
engine never does that. So a pattern is first checked for being `straight`: no key leads to a state
in two ways at the same position. Then `re` takes at most one step for each state and character, and
nothing is faster. Patterns with a prefix of fixed length are straight, and so are those with parts
that the next character ends (`[^/]+/`).

Any other pattern is walked: all alternatives at once, in order of preference. Sets of states are
cached, with the next set for each character. This takes 0.1 us per character; a step that is not
cached takes about 1 us for each state in the set.

Memory: a walk caches steps that lead to `STATES_KEPT` states in total, at most 10 MB; beyond that
it drops the cache.
"""

from collections.abc import Sequence
from itertools import combinations

from cardinal.pattern import Pattern, common

STATES_KEPT = 20_000
LOOKED_MAX = 100_000  # pairs of states, some tenths of a second; a larger pattern is walked


class _Crossing(Exception):
    """Some text can match in two ways."""


def straight(pattern: Pattern) -> bool:
    """True if each text leads to each state, except a match's end, in at most one way."""
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
    """The states that consume a character, reachable without one. Raises `_Crossing`."""
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
    """A walk's states in order of preference; whether a match ends; where characters lead."""

    __slots__ = ("ends", "states", "steps")

    def __init__(self, states: tuple[int, ...]) -> None:
        self.states = states
        self.ends = 0 in states
        self.steps: dict[str, _Place] = {}


class PatternWalk:
    """One pattern, all alternatives matched at once; the result is the one `re` would find."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self._begin()

    def _begin(self) -> None:
        self._places: dict[tuple[int, ...], _Place] = {}
        self._kept = 0
        self._first = self._place([self.pattern.start])

    def end(self, key: str) -> int:
        """The end of the match at the beginning of the key; -1 if there is none."""
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
        states = (state for state in place.states if state)  # a finished match is not continued
        found = place.steps[char] = self._place(
            [after[one] for one in states if any(low <= code <= high for low, high in chars[one])]
        )
        self._kept += 1 + len(found.states)
        return found

    def _place(self, states: Sequence[int]) -> _Place:
        """Return where states lead without a character; a match drops the less preferred states."""
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
