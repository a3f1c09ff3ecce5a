"""Whole numbers in ASCII digits: nothing else is one, however `int` reads it."""

import pytest

from seriatim.settings.amounts import read_digits


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("0", 0), ("7", 7), ("100", 100), ("0007", 7), ("101", None), ("", None)),
        *(("+5", None), (" 5", None), ("5_0", None), ("-1", None), ("٣", None), ("²", None)),
        ("9" * 5000, None),  # more than `int` would read
    ],
)
def test_given_a_text_then_only_digits_up_to_the_most_are_a_number(
    text: str, number: int | None
) -> None:
    assert read_digits(text, 100) == number
