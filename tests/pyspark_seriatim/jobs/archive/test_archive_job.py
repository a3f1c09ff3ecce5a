"""The archive's command line, as far as Spark is not needed."""

from pathlib import Path

import pyarrow.dataset as ds
import pytest

from pyspark_seriatim.client import JournalInfo
from pyspark_seriatim.jobs.archive.archive_job import (
    ArchiveOptions,
    beginning,
    check,
    seconds,
    source_options,
    summary,
)
from pyspark_seriatim.jobs.archive.archiving import MARKER, ArchiveWriter, facts_of
from pyspark_seriatim.jobs.archive.compaction import Compactor
from pyspark_seriatim.jobs.archive.coverage import Facts
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog import FileLog
from pyspark_seriatim.jobs.running.query_progress import Run
from pyspark_seriatim.options import Options
from tests.support.archives import COLUMNS, put, rows

INFO = JournalInfo(
    journal="j1",
    epoch=1,
    first=5,
    last=90,
    messages=86,
    bytes=1000,
    oldest=0,
    newest=0,
    store="disk",
    max_payload=1 << 20,
    trims=False,
)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("0", 0), ("90", 90), ("2s", 2), ("15m", 900), ("24h", 86400), ("7d", 604800)],
)
def test_given_an_age_when_read_then_it_is_in_seconds(text: str, wanted: int) -> None:
    assert seconds(text) == wanted


@pytest.mark.parametrize("text", ["", "h", "-1", "1.5h", "1w", "1 h"])
def test_given_input_that_is_no_age_when_read_then_refused(text: str) -> None:
    with pytest.raises(JobError, match="write seconds, or 15m, 24h, 7d"):
        seconds(text)


@pytest.mark.parametrize(
    ("text", "number"), [("earliest", 5), ("latest", 91), ("7", 7), ("95", 95)]
)
def test_given_a_start_when_resolved_then_it_is_a_number(text: str, number: int) -> None:
    assert beginning(text, INFO) == number


@pytest.mark.parametrize("text", ["", "0", "-1", "first", "\u0661"])
def test_given_input_that_is_no_start_when_resolved_then_refused(text: str) -> None:
    with pytest.raises(JobError, match="write earliest, latest, or a number from 1 on"):
        beginning(text, INFO)


def test_given_options_of_an_archive_then_the_source_takes_them() -> None:
    chosen = ArchiveOptions(root="/x", server="h:1", subject="a.>,b", strict=False, headers=False)
    options = Options.parse(source_options(chosen, 7), "stream")
    assert options.subscribe == ("a.>", "b")
    assert (options.fail_on_data_loss, options.include_headers) == (False, False)


def test_given_a_new_archive_when_it_is_begun_then_it_says_of_what_before_a_row_is_there(
    tmp_path: Path,
) -> None:
    wanted = Facts("j1", ">", COLUMNS, ["date", "token"], 7, [], [])
    work = ArchiveWriter(FileLog.open(str(tmp_path)), wanted, str(tmp_path / "checkpoint"))
    assert work.begin == 7
    later = Facts("j1", ">", COLUMNS, ["date", "token"], 99, [], [])
    again = ArchiveWriter(FileLog.open(str(tmp_path)), later, str(tmp_path / "checkpoint"))
    assert (again.begin, again.facts.start) == (7, 7), "where it begins is settled once"
    with pytest.raises(JobError, match="is an archive of the journal j1"):
        ArchiveWriter(
            FileLog.open(str(tmp_path)),
            Facts("j2", ">", COLUMNS, ["date", "token"], 1, [], []),
            str(tmp_path / "checkpoint"),
        )


def test_given_an_archive_when_summed_up_then_numbers_rows_and_losses_are_reported(
    tmp_path: Path,
) -> None:
    log = FileLog.open(str(tmp_path))
    put(log, rows([1, 2, 5], ["a", "b", "a"]))
    change = log.begin_change()
    assert change is not None
    covered = Facts("j1", ">", COLUMNS, ["date", "token"], 1, [(1, 1500)], [(3, 4), (6, 1500)])
    for key, value in covered.noted().items():
        change.fact(key, value)
    change.commit()
    told = summary(
        ArchiveWriter(log, covered, str(tmp_path / "checkpoint")), Run(rows=3, seconds=1.5)
    )
    assert "0 messages in 0 files, 0 bytes, 0 batches, 2 messages/s" in told
    assert f"{tmp_path}: numbers 1 to 1,500; 3 messages in 2 files" in told
    assert "lost: 1,497 numbers, 3 to 4, 6 to 1,500" in told


