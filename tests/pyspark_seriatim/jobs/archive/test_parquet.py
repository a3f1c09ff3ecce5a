"""Rows into Parquet files: partitions, order, odd tokens, and what a task reports."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyspark_seriatim.jobs.archive import parquet
from pyspark_seriatim.jobs.archive.parquet import (
    Parts,
    WrittenFile,
    escaped,
    report,
    understood,
)
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog.files import Files
from tests.support.archives import DAY_US, NEW_YEAR, rows
from tests.support.depth import examples


def write(root: Path, *batches: pa.RecordBatch, by_token: bool = True) -> list[WrittenFile]:
    """All batches as one task, its files where they belong."""
    place = Files(str(root))
    place.make("staged")
    parts = Parts(place, "staged", by_token)
    for batch in batches:
        parts.write(batch)
    written = parts.close()
    for file in written:
        place.move(place.relative(file.path), file.target)
    place.delete_folder("staged")
    return written


def numbers_of(root: Path, file: WrittenFile) -> list[int]:
    found: list[int] = pq.read_table(root / file.target, columns=["sequence"])[
        "sequence"
    ].to_pylist()
    return found


def test_given_subjects_of_two_tokens_when_written_then_each_has_its_file_in_order(
    tmp_path: Path,
) -> None:
    written = write(tmp_path, rows([1, 2, 3], ["a.x", "b", "a.y"]), rows([4, 5], ["b.z", "a"]))
    assert {(f.date, f.token, f.rows, f.first, f.last) for f in written} == {
        ("2026-01-01", "a", 3, 1, 5),
        ("2026-01-01", "b", 2, 2, 4),
    }
    assert {f.token: numbers_of(tmp_path, f) for f in written} == {"a": [1, 3, 5], "b": [2, 4]}
    assert all("/" in f.target and f.target.startswith("date=2026-01-01/token=") for f in written)


def test_given_rows_around_midnight_when_written_then_the_date_is_that_of_utc(
    tmp_path: Path,
) -> None:
    moments = [NEW_YEAR - 1, NEW_YEAR, NEW_YEAR + DAY_US - 1, NEW_YEAR + DAY_US, -1]
    written = write(tmp_path, rows([1, 2, 3, 4, 5], ["a"] * 5, moments))
    assert {(f.date, f.first, f.last) for f in written} == {
        ("2025-12-31", 1, 1),
        ("2026-01-01", 2, 3),
        ("2026-01-02", 4, 4),
        ("1969-12-31", 5, 5),
    }


def test_given_partition_by_date_alone_when_written_then_there_is_one_folder(
    tmp_path: Path,
) -> None:
    (file,) = write(tmp_path, rows([1, 2], ["a", "b"]), by_token=False)
    assert file.token is None
    assert file.target.startswith("date=2026-01-01/0000")


ODD = [
    "a=b",
    "a/b",
    "100%",
    "ü",
    "{x}",
    "a b",
    "~",
    "a:b",
    "\x01",
    "'\"",
    "a\\b",
    "#?",
    "\ufffd",
]


@pytest.mark.parametrize("token", ODD)
def test_given_an_odd_token_when_written_then_readers_of_hive_folders_have_it_back(
    tmp_path: Path, token: str
) -> None:
    write(tmp_path, rows([1], [f"{token}.x"]))
    assert [path.parent.parent.parent for path in tmp_path.rglob("*.parquet")] == [tmp_path]
    kinds = pa.schema([("date", pa.string()), ("token", pa.string())])
    found = ds.dataset(tmp_path, partitioning=ds.partitioning(kinds, flavor="hive")).to_table()
    assert found["token"].to_pylist() == [token]


@pytest.mark.parametrize("subject", [".a", "..", ".a.b"])
def test_given_a_subject_whose_first_token_is_empty_when_written_then_readers_have_null_for_it(
    tmp_path: Path, subject: str
) -> None:
    (file,) = write(tmp_path, rows([1], [subject]))
    assert file.token == ""
    assert "token=/" not in file.target, "Spark reads no folder without a value"
    kinds = pa.schema([("date", pa.string()), ("token", pa.string())])
    found = ds.dataset(tmp_path, partitioning=ds.partitioning(kinds, flavor="hive")).to_table()
    assert found.select(["token", "subject"]).to_pylist() == [{"token": None, "subject": subject}]


def test_given_a_token_that_is_called_like_the_folder_of_the_empty_one_then_it_has_its_own(
    tmp_path: Path,
) -> None:
    one, other = write(tmp_path, rows([1, 2], [".a", f"{parquet.NO_TOKEN}.a"]))
    assert one.target.rpartition("/")[0] != other.target.rpartition("/")[0]
    assert [numbers_of(tmp_path, file) for file in (one, other)] == [[1], [2]]


def test_given_a_token_longer_than_a_name_when_escaped_then_it_is_cut_and_its_own() -> None:
    long, other = "/" * 100 + "a", "/" * 100 + "b"
    assert len(escaped(long).encode()) <= parquet.TOKEN_BYTES_MAX
    assert escaped(long) != escaped(other)
    assert escaped("x" * parquet.TOKEN_BYTES_MAX) == "x" * parquet.TOKEN_BYTES_MAX


@settings(max_examples=examples(50))
@given(
    subjects=st.lists(st.sampled_from(["a", "b.x", "c.y", "b"]), min_size=1, max_size=40),
    cuts=st.lists(st.integers(1, 39), max_size=4),
    seconds=st.lists(st.integers(0, 3 * 86_400), min_size=40, max_size=40),
)
def test_given_any_batches_when_written_then_every_row_is_in_its_partition_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    subjects: list[str],
    cuts: list[int],
    seconds: list[int],
) -> None:
    root = tmp_path_factory.mktemp("parts")
    times = [NEW_YEAR + s * 1_000_000 for s in seconds[: len(subjects)]]
    batch = rows(list(range(1, len(subjects) + 1)), subjects, times)
    edges = [0, *sorted({cut for cut in cuts if cut < len(subjects)}), len(subjects)]
    pieces = [batch.slice(a, b - a) for a, b in pairwise(edges)]
    written = write(root, *pieces)
    found: dict[tuple[str, str | None], list[int]] = {}
    for file in written:
        found[file.date, file.token] = numbers_of(root, file)
        assert (file.first, file.last) == (
            found[file.date, file.token][0],
            numbers_of(root, file)[-1],
        )
        assert file.rows == len(numbers_of(root, file))
    wanted: dict[tuple[str, str], list[int]] = {}
    for number, (subject, moment) in enumerate(zip(subjects, times, strict=True), 1):
        date = str(np.datetime64(moment, "us").astype("datetime64[D]"))
        wanted.setdefault((date, subject.split(".")[0]), []).append(number)
    assert found == wanted


def test_given_more_rows_than_are_buffered_when_written_then_row_groups_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "BUFFER_BYTES", 1500)
    batches = [rows([n, n + 1], ["a", "b"]) for n in range(1, 101, 2)]
    written = write(tmp_path, *batches)
    groups = [pq.ParquetFile(tmp_path / file.target).num_row_groups for file in written]
    assert sum(groups) > 2
    assert [numbers_of(tmp_path, f) for f in sorted(written, key=lambda f: f.first)] == [
        list(range(1, 101, 2)),
        list(range(2, 101, 2)),
    ]


def test_given_a_rare_token_when_its_rows_wait_then_the_batches_they_came_in_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "GROUP_BYTES", 1 << 20)
    place = Files(str(tmp_path))
    parts = Parts(place, "")
    blob = pa.array([b"x" * (1 << 20), b"y"], pa.binary())
    before = pa.total_allocated_bytes()
    for number in range(1, 129, 2):
        batch = rows([number, number + 1], ["often.x", "rare.x"])
        parts.write(batch.set_column(2, "payload", blob.take(pa.array([0, 1]))))
        del batch
        assert pa.total_allocated_bytes() - before < 16 << 20
    assert [file.rows for file in parts.close()] == [64, 64]


@pytest.mark.parametrize("numbers", [[1, 1], [2, 1], [5, 6, 4]])
def test_given_rows_out_of_order_when_written_then_the_error_says_which(
    tmp_path: Path, numbers: list[int]
) -> None:
    whole = rows(numbers, ["a"] * len(numbers))
    for pieces in ([whole], [whole.slice(n, 1) for n in range(len(numbers))]):
        with pytest.raises(JobError, match=f"number {numbers[-1]} comes after {numbers[-2]}"):
            write(tmp_path, *pieces)


def test_given_too_many_first_tokens_when_written_then_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "PARTITIONS_MAX", 2)
    with pytest.raises(JobError, match="more than 2 first tokens: partition by the date alone"):
        write(tmp_path, rows([1, 2, 3], ["a", "b", "c"]))


def test_given_tasks_with_holes_when_they_report_then_the_driver_has_files_and_runs(
    tmp_path: Path,
) -> None:
    place = Files(str(tmp_path))
    reports: list[dict[str, Any]] = []
    for numbers in ([7, 8, 12], [1, 2, 4], []):
        parts = Parts(place, "", True)
        if numbers:
            parts.write(rows(numbers, ["a"] * len(numbers)))
        reports += report(parts).to_pylist()
    written, runs = understood(reports)
    assert runs == [(1, 2), (4, 4), (7, 8), (12, 12)]
    assert sorted((file.first, file.last, file.rows) for file in written) == [(1, 4, 3), (7, 12, 3)]
    assert all(Path(file.path).exists() for file in written)
