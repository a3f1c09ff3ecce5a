"""Amounts as short texts, and the times of the pages read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.cli.top.amounts_shown import (
    count,
    milliseconds,
    rate,
    read_moment,
    read_span,
    short,
    size,
    span,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0, "0"), (999, "999"), (999.6, "1.0k"), (1234, "1.2k"), (9960, "10k"), (12345, "12k")),
        *((999_499, "999k"), (999_500, "1.0M"), (-1234, "-1.2k"), (1.5e9, "1.5G"), (None, "-")),
    ],
)
def test_given_a_number_then_it_is_short(value: float | None, text: str) -> None:
    assert short(value) == text


@given(value=st.floats(0, 9e20) | st.integers(0, 9 * 10**20))
def test_given_any_number_then_it_has_at_most_five_characters(value: float) -> None:
    assert len(short(value)) <= 5
    assert len(rate(value)) <= 5
    assert len(size(value)) <= 7


def test_given_amounts_then_they_have_their_units() -> None:
    assert [size(one) for one in (0, 950, 1234, 10**9, None)] == [
        *("0 B", "950 B", "1.2 kB", "1.0 GB", "-")
    ]
    assert [rate(one) for one in (0, 0.5, 9.94, 9.96, 1234, -0.5)] == [
        *("0", "0.5", "9.9", "10", "1.2k", "-0.5")
    ]
    assert [count(one) for one in (0, 1234567, None)] == ["0", "1,234,567", "-"]
    assert [milliseconds(one) for one in (85e-6, 0.0012, 0.12, 0.9996, 120)] == [
        *("85us", "1.2ms", "120ms", "1.0s", "2m")
    ]
    assert [span(one) for one in (-1, 59, 60, 125, 3660, 90000, 86400 * 400)] == [
        *("0s", "59s", "1m", "2m5s", "1h1m", "1d1h", "1y35d")
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("728\xb5s", 728e-6), ("1.447ms", 1.447e-3), ("1d2h3m4s", 93784.0), ("2s", 2.0)),
        *(("", None), ("x", None), ("12", None), ("5q", None), ("1" * 400 + "s", None)),
    ],
)
def test_given_a_span_of_a_page_then_it_is_read(text: str, seconds: float | None) -> None:
    assert read_span(text) == (seconds if seconds is None else pytest.approx(seconds))


def test_given_a_time_of_a_page_then_it_is_read() -> None:
    assert read_moment("1970-01-01T00:00:01.674113289Z") == 1.674113
    assert read_moment("1970-01-01T00:00:01Z") == 1.0
    for text in ("", "x", "0001-01-01T00:00:00Z", "1970-01-01T00:00:01", "9" * 99):
        assert read_moment(text) is None
