"""`seriatim spark replay` with Spark: once, in order, whatever dies in between."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pyspark_seriatim.jobs.archive.archive_job import archive as archive_job
from pyspark_seriatim.jobs.audit.audit_job import audit
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.replay.replay_job import replay
from pyspark_seriatim.jobs.replay.replay_options import Renaming, ReplayOptions, options_of
from pyspark_seriatim.jobs.replay.replaying import Replayed, ReplayRun
from pyspark_seriatim.jobs.running.command import run
from tests.support.parquet_folders import rows, write
from tests.support.processes import SeriatimServer

COUNT = 4000
HEADERS = [[("a", ["1", "2"])] if at % 3 == 0 else [] for at in range(COUNT)]
ReplayStep = Callable[[Replayed], None]


class Killed(BaseException):
    """The driver is gone: nothing of it runs any more."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three files that share the numbers 11 to 4010, and a fourth behind a gap."""
    table = rows(
        range(11, COUNT + 11),
        headers=HEADERS,
        reply=[f"answers.{at}" if at % 5 == 0 else None for at in range(COUNT)],
    )
    files = {f"{at}.parquet": table.take([*range(at, COUNT - 500, 3)]) for at in range(3)}
    last = table.slice(COUNT - 500)
    moved = pa.array([number + 90_000 for number in last.column(0).to_pylist()])
    files["late.parquet"] = last.set_column(0, "sequence", moved)
    return write(tmp_path_factory.mktemp("archive"), files)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that there are several of them."""
    monkeypatch.setattr("pyspark_seriatim.jobs.replay.replaying.CHUNK_ROWS", 700)


def wanted(archive: str, prefix: str = "") -> list[tuple[Any, ...]]:
    """Subject, payload, reply and headers, in the order of the numbers."""
    table = pa.parquet.read_table(archive, partitioning=None).sort_by("sequence")
    return [
        (prefix + one["subject"], one["payload"], one["reply"], one["headers"])
        for one in table.to_pylist()
    ]


def got(spark: SparkSession, port: int, first: int = 1) -> list[tuple[Any, ...]]:
    """The same of the broker's journal."""
    options = {"servers": f"127.0.0.1:{port}", "startingOffsets": str(first)}
    options |= {"includeHeaders": "true", "includeReply": "true"}
    table = spark.read.format("seriatim").options(**options).load().orderBy("sequence").toArrow()
    return [
        (one["subject"], one["payload"], one["reply"], one["headers"]) for one in table.to_pylist()
    ]


def options_for(archive: str, port: int, rate: float = 0.0, **more: Any) -> ReplayOptions:
    """All of the archive, to the broker at `port`."""
    asked: dict[str, Any] = {"first": None, "last": None, "subject": ">", "renaming": Renaming()}
    asked |= {"application": None, "origin": False} | more
    return options_of(archive, f"127.0.0.1:{port}", rate=rate, **asked)


class Dying(ReplayRun):
    """One that dies as a process does: it takes nothing back."""

    def _drop(self, steps: Any) -> None:
        pass


def after(rows: int, action: Callable[[], None]) -> ReplayStep:
    """Do something once, when so many rows are published."""
    waiting = [action]

    def came(done: Replayed) -> None:
        if done.rows >= rows and waiting:
            waiting.pop()()

    return came


def assert_once_or_told(replay: ReplayRun, *rows: int) -> None:
    """It publishes so many rows, or says that another one is at it."""
    end = end_of(replay)
    if isinstance(end, JobError):
        assert "another replay of 'replay files" in str(end)
    else:
        assert end.rows in rows


def end_of(replay: ReplayRun) -> Replayed | JobError:
    try:
        return replay.run()
    except JobError as error:
        return error


def kill() -> None:
    raise Killed


