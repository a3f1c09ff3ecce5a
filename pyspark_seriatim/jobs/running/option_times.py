"""Times and durations of a job's options, read as everywhere (`seriatim.settings.moments`)."""

from pyspark_seriatim.jobs.errors import WrongArguments
from seriatim.settings.amounts import read_duration
from seriatim.settings.checked import WrongValue
from seriatim.settings.moments import read_moment


def duration_us(option: str, text: str) -> int:
    """Return the microseconds of a duration such as 30s or 1m30s. Raises `WrongArguments`."""
    try:
        us = int(read_duration(text.strip()) * 1_000_000)
    except WrongValue as error:
        raise WrongArguments(f"{option} {text}: {error}") from None
    if us < 1000:
        raise WrongArguments(f"{option} {text}: give a millisecond or more")
    return us


def moment_ms(option: str, text: str, now_ms: int) -> int:
    """Return a moment in ms since 1970. Raises `WrongArguments`."""
    try:
        return read_moment(text, now_ms * 1_000_000) // 1_000_000
    except WrongValue as error:
        raise WrongArguments(f"{option} {text}: {error}") from None
