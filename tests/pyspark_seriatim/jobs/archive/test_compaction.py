"""Merging small files: which ones, their contents, and readers meanwhile."""

import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_seriatim.jobs.archive.archiving import ArchiveWriter
from pyspark_seriatim.jobs.archive.compaction import Compactor, Merge, plan
from pyspark_seriatim.jobs.archive.coverage import Facts
from pyspark_seriatim.jobs.archive.parquet import WrittenFile
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog import DataFile, FileLog
from tests.support.archives import COLUMNS, put, rows
from tests.support.places import ROOT

HERE = ROOT
# Dies when the merged files are at their places, and no version lists them yet.
KILLED = """
import os, signal, sys
from pyspark_seriatim.jobs.archive.compaction import Compactor
from pyspark_seriatim.jobs.filelog.filelog import Change, FileLog
from tests.pyspark_seriatim.jobs.archive.test_compaction import here

move = Change._move
Change._move = lambda self: move(self) and os.kill(os.getpid(), signal.SIGKILL)
Compactor(here).compact(FileLog.open(sys.argv[1]))
"""


def here(merge: Merge, groups: list[list[DataFile]]) -> list[WrittenFile]:
    """Without Spark: one after the other."""
    return [merge(group) for group in groups]


def numbers(log: FileLog) -> list[int]:
    """All rows of an archive, as the list gives them."""
    found = []
    for path in log.paths("messages"):
        found.append(ds.dataset(path).to_table(["sequence"])["sequence"].to_pylist())
    assert all(one == sorted(one) for one in found)
    return sorted(number for one in found for number in one)


def filled(root: Path, count: int) -> FileLog:
    """An archive of so many versions with two rows of two tokens each."""
    log = FileLog.open(str(root))
    for first in range(1, 4 * count, 4):
        put(log, rows([*range(first, first + 4)], ["a.x", "b.x", "a.y", "b"]))
    return log


@given(
    sizes=st.lists(st.integers(1, 200), max_size=12),
    small=st.integers(1, 100),
    target=st.integers(100, 300),
)
def test_given_any_files_when_planned_then_neighbours_are_merged_and_nothing_else(
    sizes: list[int], small: int, target: int
) -> None:
    files = [DataFile(f"p={n % 2}/{n}", "t", 1, size, n + 1, n + 1) for n, size in enumerate(sizes)]
    groups = plan(files, small, target)
    for group in groups:
        assert len(group) > 1
        assert all(file.bytes < small for file in group)
        assert sum(file.bytes for file in group) <= target
        assert all(b.first - a.first == 2 for a, b in pairwise(group)), "neighbours of a partition"
    done = {file.path for group in groups for file in group}
    for parity in (0, 1):
        left = [file for file in files[parity::2]]
        for one, other in pairwise(left):
            alone = one.path not in done and other.path not in done
            assert (
                not alone
                or max(one.bytes, other.bytes) >= small
                or (one.bytes + other.bytes > target)
            ), "what could be merged is"


def test_given_small_files_when_compacted_then_each_partition_has_one_with_the_same_rows(
    tmp_path: Path,
) -> None:
    log = filled(tmp_path, 5)
    before, version = numbers(log), log.version
    compactor = Compactor(here)
    compactor.compact(log)
    assert log.version == version + 1
    assert [(f.tags["token"], f.first, f.last, f.rows) for f in log.files()] == [
        ("a", 1, 19, 10),
        ("b", 2, 20, 10),
    ]
    assert numbers(log) == before == [*range(1, 21)]
    assert (compactor.merged, compactor.made) == (10, 2)
    compactor.compact(log)
    assert log.version == version + 1, "nothing is left to merge"


def test_given_a_reader_of_the_old_version_when_compacted_then_it_reads_on_until_the_vacuum(
    tmp_path: Path,
) -> None:
    log = filled(tmp_path, 3)
    reader = FileLog.open(str(tmp_path))
    compactor = Compactor(here, age=3600)
    compactor.compact(log)
    compactor.vacuum(log)
    assert numbers(reader) == numbers(FileLog.open(str(tmp_path))) == [*range(1, 13)]
    compactor.age = 0
    compactor.vacuum(log)
    assert len(list(tmp_path.rglob("*.parquet"))) == 2
    with pytest.raises(FileNotFoundError):
        numbers(reader)
    reader.refresh()
    assert numbers(reader) == [*range(1, 13)]


def test_given_a_target_when_compacted_then_files_grow_to_it_and_no_further(tmp_path: Path) -> None:
    log = filled(tmp_path, 6)
    size = max(file.bytes for file in log.files())
    Compactor(here, small=size + 1, target=2 * size + 1).compact(log)
    assert [file.rows for file in log.files()] == [4] * 6
    assert numbers(log) == [*range(1, 25)]


def test_given_batches_when_so_many_have_come_then_it_is_due() -> None:
    compactor = Compactor(here, every=3)
    assert [compactor.due() for _ in range(6)] == [False, False, True, False, False, True]


def test_given_a_merge_that_fails_then_the_archive_is_as_it_was(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    Path(log.paths()[0]).write_bytes(b"no parquet")
    before = log.files()
    with pytest.raises(JobError, match="its footer is not the one that was written"):
        Compactor(here).compact(log)
    assert FileLog.open(str(tmp_path)).files() == before
    assert FileLog.open(str(tmp_path)).begin_change() is not None


@pytest.mark.parametrize("compacting", [False, True])
def test_given_a_job_that_is_killed_before_it_lists_merged_files_when_begun_again_then_they_go(
    compacting: bool, tmp_path: Path
) -> None:
    def archive() -> ArchiveWriter:
        wanted = Facts("j", ">", COLUMNS, ["date", "token"], 1, [], [])
        log, compactor = FileLog.open(str(tmp_path)), Compactor(here) if compacting else None
        return ArchiveWriter(log, wanted, str(tmp_path / "checkpoint"), compactor=compactor)

    archive()
    filled(tmp_path, 3)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=HERE, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.rglob("date=*/*/*.parquet"))) == 8, "with the rows of six others"
    begun = archive()
    begun.repair()
    log = begun.log
    plain = [str(path) for path in tmp_path.rglob("date=*/*/*.parquet")]
    assert sorted(plain) == sorted(log.paths("messages"))
    assert numbers(log) == [*range(1, 13)]
