"""Which numbers an audit is about: those asked for, of the archive, and of the journal.

    archive alone      from its first number to its last; gap-free where it has all subjects
    journal alone      from the first number it keeps to the last it has given
    both               the archive's numbers, from the first that the journal still has

A range that is asked for (`--from`, `--to`) narrows this. What cannot be proved is a note.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from pyspark_seriatim.client import JournalInfo
from pyspark_seriatim.jobs.archive.rows import EVERY, OpenArchive, subject_pattern
from pyspark_seriatim.jobs.errors import JobError

Range = tuple[int, int]
NONE: Range = (1, 0)
SHOWN: Final = 3  # of each reason


@dataclass(slots=True)
class Scope:
    """What is looked at. A range whose end is below its beginning holds nothing."""

    subject: str
    archive: Range = NONE
    journal: Range = NONE
    compare: Range | None = None
    whole: bool = True  # every number of a range is to be there
    notes: list[str] = field(default_factory=list)  # what is not proved, and why
    wrong: list[str] = field(default_factory=list)  # what makes the two sides different at once


def scope_of(
    archive: OpenArchive | None,
    journal: JournalInfo | None,
    first: int | None,
    last: int | None,
    subject: str | None,
) -> Scope:
    """Raises `JobError` for a range or subject that cannot be."""
    if first is not None and last is not None and last < first:
        raise JobError(f"--to {last} is below --from {first}")
    of_archive = archive.subject if archive is not None else EVERY
    if subject is not None and of_archive not in (EVERY, subject):
        raise JobError(f"--subject {subject}: the archive is of {of_archive}; leave --subject out")
    scope = Scope(subject if subject is not None else of_archive)
    scope.whole = subject_pattern(scope.subject) is None
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
        scope.notes.append(
            f"of {scope.subject} only: numbers between are other subjects', so a gap cannot be told"
            " from them" + (" without the journal (--server)" if journal is None else "")
        )
    return scope


def _check_asked(span: Range, first: int | None, last: int | None, what: str) -> None:
    """Raise `JobError` for a range that holds nothing, of which nothing would be proved."""
    if span[0] <= span[1]:
        return
    if first is not None:
        raise JobError(f"--from {first}: the last number of the {what} is {span[1]}")
    if last is not None:
        raise JobError(f"--to {last}: the first number of the {what} is {span[0]}")


def _say_what_is_not_there(scope: Scope, archive: OpenArchive) -> None:
    """Why numbers may miss, as the archive's own list has it."""
    first, last = scope.archive
    covered = [(int(one[0]), int(one[1])) for one in archive.facts.get("covered", ())]
    between = [(a[1] + 1, b[0] - 1) for a, b in pairwise(covered)]
    lost = [(int(one[0]), int(one[1])) for one in archive.facts.get("lost", ())]
    for spans, why in ((between, "was never archived"), (lost, "was lost before it was archived")):
        for begin, end in [(b, e) for b, e in spans if b <= last and first <= e][:SHOWN]:
            scope.notes.append(f"{begin:,} to {end:,} {why}, as the archive's list says")


def _both(scope: Scope, archive: OpenArchive, journal: JournalInfo) -> None:
    if archive.journal and archive.journal != journal.journal:
        scope.wrong.append(
            f"the archive is of journal {archive.journal}, and the broker's is {journal.journal}:"
            " their numbers are of different messages, so they are not compared"
        )
        return
    first, last = scope.archive
    begin = max(first, journal.first)
    scope.journal = begin, min(last, journal.last)
    if begin <= last:
        scope.compare = begin, last
    if first <= last and first < journal.first:
        upto = min(last, journal.first - 1)
        scope.notes.append(f"{first:,} to {upto:,} are not in the journal any more: not compared")
    if last < journal.last:
        scope.notes.append(f"the journal goes on to {journal.last:,}: the archive ends before it")
