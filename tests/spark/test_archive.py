"""The archive by Spark: each message once, whatever is restarted, killed, lost or merged."""

import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.sql import DataFrame, SparkSession

from pyspark_seriatim.client import Client
from pyspark_seriatim.jobs.archive import archiving
from pyspark_seriatim.jobs.archive.archive_job import (
    ArchiveFormat,
    ArchiveOptions,
    archive,
    archived,
    summary,
)
from pyspark_seriatim.jobs.archive.archiving import ArchiveWriter
from pyspark_seriatim.jobs.archive.compaction import Compactor, in_tasks
from pyspark_seriatim.jobs.archive.coverage import Facts
from pyspark_seriatim.jobs.filelog.filelog import Change, FileLog
from pyspark_seriatim.options import Options
from tests.support.archives import COLUMNS, NEW_YEAR
from tests.support.processes import SeriatimServer
from tests.support.raw import QUIET, RawClient

Publish = Callable[..., None]
DELETED_S = 60.0


class Died(RuntimeError):
    """The driver ends here."""


@pytest.fixture
def run(
    spark: SparkSession, broker: SeriatimServer, tmp_path: Path
) -> Callable[..., ArchiveWriter]:
    """Archive what there is by now, and end."""

    def once(**more: Any) -> ArchiveWriter:
        server = f"127.0.0.1:{broker.port}"
        chosen = ArchiveOptions(**{"root": str(tmp_path / "archive"), "server": server} | more)
        info = Client.shared(Options.parse({"servers": server}, "stream")).info()
        return archived(spark, chosen, info)[0]

    return once


def payloads(first: int, count: int) -> list[bytes]:
    return [b"payload %d" % number for number in range(first, first + count)]


def numbers(paths: str | list[str]) -> list[int]:
    """The numbers in these files, or below this folder as a reader without the list sees it."""
    found = ds.dataset(paths, format="parquet", exclude_invalid_files=False)
    return sorted(found.to_table(["sequence"])["sequence"].to_pylist())


def test_given_a_stream_when_archived_in_batches_then_every_reader_has_it_once_and_in_order(
    spark: SparkSession, publish: Publish, run: Callable[..., ArchiveWriter], tmp_path: Path
) -> None:
    root = str(tmp_path / "archive")
    assert run().facts.covered == [], "nothing is in the stream"
    publish(payloads(1, 300), b"orders.eu")
    publish(payloads(301, 100), b"a=b%/{x}.y")
    work = run(max_offsets=150)
    assert work.facts.covered == [(1, 400)]
    assert work.facts.lost == []
    log = FileLog.open(root)
    assert numbers(log.paths("messages")) == numbers(root) == [*range(1, 401)]
    assert {(f.tags["token"], f.first, f.last) for f in log.files()} == {
        ("orders", 1, 150),
        ("orders", 151, 300),
        ("a=b%/{x}", 301, 400),
    }
    for file in log.files():
        one = ds.dataset(f"{root}/{file.path}").to_table()
        found = one["sequence"].to_pylist()
        assert found == [*range(file.first, file.last + 1)]
        assert one["payload"].to_pylist() == [b"payload %d" % number for number in found]
        assert one["headers"].to_pylist() == [[]] * len(found)
        assert one["reply"].null_count == len(found)
    table = spark.read.parquet(root)
    assert {row["token"]: row["n"] for row in counted(table)} == {"orders": 300, "a=b%/{x}": 100}
    assert table.schema["date"].dataType.typeName() == "date"
    # Again, with nothing new; then with more.
    assert run().totals.rows == 0
    publish(payloads(401, 50))
    again = run()
    assert (again.totals.rows, again.facts.covered) == (50, [(1, 450)])
    assert numbers(root) == [*range(1, 451)]
    assert "450 messages in 4 files" in summary(again, again_done())


def counted(table: DataFrame) -> list[Any]:
    return list(table.groupBy("token").count().withColumnRenamed("count", "n").collect())


def again_done() -> Any:
    from pyspark_seriatim.jobs.running.query_progress import Run

    return Run()


