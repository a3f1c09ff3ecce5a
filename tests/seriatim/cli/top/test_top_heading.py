"""The lines above the views: sparklines, and facts that fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.cli.top.top_heading import SPARKS, SPARKS_ASCII, fitted, sparkline, sparks_for


@pytest.mark.parametrize(
    ("past", "cells", "each", "line"),
    [
        ([0.0, 1.0, 4.0, 8.0], 4, 1, "▁▁▄█"),
        ([None, 0.0, None, 3.0], 4, 1, " ▁ █"),
        ([9.0, 0.0, 0.0, 8.0], 2, 1, "▁█"),
        ([2.0, 4.0, 6.0, 6.0, 1.5], 9, 2, "▄█▂"),
        ([0.0, 0.0], 2, 1, "▁▁"),
        ([], 5, 1, ""),
    ],
)
def test_given_a_past_then_its_means_are_drawn(
    past: list[float | None], cells: int, each: int, line: str
) -> None:
    assert sparkline(past, cells, each) == line


@given(
    past=st.lists(st.none() | st.floats(0, 1e12), max_size=40),
    cells=st.integers(1, 20),
    each=st.integers(1, 9),
)
def test_given_any_past_then_it_fits(past: list[float | None], cells: int, each: int) -> None:
    assert len(sparkline(past, cells, each)) == min(cells, -(-len(past) // each))


def test_given_one_value_more_then_full_cells_stay_also_when_old_values_are_forgotten() -> None:
    past = [float(at % 7) for at in range(36)] + [9.0] * 5  # the largest stay in sight
    for more in range(4):
        line = sparkline([*past, *[1.0] * more], 20, 4)
        assert sparkline([*past[3:], *[1.0] * more], 10, 4, first=3) == line[-10:]
        assert line[:-1].startswith(sparkline(past, 20, 4)[:-1])


def test_given_an_encoding_then_the_line_is_made_of_its_characters() -> None:
    assert sparks_for("utf-8") is SPARKS
    assert sparks_for("ascii") == sparks_for("latin-1") == sparks_for("nonsense") == SPARKS_ASCII
    assert len(SPARKS) == len(SPARKS_ASCII)


def test_given_facts_then_those_that_fit_are_there_and_escaped() -> None:
    facts = [("a", "1\x1b", ""), ("b", "2", ""), ("c", "3", "")]
    assert fitted(facts, 14).plain == r"a 1\x1b  b 2"
    assert fitted(facts, 3).plain == "a 1"
