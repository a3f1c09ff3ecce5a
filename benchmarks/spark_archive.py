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
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

import pyarrow.dataset as ds

from benchmarks.errors import BenchmarkError
from benchmarks.spark_read import PAYLOAD, journal_of
from benchmarks.spark_result import Result
from pyspark_seriatim.client import Client
from pyspark_seriatim.jobs.archive.archive_job import ArchiveFormat, ArchiveOptions, archived
from pyspark_seriatim.options import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WARM = 20  # a fraction for warming up
STREAM_SECONDS_MAX = 600
FOLDERS = ["date", "token"]
BATCH_ROWS = 1_000_000


def archive(
    headers: bool = True, format: ArchiveFormat = ArchiveFormat.parquet
) -> Callable[["SparkSession", int], Result]:
    """Run the job like its command with --once."""

    def run(session: "SparkSession", rows: int) -> Result:
        with journal_of(rows) as (server, options), tempfile.TemporaryDirectory() as folder:
            info = Client.shared(Options.parse(options, "stream")).info()

            def once(name: str, first: int) -> float:
                begun = perf_counter()
                work, _ = archived(
                    session,
                    ArchiveOptions(
                        root=f"{folder}/{name}",
                        server=options["servers"],
                        headers=headers,
                        format=format,
                        start=str(first),
                        max_offsets=BATCH_ROWS,
                    ),
                    info,
                )
                seconds = perf_counter() - begun
                if work.totals.rows != rows - first + 1:
                    raise BenchmarkError(f"{work.totals.rows} rows of {rows - first + 1}")
                return seconds

            once("warm", rows - rows // WARM)
            before = server.cpu_seconds()
            seconds = once("archive", 1)
            return Result(rows, seconds, server.cpu_seconds() - before)

    return run


def sparks(session: "SparkSession", rows: int) -> Result:
    """Run Spark's streaming file sink: exactly once for readers that use its own list."""
    with journal_of(rows) as (server, options), tempfile.TemporaryDirectory() as folder:
        both = {"includeHeaders": "true", "includeReply": "true"}
        source = session.readStream.format("seriatim").options(**options).options(**both)

        def once(name: str, first: int) -> float:
            begun = perf_counter()
            source.option("startingOffsets", first).option("maxOffsetsPerTrigger", BATCH_ROWS)
            frame = source.load()
            query = (
                foldered(frame)
                .writeStream.format("parquet")
                .option("checkpointLocation", f"{folder}/{name}-checkpoint")
                .option("compression", "zstd")
                .partitionBy(*FOLDERS)
                .trigger(availableNow=True)
                .start(f"{folder}/{name}")
            )
            if not query.awaitTermination(STREAM_SECONDS_MAX):
                raise BenchmarkError(f"the query has not ended in {STREAM_SECONDS_MAX} s")
            return perf_counter() - begun

        once("warm", rows - rows // WARM)
        before = server.cpu_seconds()
        seconds = once("archive", 1)
        _check(f"{folder}/archive", rows)
        return Result(rows, seconds, server.cpu_seconds() - before)


def floor(session: "SparkSession", rows: int) -> Result:
    """Spark's own rows and Spark's own writer."""
    payload = f"cast('{PAYLOAD.decode()}' as binary) as payload"
    columns = ("id + 1 as sequence", "'orders.eu' as subject", payload, "now() as timestamp")
    with tempfile.TemporaryDirectory() as folder:

        def once(name: str, count: int) -> float:
            begun = perf_counter()
            frame = foldered(session.range(count, numPartitions=2).selectExpr(*columns))
            writer = frame.write.partitionBy(*FOLDERS).option("compression", "zstd")
            writer.parquet(f"{folder}/{name}")
            return perf_counter() - begun

        once("warm", rows // WARM)
        seconds = once("archive", rows)
        _check(f"{folder}/archive", rows)
        return Result(rows, seconds, note="without a broker")


def foldered(frame: "DataFrame") -> "DataFrame":
    """Add the columns of which the folders are made."""
    token = "split_part(subject, '.', 1) as token"
    return frame.selectExpr("*", "to_date(timestamp) as date", token)


def _check(folder: str, rows: int) -> None:
    found = ds.dataset(folder, format="parquet").count_rows()
    if found != rows:
        raise BenchmarkError(f"{found} rows of {rows}")


SCENARIOS: dict[str, Callable[["SparkSession", int], Result]] = {
    "archive": archive(),
    "archive-no-headers": archive(headers=False),
    "archive-delta": archive(format=ArchiveFormat.delta),
    "archive-sparks": sparks,
    "archive-floor": floor,
}
