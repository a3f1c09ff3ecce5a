"""The stream as Parquet by the job `archive`, compared with Spark's own sink.

    archive             all columns, folders by date and first token, listed in the log
    archive-no-headers  without headers and reply subjects
    archive-delta       like the first, and also listed in a Delta log
    archive-sparks      the same columns and folders by Spark's own streaming file sink
    archive-floor       rows that Spark itself makes, written to such folders: no broker, no stream

The clock runs from the query's start to its end, including preparation and cleanup; workers are
started and code is warm.
"""

import tempfile
from typing import TYPE_CHECKING

import pyarrow.dataset as ds

from benchmarks.errors import BenchmarkError
from benchmarks.spark.runs import Run, Scenario, drain, measured, seconds_of
from benchmarks.spark.spark_read import PAYLOAD, journal_of
from pyspark_seriatim.client import Client
from pyspark_seriatim.jobs.archive.archive_job import ArchiveFormat, ArchiveOptions, archived
from pyspark_seriatim.options import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FOLDERS = ["date", "token"]
BATCH_ROWS = 1_000_000


def archive(headers: bool = True, format: ArchiveFormat = ArchiveFormat.parquet) -> Scenario:
    """Run the job like its command with --once."""

    def run(session: "SparkSession", rows: int) -> Run:
        with journal_of(rows) as (server, options), tempfile.TemporaryDirectory() as folder:
            info = Client.shared(Options.parse(options, "stream")).info()

            def once(count: int) -> float:
                wanted = ArchiveOptions(
                    root=f"{folder}/{count}",
                    server=options["servers"],
                    headers=headers,
                    format=format,
                    start=str(rows + 1 - count),
                    max_offsets=BATCH_ROWS,
                )
                done = []
                seconds = seconds_of(lambda: done.append(archived(session, wanted, info)[0]))
                if done[0].totals.rows != count:
                    raise BenchmarkError(f"{done[0].totals.rows} rows of {count}")
                return seconds

            return measured(rows, once, server)

    return run


def sparks(session: "SparkSession", rows: int) -> Run:
    """Run Spark's streaming file sink: exactly once for readers that use its own list."""
    with journal_of(rows) as (server, options), tempfile.TemporaryDirectory() as folder:
        both = {"includeHeaders": "true", "includeReply": "true"}
        source = session.readStream.format("seriatim").options(**options).options(**both)

        def once(count: int) -> float:
            source.option("startingOffsets", rows + 1 - count)
            frame = source.option("maxOffsetsPerTrigger", BATCH_ROWS).load()
            writer = (
                foldered(frame)
                .writeStream.format("parquet")
                .option("checkpointLocation", f"{folder}/{count}-checkpoint")
                .option("compression", "zstd")
                .partitionBy(*FOLDERS)
            )
            seconds = seconds_of(lambda: drain(writer, f"{folder}/{count}"))
            _check(f"{folder}/{count}", count)
            return seconds

        return measured(rows, once, server)


def floor(session: "SparkSession", rows: int) -> Run:
    """Spark's own rows and Spark's own writer."""
    payload = f"cast('{PAYLOAD.decode()}' as binary) as payload"
    columns = ("id + 1 as sequence", "'orders.eu' as subject", payload, "now() as timestamp")
    with tempfile.TemporaryDirectory() as folder:

        def once(count: int) -> float:
            frame = foldered(session.range(count, numPartitions=2).selectExpr(*columns))
            writer = frame.write.partitionBy(*FOLDERS).option("compression", "zstd")
            seconds = seconds_of(lambda: writer.parquet(f"{folder}/{count}"))
            _check(f"{folder}/{count}", count)
            return seconds

        return measured(rows, once, note="without a broker")


def foldered(frame: "DataFrame") -> "DataFrame":
    """Add the columns of which the folders are made."""
    token = "split_part(subject, '.', 1) as token"
    return frame.selectExpr("*", "to_date(timestamp) as date", token)


def _check(folder: str, rows: int) -> None:
    found = ds.dataset(folder, format="parquet").count_rows()
    if found != rows:
        raise BenchmarkError(f"{found} rows of {rows}")


SCENARIOS: dict[str, Scenario] = {
    "archive": archive(),
    "archive-no-headers": archive(headers=False),
    "archive-delta": archive(format=ArchiveFormat.delta),
    "archive-sparks": sparks,
    "archive-floor": floor,
}
