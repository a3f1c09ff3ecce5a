"""An archive as a Delta table, read by delta-rs: after each version, after a crash, merged."""

import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from pyspark_seriatim.jobs.archive.compaction import Compactor
from pyspark_seriatim.jobs.archive.delta import APPLICATION, DeltaMirror
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog import FileLog
from tests.support.archives import COLUMNS, DAY_US, NEW_YEAR, put, rows

PARTITION = ["date", "token"]


def seen(root: Path) -> list[tuple[int, str, str | None]]:
    """What a reader of Delta has, sorted."""
    table = DeltaTable(root).to_pyarrow_dataset().to_table()
    found = table.select(["sequence", "date", "token"]).to_pylist()
    return sorted((row["sequence"], str(row["date"]), row["token"]) for row in found)


def test_given_versions_when_mirrored_then_delta_has_the_rows_with_their_partitions(
    tmp_path: Path,
) -> None:
    log = FileLog.open(str(tmp_path))
    mirror = DeltaMirror(log.root, COLUMNS, PARTITION)
    mirror.sync(log)
    assert seen(tmp_path) == []
    put(log, rows([1, 2], ["a/b.x", "100%.y"], [NEW_YEAR, NEW_YEAR + DAY_US]))
    mirror.sync(log)
    put(log, rows([3], ["ü.x"]))
    mirror.sync(log)
    assert seen(tmp_path) == [
        (1, "2026-01-01", "a/b"),
        (2, "2026-01-02", "100%"),
        (3, "2026-01-01", "ü"),
    ]
    assert DeltaTable(tmp_path).transaction_version(APPLICATION) == log.version == 2


def test_given_a_crash_before_the_delta_commit_when_mirrored_again_then_nothing_is_twice(
    tmp_path: Path,
) -> None:
    log = FileLog.open(str(tmp_path))
    DeltaMirror(log.root, COLUMNS, PARTITION).sync(log)
    put(log, rows([1], ["a"]))
    put(log, rows([2], ["a"]))  # two versions behind
    for _ in range(2):
        DeltaMirror(log.root, COLUMNS, PARTITION).sync(FileLog.open(str(tmp_path)))
        assert [row[0] for row in seen(tmp_path)] == [1, 2]
    assert DeltaTable(tmp_path).version() == 1


def test_given_files_that_were_merged_when_mirrored_then_delta_has_the_new_ones_only(
    tmp_path: Path,
) -> None:
    log = FileLog.open(str(tmp_path))
    mirror = DeltaMirror(log.root, COLUMNS, PARTITION)
    for number in range(1, 5):
        put(log, rows([number], ["a=b.x"]))
        mirror.sync(log)
    Compactor(lambda merge, groups: [merge(group) for group in groups]).compact(log)
    mirror.sync(log)
    assert [row[0] for row in seen(tmp_path)] == [1, 2, 3, 4]
    table = DeltaTable(tmp_path)
    assert len(table.file_uris()) == 1
    merged = table.get_add_actions()
    assert merged["num_records"].to_pylist() == [4]
    changes = (tmp_path / f"_delta_log/{table.version():020}.json").read_text()
    assert '"dataChange":true' not in changes, "who follows changes sees no row again"


def test_given_an_empty_first_token_when_mirrored_and_merged_then_it_is_null_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    log = FileLog.open(str(tmp_path))
    mirror = DeltaMirror(log.root, COLUMNS, PARTITION)
    for number in (1, 2):
        put(log, rows([number], [".x"]))
        mirror.sync(log)
    wanted = [(number, "2026-01-01", None) for number in (1, 2)]
    assert seen(tmp_path) == wanted
    Compactor(lambda merge, groups: [merge(group) for group in groups]).compact(log)
    mirror.sync(log)
    assert seen(tmp_path) == wanted
    assert len(DeltaTable(tmp_path).file_uris()) == len(log.files()) == 1


def test_given_no_delta_rs_then_the_error_says_which_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(JobError, match="pip install 'deltalake"):
        DeltaMirror(str(tmp_path), COLUMNS, PARTITION)
