"""Tasks, drivers and brokers that die, at each step: every row is there once."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_seriatim.client import Client
from pyspark_seriatim.options import Options
from tests.support.cluster_start import ClusterOf
from tests.support.processes import SeriatimServer
from tests.support.relay import Relay

ROWS = 4000  # of a micro-batch
END_S = 90


def numbers(port: int) -> list[int]:
    """The payloads that were published, in their order."""
    client = Client(Options.parse({"servers": f"127.0.0.1:{port}"}, "batch"))
    last = client.info().last
    chunks = client.read(1, last) if last else []
    found = [int(bytes(row.payload)) for chunk in chunks for row in chunk.columns]
    client.close()
    return found


def batches(first: int, last: int) -> list[int]:
    return list(range(first * ROWS, last * ROWS))


def dies_midway(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Passes rows on; the first attempt at the second partition ends after some of them."""
    context = TaskContext.get()
    assert context is not None
    for at, batch in enumerate(rows):
        if at == 2 and context.partitionId() == 1 and context.attemptNumber() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        yield batch


def source(spark: SparkSession, partitions: int, shuffled: bool = False) -> DataFrame:
    """A stream whose micro-batch N is the numbers from N * ROWS on, in so many partitions."""
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS)
    df = stream.option("numPartitions", partitions).load()
    df = df.selectExpr("concat('n.', value % 7) subject", "cast(value as string) payload")
    return df.repartition(partitions) if shuffled else df


class Checkpoint:
    """A query's directory, and its runs: each does what there is, one micro-batch of the source."""

    def __init__(self, folder: Path, port: int, **options: object) -> None:
        self.folder = folder
        self._options = {"servers": f"127.0.0.1:{port}", "fetchOffset.retryIntervalMs": 20}
        self._options |= options

    def run(self, df: DataFrame) -> list[int]:
        """Write what there is; which micro-batches were run."""
        writer = df.writeStream.format("seriatim").options(**cast(dict[str, Any], self._options))
        return self.finish(writer.option("checkpointLocation", str(self.folder)))

    def run_each(self, df: DataFrame, write: Callable[[DataFrame, int], None]) -> list[int]:
        writer = df.writeStream.foreachBatch(write)
        return self.finish(writer.option("checkpointLocation", str(self.folder)))

    def finish(self, writer: "DataStreamWriter") -> list[int]:  # type: ignore[name-defined]  # noqa: F821
        query: StreamingQuery = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(END_S), "it does not end"
        finally:
            query.stop()
        return [one["batchId"] for one in query.recentProgress]

    def forget(self, batch: int) -> None:
        """As if the driver had died when the sink had committed, and Spark had not."""
        for name in (str(batch), f".{batch}.crc"):
            (self.folder / "commits" / name).unlink(missing_ok=True)
        assert (self.folder / "offsets" / str(batch)).exists()


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, "300")
    yield
    spark.conf.set(name, str(before))


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize(
    "shuffled",
    [pytest.param(False, marks=pytest.mark.slow), True],
    ids=["narrow", "shuffled"],
)
def test_given_tasks_and_drivers_that_die_when_a_stream_is_written_then_each_row_is_there_once(
    spark: SparkSession, broker: SeriatimServer, tmp_path: Path, shuffled: bool
) -> None:
    query = Checkpoint(tmp_path / "checkpoint", broker.port, publishBatchBytes="1k")
    df = source(spark, 2)
    killed = df.mapInArrow(dies_midway, df.schema)
    assert query.run(killed.repartition(2) if shuffled else killed) == [0]
    assert sorted(numbers(broker.port)) == batches(0, 1)
    query.forget(0)
    done = query.run(source(spark, 3, shuffled))
    assert done[0] == 0, "the batch was repeated"
    query.forget(done[-1])
    assert query.run(source(spark, 5, shuffled))[0] == done[-1]
    found = numbers(broker.port)
    whole = len(found) // ROWS
    assert whole > 1
    for batch in range(whole):
        part = found[batch * ROWS : (batch + 1) * ROWS]
        assert sorted(part) == batches(batch, batch + 1), "batches come one behind the other"
    assert len(found) == whole * ROWS
    assert list(broker.store.rglob("*.stage")) == [], "losers are dropped with the commit"


