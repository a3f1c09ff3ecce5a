"""A point in time means the same in every command and job, wherever the machine is."""

import time

import pytest

from seriatim.settings.checked import WrongValue
from seriatim.settings.moments import read_moment, show_time

SECOND = 1_000_000_000
NOW = 1_767_225_600 * SECOND  # 2026-01-01T00:00Z


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_given_a_machine_anywhere_when_a_date_names_no_zone_then_it_is_utc(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert read_moment("2026-01-01", 0) == NOW
        assert read_moment("2026-01-01T00:00:00.000000001", 0) == NOW + 1
        assert read_moment("2026-01-01T05:30+05:30", 0) == NOW
        assert read_moment(show_time(NOW + 7), 0) == NOW + 7
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("text", "ago"), [("10m", 600), ("1m30s", 90), ("1w", 604_800), ("90", 90), (" 1h ", 3600)]
)
def test_given_a_duration_when_read_then_it_is_so_long_ago(text: str, ago: int) -> None:
    assert read_moment(text, NOW) == NOW - ago * SECOND


def test_given_a_time_before_1970_then_it_is_the_beginning() -> None:
    assert read_moment("1969-12-31", NOW) == 0
    assert read_moment("9999d", NOW) > 0


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "2026-01-01T25:00", "1y", "-1s"])
def test_given_no_time_then_the_error_says_how_to_write_one(text: str) -> None:
    with pytest.raises(WrongValue, match="is not a valid time; give a duration"):
        read_moment(text, NOW)


def test_given_a_time_too_late_then_it_is_refused() -> None:
    with pytest.raises(WrongValue, match="after the year 2262"):
        read_moment("3000-01-01", NOW)
