"""Many files as one stream: the order, duplicate numbers, the limits of a span."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_seriatim.jobs.archive.rows import open_archive
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog.files import Files
from pyspark_seriatim.jobs.replay.ordered import Ordered
from tests.support.depth import examples
from tests.support.parquet_folders import rows, write

files = st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=60).map(sorted), max_size=6)


@settings(max_examples=examples(60))
@given(files, st.integers(1, 300), st.integers(1, 300))
def test_given_any_files_when_read_then_each_number_comes_once_in_order(
    tmp_path_factory: pytest.TempPathFactory, some: list[list[int]], one: int, other: int
) -> None:
    root = tmp_path_factory.mktemp("archive")
    span = min(one, other), max(one, other)
    tables = {f"{at}.parquet": rows(numbers) for at, numbers in enumerate(some)}
    write(root, tables | {"x.parquet": rows([301])}, row_group=7)
    archive = open_archive(str(root))
    stream = Ordered(Files(str(root)), archive.within(*span), ("payload", "sequence"), span)
    stream._bytes = 300  # a few rows of each file at a time
    found = [row for batch in stream.batches() for row in batch.to_pylist()]
    every = [number for numbers in some for number in numbers if span[0] <= number <= span[1]]
    assert [row["sequence"] for row in found] == sorted(set(every))
    assert stream.doubled == len(every) - len(set(every))
    assert all(row["payload"] == b"payload %d" % row["sequence"] for row in found)


def test_given_files_one_after_the_other_when_read_then_one_is_open_at_a_time(
    tmp_path: Path,
) -> None:
    write(tmp_path, {f"{at}.parquet": rows(range(at * 10, at * 10 + 10)) for at in range(1, 20)})
    archive = open_archive(str(tmp_path))
    stream = Ordered(Files(str(tmp_path)), archive.parts, ("sequence",), (1, 1000))
    stream._bytes = 1  # one row at a time, so that a file stays open
    most = 0
    for _ in stream.batches():
        most = max(most, len(stream._open))
    assert most == 1


def test_given_a_file_out_of_order_when_read_then_the_error_names_file_and_number(
    tmp_path: Path,
) -> None:
    write(tmp_path, {"x.parquet": rows([1, 2, 9, 4])})
    archive = open_archive(str(tmp_path))
    stream = Ordered(Files(str(tmp_path)), archive.parts, ("sequence",), (1, 1000))
    with pytest.raises(JobError, match=r"x\.parquet: number 4 comes after 9"):
        list(stream.batches())