def test_given_an_archive_when_replayed_then_its_messages_come_in_order_with_what_they_had(
    spark: SparkSession, broker: SeriatimServer, archive: str, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"127.0.0.1:{broker.port}"
    assert run(replay, [archive, "--server", url]) == 0
    assert got(spark, broker.port) == wanted(archive)
    printed = capsys.readouterr().out
    assert printed.startswith("replayed 4,000 messages, up to number 94,010 of the archive, as ")
    assert "as numbers 1 to 4,000, in " in printed
    assert run(replay, [archive, "--server", url]) == 0
    out = capsys.readouterr().out
    assert out.startswith("nothing to replay: 'replay files ")
    assert "' reached number 94,010 before" in out
    some = ["--application", "again", "--from", "12", "--to", "15", "--prefix", "copy"]
    assert run(replay, [archive, "--server", url, *some, "--origin-headers"]) == 0
    (first, *_, last) = again = got(spark, broker.port, COUNT + 1)
    assert [one[0] for one in again] == [f"copy.orders.{side}" for side in ("us", "eu") * 2]
    assert first[3][-2:] == [
        ("Nats-Origin-Sequence", ["12"]),
        ("Nats-Origin-Time-Stamp", ["2023-11-14T22:13:20.000120Z"]),
    ]
    assert dict(last[3])["Nats-Origin-Sequence"] == ["15"]
    assert run(replay, [archive, "--server", url, "--subject", "orders.us", "--strip", "eu"]) == 2
    assert "--strip eu: orders.us does not begin with it" in capsys.readouterr().err


def test_given_odd_subjects_that_the_broker_numbered_when_archived_then_all_is_read_and_replayed(
    spark: SparkSession,
    broker: SeriatimServer,
    publish: Callable[..., None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    odd = ["a.*", ">", "$SEQ", "__HIVE_DEFAULT_PARTITION__.x", "\ufffd.x"]
    for subject in odd:
        publish([b"x"], subject.encode().replace(b"\xef\xbf\xbd", b"\xff"))
    root, url = str(tmp_path / "archive"), f"127.0.0.1:{broker.port}"
    assert run(archive_job, [root, "--once", "--server", url]) == 0
    table = spark.read.parquet(root).orderBy("sequence").toArrow()
    assert table["subject"].to_pylist() == odd
    heads = [subject.partition(".")[0] or None for subject in odd]
    assert table["token"].to_pylist() == heads
    assert run(audit, ["--archive", root, "--server", url]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "note: rows whose subject has U+FFFD: 1. Spark shows invalid UTF-8" in printed
    assert "equal to the journal, as Spark reads it, in subject, payload, timestamp, hea" in printed
    assert run(replay, [root, "--server", url]) == 0
    every = got(spark, broker.port)
    assert every[len(odd) :] == every[: len(odd)]


def test_given_rows_that_no_broker_takes_when_replayed_then_the_first_is_named_or_they_are_skipped(
    spark: SparkSession, broker: SeriatimServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subjects = ["a", "$SEQ.x", "a", "x" * 5000, "b", "a..b"]
    root = write(tmp_path / "odd", {"a.parquet": rows(range(11, 17), subject=subjects)})
    url = f"127.0.0.1:{broker.port}"
    assert run(replay, [root, "--server", url]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("seriatim: number 12: subject '$SEQ.x' cannot be published to")
    assert got(spark, broker.port) == []
    assert run(replay, [root, "--server", url, "--skip-unpublishable"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("replayed 3 messages, up to number 16 of the archive")
    assert "; 3 that cannot be published were skipped, the first: number 12: subject '$S" in out
    assert [one[1] for one in got(spark, broker.port)] == [b"payload %d" % n for n in (11, 13, 15)]


def test_given_a_replay_that_is_killed_when_started_again_then_it_goes_on_where_it_was(
    spark: SparkSession, broker: SeriatimServer, archive: str
) -> None:
    for upto, rate in ((300, 3000.0), (900, 30_000.0), (100, 500_000.0)):
        with pytest.raises(Killed):
            Dying(spark, options_for(archive, broker.port, rate)).run(after(upto, kill))
    done = ReplayRun(spark, options_for(archive, broker.port)).run()
    assert 0 < done.rows <= COUNT - 300 - 900 - 100
    assert got(spark, broker.port) == wanted(archive)


def test_given_a_broker_that_is_killed_when_it_is_back_then_nothing_is_lost_or_doubled(
    spark: SparkSession, broker: SeriatimServer, archive: str
) -> None:
    port = broker.port

    def again() -> None:
        broker.kill()
        broker.start(port)

    done = ReplayRun(spark, options_for(archive, port, 20_000.0)).run(after(1000, again))
    assert (done.rows, done.upto) == (COUNT, 94_010)
    assert got(spark, port) == wanted(archive)


def test_given_two_replays_of_one_name_when_both_run_then_each_message_is_there_once(
    spark: SparkSession, broker: SeriatimServer, archive: str
) -> None:
    some = [ReplayRun(spark, options_for(archive, broker.port, 40_000.0)) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        ends = [*pool.map(end_of, some)]
    errors = [str(end) for end in ends if isinstance(end, JobError)]
    assert all("another replay of 'replay files" in error for error in errors)
    ReplayRun(spark, options_for(archive, broker.port)).run()
    assert got(spark, broker.port) == wanted(archive)


def test_given_a_commit_under_way_when_a_replay_begins_then_it_waits_for_its_end(
    spark: SparkSession, broker: SeriatimServer, archive: str
) -> None:
    asked = options_for(archive, broker.port)
    dying = Dying(spark, asked)
    steps = dying._stage(((1, 2000),))
    commit = dying._publisher
    sent = threading.Event()

    def send() -> None:
        sent.set()
        dying._commit(steps[0], None, Replayed())

    thread = threading.Thread(target=send)
    thread.start()
    assert sent.wait(10)
    # It waits, or, where it was at the very beginning as well, it or the other is told so.
    assert_once_or_told(ReplayRun(spark, asked), COUNT, COUNT - steps[0].staged.rows)
    thread.join(60)
    commit.close()
    ReplayRun(spark, asked).run()
    assert got(spark, broker.port) == wanted(archive)


def test_given_an_archive_that_grows_when_replayed_again_then_only_what_is_new_comes(
    spark: SparkSession, broker: SeriatimServer, tmp_path: Path
) -> None:
    root = write(tmp_path, {"a.parquet": rows(range(1, 101))})
    assert ReplayRun(spark, options_for(root, broker.port)).run().rows == 100
    write(tmp_path, {"b.parquet": rows(range(101, 151))})
    done = ReplayRun(spark, options_for(root, broker.port)).run()
    assert (done.rows, done.first, done.last, done.upto) == (50, 101, 150, 150)
    write(tmp_path, {"c.parquet": rows(range(140, 161))})
    done = ReplayRun(spark, options_for(root, broker.port)).run()
    assert (done.rows, done.last) == (10, 160)
    numbers = [int(one[1].split()[1]) for one in got(spark, broker.port)]
    assert numbers == list(range(1, 161))
