"""Amounts as short texts: numbers, sizes, rates and times, in as many digits as a person reads."""

import re
from datetime import datetime
from itertools import pairwise
from typing import Final

UNITS: Final = ("", "k", "M", "G", "T", "P", "E")
NOTHING: Final = "-"
SPANS: Final = (("y", 31_536_000), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
SECONDS: Final = {
    **{unit: float(length) for unit, length in SPANS},
    **{"ms": 1e-3, "us": 1e-6, "\N{MICRO SIGN}s": 1e-6, "ns": 1e-9},
}
_SPAN_PART: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,15})?)(y|d|h|ms|m|us|\xb5s|ns|s)")
_SPAN: Final = re.compile(f"(?:{_SPAN_PART.pattern}){{1,8}}")


def count(value: float | None) -> str:
    """Return a whole number in full, 1,234,567."""
    return NOTHING if value is None else f"{int(value):,}"


def short(value: float | None) -> str:
    """Return a number in at most five characters, without its sign: 950, 1.2k, 12k, 120k, 1.2M."""
    if value is None:
        return NOTHING
    sign, value = "-" if value < 0 else "", abs(value)
    for unit in UNITS:
        if value < 999.5 or unit == UNITS[-1]:
            break
        value /= 1000
    if unit and value < 9.95:
        return f"{sign}{value:.1f}{unit}"
    return f"{sign}{value:.0f}{unit}"


def rate(value: float | None) -> str:
    """Return a rate per second; one below 10 with its tenths."""
    if value is not None and 0 < abs(value) < 9.95:
        return f"{value:.1f}"
    return short(value)


def size(value: float | None) -> str:
    """Return bytes with their unit: 950 B, 1.2 kB, 12 MB."""
    figure = short(value)
    if figure == NOTHING:
        return figure
    digits, unit = (figure[:-1], figure[-1]) if figure[-1].isalpha() else (figure, "")
    return f"{digits} {unit}B"


def span(seconds: float | None) -> str:
    """Return a time span by its two largest units: 4d2h, 3h20m, 12m5s, 8s."""
    if seconds is None:
        return NOTHING
    left = max(int(seconds), 0)
    for (unit, length), (smaller, part) in pairwise(SPANS):
        if left >= length:
            rest = left % length // part
            return f"{left // length}{unit}{f'{rest}{smaller}' if rest else ''}"
    return f"{left}s"


def milliseconds(seconds: float | None) -> str:
    """Return a short time: 85us, 1.2ms, 120ms, 2.5s."""
    if seconds is None:
        return NOTHING
    if seconds >= 0.9995:
        return f"{seconds:.1f}s" if seconds < 99.95 else span(seconds)
    if seconds >= 0.0009995:
        thousandths = seconds * 1000
        return f"{thousandths:.1f}ms" if thousandths < 9.95 else f"{thousandths:.0f}ms"
    return f"{seconds * 1e6:.0f}us"


def clock(seconds: float | None) -> str:
    """Return a time in this machine's zone: of today to the second, an older one with its day."""
    if seconds is None:
        return NOTHING
    when = datetime.fromtimestamp(seconds)
    return f"{when:%H:%M:%S}" if when.date() == datetime.now().date() else f"{when:%m-%d %H:%M}"


def read_moment(text: str) -> float | None:
    """Return the seconds since 1970 of a time on a page; None if it is none, or Go's zero time."""
    head, dot, rest = text.partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    try:  # a page has nanoseconds, a datetime has microseconds
        when = datetime.fromisoformat(f"{head}{dot}{rest[:digits][:6]}{rest[digits:]}")
        return when.timestamp() if when.tzinfo is not None and when.year > 1 else None
    except (ValueError, OverflowError):
        return None


def read_span(text: str) -> float | None:
    """Return the seconds of a span on a page, in Go's notation: 1d2h3m4s, 1.5ms, 85us."""
    if not _SPAN.fullmatch(text):
        return None
    return sum(float(number) * SECONDS[unit] for number, unit in _SPAN_PART.findall(text))