@pytest.mark.usefixtures("small_batches")
def test_given_a_driver_that_dies_in_foreach_batch_then_each_row_is_there_once(
    spark: SparkSession, broker: SeriatimServer, tmp_path: Path
) -> None:
    query = Checkpoint(tmp_path / "checkpoint", broker.port)
    deaths = iter([False, True, False, False])

    def write(df: DataFrame, batch: int) -> None:
        writer = df.write.format("seriatim").mode("append")
        writer = writer.option("servers", f"127.0.0.1:{broker.port}")
        writer.option("txnAppId", "each").option("txnVersion", batch).save()
        if next(deaths):
            raise RuntimeError("the driver is dead")

    df = source(spark, 2)
    query.run_each(df.mapInArrow(dies_midway, df.schema), write)
    with pytest.raises(StreamingQueryException, match="the driver is dead"):
        query.run_each(source(spark, 2), write)
    assert sorted(numbers(broker.port)) == batches(0, 2)
    query.run_each(source(spark, 3, shuffled=True), write)
    found = numbers(broker.port)
    assert sorted(found) == batches(0, len(found) // ROWS)

    def unnamed(df: DataFrame, batch: int) -> None:
        writer = df.write.format("seriatim").mode("append")
        writer.option("servers", f"127.0.0.1:{broker.port}").save()

    with pytest.raises(StreamingQueryException, match="txnAppId: in foreachBatch, set it"):
        query.run_each(source(spark, 1), unnamed)
    assert numbers(broker.port) == found


def test_given_a_broker_killed_at_each_step_when_a_stream_is_written_then_each_row_is_there_once(
    spark: SparkSession, broker: SeriatimServer, tmp_path: Path
) -> None:
    def kill() -> None:
        broker.kill()
        broker.start(broker.port)

    with Relay(broker.port) as relay:
        query = Checkpoint(tmp_path / "checkpoint", relay.port, publishBatchBytes="4k")
        done: list[int] = []
        for word in (b"$SEQ.STAGE", b"$SEQ.COMMIT"):
            relay.when(word, before=kill)
            done += query.run(source(spark, 2))
            relay.when(word, after=kill)
            done += query.run(source(spark, 2))
    assert sorted(numbers(broker.port)) == batches(0, done[-1] + 1)


def test_given_a_commit_that_the_driver_never_hears_of_then_its_repetition_adds_nothing(
    spark: SparkSession, broker: SeriatimServer, tmp_path: Path
) -> None:
    with Relay(broker.port) as relay:
        query = Checkpoint(tmp_path / "checkpoint", relay.port, ackTimeoutMs=200)
        relay.when(b"$SEQ.COMMIT", before=relay.unhear)
        with pytest.raises(StreamingQueryException, match=r"200 ms \(ackTimeoutMs\)"):
            query.run(source(spark, 2))
        relay.heal()
        assert query.run(source(spark, 3))[0] == 0
    found = numbers(broker.port)
    assert sorted(found) == batches(0, len(found) // ROWS)


def test_given_a_name_with_another_checkpoint_then_the_query_fails_before_rows_are_passed_over(
    spark: SparkSession, broker: SeriatimServer, tmp_path: Path
) -> None:
    query = Checkpoint(tmp_path / "one", broker.port, txnAppId="mine")
    other = Checkpoint(tmp_path / "two", broker.port, txnAppId="mine")
    query.run(source(spark, 2))
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="txnAppId: mine has published batch 0"):
            other.run(source(spark, 2))
    query.forget(0)
    assert query.run(source(spark, 2))[0] == 0, "its own repetition is none of another's"
    if len(numbers(broker.port)) == ROWS:
        query.run(source(spark, 2))
    with pytest.raises(StreamingQueryException, match="txnAppId: mine has published batch 1"):
        other.run(source(spark, 2))
    old = tmp_path / "old"
    shutil.copytree(query.folder, old)
    query.run(source(spark, 2))
    query.run(source(spark, 2))
    with pytest.raises(StreamingQueryException, match=r"batch 3 already, .* is at batch 2"):
        Checkpoint(old, broker.port, txnAppId="mine").run(source(spark, 2))
    assert sorted(numbers(broker.port)) == batches(0, 4)


def test_given_other_modes_of_a_stream_then_it_is_written_at_least_once_or_refused(
    spark: SparkSession, broker: SeriatimServer, tmp_path: Path
) -> None:
    counts = source(spark, 1).groupBy("subject").count()
    df = counts.selectExpr("subject", "cast(count as string) payload")
    query = Checkpoint(tmp_path / "one", broker.port)
    writer = df.writeStream.format("seriatim").outputMode("complete")
    writer = writer.option("servers", f"127.0.0.1:{broker.port}")
    with pytest.raises(StreamingQueryException, match="complete would replace the journal"):
        query.finish(writer.option("checkpointLocation", str(query.folder)))
    at_least = Checkpoint(tmp_path / "two", broker.port, deliveryGuarantee="at-least-once")
    at_least.run(source(spark, 2))
    assert sorted(numbers(broker.port)) == batches(0, 1)


@pytest.mark.slow
def test_given_a_coordinator_killed_at_each_step_when_a_stream_is_written_then_each_row_is_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    with ClusterOf(3) as cluster, ExitStack() as stack:
        at = (cluster.coordinator() + 1) % 3
        relay = stack.enter_context(Relay(cluster.members[at].port))
        query = Checkpoint(tmp_path / "checkpoint", relay.port, publishBatchBytes="4k")

        def kill() -> None:
            member = cluster.members[cluster.coordinator()]
            member.kill()
            member.start(member.port)

        done: list[int] = []
        for word in (b"$SEQ.STAGE", b"$SEQ.COMMIT"):
            relay.when(word, before=kill)
            done += query.run(source(spark, 2))
            relay.when(word, after=kill)
            done += query.run(source(spark, 2))
        assert sorted(numbers(cluster.members[at].port)) == batches(0, done[-1] + 1)
        others = [numbers(member.port) for member in cluster.members]
    assert others[0] == others[1] == others[2]
