"""How Spark finds the source: by itself, or registered; and what a failure leads to."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tests.support.processes import SeriatimServer

HERE = ROOT
RUN_S = 180.0
COUNT = 100
# Spark imports all packages of such names when it looks for sources.
DEADLY = """
import os, signal
if not os.path.exists(flag := os.environ["DIED"]):
    open(flag, "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""
READING = """
import os, sys
from pyspark_seriatim.jobs.running.spark_session import spark_session
conf = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
conf |= {"spark.driver.memory": "512m"}

def read(spark):
    return spark.read.format("seriatim").option("servers", sys.argv[1]).load().count()

first = spark_session("a job", "local[1]", conf)
print(read(first), os.path.exists(os.environ["DIED"]))
first.stop()
os.unlink(os.environ["DIED"])
from pyspark.sql import SparkSession
from pyspark_seriatim import DefaultSource
second = SparkSession.builder.master("local[1]").getOrCreate()
second.dataSource.register(DefaultSource)
print(read(second), os.path.exists(os.environ["DIED"]))
"""


def run(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_"))}
    local = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=kept | local | environment,
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )


@pytest.mark.slow  # two sessions, and a fault that Spark has at most once in many starts
def test_given_a_worker_that_is_killed_when_spark_looks_for_sources_then_the_next_one_works(
    broker: SeriatimServer, publish: Callable[..., None], tmp_path: Path
) -> None:
    publish([b"%d" % n for n in range(COUNT)])
    (tmp_path / "pyspark_deadly").mkdir()
    (tmp_path / "pyspark_deadly/__init__.py").write_text(DEADLY)
    done = run(
        READING,
        f"127.0.0.1:{broker.port}",
        PYTHONPATH=os.pathsep.join((str(tmp_path), str(HERE))),
        DIED=str(tmp_path / "died"),
    )
    assert done.stdout.splitlines() == [f"{COUNT} True"] * 2, done.stderr[-3000:]
