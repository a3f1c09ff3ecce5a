"""Filters of a query as ranges and subjects: nothing is left out that a filter would pass."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from pyspark_seriatim.narrowing import Narrowed, covered
from pyspark_seriatim.values import NUMBER_MAX

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COMPARED: dict[type[Filter], Callable[[int, int], bool]] = {
    EqualTo: lambda left, right: left == right,
    GreaterThan: lambda left, right: left > right,
    GreaterThanOrEqual: lambda left, right: left >= right,
    LessThan: lambda left, right: left < right,
    LessThanOrEqual: lambda left, right: left <= right,
}
kinds = st.sampled_from(list(COMPARED))


def narrowed(*filters: Filter) -> Narrowed:
    made = Narrowed()
    for one in filters:
        made.record(one)
    return made


@given(filters=st.lists(st.tuples(kinds, st.integers(-3, 30)), max_size=4))
def test_given_filters_on_numbers_when_taken_then_the_range_is_just_what_they_let_pass(
    filters: list[tuple[type[Filter], int]],
) -> None:
    made = Narrowed()
    taken = [made.record(kind(("sequence",), value)) for kind, value in filters]  # type: ignore[call-arg]
    assert all(taken), "Spark need not look again"
    passed = [n for n in range(1, 40) if all(COMPARED[kind](n, v) for kind, v in filters)]
    assert passed == [n for n in range(1, 40) if made.first <= n < made.end]


@given(
    filters=st.lists(st.tuples(kinds, st.integers(0, 30)), max_size=4), ns=st.integers(0, 40_000)
)
def test_given_filters_on_times_when_taken_then_nothing_is_left_out_that_they_let_pass(
    filters: list[tuple[type[Filter], int]], ns: int
) -> None:
    made = Narrowed()
    for kind, micros in filters:
        moment = EPOCH + timedelta(microseconds=micros)
        assert not made.record(kind(("timestamp",), moment)), "Spark looks again"  # type: ignore[call-arg]
    if all(COMPARED[kind](ns // 1000, micros) for kind, micros in filters):
        assert ns >= (made.from_ns or 0)
        assert made.until_ns is None or ns < made.until_ns


def test_given_a_range_of_times_when_taken_then_it_is_narrow() -> None:
    made = narrowed(
        GreaterThanOrEqual(("timestamp",), EPOCH + timedelta(seconds=1)),
        LessThan(("timestamp",), EPOCH + timedelta(seconds=2)),
    )
    assert (made.from_ns, made.until_ns) == (1_000_000_000, 2_000_001_000)


def test_given_a_list_of_numbers_when_taken_then_the_range_holds_them() -> None:
    made = Narrowed()
    assert not made.record(In(("sequence",), (7, 3, 9)))
    assert (made.first, made.end) == (3, 10)


@pytest.mark.parametrize(
    ("filter", "subscribed", "subjects"),
    [
        (EqualTo(("subject",), "a.b"), (">",), ("a.b",)),
        (EqualTo(("subject",), "a.b"), ("a.*",), ("a.b",)),
        (EqualTo(("subject",), "a.b"), ("b.>", "a"), ()),
        (In(("subject",), ("a", "b.c", "a")), (">",), ("a", "b.c")),
        (In(("subject",), ("a", "b.c")), ("b.*",), ("b.c",)),
        (StringStartsWith(("subject",), "a.b."), (">",), (">",)),
        (StringStartsWith(("subject",), "a.b."), ("a.>",), ("a.>",)),
        (StringContains(("subject",), "a.b"), (">",), (">",)),
        (EqualTo(("subject",), "no subject"), (">",), (">",)),
        (EqualTo(("subject",), "a\u00a0b"), (">",), (">",)),
        (EqualTo(("subject",), "a..b"), (">",), (">",)),
        (In(("subject",), ("a", "b.")), (">",), (">",)),
        (EqualTo(("subject",), "a.*"), (">",), ("a.*",)),
        (EqualTo(("subject",), "a.*"), ("b",), ("b",)),
        (EqualTo(("subject",), "a\ufffd"), (">",), (">",)),
        (In(("subject",), tuple(f"s{at}" for at in range(65))), (">",), (">",)),
        (In(("subject",), ("a",) * 65), (">",), ("a",)),
        (EqualTo(("subject",), "a" * 20_000), (">",), (">",)),
        (EqualTo(("payload",), b"x"), (">",), (">",)),
        (EqualTo(("headers", "key"), "a"), (">",), (">",)),
        (Not(EqualTo(("subject",), "a")), (">",), (">",)),
    ],
)
def test_given_a_filter_on_subjects_when_taken_then_the_broker_is_asked_for_these(
    filter: Filter, subscribed: tuple[str, ...], subjects: tuple[str, ...]
) -> None:
    made = Narrowed()
    assert not made.record(filter), "Spark looks again"
    assert made.subjects(subscribed) == subjects
    assert (made.first, made.end) == (1, NUMBER_MAX)


def test_given_what_is_never_null_when_it_is_to_be_not_null_then_spark_need_not_look() -> None:
    made = Narrowed()
    assert made.record(IsNotNull(("sequence",)))
    assert not made.record(IsNotNull(("reply",)))
    assert not made.record(IsNull(("sequence",)))
    assert not made.record(EqualTo(("sequence",), None))


@pytest.mark.parametrize(
    ("subject", "pattern", "is_covered"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.*", True),
        ("a.b", "*.>", True),
        ("a", "a.>", False),
        ("a.b.c", "a.*", False),
        ("a", "a.*", False),
        ("a.b", "a", False),
    ],
)
def test_given_a_pattern_when_a_subject_is_compared_then_it_is_as_the_broker_does(
    subject: str, pattern: str, is_covered: bool
) -> None:
    from sublist.subject import covers

    assert covered(subject, ("x", pattern)) is is_covered
    assert covers(pattern.encode(), subject.encode()) is is_covered
