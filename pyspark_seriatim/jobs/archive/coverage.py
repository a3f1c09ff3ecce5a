"""The numbers that an archive covers, and which of them were lost: sets of ranges, and facts.

A range is (first, last), both included. A list of ranges is in ascending order, with at least one
number between two of them.

`covered`: every message of these numbers that matches the subject filter was read, or is `lost`.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyspark_seriatim.jobs.errors import JobError

VERSION: Final = 1
Range = tuple[int, int]


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Merge ranges into as few as possible."""
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
    """Return the rest of a range, without these ranges."""
    first, last = whole
    left = []
    for begin, end in merged(ranges):
        if begin > first:
            left.append((first, min(begin - 1, last)))
        first = max(first, end + 1)
    return merged([*left, (first, last)])


def count(ranges: Iterable[Range]) -> int:
    """Count the numbers of ranges."""
    return sum(last - first + 1 for first, last in ranges)


@dataclass(slots=True)
class Facts:
    """The facts of an archive, recorded in its log."""

    journal: str
    subject: str
    columns: list[str]
    partition: list[str]
    start: int  # the first number of the archive
    covered: list[Range]
    lost: list[Range]
    restricted: bool = False  # permissions keep some messages from its user
    format: int = VERSION

    @classmethod
    def of(cls, raw: dict[str, Any]) -> "Facts | None":
        """The facts in a log; None if it is not an archive's. Raises `JobError`."""
        if not raw:
            return None
        try:
            known = {"restricted": False} | raw
            known = {name: known[name] for name in cls.__slots__}
            for name in ("covered", "lost"):
                known[name] = [(int(first), int(last)) for first, last in raw[name]]
        except (KeyError, TypeError, ValueError):
            raise JobError("the log does not belong to an archive") from None
        if known["format"] != VERSION:
            raise JobError(f"the archive is of format {known['format']}, this is {VERSION}")
        return cls(**known)

    def noted(self) -> dict[str, Any]:
        """The form in which a log records them."""
        return asdict(self)

    @property
    def next(self) -> int:
        """The number after the last one covered: where the archive continues."""
        return self.covered[-1][1] + 1 if self.covered else self.start

    def check(self, root: str, wanted: "Facts") -> None:
        """Raise `JobError` if the request does not fit this archive."""
        if self.journal != wanted.journal:
            raise JobError(
                f"{root} is an archive of the journal {self.journal}, but the broker has"
                f" {wanted.journal}: its numbers belong to other messages; archive it elsewhere"
            )
        if self.subject != wanted.subject:
            raise JobError(
                f"{root} is an archive of the subject {self.subject}, not of {wanted.subject}:"
                " it could not say what it covers; archive it elsewhere"
            )
        if self.restricted and not wanted.restricted:
            raise JobError(
                f"{root} was begun by a user who may not read all subjects, and this one may: it"
                " could not say what it covers; archive it elsewhere, or as that user"
            )
        if wanted.restricted and not self.restricted and self.subject == ">":
            raise JobError(
                f"{root} has all subjects, but this user may not read all of them; give another"
                " user, or archive it elsewhere"
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