def test_given_checkpoints_that_go_back_when_archived_again_then_nothing_is_twice_or_missing(
    publish: Publish, run: Callable[..., ArchiveWriter], tmp_path: Path
) -> None:
    root, checkpoint = tmp_path / "archive", tmp_path / "checkpoint"
    publish(payloads(1, 90), b"a.x")
    run(checkpoint=str(checkpoint), max_offsets=40)
    version = FileLog.open(str(root)).version
    (checkpoint / "commits/2").unlink()  # the driver died between the batch and Spark's commit
    assert run(checkpoint=str(checkpoint)).totals.rows == 0
    assert FileLog.open(str(root)).version == version, "a batch that is there is not written"
    shutil.rmtree(checkpoint)  # lost: the archive itself knows where it ends
    publish(payloads(91, 30), b"b.x")
    assert run(checkpoint=str(checkpoint)).totals.rows == 30
    assert numbers(str(root)) == [*range(1, 121)]
    # Two batches go back, and come again as a single one with more in it.
    for number in ("offsets/0", "commits/0"):
        (checkpoint / number).unlink()
    publish(payloads(121, 5), b"b.x")
    run(checkpoint=str(checkpoint))
    assert numbers(str(root)) == [*range(1, 126)]
    # The archive is lost, and the checkpoint is not: that would leave a hole.
    shutil.rmtree(root)
    publish(payloads(126, 5), b"b.x")
    with pytest.raises(Exception, match="continues at number 1, but the checkpoint"):
        run(checkpoint=str(checkpoint))


def dying(step: str, patch: pytest.MonkeyPatch) -> None:
    """Let the driver die at a step of the next batch."""

    def die(*_: object, **__: object) -> None:
        raise Died(step)

    if step == "files written":
        patch.setattr(Change, "commit", die)
    elif step == "files moved":
        real = FileLog.create

        def create(log: FileLog, path: str, content: dict[str, Any]) -> bool:
            return real(log, path, content) if "changes" in path else bool(die())

        patch.setattr(FileLog, "create", create)
    elif step == "log committed":
        patch.setattr(archiving.ArchiveWriter, "reflect", die)
    else:
        real_reflect = archiving.ArchiveWriter.reflect
        calls: list[int] = []

        def reflect(self: ArchiveWriter) -> None:
            real_reflect(self)
            calls.append(1)
            if len(calls) > 1:  # the first is at the start
                die()

        patch.setattr(archiving.ArchiveWriter, "reflect", reflect)


@pytest.mark.parametrize(
    ("format", "steps"),
    [
        (ArchiveFormat.delta, ["files written", "files moved", "log committed", "table committed"]),
        (ArchiveFormat.iceberg, ["log committed"]),
    ],
)
def test_given_a_driver_that_dies_at_each_step_when_started_again_then_each_message_is_there_once(
    publish: Publish,
    run: Callable[..., ArchiveWriter],
    tmp_path: Path,
    format: ArchiveFormat,
    steps: list[str],
) -> None:
    root = str(tmp_path / "archive")
    total = 0
    for step in steps:
        publish(payloads(total + 1, 20), b"a.x")
        total += 20
        with pytest.MonkeyPatch.context() as patch:
            dying(step, patch)
            with pytest.raises(Exception, match=step):
                run(format=format)
    log = run(format=format).log
    assert log.files()[-1].last == total
    assert numbers(log.paths()) == numbers(root) == [*range(1, total + 1)]
    if format is ArchiveFormat.delta:
        table = DeltaTable(root)
        found = table.to_pyarrow_dataset().to_table()["sequence"].to_pylist()
        assert table.transaction_version("seriatim") == log.version
    else:
        catalog = load_catalog("seriatim", type="sql", uri=f"sqlite:///{root}/_seriatim/iceberg.db")
        found = catalog.load_table("seriatim.messages").scan().to_arrow()["sequence"].to_pylist()
    assert sorted(found) == [*range(1, total + 1)]
    assert list((tmp_path / "archive/_seriatim/changes").iterdir()) == []


@pytest.fixture
def framed(spark: SparkSession) -> Callable[[list[int]], DataFrame]:
    """A batch of the stream with these numbers."""

    def frame(found: list[int]) -> DataFrame:
        schema = "sequence long, subject string, payload binary, timestamp timestamp"
        if not found:
            return spark.createDataFrame([], schema)
        return (
            spark.range(min(found), max(found) + 1, numPartitions=2)
            .selectExpr(
                "id as sequence",
                "concat('t', id % 2, '.x') as subject",
                "cast(id as string) as payload",
                f"timestamp_micros({NEW_YEAR} + id) as timestamp",
            )
            .selectExpr("sequence", "subject", "cast(payload as binary)", "timestamp")
            .where(f"sequence in ({','.join(map(str, found))})")
        )

    return frame


