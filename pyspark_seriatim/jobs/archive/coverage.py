"""Which numbers an archive covers, and which of them were lost: sets of ranges, and what is noted.

A range is (first, last), both included. A list of them ascends, and between two of one list there
is at least one number.

`covered`: every message of these numbers that the subject filter takes was read, or is `lost`.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyspark_seriatim.jobs.errors import JobError

VERSION: Final = 1
Range = tuple[int, int]


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The same numbers, as few ranges."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if last < first:
            continue
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def without(whole: Range, ranges: Iterable[Range]) -> list[Range]:
    """What is left of a range."""
    first, last = whole
    left = []
    for begin, end in merged(ranges):
        if begin > first:
            left.append((first, min(begin - 1, last)))
        first = max(first, end + 1)
    return merged([*left, (first, last)])


def count(ranges: Iterable[Range]) -> int:
    """How many numbers."""
    return sum(last - first + 1 for first, last in ranges)


@dataclass(slots=True)
class Facts:
    """What an archive says of itself, in its log."""

    journal: str
    subject: str
    columns: list[str]
    partition: list[str]
    start: int  # where it begins
    covered: list[Range]
    lost: list[Range]
    format: int = VERSION

    @classmethod
    def of(cls, raw: dict[str, Any]) -> "Facts | None":
        """As it is in a log; None in one without an archive. Raises `JobError`."""
        if not raw:
            return None
        try:
            known = {name: raw[name] for name in cls.__slots__}
            for name in ("covered", "lost"):
                known[name] = [(int(first), int(last)) for first, last in raw[name]]
        except (KeyError, TypeError, ValueError):
            raise JobError("the log is of something other than an archive") from None
        if known["format"] != VERSION:
            raise JobError(f"the archive is of format {known['format']}, this is {VERSION}")
        return cls(**known)

    def noted(self) -> dict[str, Any]:
        """As it goes into a log."""
        return asdict(self)

    @property
    def next(self) -> int:
        """The number behind the last one covered: where the archive goes on."""
        return self.covered[-1][1] + 1 if self.covered else self.start

    def check(self, root: str, wanted: "Facts") -> None:
        """Raise `JobError` where what is wanted does not belong into this archive."""
        if self.journal != wanted.journal:
            raise JobError(
                f"{root} is an archive of the journal {self.journal}, and the broker's is"
                f" {wanted.journal}: their numbers are of other messages; archive it elsewhere"
            )
        if self.subject != wanted.subject:
            raise JobError(
                f"{root} is an archive of the subject {self.subject}, not of {wanted.subject}:"
                " what it covers would not be known any more; archive it elsewhere"
            )
        if self.columns != wanted.columns:
            raise JobError(
                f"{root} has the columns {', '.join(self.columns)}, not"
                f" {', '.join(wanted.columns)}: use --headers or --no-headers as before"
            )
        if self.partition != wanted.partition:
            raise JobError(
                f"{root} is partitioned by {','.join(self.partition)}: use --partition"
                f" {','.join(self.partition)}"
            )
