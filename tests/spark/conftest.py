"""One Spark session for all tests of a run, and brokers to read from and write to."""

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from pyspark_seriatim.jobs.running.spark_session import spark_session
from tests.support.processes import SeriatimServer
from tests.support.raw import QUIET, RawClient

# A JVM that compiles less is up sooner; tasks may be tried three times, so that one may fail.
CONF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "768m",
    "spark.python.daemon.module": "tests.spark.preloaded_daemon",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
# Spark puts its zip before all else on the path, and each worker would compile PySpark from there.
# That takes a second of the ten in which a stream's worker must have called back.
WORKER = """#!/bin/sh
PYTHONPATH="${{PYTHONPATH#*/py4j-*-src.zip:}}" exec "{python}" "$@"
"""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:  # type: ignore[name-defined]  # noqa: F821
    """The session; what a test changes in its `conf` it changes back."""
    worker = tmp_path_factory.mktemp("worker") / "python"
    worker.write_text(WORKER.format(python=sys.executable))
    worker.chmod(0o755)
    os.environ["PYSPARK_PYTHON"] = str(worker)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = spark_session("tests", "local[2,3]", CONF)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SeriatimServer]:
    """A broker with a journal of its own; `restart()` and `kill()` leave the journal."""
    with SeriatimServer("netstring", store=tmp_path / "journal") as server:
        yield server


@pytest.fixture
def publish(broker: SeriatimServer) -> Callable[..., None]:
    """Publish so many payloads to a subject, and return when they are numbered."""

    def put(payloads: Sequence[bytes], subject: bytes = b"orders.eu") -> None:
        lines = b"".join(b"PUB %b %d\r\n%b\r\n" % (subject, len(p), p) for p in payloads)
        with RawClient(broker.port) as client:
            client.send(QUIET + lines + b"PING\r\n")
            assert client.until_pong() == []

    return put


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark, pandas and py4j warn of what is theirs; our own warnings are errors elsewhere."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("default"))