def begun(root: Path, subject: str = ">", **more: Any) -> ArchiveWriter:
    """An archive that is given batches by hand, from number 1 on."""
    wanted = Facts("j1", subject, COLUMNS, ["date", "token"], 1, [], [])
    return ArchiveWriter(FileLog.open(str(root)), wanted, str(root / "none"), **more)


def test_given_batches_with_holes_when_added_then_what_is_lost_is_noted(
    framed: Callable[[list[int]], DataFrame], tmp_path: Path
) -> None:
    work = begun(tmp_path)
    work.add(framed([2, 3, 4, 7, 8, 9]), 1, 13)
    assert work.facts.covered == [(1, 12)]
    assert work.facts.lost == [(1, 1), (5, 6), (10, 12)]
    work.add(framed([]), 13, 15)
    assert work.facts.lost == [(1, 1), (5, 6), (10, 14)]
    # A batch that reaches back: what is covered is not taken again.
    work.add(framed([3, 4, 15, 16]), 3, 17)
    assert numbers(work.log.paths()) == [2, 3, 4, 7, 8, 9, 15, 16]
    filtered = begun(tmp_path / "filtered", "t0.>", first_kept=lambda: 4)
    filtered.add(framed([4, 8]), 1, 9)
    assert (filtered.facts.covered, filtered.facts.lost) == ([(1, 8)], [(1, 3)])
    quiet = begun(tmp_path / "quiet", "t0.>")
    quiet.add(framed([4, 8]), 1, 9)
    assert (quiet.facts.covered, quiet.facts.lost) == ([(1, 8)], [])


def await_kept(server: str, most: int) -> int:
    """Wait until the broker has deleted all that it will; the first number that is left."""
    client = Client.shared(Options.parse({"servers": server}, "stream"))
    until = time.monotonic() + DELETED_S
    while (info := client.info()).bytes > most:
        assert time.monotonic() < until, "nothing was deleted"
        time.sleep(0.02)  # no event to await: it is asked for
    return info.first


