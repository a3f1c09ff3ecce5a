"""Rows of 128 bytes that Spark writes: exactly once, at least once, and to nowhere.

    sink-exactly-once    staged by two tasks, committed by the driver, a batch
    sink-stream          the same in micro-batches of a quarter of the rows, without the first one
    sink-at-least-once   plain publishing by two tasks
    sink-floor           Spark passes its Arrow batches to a Python writer that drops them
    sink-noop            Spark makes the rows, and they do not leave the JVM

All of them make the same rows. The clock runs from `save()` until all rows have numbers.
"""

import tempfile
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from benchmarks.errors import BenchmarkError
from benchmarks.process import ServerProcess
from benchmarks.servers import KNOWN
from benchmarks.spark.runs import STREAM_SECONDS_MAX, WARM, Run, Scenario, measured, seconds_of
from pyspark_seriatim.client import Client
from pyspark_seriatim.options import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASKS = 2
BATCHES = 4
PAYLOAD = "cast(concat(repeat('x', 120), lpad(cast({} as string), 8, '0')) as binary) payload"
POLL_SECONDS = 0.02


class Dropped(WriterCommitMessage):
    """The result of a task that received and dropped rows."""


class Dropping(DataSourceArrowWriter):
    """A writer that drops rows, to measure the cost of passing them to Python."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for batch in iterator:
            assert batch.num_columns
        return Dropped()


class Floor(DataSource):
    """The format "floor"."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return Dropping()


def rows_of(session: "SparkSession", rows: int) -> "DataFrame":
    return session.range(0, rows, 1, TASKS).selectExpr("'orders.eu' subject", PAYLOAD.format("id"))


def save(df: "DataFrame", form: str, options: dict[str, str]) -> float:
    """Write a frame; return how many seconds it took."""
    return seconds_of(df.write.format(form).mode("append").options(**options).save)


def batch(guarantee: str) -> Scenario:
    def run(session: "SparkSession", rows: int) -> Run:
        with ServerProcess(KNOWN["seriatim"]) as server:
            options = {"servers": f"127.0.0.1:{server.port}", "deliveryGuarantee": guarantee}

            def once(count: int) -> float:
                return save(rows_of(session, count), "seriatim", options)

            done = measured(rows, once, server)
            _check(server, rows + rows // WARM)
        return done

    return run


def stream(session: "SparkSession", rows: int) -> Run:
    """Run micro-batches until there are enough; return Spark's times for all but the first."""
    size = rows // BATCHES
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", size)
    df = source.option("numPartitions", TASKS).load()
    df = df.selectExpr("'orders.eu' subject", PAYLOAD.format("value"))
    with ServerProcess(KNOWN["seriatim"]) as server, tempfile.TemporaryDirectory() as folder:
        writer = df.writeStream.format("seriatim").option("servers", f"127.0.0.1:{server.port}")
        query = writer.option("checkpointLocation", folder).start()
        until = time.monotonic() + STREAM_SECONDS_MAX
        begun, before = 0, 0.0
        while (done := len(query.recentProgress)) <= BATCHES and query.isActive:
            if done and not begun:
                begun, before = done, server.cpu_seconds()
            if time.monotonic() > until:
                raise BenchmarkError(f"{done} micro-batches in {STREAM_SECONDS_MAX} s")
            time.sleep(POLL_SECONDS)
        broker = server.cpu_seconds() - before
        progress = list(query.recentProgress)[begun:]
        query.stop()
    if not progress:
        raise BenchmarkError(f"the stream has ended: {query.exception()}")
    took = [one["durationMs"]["triggerExecution"] / 1000 for one in progress]
    note = f"{len(took)} triggers of {size:,} rows"
    return Run(size * len(took), sum(took), broker, note)


def floor(session: "SparkSession", rows: int) -> Run:
    session.dataSource.register(Floor)
    return measured(rows, lambda count: save(rows_of(session, count), "floor", {}))


def noop(session: "SparkSession", rows: int) -> Run:
    return measured(rows, lambda count: save(rows_of(session, count), "noop", {}))


def _check(server: ServerProcess, rows: int) -> None:
    """Raise `BenchmarkError` unless the broker has numbered exactly so many."""
    client = Client(Options.parse({"servers": f"127.0.0.1:{server.port}"}, "batch"))
    last = client.info().last
    client.close()
    if last != rows:
        raise BenchmarkError(f"{rows} rows were written, {last} were numbered")


SCENARIOS: dict[str, Scenario] = {
    "sink-exactly-once": batch("exactly-once"),
    "sink-stream": stream,
    "sink-at-least-once": batch("at-least-once"),
    "sink-floor": floor,
    "sink-noop": noop,
}
