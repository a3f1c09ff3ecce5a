"""Rows of 128 bytes that Spark reads from a broker's journal, and from other sources.

    read-batch      to nowhere (`noop`), by one task
    read-batch-2    the same by two
    read-stream     the same in micro-batches of a quarter of the rows, 500 000 at most
    read-trigger    micro-batches of 100 rows: the fixed cost of a trigger
    read-parquet    to a Parquet file, by two tasks
    read-floor      Arrow batches made in the worker, without a network
    read-rows       row frames from a plain TCP server, decoded row by row into tuples: how readers
                    of brokers without columns work

The clock runs only during the query; workers are started and code is warm. For a stream it is the
time that Spark reports for its triggers, without the first, which is empty.
"""

import socket
import statistics
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.process import ServerProcess
from benchmarks.servers import KNOWN
from benchmarks.spark.runs import Run, Scenario, drain, measured, seconds_of
from pyspark_seriatim.client import Client
from pyspark_seriatim.options import Options
from pyspark_seriatim.reading import arrow_schema
from pyspark_seriatim.source import SeriatimDataSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

SUBJECT, PAYLOAD = b"orders.eu.new", b"x" * 128
BLOCK = 10_000
BATCH_ROWS = 1 << 15
TRIGGER_ROWS_MAX = 500_000
TRIGGERS, FEW = 20, 100
ROW = struct.Struct("<IqqH")  # bytes after it, number, time in us, bytes of the subject


@contextmanager
def journal_of(rows: int) -> Iterator[tuple[ServerProcess, dict[str, str]]]:
    """A broker that keeps so many rows, and the options for reading them."""
    with ServerProcess(KNOWN["seriatim"]) as server:
        options = {"servers": f"127.0.0.1:{server.port}", "startingOffsets": "1"}
        client = Client(Options.parse(options, "batch"))
        one = b"PUB %b %d\r\n%b\r\n" % (SUBJECT, len(PAYLOAD), PAYLOAD)
        with client.connection() as connection:
            for at in range(0, rows, BLOCK):
                connection.send(one * min(BLOCK, rows - at))
                connection.flush()
        client.close()
        yield server, options


def into_nothing(frame: "DataFrame") -> float:
    """Read everything; return how many seconds it took."""
    return seconds_of(frame.write.format("noop").mode("append").save)


def into_parquet(frame: "DataFrame") -> float:
    with tempfile.TemporaryDirectory() as folder:
        return seconds_of(lambda: frame.write.mode("overwrite").parquet(folder))


def batch(tasks: int, save: Callable[["DataFrame"], float] = into_nothing) -> Scenario:
    def run(session: "SparkSession", rows: int) -> Run:
        with journal_of(rows) as (server, options):
            source = session.read.format("seriatim").options(**options)
            source = source.option("maxRecordsPerPartition", -(-rows // tasks))

            def once(count: int) -> float:
                return save(source.option("endingOffsets", count + 1).load())

            return measured(rows, once, server, f"{tasks} tasks")

    return run


def triggers(session: "SparkSession", options: dict[str, str], size: int) -> list[float]:
    """Read everything in micro-batches; return how many seconds each took."""
    frame = session.readStream.format("seriatim").options(**options)
    with tempfile.TemporaryDirectory() as folder:
        writer = frame.option("maxOffsetsPerTrigger", size).load().writeStream.format("noop")
        return drain(writer.option("checkpointLocation", folder))


def stream(session: "SparkSession", rows: int) -> Run:
    size = min(rows // 4, TRIGGER_ROWS_MAX)
    with journal_of(rows) as (server, options):
        into_nothing(session.read.format("seriatim").options(**options).load().limit(size))
        before = server.cpu_seconds()
        took = triggers(session, options, size)
        broker = server.cpu_seconds() - before
    return Run(rows, sum(took), broker, f"{len(took)} triggers of {size:,} rows")


def trigger(session: "SparkSession", rows: int) -> Run:
    count = TRIGGERS * FEW
    with journal_of(count) as (_, options):
        took = triggers(session, options, FEW)
    median = 1000 * statistics.median(took)
    return Run(count, sum(took), 0.0, f"{median:.0f} ms a trigger, the median of {len(took)}")


class Made(DataSource):
    """The format "made": `rows` rows that already are batches."""

    @classmethod
    def name(cls) -> str:
        return "made"

    def schema(self) -> StructType:
        return SeriatimDataSource({}).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return MadeReader(int(self.options["rows"]), schema)


class MadeReader(DataSourceReader):
    def __init__(self, rows: int, schema: StructType) -> None:
        self.rows, self.made_schema = rows, schema

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        columns: list[list[Any]] = [
            list(range(BATCH_ROWS)),
            [SUBJECT.decode()] * BATCH_ROWS,
            [PAYLOAD] * BATCH_ROWS,
            [datetime(2026, 1, 1)] * BATCH_ROWS,
        ]
        schema = arrow_schema(self.made_schema)
        arrays = [pa.array(one, field.type) for one, field in zip(columns, schema, strict=True)]
        whole = pa.RecordBatch.from_arrays(arrays, schema=schema)
        for at in range(0, self.rows, BATCH_ROWS):
            yield whole.slice(0, min(BATCH_ROWS, self.rows - at))


class Rows(Made):
    """The format "rows": `rows` rows, from the server at `port` on this machine."""

    @classmethod
    def name(cls) -> str:
        return "rows"

    def reader(self, schema: StructType) -> DataSourceReader:
        return RowsReader(int(self.options["rows"]), int(self.options["port"]))


class RowsReader(DataSourceReader):
    def __init__(self, rows: int, port: int) -> None:
        self.rows, self.port = rows, port

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        with socket.create_connection(("127.0.0.1", self.port)) as sock:
            sock.sendall(struct.pack("<q", self.rows))
            file = sock.makefile("rb", 1 << 18)
            while head := file.read(ROW.size):
                size, number, micros, width = ROW.unpack(head)
                body = file.read(size)
                when = datetime.fromtimestamp(micros / 1e6)
                yield number, body[:width].decode(), body[width:], when


@contextmanager
def row_server() -> Iterator[int]:
    """A server of row frames; its port. It sends prepared data, so it costs next to nothing."""
    body = SUBJECT + PAYLOAD
    one = ROW.pack(len(body), 1, 1_767_225_600_000_000, len(SUBJECT)) + body
    block = one * BLOCK

    def serve() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with sock:
                (rows,) = struct.unpack("<q", sock.recv(8))
                for at in range(0, rows, BLOCK):
                    sock.sendall(block[: len(one) * min(BLOCK, rows - at)])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def timed(source: "DataFrameReader", rows: int) -> Run:
    return measured(rows, lambda count: into_nothing(source.option("rows", count).load()))


def floor(session: "SparkSession", rows: int) -> Run:
    session.dataSource.register(Made)
    return timed(session.read.format("made"), rows)


def by_rows(session: "SparkSession", rows: int) -> Run:
    session.dataSource.register(Rows)
    with row_server() as port:
        return timed(session.read.format("rows").option("port", port), rows)


SCENARIOS: dict[str, Scenario] = {
    "read-batch": batch(1),
    "read-batch-2": batch(2),
    "read-stream": stream,
    "read-trigger": trigger,
    "read-parquet": batch(2, into_parquet),
    "read-floor": floor,
    "read-rows": by_rows,
}
