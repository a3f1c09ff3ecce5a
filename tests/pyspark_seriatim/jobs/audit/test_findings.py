"""Ranges and tallies: stretch by stretch the same as all at once, and only a few are kept."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyspark_seriatim.jobs.audit.findings import Falls, Ranges, Tally

LIMIT = 3
sets = st.sets(st.integers(1, 60), max_size=40)


def plain(numbers: set[int]) -> list[tuple[int, int]]:
    """Ranges, the plain way."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def made(numbers: set[int], at_once: bool) -> Ranges:
    ranges = Ranges(LIMIT)
    pairs = plain(numbers)
    if at_once:
        ranges.add_all(np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs]))
    else:
        for first, last in pairs:
            ranges.add(first, last)
    return ranges


@given(sets, st.integers(1, 60), st.booleans())
def test_given_numbers_when_joined_from_two_stretches_then_it_is_as_if_there_was_one(
    numbers: set[int], cut: int, at_once: bool
) -> None:
    ranges = made({number for number in numbers if number < cut}, at_once)
    ranges.append(made({number for number in numbers if number >= cut}, not at_once))
    wanted = plain(numbers)
    assert ranges.numbers == len(numbers)
    assert ranges.ranges == len(wanted)
    assert ranges.shown == wanted[:LIMIT]


@given(st.lists(st.sets(st.integers(0, 9), min_size=1), max_size=5), st.integers(0, 70))
def test_given_stretches_when_joined_then_what_is_between_them_is_a_gap(
    stretches: list[set[int]], last: int
) -> None:
    whole = Tally(LIMIT)
    every: set[int] = set()
    for at, some in enumerate(stretches):
        numbers = {at * 10 + number + 1 for number in some}
        every |= numbers
        tally = Tally(LIMIT, len(numbers), len(numbers), min(numbers), max(numbers))
        seen = plain(numbers)
        between = {n for a, b in pairwise(seen) for n in range(a[1] + 1, b[0])}
        tally.gaps = made(between, True)
        whole.append(tally)
    upto = max([last, *every])
    whole.within(1, upto)
    missing = set(range(1, upto + 1)) - every
    assert (whole.numbers, whole.gaps.numbers) == (len(every), len(missing))
    assert whole.gaps.shown == plain(missing)[:LIMIT]


def test_given_many_falls_when_counted_then_only_the_first_are_kept() -> None:
    falls = Falls(2)
    falls.append(3, [])
    falls.append(5, [None] * 4)  # type: ignore[list-item]
    assert (falls.count, len(falls.shown)) == (8, 2)
