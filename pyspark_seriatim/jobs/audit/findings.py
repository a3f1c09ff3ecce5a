"""The findings of an audit: counts of everything, and the first few examples of each kind.

An `AuditSummary` covers one stretch of numbers; `append` adds the next stretch, so that in the end
one summary covers all, in the order of the numbers. Memory: `limit` ranges or examples of each
kind, however many there are.
"""

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from pyspark_seriatim.jobs.errors import WrongSummary


@dataclass(slots=True)
class Ranges:
    """Ascending numbers as ranges: how many, and the first `limit` ranges."""

    limit: int
    numbers: int = 0
    ranges: int = 0
    shown: list[tuple[int, int]] = field(default_factory=list)
    last: int = -1

    def add(self, first: int, last: int) -> None:
        """Add numbers `first` to `last`, all above those before."""
        if not self.last < first <= last:
            raise WrongSummary(
                f"numbers {first} to {last} come after {self.last}: the tasks' findings are not in"
                " order, so the audit is not valid; run it again"
            )
        self.numbers += last - first + 1
        if self.ranges and first == self.last + 1:
            if len(self.shown) == self.ranges:
                self.shown[-1] = (self.shown[-1][0], last)
        else:
            self.ranges += 1
            if len(self.shown) < self.limit:
                self.shown.append((first, last))
        self.last = last

    def add_all(self, firsts: NDArray[Any], lasts: NDArray[Any]) -> None:
        """Add many ranges that do not touch each other, in ascending order."""
        few = self.limit + 1 - len(self.shown)
        for first, last in zip(firsts[:few].tolist(), lasts[:few].tolist(), strict=True):
            self.add(first, last)
        if len(firsts) > few:
            rest, ends = firsts[few:], lasts[few:]
            self.numbers += int((ends - rest + 1).sum())
            self.ranges += len(rest)
            self.last = int(ends[-1])

    def append(self, other: "Ranges") -> None:
        """Add the ranges of the next stretch."""
        if not other.ranges:
            return
        kept = len(other.shown)
        last, numbers, ranges = other.last, other.numbers, other.ranges
        of_shown = sum(end - begin + 1 for begin, end in other.shown)
        for begin, end in other.shown:
            self.add(begin, end)
        self.numbers += numbers - of_shown
        self.ranges += ranges - kept
        self.last = last


@dataclass(frozen=True, slots=True)
class Fall:
    """A row that is lower than the one before it; times are in microseconds since 1970."""

    where: str
    number: int
    value: int
    before: int


@dataclass(slots=True)
class Falls:
    """The count of rows that are lower than the one before, and the first of them."""

    limit: int
    count: int = 0
    shown: list[Fall] = field(default_factory=list)

    def append(self, count: int, falls: list[Fall]) -> None:
        """Add `count` more, of which these are the first."""
        self.count += count
        self.shown += falls[: self.limit - len(self.shown)]


@dataclass(slots=True)
class Lines:
    """A count of things, and descriptions of the first ones."""

    limit: int
    count: int = 0
    shown: list[str] = field(default_factory=list)

    def append(self, count: int, lines: list[str]) -> None:
        """Add `count` more, of which these are the first."""
        self.count += count
        self.shown += lines[: self.limit - len(self.shown)]


@dataclass(slots=True)
class Tally:
    """One side's rows and numbers, and the faults of that side alone."""

    limit: int
    rows: int = 0
    numbers: int = 0  # distinct ones
    first: int = 0
    last: int = 0
    earliest: int | None = None  # times, microseconds since 1970
    latest: int | None = None
    gaps: Ranges = field(init=False)
    doubled: Ranges = field(init=False)
    order: Falls = field(init=False)
    times: Falls = field(init=False)  # within one file
    overlaps: Falls = field(init=False)  # between stretches of SPAN numbers, of any files
    unreadable: Lines = field(init=False)  # files
    without: int = 0  # rows that have no number, or one below 1
    replaced: int = 0  # rows whose subject has a replacement character
    files: int = 0
    bare_pages: int = 0  # files whose pages have no checksums
    bare_footers: int = 0  # files whose footers have no checksum in a list

    def __post_init__(self) -> None:
        self.gaps, self.doubled = Ranges(self.limit), Ranges(self.limit)
        self.order, self.times = Falls(self.limit), Falls(self.limit)
        self.overlaps, self.unreadable = Falls(self.limit), Lines(self.limit)

    def append(self, other: "Tally") -> None:
        """Add the tally of the next stretch; nothing was seen in between."""
        if other.numbers:
            if self.numbers and other.first > self.last + 1:
                self.gaps.add(self.last + 1, other.first - 1)
            self.gaps.append(other.gaps)
            self.first = self.first if self.numbers else other.first
            self.last = other.last
        self.rows += other.rows
        self.numbers += other.numbers
        self.without += other.without
        self.replaced += other.replaced
        self.files += other.files
        self.bare_pages += other.bare_pages
        self.bare_footers += other.bare_footers
        self.unreadable.append(other.unreadable.count, other.unreadable.shown)
        self.doubled.append(other.doubled)
        self.order.append(other.order.count, other.order.shown)
        self.times.append(other.times.count, other.times.shown)
        self.overlaps.append(other.overlaps.count, other.overlaps.shown)
        if other.earliest is not None and other.latest is not None:
            self.span_of_time(other.first, other.earliest, other.latest)

    def span_of_time(self, first: int, earliest: int, latest: int) -> None:
        """Add the times of the next numbers, which begin with `first`."""
        if self.latest is not None and earliest < self.latest:
            self.overlaps.append(1, [Fall("", first, earliest, self.latest)])
        if self.earliest is None or earliest < self.earliest:
            self.earliest = earliest
        if self.latest is None or latest > self.latest:
            self.latest = latest

    def within(self, first: int, last: int) -> None:
        """Also count as gaps the missing numbers at either end of `first` to `last`."""
        whole = Ranges(self.limit)
        if not self.numbers:
            if first <= last:
                whole.add(first, last)
            self.gaps = whole
            return
        if first < self.first:
            whole.add(first, self.first - 1)
        whole.append(self.gaps)
        if self.last < last:
            whole.add(self.last + 1, last)
        self.gaps = whole


@dataclass(slots=True)
class AuditSummary:
    """The findings for one stretch of numbers, or for all."""

    limit: int
    spans_limit: int
    sides: dict[str, Tally] = field(default_factory=dict)
    missing: Ranges = field(init=False)  # in the journal, but not in the archive
    extra: Ranges = field(init=False)  # in the archive, but not in the journal
    spans: int = 0  # of SPAN numbers, in which the two sides' content differs
    spans_shown: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.missing, self.extra = Ranges(self.limit), Ranges(self.limit)

    def side(self, name: str) -> Tally:
        """The tally of `name`; an empty one if there is none."""
        return self.sides.setdefault(name, Tally(self.limit))

    def differs(self, span: int) -> None:
        """Record that the content of the span that begins with this number differs."""
        self.spans += 1
        if len(self.spans_shown) < self.spans_limit:
            self.spans_shown.append(span)

    def append(self, other: "AuditSummary") -> None:
        """Add the summary of the next stretch."""
        for name, tally in other.sides.items():
            self.side(name).append(tally)
        self.missing.append(other.missing)
        self.extra.append(other.extra)
        self.spans += other.spans
        self.spans_shown += other.spans_shown[: self.spans_limit - len(self.spans_shown)]
