"""Archives of all kinds, and their rows as Arrow."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from pyspark_seriatim.jobs.archive.rows import batches, open_archive, subject_pattern
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog import DataFile, FileLog
from pyspark_seriatim.jobs.filelog.files import Files
from sublist.subject import covers
from tests.support.parquet_folders import rows, write


def test_given_a_folder_when_opened_then_its_files_come_in_the_order_of_their_numbers(
    tmp_path: Path,
) -> None:
    files = {"b/2.parquet": rows(range(1, 5)), "a/1.parquet": rows(range(5, 9))}
    hidden = {"_old/3.parquet": rows([99]), "b/.4.parquet": rows([99]), "b/empty.parquet": rows([])}
    archive = open_archive(write(tmp_path, files | hidden))
    found = [(part.path, part.first, part.last, part.rows) for part in archive.parts]
    assert found == [("b/2.parquet", 1, 4, 4), ("a/1.parquet", 5, 8, 4)]
    assert (archive.kind, archive.first, archive.last, archive.rows) == ("parquet", 1, 8, 8)
    assert archive.columns == ("sequence", "subject", "payload", "timestamp", "size")


def test_given_one_file_without_statistics_when_opened_then_its_numbers_are_looked_up(
    tmp_path: Path,
) -> None:
    pq.write_table(rows([4, 9, 6]), tmp_path / "x.parquet", write_statistics=False)
    archive = open_archive(str(tmp_path / "x.parquet"))
    assert [(part.path, part.first, part.last) for part in archive.parts] == [("x.parquet", 4, 9)]


def test_given_a_file_log_when_opened_then_its_list_and_facts_count(tmp_path: Path) -> None:
    log = FileLog.open(str(tmp_path))
    change = log.begin_change("archive", 1)
    assert change is not None
    pq.write_table(rows(range(10, 20)), f"{change.directory}/a.parquet")
    file = DataFile("a.parquet", "messages", 10, 0, 10, 19, {})
    change.add(f"{change.directory}/a.parquet", file)
    for key, value in (("journal", "f00d"), ("subject", "orders.>"), ("covered", [[5, 25]])):
        change.fact(key, value)
    change.commit()
    write(tmp_path, {"not_in_the_list.parquet": rows([7])})
    archive = open_archive(str(tmp_path))
    assert (archive.kind, archive.journal, archive.subject) == ("seriatim", "f00d", "orders.>")
    assert (archive.first, archive.last, archive.rows) == (5, 25, 10)
    assert len(archive.parts) == 1
    assert archive.within(1, 9) == ()
    assert archive.within(19, 30) == archive.parts


def test_given_a_delta_table_when_opened_then_only_its_present_files_count(tmp_path: Path) -> None:
    root = str(tmp_path / "table")
    write_deltalake(root, rows([1, 2]))
    write_deltalake(root, rows([5, 6, 7]), mode="overwrite")
    archive = open_archive(root)
    assert (archive.kind, archive.first, archive.last, archive.rows) == ("delta", 5, 7, 3)


def test_given_nothing_or_other_files_when_opened_then_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="nothing is there"):
        open_archive(str(tmp_path / "no"))
    with pytest.raises(JobError, match="no Parquet file"):
        open_archive(str(tmp_path))
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    with pytest.raises(JobError, match=r"x.parquet has no column 'sequence'; it has \['a'\]"):
        open_archive(str(tmp_path))
    (tmp_path / "x.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(JobError, match=r"x\.parquet: "):
        open_archive(str(tmp_path))


def test_given_an_export_when_read_then_its_names_and_nanoseconds_are_understood(
    tmp_path: Path,
) -> None:
    table = pa.table(
        {
            "number": pa.array([1, 2]),
            "time": pa.array([1_700_000_000_123_456_789] * 2, pa.timestamp("ns", "UTC")),
            "subject": pa.array(["a", "b"]).dictionary_encode(),
            "headers": pa.array([b"", b"NATS/1.0"]),
            "payload": pa.array([b"x", b"yz"], pa.large_binary()),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    archive = open_archive(str(tmp_path))
    assert archive.columns == ("sequence", "subject", "payload", "timestamp", "size")
    columns = ("timestamp", "size", "subject", "payload")
    (batch,) = batches(Files(str(tmp_path)), "x.parquet", columns)
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [1_700_000_000_123_456] * 2
    assert batch.column("size").to_pylist() == [1, 2]
    assert batch.column("subject").to_pylist() == ["a", "b"]
    assert batch.schema.field("payload").type == pa.binary()


def test_given_spans_and_a_pattern_when_read_then_only_those_rows_come(tmp_path: Path) -> None:
    write(tmp_path, {"x.parquet": rows(range(1, 1001))}, row_group=100)
    spans = ((95, 105), (990, 2000))
    found = batches(Files(str(tmp_path)), "x.parquet", ("sequence",), spans, r"^orders\.eu$")
    numbers = [number for batch in found for number in batch.column(0).to_pylist()]
    assert numbers == [*range(95, 106, 2), *range(991, 1001, 2)]


def test_given_long_payloads_when_read_then_batches_stay_small(tmp_path: Path) -> None:
    write(tmp_path, {"x.parquet": rows(range(1, 65), payload=[b"x" * 100_000] * 64)})
    place = Files(str(tmp_path))
    sizes = [b.nbytes for b in batches(place, "x.parquet", ("payload",), batch_bytes=1 << 20)]
    assert len(sizes) > 5
    assert max(sizes) < 2 << 20


@pytest.mark.parametrize(
    ("subjects", "takes", "leaves"),
    [
        ("orders.*", ["orders.eu"], ["orders", "orders.eu.x", "xorders.eu"]),
        ("orders.>", ["orders.eu", "orders.eu.x"], ["orders", "orders."]),
        ("a.b, *.c", ["a.b", "x.c"], ["a.c.d", "axb"]),
        ("$x.+", ["$x.+"], ["$x.++"]),
    ],
)
def test_given_a_filter_when_made_a_pattern_then_it_takes_what_nats_takes(
    subjects: str, takes: list[str], leaves: list[str]
) -> None:
    pattern = subject_pattern(subjects)
    assert pattern is not None
    assert [one for one in takes + leaves if re.search(pattern, one)] == takes


def test_given_empty_tokens_when_made_a_pattern_then_no_wildcard_takes_them_as_at_the_broker() -> (
    None
):
    pattern = subject_pattern("a.>,*.x")
    assert pattern is not None
    for subject in ("a..x", "a.", ".x", "a.b."):
        assert not re.search(pattern, subject)
        assert not any(covers(one, subject.encode()) for one in (b"a.>", b"*.x"))


def test_given_all_subjects_or_none_when_made_a_pattern_then_it_is_none_or_refused() -> None:
    assert subject_pattern(">") is None
    assert subject_pattern("a,>") is None
    for wrong in ("", "a..b", ">.a", "a b", "a,"):
        with pytest.raises(JobError, match="--subject"):
            subject_pattern(wrong)


def test_given_an_iceberg_table_when_opened_then_its_newest_snapshot_counts(tmp_path: Path) -> None:
    location = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path)}
    catalog = SqlCatalog("test", **location)
    catalog.create_namespace("seriatim")
    some = rows([1, 2])
    table = catalog.create_table("seriatim.messages", schema=some.schema)
    table.append(some)
    table.overwrite(rows([5, 6]))
    table.append(rows([7]))
    archive = open_archive(table.location().removeprefix("file://"))
    assert (archive.kind, archive.first, archive.last, archive.rows) == ("iceberg", 5, 7, 3)
    found = batches(Files(archive.root), archive.parts[0].path, ("sequence", "payload"))
    assert [row["payload"] for batch in found for row in batch.to_pylist()] == [
        b"payload 5",
        b"payload 6",
    ]


def test_given_a_log_whose_first_file_is_gone_when_opened_then_its_list_says_the_columns(
    tmp_path: Path,
) -> None:
    log = FileLog.open(str(tmp_path))
    change = log.begin_change()
    assert change is not None
    change.fact("covered", [])
    change.fact("columns", ["sequence", "subject", "payload", "timestamp"])
    pq.write_table(rows([1, 2]), f"{change.directory}/a.parquet")
    change.add(f"{change.directory}/a.parquet", DataFile("a.parquet", "messages", 2, 0, 1, 2, {}))
    change.commit()
    Path(log.paths()[0]).unlink()
    archive = open_archive(str(tmp_path))
    assert archive.columns == ("sequence", "subject", "payload", "timestamp", "size")


def test_given_a_log_that_lists_no_messages_when_opened_then_it_is_no_archive(
    tmp_path: Path,
) -> None:
    write(tmp_path, {"date=2026-01-01/a.parquet": rows([1])})
    (tmp_path / "_seriatim").mkdir()
    with pytest.raises(JobError, match="its list, in _seriatim, has no messages"):
        open_archive(str(tmp_path))
    change = FileLog.open(str(tmp_path)).begin_change()
    assert change is not None
    change.fact("covered", [])
    change.commit()
    assert open_archive(str(tmp_path)).parts == ()
