"""Durations as Go writes and reads them: `1m30s`, `1.5s`, `-20ms`. Here they are nanoseconds."""

import re
from typing import Final

MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
_UNITS: Final = {
    "ns": 1,
    "us": MICROSECOND,
    "µs": MICROSECOND,
    "μs": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
_MOST: Final = 1 << 63
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


def read_duration(text: str) -> int:
    """Read a duration as Go's `time.ParseDuration` does. Raises `ValueError`."""
    sign = -1 if text[:1] == "-" else 1
    words = text[1:] if text[:1] in ("-", "+") else text
    if words == "0":
        return 0
    total, at = 0, 0
    while at < len(words):
        match = _PART.match(words, at)
        if match is None or not (match[1] or match[2]):
            break
        unit = _UNITS[match[3]]
        digits = (match[2] or "")[:20]
        total += int(match[1] or 0) * unit + int(digits or 0) * unit // 10 ** len(digits)
        at = match.end()
    if not words or at < len(words) or total > _MOST - (sign > 0):
        raise ValueError(f'time: invalid duration "{text}"')
    return sign * total


def duration_text(ns: int) -> str:
    """Return a duration as Go prints it: `2s`, `1m0s`, `1.5ms`, `0s`."""
    if ns < 0:
        return "-" + duration_text(-ns)
    if ns == 0:
        return "0s"
    for unit, name in ((MILLISECOND, "ms"), (MICROSECOND, "µs"), (1, "ns")):
        if ns < SECOND and ns >= unit:
            return _decimal(ns, unit) + name
    hours, rest = divmod(ns, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    text = _decimal(rest, SECOND) + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    if not rest:
        return str(whole)
    return f"{whole}." + f"{rest:0{len(str(unit)) - 1}}".rstrip("0")
