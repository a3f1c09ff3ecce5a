"""Times and durations as users type them: 10m, 2026-01-31, 2026-01-31T12:00, Unix milliseconds."""

import re
from datetime import UTC, datetime
from typing import Final

from pyspark_seriatim.jobs.errors import JobError

SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
MS_MIN: Final = 10**11  # before 1973: a smaller number was hardly meant as milliseconds
BARE_MIN: Final = 10**8  # 1973 in seconds, the second day of 1970 in milliseconds
DIGITS: Final = re.compile(r"\d{1,15}")


def duration_us(option: str, text: str) -> int:
    """A duration such as 30s, 1m, 1.5h in microseconds. Raises `JobError`."""
    found = DURATION.fullmatch(text.strip())
    us = int(float(found[1]) * SECONDS[found[2]] * 1_000_000) if found else 0
    if us < 1000:
        raise JobError(f"{option} {text}: write a duration such as 500ms, 10s, 1m, 1h or 1d")
    return us


def moment_ms(option: str, text: str, now_ms: int) -> int:
    """A moment in ms since 1970: 10m is ten minutes ago, a date is UTC. Raises `JobError`."""
    text = text.strip()
    if DIGITS.fullmatch(text):
        if BARE_MIN <= int(text) < MS_MIN:
            raise JobError(
                f"{option} {text}: seconds or milliseconds? Write {int(text)}000 for that Unix"
                f" time, or {int(text)}s for so long ago"
            )
        return int(text)
    if DURATION.fullmatch(text):
        return max(now_ms - duration_us(option, text) // 1000, 0)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise JobError(
            f"{option} {text}: write 10m (ago), a date such as 2026-01-31 or 2026-01-31T12:00"
            " (UTC), or milliseconds since 1970"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(int(moment.timestamp() * 1000), 0)  # no message is older than 1970
