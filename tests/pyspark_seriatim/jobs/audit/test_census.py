"""Rows to a summary, against what a set of numbers says; over buckets, blocks, tasks, stripes."""

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_seriatim.jobs.audit.census import (
    PARTIAL,
    SPAN,
    Census,
    CountRows,
    Join,
    NumberBlock,
    blocks,
    partial_batch,
)
from pyspark_seriatim.jobs.audit.findings import AuditSummary, Ranges
from tests.support.depth import examples

LIMIT = 4
BUCKET, STRIPE = 1 << 20, 1 << 30
LAST = 1 << 62
PRIME = np.uint64(0x9E3779B97F4A7C15)
# Numbers close to where spans, buckets and stripes meet, where ranges must be joined.
borders = st.sampled_from([1, SPAN, BUCKET, 3 * BUCKET, STRIPE, STRIPE + BUCKET, 5 * STRIPE])
numbers = st.builds(lambda border, step: max(border + step, 1), borders, st.integers(-6, 6))
rows = st.lists(numbers, max_size=30)

Rows = list[dict[str, object]]


def counted(side: str, files: Sequence[Sequence[int]], cut: int) -> Rows:
    """Partials of one task that reads these files, in blocks of `cut` rows."""
    census = Census(side, LIMIT, 1, LAST)
    found: Rows = []
    for at, file in enumerate(files):
        census.begin_file(f"file {at}")
        for begin in range(0, len(file), cut):
            some = np.array(file[begin : begin + cut], np.int64)
            hashes = some.view(np.uint64) * PRIME if side == "journal" else None
            found += census.count(NumberBlock(some, some * 10, hashes))
    return [*found, census.notes()]


def joined(partials: Rows, compare: tuple[int, int] | None = None) -> AuditSummary:
    """What Spark does with partials: sorted by bucket, one summary for each stripe, one of all."""
    random.Random(1).shuffle(partials)
    partials.sort(key=lambda row: (row["stripe"], row["bucket"]))
    whole = AuditSummary(LIMIT, LIMIT)
    for batch in Join(LIMIT, LIMIT, compare)([partial_batch(partials)]):
        for packed in batch.column("summary").to_pylist():
            whole.append(Join.read(packed))
    return whole