def test_given_merged_files_when_they_are_deleted_then_no_list_has_them_any_more(
    tmp_path: Path,
) -> None:
    log = FileLog.open(str(tmp_path))
    wanted = Facts("j1", ">", COLUMNS, ["date", "token"], 1, [], [])
    compactor = Compactor(lambda merge, groups: [merge(group) for group in groups])
    work = ArchiveWriter(log, wanted, str(tmp_path / "checkpoint"), compactor=compactor)
    put(log, rows([1, 2], ["a", "b"]))
    put(log, rows([3, 4], ["a", "b"]))
    lists: list[set[str]] = []

    class Listed:
        def sync(self, log: FileLog) -> None:
            lists.append(set(log.paths()))
            gone = [path for path in lists[-2] if not Path(path).exists()] if lists[1:] else []
            assert not gone, "a reader of the list before could still read it"

    work.mirror = Listed()
    work.reflect()
    work.finish()
    assert [len(files) for files in lists] == [4, 2]
    assert {str(path) for path in tmp_path.rglob("*.parquet")} == lists[-1]


def test_given_the_log_of_something_else_when_archived_into_then_its_place_is_named(
    tmp_path: Path,
) -> None:
    change = FileLog.open(str(tmp_path)).begin_change()
    assert change is not None
    change.fact("cardinal", {})
    change.commit()
    with pytest.raises(JobError, match=f"{tmp_path}: the log does not belong to an archive"):
        facts_of(FileLog.open(str(tmp_path)))


def test_given_a_start_that_is_not_reached_when_checked_then_it_is_refused_for_a_new_archive(
    tmp_path: Path,
) -> None:
    chosen = ArchiveOptions(root=str(tmp_path), start="92")
    with pytest.raises(JobError, match="--start 92: the last number of the journal is 90"):
        check(chosen, INFO)
    check(ArchiveOptions(root=str(tmp_path), start="91"), INFO)
    known = Facts("j1", ">", chosen.columns, ["date", "token"], 7, [], [])
    ArchiveWriter(FileLog.open(str(tmp_path)), known, str(tmp_path / "checkpoint"))
    check(chosen, INFO)
    with pytest.raises(JobError, match=f"{tmp_path} is an archive of the subject >, not of a"):
        check(ArchiveOptions(root=str(tmp_path), subject="a"), INFO)


def test_given_a_job_that_died_between_merging_and_deleting_when_begun_again_then_it_deletes(
    tmp_path: Path,
) -> None:
    root = tmp_path / "archive"
    wanted = Facts("j1", ">", COLUMNS, ["date", "token"], 1, [], [])
    log = FileLog.open(str(root))
    work = ArchiveWriter(log, wanted, str(tmp_path / "checkpoint"))
    for first in (1, 3, 5):
        put(log, rows([first, first + 1], ["a", "a"]))
    compactor = Compactor(lambda merge, groups: [merge(group) for group in groups])
    work.compactor = compactor
    compactor.compact(log)  # and here it dies

    def in_folder() -> list[int]:
        found: list[int] = ds.dataset(root, format="parquet").to_table()["sequence"].to_pylist()
        return sorted(found)

    assert in_folder() == sorted([*range(1, 7)] * 2)
    assert "3 merged files are still there" in summary(work, Run())
    assert "Do not read this folder as plain Parquet" in (root / MARKER).read_text()
    again = ArchiveWriter(FileLog.open(str(root)), wanted, str(tmp_path / "checkpoint"))
    again.compactor = compactor
    again.repair()
    assert in_folder() == [*range(1, 7)], "before a row is read, and without the marker"
    assert "still there" not in summary(again, Run())
