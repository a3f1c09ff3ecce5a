"""The session of a job: the settings of others stay, the missing ones are added."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_seriatim.jobs.running.query_progress import follow
from pyspark_seriatim.jobs.running.spark_session import CHECKPOINTS, spark_session
from tests.support.processes import SeriatimServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUBMIT = Path(sys.executable).with_name("spark-submit")
ZONE = "spark.sql.session.timeZone"
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
JOB = f"""
from pyspark_seriatim.jobs.running.spark_session import spark_session
session = spark_session("a job", None, {{"spark.sql.shuffle.partitions": "7"}})
for name in ({ZONE!r}, {ROWS!r}, {MANAGER!r}, "spark.sql.shuffle.partitions"):
    print(session.conf.get(name))
"""
SUBMIT_S = 120.0


def test_given_what_spark_submit_was_told_then_a_job_leaves_it_and_adds_the_rest(
    tmp_path: Path,
) -> None:
    (tmp_path / "job.py").write_text(JOB)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_"))}
    done = subprocess.run(
        [
            *(str(SUBMIT), "--master", "local[1]", "--driver-memory", "512m"),
            *("--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
            *("--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=ERROR"),
            *("--conf", f"{ZONE}=Asia/Tokyo", str(tmp_path / "job.py")),
        ],
        env={**kept, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=SUBMIT_S,
    )
    assert done.stdout.split() == ["Asia/Tokyo", "65536", CHECKPOINTS, "7"], done.stderr[-2000:]


def test_given_a_session_that_has_begun_then_a_job_gets_it_with_what_it_asks_for(
    spark: "SparkSession",
) -> None:
    before = spark.conf.get(ROWS)
    try:
        assert spark_session("a job", None, {ROWS: "99"}) is spark
        assert spark.conf.get(ROWS) == "99"
    finally:
        spark.conf.set(ROWS, str(before))


def test_given_a_query_of_several_batches_when_followed_then_all_of_it_is_counted(
    spark: "SparkSession",
    broker: SeriatimServer,
    publish: Callable[..., None],
    tmp_path: Path,
) -> None:
    publish([b"%d" % n for n in range(1000)])
    query = (
        spark.readStream.format("seriatim")
        .option("servers", f"127.0.0.1:{broker.port}")
        .option("startingOffsets", "1")
        .option("maxOffsetsPerTrigger", 300)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    done = follow(query, "reading")
    assert (done.batches, done.rows, done.next) == (4, 1000, 1001)
    assert done.rate > 0
