"""`seriatim spark audit` with Spark, on archives that are right, and wrong in every way."""

import json
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pyspark_seriatim.jobs.audit.audit_job import audit
from pyspark_seriatim.jobs.audit.audit_report import AuditFinding, findings_of
from pyspark_seriatim.jobs.audit.auditing import Auditor, Difference, Verdict, look_at
from pyspark_seriatim.jobs.filelog import DataFile, FileLog
from pyspark_seriatim.jobs.running.command import run
from tests.support.archives import COLUMNS
from tests.support.archives import put as put_archive
from tests.support.archives import rows as archived_rows
from tests.support.parquet_folders import rows, write
from tests.support.processes import SeriatimServer
from tests.support.raw import HEADERS, RawClient

MANY = 3000
DELETED_S = 60.0
Publish = Callable[..., None]


@pytest.fixture
def url(broker: SeriatimServer) -> str:
    return f"127.0.0.1:{broker.port}"


def put(broker: SeriatimServer, count: int = MANY) -> None:
    """Messages of two subjects, every tenth with headers and a reply."""
    lines = []
    for at in range(1, count + 1):
        subject, payload = (b"orders.eu", b"orders.us")[at % 2], b"payload %d" % at
        if at % 10:
            lines.append(b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload))
            continue
        head = b"NATS/1.0\r\nb: %d\r\na: 1\r\na: 2\r\n\r\n" % at
        sizes = len(head), len(head) + len(payload)
        lines.append(b"HPUB %b answers %d %d\r\n%b%b\r\n" % (subject, *sizes, head, payload))
    with RawClient(broker.port) as client:
        client.send(HEADERS + b"".join(lines) + b"PING\r\n")
        assert client.until_pong() == []


def read(spark: SparkSession, url: str, **options: str) -> pa.Table:
    """The journal, as Spark reads it."""
    options |= {"servers": url, "includeHeaders": "true", "includeReply": "true"}
    return spark.read.format("seriatim").options(**options).load().orderBy("sequence").toArrow()


def changed(table: pa.Table, name: str, number: int, value: object) -> pa.Table:
    """The table with another value in one column of one number."""
    values = table.column(name).to_pylist()
    values[table.column("sequence").to_pylist().index(number)] = value
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(name), pa.array(values, table.field(name).type))


def examine(spark: SparkSession, server: str | None, root: str | None, **asked: Any) -> Verdict:
    return Auditor(spark, look_at(server, root), limit=5).examine(**asked)


def told(verdict: Verdict) -> dict[tuple[str, str], tuple[int, tuple[str, ...]]]:
    return {(one.side, one.fault): (one.count, one.shown) for one in findings_of(verdict)}


