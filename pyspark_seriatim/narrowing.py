"""Uses the filters of a query to narrow what is requested from a broker: numbers, times, subjects.

`record` says whether a filter is fully applied here; only those on `sequence` are. Spark applies
all others as well, so the narrowing here may select more than they do, but never less:

    timestamp       a range of times; the journal's are finer, so its ends are widened to whole us
    subject         = and IN, as subjects to subscribe to

LIKE 'orders.%' is not used: `orders.>` would leave out `orders.` and `orders..eu`, which a journal
may contain, and which no wildcard matches.
"""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from pyspark_seriatim.api import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark_seriatim.values import NUMBER_MAX, SUBJECTS_MAX
from seriatim.settings.subjects import is_subject

EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017
BYTES_MAX: Final = 16 << 10  # for the subjects of one request, far below any `max_payload`
NEVER_NULL: Final = ("sequence", "subject", "payload", "timestamp")


@dataclass
class Narrowed:
    """The rest to be read: numbers from `first`, before `end`; times in ns, likewise."""

    first: int = 1
    end: int = NUMBER_MAX
    from_ns: int | None = None
    until_ns: int | None = None
    wanted: tuple[str, ...] | None = None

    def record(self, filter: Filter) -> bool:
        """Record a filter; True if Spark need not apply it again."""
        path: tuple[str, ...] = getattr(filter, "attribute", ())
        name = path[0] if len(path) == 1 else ""
        if isinstance(filter, IsNotNull):
            return name in NEVER_NULL
        value = getattr(filter, "value", None)
        if name == "sequence":
            return self._take_number(filter, value)
        if name == "timestamp" and isinstance(value, datetime):
            self._take_time(filter, value)
        if name == "subject":
            self._take_subject(filter, value)
        return False

    def subjects(self, subscribed: tuple[str, ...]) -> tuple[str, ...]:
        """The subjects to request from the broker; empty if nothing can match."""
        if self.wanted is None:
            return subscribed
        if subscribed == (">",):
            return self.wanted
        # If both are lists, the broker applies the option's, and Spark the filter's.
        literal = all("*" not in one and ">" not in one for one in self.wanted)
        return tuple(w for w in self.wanted if covered(w, subscribed)) if literal else subscribed

    def _take_number(self, filter: Filter, value: Any) -> bool:
        if isinstance(filter, In):
            numbers = [number for number in filter.value if isinstance(number, int)]
            self._limit(min(numbers, default=NUMBER_MAX), max(numbers, default=0) + 1)
            return False
        if not isinstance(value, int):
            return False
        match filter:
            case EqualTo():
                self._limit(value, value + 1)
            case GreaterThan():
                self._limit(value + 1, NUMBER_MAX)
            case GreaterThanOrEqual():
                self._limit(value, NUMBER_MAX)
            case LessThan():
                self._limit(1, value)
            case LessThanOrEqual():
                self._limit(1, value + 1)
            case _:
                return False
        return True

    def _limit(self, first: int, end: int) -> None:
        self.first, self.end = max(self.first, first), min(self.end, end)

    def _take_time(self, filter: Filter, value: datetime) -> None:
        if value.tzinfo is None:
            return  # only Spark knows that clock's time zone
        at_ns = (value - EPOCH) // timedelta(microseconds=1) * 1000
        if isinstance(filter, EqualTo | GreaterThan | GreaterThanOrEqual):
            self.from_ns = max(at_ns, self.from_ns or 0)
        if isinstance(filter, EqualTo | LessThan | LessThanOrEqual):
            until = at_ns + 1000
            self.until_ns = until if self.until_ns is None else min(until, self.until_ns)

    def _take_subject(self, filter: Filter, value: Any) -> None:
        match filter:
            case EqualTo() if isinstance(value, str):
                found: list[str] = [value]
            case In():
                found = [one for one in filter.value if isinstance(one, str)]
            case _:
                return
        # U+FFFD may stand for bytes that are not UTF-8. And some subjects cannot be subscribed to:
        # publishers may leave a token empty, or use characters that are blanks only in Unicode.
        if any("�" in one or not is_subject(one) for one in found):
            return
        found = list(dict.fromkeys(found))
        if len(found) > SUBJECTS_MAX or len(json.dumps(found)) > BYTES_MAX:
            return  # the broker would refuse them
        if self.wanted is None:
            self.wanted = tuple(found)


def covered(subject: str, patterns: tuple[str, ...]) -> bool:
    """True if one of the patterns matches a subject."""
    return any(_covers(pattern.split("."), subject.split(".")) for pattern in patterns)


def _covers(pattern: list[str], subject: list[str]) -> bool:
    for at, token in enumerate(pattern):
        if token == ">":
            return len(subject) > at
        if at >= len(subject) or token not in ("*", subject[at]):
            return False
    return len(pattern) == len(subject)
