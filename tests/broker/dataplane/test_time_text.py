"""The text of a time, against the calendar of the standard library."""

from hypothesis import example, given
from hypothesis import strategies as st

from broker.dataplane.time_text import timestamp
from testkit.model_frame import time_text


def test_given_a_time_when_written_then_it_has_its_nanoseconds() -> None:
    assert timestamp(0) == b"1970-01-01T00:00:00.000000000Z"
    assert timestamp(1_767_225_600_123_456_789) == b"2026-01-01T00:00:00.123456789Z"
    assert timestamp(1_709_251_199_999_999_999) == b"2024-02-29T23:59:59.999999999Z"


@given(st.integers(0, (1 << 64) - 1))
@example((1 << 64) - 1)
def test_given_any_time_then_its_text_is_that_of_the_calendar(ns: int) -> None:
    assert timestamp(ns) == time_text(ns)
