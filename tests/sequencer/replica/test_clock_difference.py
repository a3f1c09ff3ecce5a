"""How far two clocks are apart: what a slow network explains is no difference."""

import pytest

from sequencer.replica.clock_difference import clock_of, clock_words, seconds_ahead

SECOND = 1_000_000_000
NOW = 1_800_000_000 * SECOND


@pytest.mark.parametrize("ahead", [0, 2, -2, 3600, -3600, 86_400 * 365, -86_400 * 365])
@pytest.mark.parametrize("took", [0.0, 0.3, 30.0])
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_given_a_clock_that_is_wrong_then_it_is_so_by_that_much_and_the_way_there_does_not_count(
    ahead: int, took: float, part: float
) -> None:
    said = clock_of(NOW + int((took * part + ahead) * SECOND))
    found = seconds_ahead(said, NOW, NOW + int(took * SECOND))
    if abs(ahead) > took:
        assert 0 <= (abs(ahead) - abs(found)) <= took + 0.13
        assert found * ahead >= 0
    if ahead == 0:
        assert found == 0


def test_given_a_clock_at_the_end_of_a_round_then_it_is_reported_and_compared_nevertheless() -> (
    None
):
    end = (1 << 32) * 62_500_000
    assert clock_of(end) == 1
    ahead = seconds_ahead(clock_of(end + 4 * SECOND), end - SECOND, end)
    assert ahead == pytest.approx(4, abs=0.1)
    assert seconds_ahead(clock_of(end - 4 * SECOND), end, end + SECOND) == pytest.approx(
        -4, abs=0.1
    )
    assert (clock_words(3.52), clock_words(-7.0)) == ("3.5 s ahead of", "7.0 s behind")