def test_given_an_archive_of_the_journal_when_audited_then_it_is_clean_and_status_is_0(
    spark: SparkSession,
    broker: SeriatimServer,
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(broker)
    table = read(spark, url)
    root = write(tmp_path, {"a.parquet": table.slice(0, 1100), "b.parquet": table.slice(1100)})
    assert run(audit, ["--server", url, "--archive", root, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["clean"] is True
    assert found["findings"] == []
    assert all("no checksum" in note for note in found["notes"])
    for side in ("archive", "journal"):
        assert found[side]["rows"] == found[side]["last"] == MANY
    columns = ["subject", "payload", "timestamp", "headers", "reply"]
    assert found["compared"] == {"from": 1, "to": MANY, "columns": columns}
    assert run(audit, ["--server", url, "--from", "7", "--to", "9"]) == 0
    printed = capsys.readouterr().out
    assert "journal     3        3      7     9     7   9" in printed
    assert "clean: gap-free, without doubles, in order" in printed


def test_given_a_wrong_archive_when_audited_then_every_fault_is_found_and_status_is_1(
    spark: SparkSession,
    broker: SeriatimServer,
    url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(broker)
    table = read(spark, url)
    wrong = changed(table, "payload", 17, b"payload 18")
    wrong = changed(wrong, "subject", 18, "orders.uk")
    wrong = changed(wrong, "headers", 20, [("b", ["20"]), ("a", ["1", "3"])])
    late = wrong.column("timestamp")[-1].as_py() + timedelta(seconds=1)
    wrong = changed(wrong, "timestamp", 1500, late)
    order = [*range(100), *range(103, 2000), *range(1990, MANY)]  # 101 to 103 miss, ten are double
    order[40], order[41] = order[41], order[40]
    first, extra = wrong.take(order), rows([MANY + 5])
    extra = extra.select(["sequence", "subject", "payload", "timestamp"])
    bare = [*table.slice(0, 1).drop(extra.column_names).column_names]
    for name in bare:
        extra = extra.append_column(table.field(name), pa.nulls(1, table.field(name).type))
    root = write(tmp_path, {"a.parquet": first, "b.parquet": extra.cast(table.schema)})
    verdict = examine(spark, url, root)
    found = told(verdict)
    missing = f"{MANY + 1:,} to {MANY + 4:,}"
    assert found.pop(("archive", "missing numbers")) == (7, ("101 to 103", missing))
    assert found.pop(("archive", "doubled numbers")) == (10, ("1,991 to 2,000",))
    count, shown = found.pop(("archive", "out of order"))
    assert (count, shown) == (2, ("41 after 42 in a.parquet", "1,991 after 2,000 in a.parquet"))
    count, shown = found.pop(("archive", "falling times"))
    assert (count, len(shown)) == (1, 1)
    assert shown[0].startswith("1,501: ")
    assert shown[0].endswith(" in a.parquet")
    assert found.pop(("both", "missing in the archive")) == (3, ("101 to 103",))
    assert found.pop(("both", "not in the journal")) == (1, (f"{MANY + 5:,}",))
    count, shown = found.pop(("both", "different content"))
    assert shown == ("17 (payload)", "18 (subject)", "20 (headers)", "1,500 (timestamp)")
    assert (count, found) == (4, {})
    assert verdict.differences[2] == Difference(20, ("headers",))
    assert run(audit, ["--server", url, "--archive", root, "--limit", "2"]) == 1
    printed = capsys.readouterr().out
    assert "not clean: 7 kinds of fault" in printed
    assert "missing in the archive" in printed


def test_given_files_that_cannot_be_read_when_audited_then_they_and_their_numbers_are_reported(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = write(tmp_path, {f"{at}.parquet": rows(range(at, at + 10)) for at in (1, 11, 21)})
    sides = look_at(None, root)
    (tmp_path / "11.parquet").unlink()
    (tmp_path / "21.parquet").write_bytes((tmp_path / "21.parquet").read_bytes()[:-30])
    found = told(Verdict(**_parts(spark, sides)))
    assert found.pop(("archive", "missing numbers")) == (20, ("11 to 30",))
    count, shown = found.pop(("archive", "unreadable files"))
    assert (count, found) == (2, {})
    assert f"{root}/11.parquet" in shown[0] + shown[1]


def _parts(spark: SparkSession, sides: Any) -> dict[str, Any]:
    verdict = Auditor(spark, sides).examine()
    return {name: getattr(verdict, name) for name in ("archive", "journal", "scope", "summary")}


def test_given_one_subject_when_audited_then_gaps_are_proved_by_the_journal_alone(
    spark: SparkSession, broker: SeriatimServer, url: str, tmp_path: Path
) -> None:
    put(broker)
    log = FileLog.open(str(tmp_path))
    change = log.begin_change("archive", 1)
    assert change is not None
    table = read(spark, url, subscribe="orders.us").filter(pa.compute.field("sequence") != 301)
    pq.write_table(table, f"{change.directory}/a.parquet")
    file = DataFile("a.parquet", "messages", len(table) + 1, 0, 1, MANY - 1, {})
    change.add(f"{change.directory}/a.parquet", file)
    journal = look_at(url, None).journal
    assert journal is not None
    facts = {"journal": journal.journal, "subject": "orders.us", "covered": [[1, MANY]]}
    for key, value in facts.items():
        change.fact(key, value)
    change.commit()
    root = str(tmp_path)
    alone = examine(spark, None, root)
    words = "1,499 rows in the files, 1,500 in the archive's list"
    assert findings_of(alone) == [AuditFinding("archive", "other count of rows", 1, (words,))]
    assert "a gap cannot be told from them without the journal" in alone.scope.notes[0]
    both = examine(spark, url, root, first=2, last=MANY)
    assert told(both) == {("both", "missing in the archive"): (1, ("301",))}
    assert all("no checksum of their pages" in note for note in both.scope.notes)
    other = log.begin_change("archive", 2)
    assert other is not None
    other.fact("journal", "0123456789abcdef")
    other.commit()
    (finding,) = findings_of(examine(spark, url, root, first=2))
    assert (finding.fault, finding.count) == ("other journal", 1)


def await_kept(url: str, most: int) -> None:
    """Wait until the broker has deleted all that it will."""
    until = time.monotonic() + DELETED_S
    while (journal := look_at(url, None).journal) is None or journal.bytes > most:
        assert time.monotonic() < until, "nothing was deleted"
        time.sleep(0.02)  # no event to await: it is asked for


def test_given_numbers_that_are_deleted_when_audited_then_only_what_is_asked_for_is_missing(
    spark: SparkSession, tmp_path: Path
) -> None:
    small = ["--retain_bytes", "512KiB", "--segment_bytes", "64KiB"]
    with SeriatimServer("netstring", arguments=small, store=tmp_path / "journal") as server:
        url = f"127.0.0.1:{server.port}"
        put(server, MANY)
        table = read(spark, url)
        root = write(tmp_path / "archive", {"a.parquet": table})
        before = look_at(url, None)
        for _ in range(4):
            put(server, MANY)
        await_kept(url, 512 << 10)
        assert findings_of(Auditor(spark, before).examine()) == [], "deleted while it looked"
        sides = look_at(url, root)
        assert sides.journal is not None
        first = sides.journal.first
        assert first > MANY
        assert findings_of(examine(spark, url, None)) == []
        asked = told(examine(spark, url, None, first=1))
        assert asked == {("journal", "missing numbers"): (first - 1, (f"1 to {first - 1:,}",))}
        both = examine(spark, url, root)
        assert findings_of(both) == []
        assert f"1 to {MANY:,} are no longer in the journal: not compared" in both.scope.notes


def test_given_any_page_with_a_byte_that_has_changed_when_audited_alone_then_it_is_found(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = FileLog.open(str(tmp_path))
    numbers = [*range(1, MANY + 1)]
    (file,) = put_archive(log, archived_rows(numbers, ["orders.eu"] * MANY))
    change = log.begin_change()
    assert change is not None
    change.fact("columns", COLUMNS)
    change.fact("covered", [[1, MANY]])
    change.commit()
    path, random = tmp_path / file.path, Random(3)
    whole = path.read_bytes()
    audited = ["--archive", str(tmp_path), "--json"]
    assert run(audit, audited) == 0
    clean = json.loads(capsys.readouterr().out)
    assert (clean["findings"], clean["notes"]) == ([], [])
    payload = pq.read_metadata(path).row_group(0).column(2)
    begin = payload.data_page_offset + 100  # behind the header of its first page
    for _ in range(8):
        where = random.randrange(begin, begin + payload.total_compressed_size - 200)
        flipped = bytearray(whole)
        flipped[where] ^= 1 << random.randrange(8)
        path.write_bytes(flipped)
        assert run(audit, audited) == 1, where
        (finding,) = json.loads(capsys.readouterr().out)["findings"]
        assert (finding["fault"], finding["count"]) == ("unreadable files", 1)
    assert run(audit, [*audited, "--no-payloads"]) == 0
    (note,) = json.loads(capsys.readouterr().out)["notes"]
    assert note.startswith("payloads were not read (--no-payloads)")
    path.write_bytes(whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:])
    assert run(audit, audited) == 1
    assert "its footer is not the one that was written" in capsys.readouterr().out
    assert run(audit, [*audited, "--no-payloads", "--server", "127.0.0.1:1"]) == 2


def test_given_files_without_checksums_when_audited_then_they_are_read_and_a_note_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    root = write(tmp_path, {"a.parquet": rows(range(1, 10))})
    verdict = examine(spark, None, root)
    assert findings_of(verdict) == []
    assert [note.partition(":")[0] for note in verdict.scope.notes] == [
        "1 of 1 files have no checksum of their pages",
        "1 of 1 files have no checksum of their footer",
    ]
