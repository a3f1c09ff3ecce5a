"""Kinds of settings that are amounts: sizes, durations and whole numbers."""

import re
from typing import Final

from seriatim.settings.checked import Setting, SettingKind, WrongValue, quoted

SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
SIZES |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
MILLISECONDS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
DIGITS_MAX: Final = 40  # with leading zeros
# The number of digits is limited, so that no text makes a number that is slow to compute with.
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?) ?([A-Za-z]*)")
_DURATION = re.compile(r"(?:[0-9]{1,15}(?:\.[0-9]{1,400})?(?:w|d|h|ms|m|s)){1,8}")
_DURATION_PART = re.compile(r"([0-9.]+)(w|d|h|ms|m|s)")
_PLAIN_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,15}")


def read_digits(text: str, most: int) -> int | None:
    """Read a whole number in ASCII digits; None for anything else, and above `most`.

    `int` alone would also read "+5", " 5", "5_0" and digits of other scripts.
    """
    if not (text.isascii() and text.isdigit()) or len(text) > DIGITS_MAX:
        return None
    return number if (number := int(text)) <= most else None


def read_size(text: str) -> int:
    """Read a number of bytes. Raises `WrongValue`."""
    found = _SIZE.fullmatch(text)
    if not found or found[2].lower() not in SIZES:
        if found and found[2].lower() in ("k", "m", "g", "t"):
            unit = found[2].upper()
            raise WrongValue(
                f"{quoted(text)} is ambiguous; give {found[1]}{unit}iB (of 1024) or"
                f" {found[1]}{unit}B (of 1000)"
            )
        raise WrongValue(f"{quoted(text)} is not a size; {SIZE.how}")
    from decimal import Decimal  # not needed for a start without sizes

    size = Decimal(found[1]) * SIZES[found[2].lower()]
    if size != int(size):
        raise WrongValue(f"{quoted(text)} is not a whole number of bytes; {SIZE.how}")
    return int(size)


def show_size(value: int) -> str:
    """Format a size, in the largest unit that gives a whole number."""
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value and value % size == 0:
            return f"{int(value) // size}{unit}"
    return str(int(value))


def read_duration(text: str) -> float:
    """Read a duration, in seconds. Raises `WrongValue`."""
    if _PLAIN_NUMBER.fullmatch(text):
        return float(text)
    if not _DURATION.fullmatch(text):
        raise WrongValue(f"{quoted(text)} is not a duration; {DURATION.how}")
    from decimal import Decimal

    parts = _DURATION_PART.findall(text)
    whole = sum(Decimal(number) * MILLISECONDS[unit] for number, unit in parts)
    return float(whole / 1000)


def show_duration(value: float) -> str:
    """Format seconds: exact, and short if it is a round number of some unit."""
    if value != value or value in (float("inf"), float("-inf")) or value < 0:
        return str(value)
    from decimal import Decimal

    exact = Decimal(repr(float(value)))
    if 0 < exact < 1 and exact * 1000 == int(exact * 1000):
        return f"{int(exact * 1000)}ms"
    whole, text = int(exact), ""
    if whole == exact and whole % 86400 == 0 and whole > 86400:
        return f"{whole // 86400}d"
    if whole == exact and whole % 60 == 0 and whole:
        hours, minutes = divmod(whole // 60, 60)
        return (f"{hours}h" if hours else "") + (f"{minutes}m" if minutes else "")
    text = f"{exact:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "s"


def read_whole_number(setting: Setting, text: str) -> int:
    """Read a whole number with or without a sign. Raises `WrongValue`."""
    if not _WHOLE_NUMBER.fullmatch(text):
        noun = setting.kinds[setting.kind].noun
        raise WrongValue(f"{quoted(text)} is not {noun}; {setting.how()}")
    return int(text)


SIZE: Final = SettingKind(
    how="give bytes, or a number with KiB, MiB, GiB, TiB (1024) or kB, MB, GB, TB (1000)",
    native=(int,),
    text_in_file=True,
    read=lambda setting, text: read_size(text),
    show=show_size,
)
DURATION: Final = SettingKind(
    how="give seconds, or a number with ms, s, m, h, d or w, such as 500ms or 1m30s",
    native=(int, float),
    text_in_file=True,
    read=lambda setting, text: read_duration(text),
    make=float,
    show=show_duration,
)
COUNT: Final = SettingKind(
    how="give a whole number", noun="a whole number", native=(int,), read=read_whole_number
)
