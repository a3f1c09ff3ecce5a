"""Spark with a broker that has TLS and users: the jobs' options, and the rights that they need."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pyspark_seriatim.jobs.archive.archive_job import archive
from pyspark_seriatim.jobs.audit.audit_job import audit
from pyspark_seriatim.jobs.filelog.filelog import FileLog
from pyspark_seriatim.jobs.replay.replay_job import replay
from pyspark_seriatim.jobs.running.command import run
from pyspark_seriatim.jobs.stats.stats_job import stats
from tests.seriatim.cli.command import seriatim
from tests.support.processes import SeriatimServer
from tests.support.secured import make_certificates
from tests.support.twin_users import TwinUsers

READ = ["$SEQ.INFO", "$SEQ.READ"]
STAGE = [f"$SEQ.{word}" for word in ("INFO", "STAGE", "COMMIT", "ABORT", "BATCH")]
# What docs/spark.md says is needed, and nothing more.
USERS: list[dict[str, Any]] = [
    {"user": "ops", "password": "ops"},
    {
        "user": "reader",
        "password": "reader",
        "permissions": {
            "publish": READ,
            "subscribe": {"allow": [">"], "deny": ["secret.>"]},
        },
    },
    {
        "user": "writer",
        "password": "writer",
        "permissions": {"publish": [*STAGE, "copy.>"], "subscribe": "_MINE.>"},
    },
]


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[tuple[SeriatimServer, Path]]:
    """A broker with TLS, and the folder of its certificate."""
    folder = make_certificates(tmp_path)
    config = TwinUsers({"users": USERS}).ours(
        tmp_path, "--tlscert", f"{folder}/server.pem", "--tlskey", f"{folder}/server.key"
    )
    with config as broker:
        yield broker, folder


def access(name: str, folder: Path) -> list[str]:
    password = folder / f"{name}.password"
    password.write_text(f"{name}\n")
    trust = ["--tlscacert", f"{folder}/server.pem"]
    return ["--user", name, "--password", f"file:{password}", *trust]


Job = Callable[..., int]


def test_given_tls_and_users_with_just_the_rights_when_jobs_run_then_each_does_its_work(
    spark: SparkSession,
    secured: tuple[SeriatimServer, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, folder = secured
    url, root = f"tls://localhost:{broker.port}", str(tmp_path / "archive")
    monkeypatch.setenv("SERIATIM_URL", url)

    def job(function: Job, *arguments: str, user: str = "reader") -> tuple[int, str]:
        status = run(function, [*arguments, *access(user, folder)])
        said = capsys.readouterr()
        return status, said.out + said.err

    for subject in ("orders.eu", "secret.x", "orders.us"):  # one is denied to the reader
        done = seriatim("pub", subject, "x", "--count", "10", "-s", url, *access("ops", folder))
        assert (done.returncode, done.stderr) == (0, b"")

    assert run(archive, [root, "--once"]) == 2
    assert "certificate" in capsys.readouterr().err
    status, said = job(archive, root, "--once")
    assert status == 0, said
    facts = FileLog.open(root).facts
    assert (facts["covered"], facts["lost"], facts["restricted"]) == ([[1, 30]], [], True)
    assert "20 messages" in said
    assert "lost" not in said

    status, said = job(audit, "--archive", root, "--server", url, "--json")
    assert status == 0, said
    assert json.loads(said)["clean"]
    status, said = job(audit, "--archive", root, "--json")
    assert status == 0, said
    found = json.loads(said)
    assert found["clean"]
    assert any("only what this user may read" in note for note in found["notes"])
    status, said = job(stats, "--json")  # its broker is that of the environment
    assert status == 0, said
    assert json.loads(said)["all"]["messages"] == 20

    # As somebody who may read everything, the archive would not be what it says it is.
    status, said = job(archive, root, "--once", user="ops")
    assert status == 2
    assert "begun by a user who may not read all subjects" in said

    status, said = job(replay, root, "--prefix", "copy", "--inbox-prefix", "_MINE", user="writer")
    assert status == 0, said
    assert "replayed 20 messages" in said
    status, said = job(replay, root, "--prefix", "other", "--inbox-prefix", "_MINE", user="writer")
    assert status == 2
    assert "other.orders" in said


def test_given_wrong_options_of_a_stream_when_loaded_or_begun_then_the_error_says_which(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = spark.readStream.format("seriatim").option("servers", "127.0.0.1:1")
    with pytest.raises(Exception, match='fetchBytes: "1zb" is not bytes, or a size'):
        stream.option("fetchBytes", "1zb").load()
    ending = (
        spark.readStream.format("seriatim")
        .option("servers", "127.0.0.1:1")
        .option("endingOffsets", "7")
        .load()
    )
    query = ending.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(Exception, match="endingOffsets: a stream has no end"):
        query.awaitTermination(60)
