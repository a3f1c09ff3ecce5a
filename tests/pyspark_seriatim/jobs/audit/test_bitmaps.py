"""Sets of numbers by bucket: packing is reversible, and takes no more space than stated."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_seriatim.jobs.audit.bitmaps import (
    BITMAP_BYTES,
    SIZE,
    Bucket,
    pack,
    ranges_of,
    split,
    true_ranges,
    unpack,
)

offsets = st.sets(st.integers(0, SIZE - 1), min_size=1, max_size=300).map(sorted)


@given(offsets)
def test_given_any_offsets_when_packed_then_they_come_out_again(wanted: list[int]) -> None:
    seen = unpack(pack(np.array(wanted, np.uint32)))
    assert np.flatnonzero(seen).tolist() == wanted


@pytest.mark.parametrize(
    ("wanted", "size"),
    [
        (np.arange(SIZE), 8),
        (np.arange(0, SIZE, 2), BITMAP_BYTES),
        (np.array([0, SIZE - 1]), 16),
        (np.arange(0, 200, 2), 800),
    ],
    ids=["whole bucket", "every second", "two far apart", "a hundred ranges"],
)
def test_given_a_set_when_packed_then_the_shorter_form_is_taken(
    wanted: "np.ndarray[tuple[int], np.dtype[np.int64]]", size: int
) -> None:
    packed = pack(wanted.astype(np.uint32))
    assert len(packed) == size
    assert np.array_equal(np.flatnonzero(unpack(packed)), wanted)


@given(st.lists(st.integers(0, 5 * SIZE), max_size=60).map(sorted))
def test_given_ascending_numbers_when_split_then_each_is_in_its_bucket(numbers: list[int]) -> None:
    found = []
    for bucket, begin, end in split(np.array(numbers, np.int64)):
        assert all(number >> 20 == bucket for number in numbers[begin:end])
        found += numbers[begin:end]
    assert found == numbers


def test_given_parts_of_a_bucket_when_joined_then_what_two_have_is_doubled() -> None:
    bucket = Bucket()
    for part in ([1, 2, 3], [7], [3, 4]):
        bucket.add(len(part), pack(np.array(part, np.uint32)), None)
    bucket.add(2, pack(np.array([9], np.uint32)), pack(np.array([9], np.uint32)))
    assert bucket.rows == 8
    assert np.flatnonzero(bucket.seen).tolist() == [1, 2, 3, 4, 7, 9]
    assert bucket.doubled is not None
    assert np.flatnonzero(bucket.doubled).tolist() == [3, 9]


@given(st.sets(st.integers(0, 40), min_size=1).map(sorted), st.integers(0, 1 << 50))
def test_given_numbers_when_made_ranges_then_both_ways_agree(some: list[int], base: int) -> None:
    truths = np.zeros(41, np.bool_)
    truths[some] = True
    firsts, lasts = ranges_of(np.array(some, np.int64) + base)
    again = true_ranges(truths, base)
    assert (firsts.tolist(), lasts.tolist()) == (again[0].tolist(), again[1].tolist())
