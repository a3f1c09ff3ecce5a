"""Rows that cannot be published: found, reported with their numbers, left out if requested."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_seriatim.errors import BrokerError, RowError
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.replay.replaying import refused_by, sifted, stage
from pyspark_seriatim.operation_publishing import Transaction, WholeStage
from tests.support.depth import examples
from tests.support.parquet_folders import rows

BATCH = Transaction("replay", 9)


def batch(numbers: Iterable[int], **columns: Any) -> pa.RecordBatch:
    return rows([*numbers], **columns).combine_chunks().to_batches()[0]


def make_of(bad: Iterable[int]) -> Any:
    """What makes a number an operation, but for some of them."""
    wrong = set(bad)

    def make(given: pa.RecordBatch) -> Iterator[int]:
        for number in given.column("sequence").to_pylist():
            if number in wrong:
                raise RowError(f"no {number}")
            yield number

    return make


class Broker:
    """A publisher whose broker refuses rows by their subjects, or by their numbers."""

    def __init__(self, subjects: Iterable[str] = (), numbers: Iterable[int] = ()) -> None:
        self.subjects, self.numbers = set(subjects), set(numbers)
        self.asked = 0

    def stage(self, transaction: Transaction, name: str, made: list[tuple[int, str]]) -> WholeStage:
        assert transaction is BATCH
        self.asked += 1
        for row, (number, subject) in enumerate(made, 1):
            said = f"$SEQ.STAGE: 400 Row {row} of stage {name}: "
            if subject in self.subjects:
                raise BrokerError(f'{said}"{subject}" is excluded from sequencing', 400)
            if number in self.numbers:
                why = "99 bytes; max_control_line is 50"
                raise RowError(f"a row of subject {subject!r}: {said}{why}")
        self.got = [number for number, _ in made]
        return WholeStage(name, len(made), 0, len(made))


def pairs(given: pa.RecordBatch) -> Iterator[tuple[int, str]]:
    return zip(
        given.column("sequence").to_pylist(), given.column("subject").to_pylist(), strict=True
    )


@settings(max_examples=examples(50))
@given(st.integers(1, 60), st.sets(st.integers(1, 60)))
def test_given_any_bad_rows_when_sifted_then_just_these_are_left_out_and_reported(
    count: int, bad: set[int]
) -> None:
    made, found = sifted(batch(range(1, count + 1)), make_of(bad), True)
    assert made == [number for number in range(1, count + 1) if number not in bad]
    wrong = sorted(number for number in bad if number <= count)
    assert [(one.number, one.why) for one in found] == [(n, f"no {n}") for n in wrong]


def test_given_bad_rows_when_none_may_be_left_out_then_the_first_ends_it_by_its_number() -> None:
    with pytest.raises(
        JobError, match=r"^number 7: no 7; --skip-unpublishable leaves out messages"
    ):
        sifted(batch(range(1, 40)), make_of([30, 7, 8]), False)


def test_given_a_broker_that_refuses_rows_when_staged_then_the_others_are_staged_in_order() -> None:
    subjects = ["a", "shut", "b", "shut", "a", "a"]
    broker = Broker(["shut"], [16])
    given = batch(range(11, 17), subject=subjects)
    staged, left_out = stage(broker, BATCH, given, pairs, True)  # type: ignore[arg-type]
    assert broker.got == [11, 13, 15]
    assert staged.rows == 3
    assert [one.number for one in left_out] == [12, 14, 16]
    assert broker.asked == 3, "all rows of a subject go at once"
    assert str(left_out[0]) == (
        'number 12: the broker refuses it: "shut" is excluded from sequencing'
    )
    with pytest.raises(JobError, match=r"^number 12: the broker refuses it"):
        stage(broker, BATCH, given, pairs, False)  # type: ignore[arg-type]


def test_given_a_row_that_is_too_long_when_staged_then_no_other_of_its_subject_goes_with_it() -> (
    None
):
    broker = Broker(numbers=[2, 5])
    _, left_out = stage(broker, BATCH, batch(range(1, 7)), pairs, True)  # type: ignore[arg-type]
    assert broker.got == [1, 3, 4, 6]
    assert [one.number for one in left_out] == [2, 5]
    assert left_out[0].why == "the broker refuses it: 99 bytes; max_control_line is 50"


def test_given_only_rows_that_cannot_be_published_when_staged_then_the_stage_is_empty() -> None:
    broker = Broker(["orders.eu", "orders.us"])
    staged, left_out = stage(broker, BATCH, batch([1, 2]), pairs, True)  # type: ignore[arg-type]
    assert (staged.rows, [one.number for one in left_out]) == (0, [1, 2])


@pytest.mark.parametrize(
    "error",
    [
        BrokerError("$SEQ.STAGE: 400 Row 4 of stage s: too long", 400),
        BrokerError("$SEQ.STAGE: 400 Row 0 of stage s: too long", 400),
        BrokerError("$SEQ.STAGE: 400 Bad Request", 400),
        BrokerError("$SEQ.STAGE: 413 Row 1 of stage s: no", 413),
    ],
)
def test_given_a_refusal_that_names_no_row_of_ours_then_it_is_not_taken_for_one(
    error: BrokerError,
) -> None:
    assert refused_by(error, batch([1, 2, 3])) == []
