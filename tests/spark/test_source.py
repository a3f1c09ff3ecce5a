"""Reading with Spark: found by name, batches and streams, exact over crashes and restarts."""

import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import reduce
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from pyspark_seriatim.client import Client
from pyspark_seriatim.errors import DataLost, OptionError
from pyspark_seriatim.options import Options
from pyspark_seriatim.source import SeriatimDataSource
from pyspark_seriatim.stream import StreamReader
from tests.support.processes import SeriatimServer
from tests.support.raw import HEADERS, RawClient

Publish = Callable[..., None]
SECONDS_MAX = 180


@pytest.fixture
def read(spark: SparkSession, broker: SeriatimServer) -> Callable[..., DataFrame]:
    """A batch from the broker: `read(subscribe="a")`."""

    def load(schema: str = "", **given: object) -> DataFrame:
        reader = spark.read.format("seriatim").option("servers", f"127.0.0.1:{broker.port}")
        reader = reader.options(**{name: str(value) for name, value in given.items()})
        return (reader.schema(schema) if schema else reader).load()

    return load


class Streams:
    """Streaming queries of one test: what each has been given, by batch."""

    def __init__(self, spark: SparkSession, broker: SeriatimServer, path: Path) -> None:
        self.spark, self.broker, self.checkpoint = spark, broker, path
        self.batches: dict[int, list[int]] = {}
        self.died_with: list[int] | None = None  # what the batch had that was not to end
        self.is_doomed = False
        self.queries: list[StreamingQuery] = []

    def start(self, **given: object) -> StreamingQuery:
        """A query that goes on where the last one was; once through if `once`."""
        once = given.pop("once", False)
        source = str(given.pop("source", "seriatim"))
        frame = (
            self.spark.readStream.format(source)
            .option("servers", f"127.0.0.1:{self.broker.port}")
            .options(**{name: str(value) for name, value in given.items()})
            .load()
        )
        writer = frame.writeStream.option("checkpointLocation", str(self.checkpoint))
        writer = writer.foreachBatch(self._take)
        query = (writer.trigger(availableNow=True) if once else writer).start()
        self.queries.append(query)
        return query

    def run(self, **given: object) -> StreamingQuery:
        """A query that reads what there is, to its end."""
        query = self.start(once=True, **given)
        assert query.awaitTermination(SECONDS_MAX)
        return query

    def _take(self, frame: DataFrame, batch: int) -> None:
        rows = sorted(row.sequence for row in frame.select("sequence").collect())
        if self.is_doomed:
            self.is_doomed, self.died_with = False, rows
            raise OSError("this query dies before its batch is written")
        self.batches[batch] = rows

    def uncommit(self, batch: int) -> None:
        """As if the driver had died before it noted the end of a batch."""
        for path in (self.checkpoint / "commits").glob(f"*{batch}*"):
            path.unlink()


@pytest.fixture
def streams(spark: SparkSession, broker: SeriatimServer, tmp_path: Path) -> Iterator[Streams]:
    made = Streams(spark, broker, tmp_path / "checkpoint")
    yield made
    for query in made.queries:
        query.stop()


