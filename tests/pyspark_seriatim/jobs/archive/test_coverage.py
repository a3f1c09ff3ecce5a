"""Ranges of numbers as sets, and the facts of an archive."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_seriatim.jobs.archive.coverage import Facts, Range, count, merged, without
from pyspark_seriatim.jobs.errors import JobError

ranges = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), max_size=8)


def members(found: list[Range]) -> set[int]:
    return {number for first, last in found for number in range(first, last + 1)}


@given(ranges)
def test_given_any_ranges_when_merged_then_they_are_the_same_numbers_and_apart(
    given: list[Range],
) -> None:
    found = merged(given)
    assert members(found) == members(given)
    assert all(b[0] > a[1] + 1 for a, b in pairwise(found))
    assert count(found) == len(members(given))


@given(st.tuples(st.integers(1, 40), st.integers(1, 40)), ranges)
def test_given_a_range_when_others_are_taken_away_then_the_rest_is_left(
    whole: Range, taken: list[Range]
) -> None:
    assert members(without(whole, taken)) == members([whole]) - members(taken)


FACTS = Facts("j1", ">", ["sequence", "payload"], ["date", "token"], 1, [(1, 9)], [(4, 5)])


def test_given_facts_when_noted_then_they_come_back_and_tell_what_is_next() -> None:
    assert Facts.of(FACTS.noted() | {"more": 1}) == FACTS
    assert FACTS.next == 10
    assert Facts.of({}) is None
    assert Facts("j1", ">", [], [], 7, [], []).next == 7


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"journal": "j2"}, "of the journal j1, but the broker has j2"),
        ({"subject": "a.>"}, "of the subject >, not of a.>"),
        ({"columns": ["sequence"]}, "has the columns sequence, payload, not sequence"),
        ({"partition": ["date"]}, "use --partition date,token"),
    ],
)
def test_given_another_archive_when_checked_then_it_is_refused_with_words(
    change: dict[str, object], words: str
) -> None:
    wanted = Facts.of(FACTS.noted() | change)
    assert wanted is not None
    with pytest.raises(JobError, match=words):
        FACTS.check("/data", wanted)
    FACTS.check("/data", FACTS)


@pytest.mark.parametrize("raw", [{"next": 4}, FACTS.noted() | {"covered": [1]}])
def test_given_a_log_of_something_else_when_read_then_refused(raw: dict[str, object]) -> None:
    with pytest.raises(JobError, match="the log does not belong to an archive"):
        Facts.of(raw)


def test_given_a_later_format_when_read_then_refused() -> None:
    with pytest.raises(JobError, match="is of format 2, this is 1"):
        Facts.of(FACTS.noted() | {"format": 2})