def ranges(numbers: set[int]) -> list[tuple[int, int]]:
    """The plain way."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def same(found: Ranges, wanted: list[tuple[int, int]]) -> bool:
    return (
        found.shown == wanted[:LIMIT]
        and found.ranges == len(wanted)
        and found.numbers == sum(last - first + 1 for first, last in wanted)
    )


@settings(max_examples=examples(25))
@given(st.lists(rows, max_size=3), st.integers(1, 20))
def test_given_any_rows_when_counted_then_the_summary_is_that_of_a_set(
    files: list[list[int]], cut: int
) -> None:
    tally = joined(counted("archive", files, cut)).side("archive")
    every = [number for file in files for number in file]
    there = set(every)
    assert tally.rows == len(every)
    assert tally.numbers == len(there)
    assert same(tally.doubled, ranges({n for n, count in Counter(every).items() if count > 1}))
    seen = ranges(there)
    between = [(one[1] + 1, two[0] - 1) for one, two in pairwise(seen)]
    assert same(tally.gaps, between)
    falls = [
        (file[at], file[at - 1])
        for file in files
        for at in range(1, len(file))
        if file[at] < file[at - 1]
    ]
    assert tally.order.count == len(falls)
    assert [(fall.value, fall.before) for fall in tally.order.shown] == falls[:LIMIT]
    assert tally.times.count == tally.overlaps.count == 0
    if there:
        assert (tally.first, tally.last) == (min(there), max(there))


@settings(max_examples=examples(25))
@given(rows, rows, numbers, numbers)
def test_given_two_sides_when_compared_then_what_one_lacks_is_reported(
    here: list[int], there: list[int], one: int, other: int
) -> None:
    compare = min(one, other), max(one, other)
    partials = [*counted("journal", [here], 9), *counted("archive", [there], 7)]
    found = joined(partials, compare)
    within = {n for n in [*here, *there] if compare[0] <= n <= compare[1]}
    assert same(found.missing, ranges(within & set(here) - set(there)))
    assert same(found.extra, ranges(within & set(there) - set(here)))


@settings(max_examples=examples(25))
@given(st.lists(numbers, min_size=1, max_size=40), st.data())
def test_given_other_content_when_compared_then_its_spans_differ(
    some: list[int], data: st.DataObject
) -> None:
    changed = data.draw(st.sets(st.sampled_from(some)))
    here = counted("journal", [sorted(some)], 50)
    mixed = data.draw(st.permutations(some))
    content = Census("archive", LIMIT, 1, LAST, content=True)
    numbers = np.array(mixed, np.int64)
    hashes = numbers.view(np.uint64) * PRIME
    other = np.isin(numbers, list(changed))
    hashes[other] = ~hashes[other] * PRIME  # as if of other content
    there = content.count(NumberBlock(numbers, None, hashes))
    found = joined([*here, *counted("archive", [some], 50), *there], (1, LAST))
    wanted = sorted({number // SPAN * SPAN for number in changed})
    assert found.spans_shown == wanted[:LIMIT]
    assert found.spans == len(wanted)


def test_given_times_that_fall_when_counted_then_the_numbers_are_reported() -> None:
    census = Census("archive", LIMIT, 1, LAST)
    census.begin_file("a")
    partials = census.count(NumberBlock(np.array([1, 2, 3]), np.array([10, 9, 11])))
    partials += census.count(NumberBlock(np.array([4, 5]), np.array([10, 12])))
    census.begin_file("b")  # a file is not compared to the one before it
    partials += census.count(NumberBlock(np.array([6]), np.array([5])))
    tally = joined([*partials, census.notes()]).side("archive")
    told = [(fall.where, fall.number, fall.value, fall.before) for fall in tally.times.shown]
    assert told == [("a", 2, 9, 10), ("a", 4, 10, 11)]
    assert tally.times.count == 2
    assert tally.overlaps.count == 0


def test_given_files_whose_times_overlap_when_joined_then_the_later_stretch_is_reported() -> None:
    first = CountRows("archive", LIMIT, 1, LAST)([batch([1, 2], [50, 60])])
    second = CountRows("archive", LIMIT, 1, LAST)([batch([SPAN, SPAN + 1], [55, 70])])
    rows = [row for one in (*first, *second) for row in one.to_pylist()]
    overlaps = joined(rows).side("archive").overlaps
    assert [(fall.number, fall.value, fall.before) for fall in overlaps.shown] == [(SPAN, 55, 60)]


def test_given_rows_without_a_number_or_outside_when_counted_then_they_are_apart() -> None:
    made = list(CountRows("archive", LIMIT, 5, 8)([batch([None, 0, -3, 4, 5, 8, 9], [1] * 7)]))
    assert all(one.schema == PARTIAL for one in made)
    tally = joined([row for one in made for row in one.to_pylist()]).side("archive")
    assert (tally.without, tally.rows, tally.first, tally.last) == (3, 2, 5, 8)


def test_given_many_batches_when_gathered_then_no_row_is_lost() -> None:
    some = [batch(list(range(at, at + 70_000)), [0] * 70_000) for at in range(0, 2_100_000, 70_000)]
    sizes = [len(block.numbers) for block, nulls in blocks(some) if not nulls]
    assert sum(sizes) == 2_100_000
    assert sizes == [1_050_000, 1_050_000]


def batch(numbers: Sequence[int | None], times: Sequence[int]) -> pa.RecordBatch:
    """Rows as Spark hands them over."""
    columns = [pa.array(numbers, pa.int64()), pa.array(times, pa.timestamp("us", "UTC"))]
    return pa.RecordBatch.from_arrays(columns, names=["number", "time"])
