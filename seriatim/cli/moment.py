"""Reads `--since` and `--until` of a command; see `seriatim.settings.moments`."""

from seriatim.cli.errors import UsageError
from seriatim.settings.checked import WrongValue
from seriatim.settings.moments import read_moment


def moment(text: str, now: int) -> int:
    """Return the time meant, in ns since 1970, where `now` is the time now. Raises `UsageError`."""
    try:
        return read_moment(text, now)
    except WrongValue as error:
        raise UsageError(str(error)) from None
