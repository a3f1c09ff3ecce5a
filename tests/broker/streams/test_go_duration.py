"""Durations, as Go reads and writes them."""

import pytest

from broker.streams.go_duration import duration_text, read_duration


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (2_000_000, "2ms"),
        (1_000_000_000, "1s"),
        (1_500_000_000, "1.5s"),
        (60_000_000_000, "1m0s"),
        (3_600_000_000_000, "1h0m0s"),
        (5_025_250_000_000, "1h23m45.25s"),
        (-1_500_000_000, "-1.5s"),
    ],
)
def test_given_a_duration_then_it_is_written_and_read_as_by_go(ns: int, text: str) -> None:
    assert duration_text(ns) == text
    assert read_duration(text) == ns


@pytest.mark.parametrize("text", ["", "5", "s", ".s", "1x", "1s ", "- 1s", "9999999h"])
def test_given_no_duration_when_read_then_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        read_duration(text)