def test_given_numbers_that_the_broker_has_deleted_then_it_stops_or_they_are_noted(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(tmp_path / "archive")
    # 13 segments in all: with more than 16 that wait for a slow disk, the newest would grow.
    small = ["--segment_bytes", "128KiB", "--retain_bytes", "512KiB"]
    with SeriatimServer("netstring", arguments=small, store=tmp_path / "journal") as broker:
        options: dict[str, Any] = {"server": f"127.0.0.1:{broker.port}", "once": True}
        with RawClient(broker.port) as client:
            for _ in range(2):
                client.send(QUIET + b"PUB a.x 100\r\n%b\r\n" % (b"x" * 100) * 10 + b"PING\r\n")
                assert client.until_pong() == []
            assert archive(root, **options) == 0
            client.send(b"PUB a.x 100\r\n%b\r\n" % (b"x" * 100) * 10_000 + b"PING\r\n")
            assert client.until_pong() == []
        first = await_kept(options["server"], 512 << 10)
        assert first > 21, "the broker keeps the end only"
        capsys.readouterr()
        assert archive(root, **options) == 2
        assert re.search(r"21 to \d+ are lost", capsys.readouterr().err)
        assert FileLog.open(root).facts["covered"] == [[1, 20]], "and nothing was taken"
        assert archive(root, strict=False, **options) == 0
    facts = Facts.of(FileLog.open(root).facts)
    assert facts is not None
    assert (facts.covered, facts.lost[0][0]) == ([(1, 10_020)], 21)
    assert [file.first for file in FileLog.open(root).files()][1] == facts.lost[0][1] + 1 >= first
    assert f"lost: {facts.lost[0][1] - 20:,} numbers, 21 to" in capsys.readouterr().out


def test_given_small_files_when_compacted_by_tasks_then_rows_stay_and_old_readers_read_on(
    spark: SparkSession, framed: Callable[[list[int]], DataFrame], tmp_path: Path
) -> None:
    compactor = Compactor(in_tasks(spark), age=3600)
    work = begun(tmp_path, compactor=compactor)
    for first in (1, 11, 21):
        work.add(framed([*range(first, first + 10)]), first, first + 10)
    reader = spark.read.parquet(*FileLog.open(str(tmp_path)).paths("messages"))
    work.finish()
    assert [(f.first, f.last, f.rows) for f in work.log.files()] == [(1, 29, 15), (2, 30, 15)]
    assert numbers(work.log.paths()) == [*range(1, 31)]
    assert reader.count() == 30, "who has the old version reads on"
    compactor.age = 0
    work.finish()
    assert spark.read.parquet(str(tmp_path)).count() == 30, (
        "nothing is twice for readers without a list"
    )
    assert {row["date"] for row in spark.read.parquet(str(tmp_path)).collect()} == {
        date(2026, 1, 1)
    }


@pytest.fixture
def said(
    capsys: pytest.CaptureFixture[str], broker: SeriatimServer, tmp_path: Path
) -> Callable[..., str]:
    """The command's one line about what is wrong."""

    def line(**more: Any) -> str:
        options = {"server": f"127.0.0.1:{broker.port}", "once": True} | more
        assert archive(str(tmp_path / "archive"), **options) in (2, 64)
        err = capsys.readouterr().err
        assert err.startswith("seriatim: ")
        assert len(err.splitlines()) == 1, err
        return err

    return line


def test_given_what_does_not_belong_into_an_archive_then_one_line_says_why(
    spark: SparkSession,
    publish: Publish,
    said: Callable[..., str],
    broker: SeriatimServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish(payloads(1, 10), b"a.x")
    options: dict[str, Any] = {"server": f"127.0.0.1:{broker.port}", "once": True}
    assert archive(str(tmp_path / "archive"), headers=False, **options) == 0
    assert "10 messages in 1 files" in capsys.readouterr().out
    assert "has the columns sequence, subject, payload, timestamp, not" in said()
    assert "is an archive of the subject >, not of a.>" in said(subject="a.>", headers=False)
    assert "--small 2 is above --target 1" in said(small=2, target=1)
    assert "--vacuum soon: write seconds, or 15m" in said(vacuum="soon")
    with SeriatimServer("netstring", store=tmp_path / "other") as other:
        words = said(server=f"127.0.0.1:{other.port}", headers=False)
    assert "is an archive of the journal" in words
    assert "its numbers belong to other messages; archive it elsewhere" in words
    root = str(tmp_path / "elsewhere")
    assert archive(root, start="soon", **options) == 64
    assert "--start soon: write earliest, latest, or a number" in capsys.readouterr().err
    assert archive(root, start="6", **options) == 0
    assert Facts.of(FileLog.open(root).facts).covered == [(6, 10)]


def test_given_a_task_that_fails_for_good_then_the_archive_is_as_it_was(
    framed: Callable[[list[int]], DataFrame], tmp_path: Path
) -> None:
    work = begun(tmp_path)
    work.add(framed([1, 2]), 1, 3)
    broken = framed([3, 4]).selectExpr(
        "if(sequence = 4, 3, sequence) as sequence", "subject", "payload", "timestamp"
    )
    with pytest.raises(Exception, match="number 3 comes after 3"):
        work.add(broken.coalesce(1), 3, 5)
    assert FileLog.open(str(tmp_path)).files() == work.log.files()
    work.add(framed([3, 4]), 3, 5)
    assert numbers(work.log.paths()) == numbers(str(tmp_path)) == [1, 2, 3, 4]


@pytest.mark.usefixtures("spark")
def test_given_an_archive_that_goes_on_when_interrupted_then_it_ends_well_with_what_has_come(
    publish: Publish, broker: SeriatimServer, tmp_path: Path
) -> None:
    root, over = str(tmp_path / "archive"), threading.Event()
    sparks = signal.getsignal(signal.SIGINT)

    def interrupt() -> None:
        try:
            for last in (10, 20):
                publish(payloads(last - 9, 10))
                while not over.wait(0.05):
                    if FileLog.open(root).facts.get("covered") == [[1, last]]:
                        break
            while signal.getsignal(signal.SIGINT) is sparks:  # the query runs before it is heard
                if over.wait(0.05):
                    break
        finally:  # whatever was wrong: it would go on for ever
            if not over.is_set():
                os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        assert archive(root, server=f"127.0.0.1:{broker.port}", every=0.1) == 0
    finally:
        over.set()
        thread.join()
    assert numbers(FileLog.open(root).paths()) == [*range(1, 21)]
