"""The numbers to audit: the requested ones, those of the archive, and those of the journal.

    archive alone      from its first number to its last; checked for gaps if it has all subjects
    journal alone      from the first number it keeps to the last it has assigned
    both               the archive's numbers, from the first that the journal still has

A requested range (`--from`, `--to`) narrows this. A note reports the parts that cannot be checked.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from pyspark_seriatim.client import JournalInfo
from pyspark_seriatim.jobs.archive.rows import EVERY, OpenArchive, subject_pattern
from pyspark_seriatim.jobs.errors import JobError, WrongArguments

Range = tuple[int, int]
NONE: Range = (1, 0)
SHOWN: Final = 3  # examples of each reason


@dataclass(slots=True)
class Scope:
    """The numbers of an audit. A range whose end is below its beginning is empty."""

    subject: str
    archive: Range = NONE
    journal: Range = NONE
    compare: Range | None = None
    whole: bool = True  # every number of a range must exist
    notes: list[str] = field(default_factory=list)  # the parts that are not checked, and why
    wrong: list[str] = field(default_factory=list)  # known differences between the two sides


def scope_of(
    archive: OpenArchive | None,
    journal: JournalInfo | None,
    first: int | None,
    last: int | None,
    subject: str | None,
) -> Scope:
    """Return the numbers to audit. Raises `JobError` for an impossible range or subject."""
    if first is not None and last is not None and last < first:
        raise WrongArguments(f"--to {last} is below --from {first}")
    of_archive = archive.subject if archive is not None else EVERY
    if subject is not None and of_archive not in (EVERY, subject):
        raise JobError(f"--subject {subject}: the archive is of {of_archive}; leave --subject out")
    scope = Scope(subject if subject is not None else of_archive)
    restricted = journal is not None and journal.restricted
    restricted = restricted or (archive is not None and bool(archive.facts.get("restricted")))
    scope.whole = subject_pattern(scope.subject) is None and not restricted
    if archive is not None:
        scope.archive = first or archive.first or 1, last or archive.last
        _check_asked(scope.archive, first, last, "archive")
        _say_what_is_not_there(scope, archive)
    if journal is not None and archive is not None:
        _both(scope, archive, journal)
    elif journal is not None:
        scope.journal = first or journal.first, last or journal.last
        if scope.journal[1] > journal.last:
            raise JobError(f"--to {last}: the last number of the journal is {journal.last}")
        _check_asked(scope.journal, first, last, "journal")
    if not scope.whole and scope.compare is None:
        only = "only what this user may read" if restricted else f"{scope.subject} only"
        scope.notes.append(
            f"of {only}: numbers between are other subjects', so a gap cannot be told"
            " from them" + (" without the journal (--server)" if journal is None else "")
        )
    return scope


def _check_asked(span: Range, first: int | None, last: int | None, what: str) -> None:
    """Raise `JobError` for an empty range: auditing it would check nothing."""
    if span[0] <= span[1]:
        return
    if first is not None:
        raise JobError(f"--from {first}: the last number of the {what} is {span[1]}")
    if last is not None:
        raise JobError(f"--to {last}: the first number of the {what} is {span[0]}")


def _say_what_is_not_there(scope: Scope, archive: OpenArchive) -> None:
    """Note why numbers may be missing, according to the archive's own list."""
    first, last = scope.archive
    covered = [(int(one[0]), int(one[1])) for one in archive.facts.get("covered", ())]
    between = [(a[1] + 1, b[0] - 1) for a, b in pairwise(covered)]
    lost = [(int(one[0]), int(one[1])) for one in archive.facts.get("lost", ())]
    for spans, why in ((between, "was never archived"), (lost, "was lost before it was archived")):
        for begin, end in [(b, e) for b, e in spans if b <= last and first <= e][:SHOWN]:
            scope.notes.append(f"{begin:,} to {end:,} {why}, according to the archive's list")


def _both(scope: Scope, archive: OpenArchive, journal: JournalInfo) -> None:
    if archive.journal and archive.journal != journal.journal:
        scope.wrong.append(
            f"the archive is of journal {archive.journal}, but the broker has {journal.journal}:"
            " their numbers belong to different messages, so they are not compared"
        )
        return
    first, last = scope.archive
    begin = max(first, journal.first)
    scope.journal = begin, min(last, journal.last)
    if begin <= last:
        scope.compare = begin, last
    if first <= last and first < journal.first:
        upto = min(last, journal.first - 1)
        scope.notes.append(f"{first:,} to {upto:,} are no longer in the journal: not compared")
    if last < journal.last:
        scope.notes.append(f"the journal goes on to {journal.last:,}: the archive ends before it")
