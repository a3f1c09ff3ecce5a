"""Which numbers an audit covers, and what it says it does not check."""

from typing import Any

import pytest

from pyspark_seriatim.client import JournalInfo
from pyspark_seriatim.jobs.archive.rows import ArchivePart, OpenArchive
from pyspark_seriatim.jobs.audit.scope import NONE, Scope, scope_of
from pyspark_seriatim.jobs.errors import JobError


def archive(first: int, last: int, subject: str = ">", **facts: object) -> OpenArchive:
    part = ArchivePart("a.parquet", last - first + 1, first, last)
    return OpenArchive("/a", "seriatim", (part,), (), subject, "j", first, last, facts)


def info(first: int, last: int, journal: str = "j") -> JournalInfo:
    numbers = {"epoch": 1, "messages": 0, "bytes": 0, "oldest": 0, "newest": 0}
    rest: dict[str, Any] = {
        name: 0 for name in JournalInfo.__dataclass_fields__ if name not in numbers
    }
    rest |= {"journal": journal, "first": first, "last": last, "store": "disk"}
    return JournalInfo(**numbers | rest)


def test_given_an_archive_alone_when_asked_then_it_is_all_that_it_covers() -> None:
    scope = scope_of(archive(5, 90), None, None, None, None)
    assert scope == Scope(">", (5, 90))
    assert scope_of(archive(5, 90), None, 7, 8, None).archive == (7, 8)


def test_given_a_journal_alone_when_asked_then_it_is_what_is_kept_unless_more_is_asked() -> None:
    assert scope_of(None, info(10, 50), None, None, None) == Scope(">", journal=(10, 50))
    assert scope_of(None, info(10, 50), 1, 20, None).journal == (1, 20)
    with pytest.raises(JobError, match="--to 51: the last number of the journal is 50"):
        scope_of(None, info(10, 50), None, 51, None)


def test_given_both_when_asked_then_they_are_compared_where_the_journal_has_numbers() -> None:
    scope = scope_of(archive(1, 60), info(10, 50), None, None, None)
    assert (scope.archive, scope.journal, scope.compare) == ((1, 60), (10, 50), (10, 60))
    assert scope.notes == ["1 to 9 are no longer in the journal: not compared"]
    scope = scope_of(archive(20, 40), info(10, 50), None, None, None)
    assert (scope.journal, scope.compare) == ((20, 40), (20, 40))
    assert scope.notes == ["the journal goes on to 50: the archive ends before it"]
    scope = scope_of(archive(1, 9), info(10, 50), None, None, None)
    assert scope.journal[0] > scope.journal[1]
    assert scope.notes[0] == "1 to 9 are no longer in the journal: not compared"


def test_given_another_journal_when_asked_then_that_is_wrong_and_nothing_is_compared() -> None:
    scope = scope_of(archive(1, 9), info(1, 9, "other"), None, None, None)
    assert (scope.compare, scope.journal) == (None, NONE)
    assert "the archive is of journal j, but the broker has other" in scope.wrong[0]


def test_given_some_subjects_when_asked_then_gaps_prove_nothing_without_the_journal() -> None:
    alone = scope_of(archive(1, 9, "a.>"), None, None, None, None)
    assert (alone.whole, alone.subject) == (False, "a.>")
    assert alone.notes[0].startswith("of a.> only")
    assert alone.notes[0].endswith("without the journal (--server)")
    both = scope_of(archive(1, 9, "a.>"), info(1, 9), None, None, "a.>")
    assert (both.whole, both.notes, both.compare) == (False, [], (1, 9))
    assert scope_of(archive(1, 9), info(1, 9), None, None, "a.*").subject == "a.*"
    with pytest.raises(JobError, match=r"--subject b.>: the archive is of a.>"):
        scope_of(archive(1, 9, "a.>"), None, None, None, "b.>")


def test_given_holes_that_the_archive_knows_when_asked_then_they_are_named() -> None:
    known = archive(1, 9000, covered=[[1, 100], [2001, 9000]], lost=[[5000, 5001]])
    notes = scope_of(known, None, None, None, None).notes
    assert notes == [
        "101 to 2,000 was never archived, according to the archive's list",
        "5,000 to 5,001 was lost before it was archived, according to the archive's list",
    ]
    assert scope_of(known, None, 2001, 4000, None).notes == []


def test_given_a_range_that_ends_before_it_begins_when_asked_then_it_is_refused() -> None:
    with pytest.raises(JobError, match="--to 3 is below --from 4"):
        scope_of(archive(1, 9), None, 4, 3, None)


@pytest.mark.parametrize(
    ("first", "last", "words"),
    [
        (91, None, "--from 91: the last number of the archive is 90"),
        (None, 4, "--to 4: the first number of the archive is 5"),
    ],
)
def test_given_a_range_of_nothing_when_asked_for_then_it_is_refused_and_not_called_clean(
    first: int | None, last: int | None, words: str
) -> None:
    with pytest.raises(JobError, match=words):
        scope_of(archive(5, 90), None, first, last, None)
    with pytest.raises(JobError, match=words.replace("archive", "journal")):
        scope_of(None, info(5, 90), first, last, None)
    assert scope_of(archive(5, 90), None, 91, 95, None).archive == (91, 95), "all of it misses"


def test_given_a_journal_that_keeps_nothing_of_it_when_asked_then_nothing_is_compared() -> None:
    scope = scope_of(archive(1, 9), info(10, 50), None, None, None)
    assert scope.compare is None
