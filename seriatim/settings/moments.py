"""Points in time as people write them: 10m (ago), a date, or milliseconds since 1970.

One reading for every command and job, so that the same text means the same time everywhere. A date
without a zone is UTC, as all times are that Seriatim shows.
"""

import datetime
import re
from functools import lru_cache
from typing import Final

from seriatim.settings.amounts import read_duration
from seriatim.settings.checked import WrongValue, quoted

MS_MIN: Final = 10**11  # before 1973: a smaller number was hardly meant as milliseconds
BARE_SECONDS_MAX: Final = 10**8  # three years: a larger number was hardly meant as a duration
DIGITS_MAX: Final = 20
NS_MAX: Final = (1 << 63) - 1
HOW: Final = (
    "give a duration such as 10m, a date such as 2026-01-31T09:30:00 (UTC), or unix milliseconds"
)
_FRACTION = re.compile(r"(.*:\d\d)[.,](\d{1,9})(.*)")


def read_moment(text: str, now: int) -> int:
    """Return the time meant, in ns since 1970, where `now` is the time now. Raises `WrongValue`."""
    text = text.strip()
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX else 0
    if number >= MS_MIN:
        time = number * 1_000_000
    elif number >= BARE_SECONDS_MAX:
        raise WrongValue(
            f"{text}: seconds or milliseconds? Give {number}000 for that Unix time, or {number}s"
            " for so long ago"
        )
    elif "-" in text or ":" in text:
        time = _read_date(text)
    else:
        try:
            time = now - int(read_duration(text) * 10**9)
        except WrongValue:
            raise WrongValue(f"{quoted(text)} is not a valid time; {HOW}") from None
    if time > NS_MAX:
        raise WrongValue(f"{quoted(text)} is after the year 2262; {HOW}")
    return max(time, 0)


def _read_date(text: str) -> int:
    """Read an ISO 8601 date, with up to nine digits of a second."""
    found = _FRACTION.fullmatch(text)
    whole, fraction = (found[1] + found[3], found[2]) if found else (text, "")
    try:
        date = datetime.datetime.fromisoformat(whole)
        if date.tzinfo is None:
            date = date.replace(tzinfo=datetime.UTC)
        return int(date.timestamp()) * 10**9 + int(fraction.ljust(9, "0"))
    except (ValueError, OverflowError):
        raise WrongValue(f"{quoted(text)} is not a valid time; {HOW}") from None


def show_time(time: int) -> str:
    """Show ns since 1970 as RFC 3339 in UTC, to the nanosecond."""
    return f"{_show_second(time // 10**9)}.{time % 10**9:09d}Z"


@lru_cache(maxsize=64)
def _show_second(second: int) -> str:
    return f"{datetime.datetime.fromtimestamp(second, datetime.UTC):%Y-%m-%dT%H:%M:%S}"
