"""The draw: the same in every build and on every member, and even."""

from collections import Counter

import pytest

from sequencer.replica.group_draw import draw, seed_of

DRAWN = [1941824346, 4191408776, 1941824346, 3298713016]


def test_given_known_numbers_then_the_draws_never_change() -> None:
    drawn = [draw(number, seed_of(b"workers")) for number in (1, 2, 1 << 32, (1 << 63) - 1)]
    assert drawn == DRAWN


def test_given_numbers_in_a_row_then_every_place_is_drawn_as_often() -> None:
    seed = seed_of(b"workers")
    counts = Counter(draw(number, seed) % 3 for number in range(1, 30_001))
    assert list(counts.values()) == pytest.approx([10_000] * 3, rel=0.05)