def payloads(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_given_a_schema_when_read_then_the_rows_have_its_columns_in_its_order(
    read: Callable[..., DataFrame], publish: Publish
) -> None:
    publish(payloads(300))
    frame = read("subject string, sequence bigint", maxRecordsPerPartition=100)
    assert frame.columns == ["subject", "sequence"]
    rows = sorted((row.sequence, row.subject) for row in frame.collect())
    assert rows == [(number, "orders.eu") for number in range(1, 301)]
    assert read("payload binary").count() == 300


def test_given_messages_when_read_by_name_then_they_are_rows(
    read: Callable[..., DataFrame], broker: SeriatimServer, publish: Publish
) -> None:
    publish(payloads(300))
    with RawClient(broker.port) as client:
        block = b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n"
        client.send(
            HEADERS
            + b"HPUB us.x re %d %d\r\n%bhello\r\nPING\r\n" % (len(block), len(block) + 5, block)
        )
        client.until_pong()
    frame = read(includeHeaders="true", includereply="TRUE", maxRecordsPerPartition=100)
    assert frame.schema.simpleString() == (
        "struct<sequence:bigint,subject:string,payload:binary,timestamp:timestamp,"
        "reply:string,headers:map<string,array<string>>>"
    )
    assert frame.rdd.getNumPartitions() == 4
    rows = {row.sequence: row for row in frame.collect()}
    assert sorted(rows) == list(range(1, 302))
    assert (rows[7].subject, bytes(rows[7].payload), rows[7].headers) == ("orders.eu", b"6", {})
    assert (rows[301].reply, rows[301].headers) == ("re", {"A": ["1", "2"]})
    assert rows[1].timestamp <= rows[301].timestamp

    assert read(subscribe="us.*,none").count() == 1
    assert read(subscribePattern="orders.*", endingOffsets=11).count() == 10
    assert read(startingOffsets="latest").count() == 0
    assert len(read(fetchRows=10).limit(15).collect()) == 15
    pruned = read("payload binary, sequence bigint", startingOffsets=301)
    assert [(bytes(row[0]), row[1]) for row in pruned.collect()] == [(b"hello", 301)]


def test_given_filters_when_pushed_down_then_the_rows_are_those_of_no_push_down(
    spark: SparkSession, read: Callable[..., DataFrame], publish: Publish
) -> None:
    publish(payloads(200), subject=b"a.x")
    publish(payloads(198), subject=b"b.y")
    publish([b"odd"], subject=b"b..z")  # nobody can subscribe to it, and yet it is there
    publish([b"odd"], subject=b"b.*")
    moment = read(startingOffsets=300, endingOffsets=301).collect()[0].timestamp
    filters = [
        "sequence > 150 and sequence <= 250",
        "subject = 'b.y' and sequence < 300",
        "subject like 'a.%' or sequence = 399",
        "subject like 'b.y%'",
        "subject like 'b.%'",
        "startswith(subject, 'b.') and sequence > 390",
        "timestamp < timestamp'1969-01-01' or subject = 'b.*'",
        "timestamp > timestamp'1969-01-01' and timestamp < timestamp'9999-12-31 23:59:59'",
        f"timestamp = '{moment.isoformat()}' and subject is not null",
        f"timestamp >= '{moment.isoformat()}'",
        f"timestamp < '{moment.isoformat()}' and sequence in (1, 5, 399)",
        "subject = 'nobody'",
        "subject in ('b..z', 'a.x') and sequence > 190",
        "subject = 'b.*'",
    ]
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        pushed, plain = (
            reduce(
                DataFrame.union,
                [
                    read(pushDownFilters=flag).where(one).selectExpr(f"{at} which", "sequence")
                    for at, one in enumerate(filters)
                ],
            )
            for flag in ("true", "false")
        )
        assert sorted(pushed.collect()) == sorted(plain.collect())
        parts = [
            read(pushDownFilters="true", maxRecordsPerPartition=10)
            .where(one)
            .rdd.getNumPartitions()
            for one in (f"timestamp >= '{moment.isoformat()}'", "sequence > 370")
        ]
        assert (parts[0] <= 30, parts[1]) == (True, 3), "of 40"
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")


@pytest.mark.parametrize(
    ("given", "schema", "error", "why"),
    [
        ({"startingOffsets": "first"}, "", OptionError, 'startingOffsets: "first" is not one of'),
        ({"fetchRows": "0"}, "", OptionError, 'fetchRows: "0" is not a whole number from 1'),
        ({"includeHeaders": "maybe"}, "", OptionError, 'includeHeaders: "maybe" is neither true'),
        (
            {},
            "key string",
            OptionError,
            "schema: there is no column key; there are sequence bigint",
        ),
        ({"startingOffsets": "77"}, "", DataLost, "startingOffsets is at 77, but the last number"),
    ],
)
def test_given_what_cannot_be_when_read_then_the_error_names_it(
    read: Callable[..., DataFrame], given: dict[str, str], schema: str, error: type, why: str
) -> None:
    with pytest.raises(PySparkException) as refused:
        read(schema, **given).collect()
    assert why in str(refused.value)
    assert error.__name__ in str(refused.value)


def test_given_a_task_that_fails_or_dies_when_tried_again_then_every_row_is_there_once(
    read: Callable[..., DataFrame], publish: Publish, tmp_path: Path
) -> None:
    publish(payloads(500))
    failed = str(tmp_path / "failed")

    def fail_once(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            first = batch["sequence"][0].as_py()
            marker = Path(f"{failed}-{first}")
            if not marker.exists():
                marker.touch()
                if first == 1:
                    raise OSError("this task has failed")
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    frame = read("sequence bigint", maxRecordsPerPartition=250).mapInArrow(
        fail_once, "sequence bigint"
    )
    assert sorted(row.sequence for row in frame.collect()) == list(range(1, 501))


def test_given_a_stream_when_it_starts_again_then_every_row_comes_in_just_one_batch(
    streams: Streams, publish: Publish
) -> None:
    publish(payloads(1000))
    query = streams.run(startingOffsets="earliest", maxOffsetsPerTrigger=400)
    first = {batch: len(rows) for batch, rows in streams.batches.items() if rows}
    assert list(first.values()) == [400, 400, 200]
    last = max(first)
    head = json.loads(cast(Any, query.lastProgress)["sources"][0]["latestOffset"])
    assert head["sequence"] == 1001, "Spark shows the lag"

    publish(payloads(50))
    streams.uncommit(last)  # the driver died behind the sink, before it noted that
    before = dict(streams.batches)
    streams.run(maxOffsetsPerTrigger=150, maxRecordsPerPartition=30)
    assert streams.batches[last] == before[last], "the same rows, whatever the options are now"
    assert streams.batches[last + 1] == list(range(1001, 1051))
    assert sorted(n for rows in streams.batches.values() for n in rows) == list(range(1, 1051))


def busy_source(port: int) -> type[SeriatimDataSource]:
    """Ours, and while a stream asks for its first offset and then for its last, messages come.

    Its classes are local, so that Spark takes them along to its own process.
    """

    class Reader(StreamReader):
        def initialOffset(self) -> dict[str, Any]:
            found = super().initialOffset()
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(b"CONNECT {}\r\n" + b"PUB orders.eu 1\r\nx\r\n" * 5 + b"PING\r\n")
                said = b""
                while b"PONG" not in said:
                    said += client.recv(4096)
            time.sleep(0.1)  # no event to await: what was known before is old then
            return found

    class Source(SeriatimDataSource):
        @classmethod
        def name(cls) -> str:
            return "busy-seriatim"

        def streamReader(self, schema: StructType) -> Reader:
            return Reader(Options.parse(self.options, "stream"), schema)

    return Source


def test_given_a_stream_from_the_latest_when_it_dies_in_its_first_batch_then_nothing_is_lost(
    spark: SparkSession, streams: Streams, broker: SeriatimServer, publish: Publish
) -> None:
    publish(payloads(10))
    spark.dataSource.register(busy_source(broker.port))
    streams.is_doomed = True
    query = streams.start(startingOffsets="latest", source="busy-seriatim")
    with pytest.raises(StreamingQueryException, match="dies before its batch is written"):
        query.awaitTermination(SECONDS_MAX)
    begun = json.loads((streams.checkpoint / "offsets" / "0").read_text().splitlines()[-1])
    publish(payloads(5))
    streams.run(startingOffsets="latest")
    publish(payloads(5))
    streams.run(startingOffsets="latest")
    rows = sorted(n for rows in streams.batches.values() for n in rows)
    assert streams.died_with is not None
    assert set(streams.died_with) <= set(rows), "what the first batch had, it has again"
    assert begun["sequence"] == 16, "that is where the word became a number"
    with closing(Client(Options.parse({"servers": f"127.0.0.1:{broker.port}"}, "batch"))) as client:
        assert rows == list(range(16, client.info().last + 1))


def read_all(query: Any, streams: Streams, count: int) -> None:
    """Process until there are so many rows.

    One call may return by a trigger that had asked for the newest offset before all was published.
    """
    end = time.monotonic() + SECONDS_MAX
    while len([n for rows in streams.batches.values() for n in rows]) < count:
        assert time.monotonic() < end, "rows are missing"
        assert query.exception() is None
        query.processAllAvailable()


def test_given_a_broker_that_restarts_when_a_stream_reads_then_it_goes_on(
    streams: Streams, broker: SeriatimServer, publish: Publish
) -> None:
    patient = {"fetchOffset.numRetries": 60}  # a start may take longer than three seconds
    query = streams.start(startingOffsets=1, subscribe="orders.>", **patient)
    for round in range(2):
        publish(payloads(100))
        publish(payloads(100), subject=b"foreign")
        read_all(query, streams, 100 * (round + 1))
        broker.kill()
        broker.start(broker.port)
    publish([b"last"])
    read_all(query, streams, 201)
    assert query.exception() is None
    rows = [n for rows in streams.batches.values() for n in rows]
    assert sorted(rows) == [*range(1, 101), *range(201, 301), 401]
    foreign = cast(Any, query.lastProgress)["numInputRows"]
    assert foreign in (0, 1)
    assert all(rows for rows in streams.batches.values()), "no batch of foreign messages alone"


def test_given_a_journal_that_is_new_when_a_stream_goes_on_then_it_fails_or_says_so(
    streams: Streams, broker: SeriatimServer, publish: Publish, tmp_path: Path
) -> None:
    publish(payloads(10))
    streams.run(startingOffsets=1)
    broker.stop()
    shutil.rmtree(tmp_path / "journal")
    broker.start(broker.port)
    publish(payloads(3))
    with pytest.raises(StreamingQueryException, match="the checkpoint is at 11 of journal"):
        streams.run(startingOffsets=1)
    streams.batches.clear()
    streams.run(startingOffsets=1, failOnDataLoss="false")
    assert sorted(n for rows in streams.batches.values() for n in rows) == [1, 2, 3]
