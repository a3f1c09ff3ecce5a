"""An archive as an Iceberg table, read by pyiceberg: after each version, after a crash, merged."""

import sys
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyiceberg.utils.config import Config

from pyspark_seriatim.jobs.archive.compaction import Compactor
from pyspark_seriatim.jobs.archive.iceberg import TABLE, VERSION, IcebergMirror
from pyspark_seriatim.jobs.archive.parquet import NO_TOKEN
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog import FileLog
from tests.support.archives import COLUMNS, DAY_US, NEW_YEAR, put, rows

# pyiceberg leaves its connection to the catalog to the garbage collector.
pytestmark = pytest.mark.filterwarnings("default")


def table_of(root: Path) -> Table:
    uri = f"sqlite:///{root}/_seriatim/iceberg.db"
    return load_catalog("seriatim", type="sql", uri=uri).load_table(TABLE)


def seen(root: Path) -> list[int]:
    """The numbers that a reader of Iceberg has, sorted."""
    found: list[int] = table_of(root).scan().to_arrow()["sequence"].to_pylist()
    return sorted(found)


def test_given_versions_when_mirrored_then_iceberg_has_the_rows_and_the_days(
    tmp_path: Path,
) -> None:
    log = FileLog.open(str(tmp_path))
    mirror = IcebergMirror(log.root, COLUMNS)
    mirror.sync(log)
    put(log, rows([1, 2], ["a/b.x", "100%.y"], [NEW_YEAR, NEW_YEAR + DAY_US]))
    mirror.sync(log)
    put(log, rows([3], ["ü.x"]))
    mirror.sync(log)
    assert seen(tmp_path) == [1, 2, 3]
    table = table_of(tmp_path)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary.additional_properties[VERSION] == "2"
    days = table.scan("timestamp < '2026-01-02T00:00:00+00:00'")
    assert len(list(days.plan_files())) == 2, "the files of another day are not opened"


def test_given_a_crash_before_the_snapshot_when_mirrored_again_then_nothing_is_twice(
    tmp_path: Path,
) -> None:
    log = FileLog.open(str(tmp_path))
    put(log, rows([1], ["a"]))
    put(log, rows([2], ["a"]))
    for _ in range(2):
        IcebergMirror(log.root, COLUMNS).sync(FileLog.open(str(tmp_path)))
        assert seen(tmp_path) == [1, 2]
    assert len(table_of(tmp_path).snapshots()) == 1


def test_given_files_that_were_merged_when_mirrored_then_iceberg_has_the_new_ones_only(
    tmp_path: Path,
) -> None:
    log = FileLog.open(str(tmp_path))
    mirror = IcebergMirror(log.root, COLUMNS)
    for number in range(1, 5):
        put(log, rows([number], ["a=b.x"]))
        mirror.sync(log)
    Compactor(lambda merge, groups: [merge(group) for group in groups]).compact(log)
    mirror.sync(log)
    assert seen(tmp_path) == [1, 2, 3, 4]
    assert len(list(table_of(tmp_path).scan().plan_files())) == 1


def test_given_an_empty_first_token_when_mirrored_and_merged_then_nothing_is_lost(
    tmp_path: Path,
) -> None:
    log = FileLog.open(str(tmp_path))
    mirror = IcebergMirror(log.root, COLUMNS)
    for number in (1, 2):
        put(log, rows([number], [".x"]))
        mirror.sync(log)
    Compactor(lambda merge, groups: [merge(group) for group in groups]).compact(log)
    mirror.sync(log)
    assert seen(tmp_path) == [1, 2]
    found = {path.parent.name for path in tmp_path.glob("date=*/*/*.parquet")}
    assert found == {f"token={NO_TOKEN}"}


def test_given_the_catalog_of_another_archive_when_mirrored_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__SHARED__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__SHARED__URI", f"sqlite:///{tmp_path}/shared.db")
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    for _ in range(2):
        IcebergMirror(str(tmp_path / "one"), COLUMNS, "shared")
    with pytest.raises(
        JobError, match=r"--catalog shared: its table .* another archive, in .*/one"
    ):
        IcebergMirror(str(tmp_path / "two"), COLUMNS, "shared")


def test_given_no_pyiceberg_then_the_error_says_which_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(JobError, match="pip install 'pyiceberg"):
        IcebergMirror(str(tmp_path), COLUMNS)


def test_given_a_root_that_is_not_local_when_no_catalog_is_given_then_refused() -> None:
    with pytest.raises(JobError, match="s3://bucket/x is not local: give --catalog NAME"):
        IcebergMirror("s3://bucket/x", COLUMNS)
