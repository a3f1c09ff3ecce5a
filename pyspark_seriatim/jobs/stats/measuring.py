"""Measures messages, bytes and sizes by subject and window of time.

    rows --Spark: counts by subject, window and size--> --Spark: by subject and window, by
    subject, and of all--> Measured, an Arrow table of the results

A subject is its first `depth` tokens. Percentiles are exact, because sizes are counted first. Rates
are per whole window; a window that the range cuts counts as whole, so its rates are low. Memory:
Spark's for the counts; in the driver one row for each subject and window.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_seriatim.jobs.archive.rows import NUMBER_MAX, OpenArchive, frame, subject_pattern
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.running.watch import watching

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Range = tuple[int | None, int | None]
PERCENTILES: Final = (0.5, 0.95)
DEPTH_MAX: Final = 100
NEEDED: Final = ("subject", "size", "timestamp")
BY_WINDOW, BY_SUBJECT, OF_ALL = 0, 1, 3  # Spark's grouping_id
MEASURES: Final = (
    *("messages", "bytes", "size_min", "size_p50", "size_p95", "size_max", "size_mean"),
    *("messages_per_second", "bytes_per_second"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """The source of rows: a broker or an archive, bounded by numbers and times (ms)."""

    server: str | None
    archive: OpenArchive | None
    subject: str
    numbers: Range = (None, None)
    moments: Range = (None, None)
    access: Mapping[str, str] = field(default_factory=dict)  # options of the data source


@dataclass(frozen=True, slots=True)
class Measured:
    """The results. `windows` has one row for each window and subject, `subjects` one for each
    subject, the busiest first, `whole` one for all; times are those of the first and last message.
    """

    windows: pa.Table
    subjects: pa.Table
    whole: pa.Table
    window_us: int


def measure(spark: "SparkSession", source: Source, window_us: int, depth: int) -> Measured:
    """Measure the rows of a source. Raises `JobError`, `BrokerError`."""
    with watching(spark, "counting"):
        found = _grouped(_rows(spark, source), window_us, depth).toArrow()
    parts = {
        level: found.filter(pc.equal(found.column("level"), level))
        for level in (BY_WINDOW, BY_SUBJECT, OF_ALL)
    }
    windows = _with_times(
        parts[BY_WINDOW].sort_by([("window", "ascending"), ("subject", "ascending")])
    )
    subjects = parts[BY_SUBJECT].sort_by([("messages", "descending"), ("subject", "ascending")])
    names = ("window", "subject", *MEASURES)
    spanned = ("subject", "first", "last", *MEASURES)
    whole = parts[OF_ALL].filter(pc.greater(parts[OF_ALL].column("messages"), 0))
    seconds = _seconds(windows, window_us)
    return Measured(
        _with_rates(windows, window_us / 1e6).select(names),
        _with_rates(subjects, seconds).select(spanned),
        _with_rates(whole, seconds).select(spanned),
        window_us,
    )


def _seconds(windows: pa.Table, window_us: int) -> float:
    """Return the seconds from the beginning of the first window to the end of the last."""
    if not windows.num_rows:
        return 1.0
    begins = pc.min_max(windows.column("window").cast(pa.int64())).as_py()
    return float((begins["max"] - begins["min"] + window_us) / 1e6)


def _with_times(windows: pa.Table) -> pa.Table:
    moments = windows.column("window").cast(pa.timestamp("us", "UTC"))
    return windows.set_column(windows.schema.get_field_index("window"), "window", moments)


def _with_rates(table: pa.Table, seconds: float) -> pa.Table:
    for name in ("messages", "bytes"):
        rates = pc.divide(table.column(name).cast(pa.float64()), seconds)
        table = table.append_column(f"{name}_per_second", rates)
    return table


def _rows(spark: "SparkSession", source: Source) -> "DataFrame":
    """Rows of subject, size and timestamp."""
    from pyspark.sql import functions as f

    if source.server is not None:
        return _of_journal(spark, source)
    assert source.archive is not None
    archive = source.archive
    lacking = [name for name in NEEDED if name not in archive.columns]
    if lacking:
        raise JobError(f"{archive.root} has no column for {', '.join(lacking)}: nothing to count")
    first, last = source.numbers
    spans = [(first or 0, last or NUMBER_MAX)] if first or last else []
    rows = frame(spark, archive, NEEDED, spans, subject_pattern(source.subject))
    since, until = source.moments
    if since is not None:
        rows = rows.where(f.col("timestamp") >= f.timestamp_millis(f.lit(since)))
    if until is not None:
        rows = rows.where(f.col("timestamp") < f.timestamp_millis(f.lit(until)))
    return rows


def _of_journal(spark: "SparkSession", source: Source) -> "DataFrame":
    from pyspark.sql import functions as f

    assert source.server is not None
    options = {"servers": source.server, **source.access, "subscribe": source.subject}
    options["failOnDataLoss"] = "false"
    options["minPartitions"] = str(spark.sparkContext.defaultParallelism)
    bounds = {
        "startingOffsets": source.numbers[0],
        "endingOffsets": None if source.numbers[1] is None else source.numbers[1] + 1,
        "startingTimestamp": source.moments[0],
        "endingTimestamp": source.moments[1],
    }
    options |= {name: str(value) for name, value in bounds.items() if value is not None}
    rows = (
        spark.read.format("seriatim")
        .schema("subject string, payload binary, timestamp timestamp")
        .options(**options)
        .load()
    )
    return rows.select("subject", f.octet_length("payload").alias("size"), "timestamp")


def _grouped(rows: "DataFrame", window_us: int, depth: int) -> "DataFrame":
    """Aggregate by subject and window, by subject, and in total; `level` says which."""
    from pyspark.sql import functions as f

    micros = f.unix_micros("timestamp")
    counts = (
        rows.select(
            f.substring_index("subject", ".", depth).alias("subject"),
            (micros - f.pmod(micros, f.lit(window_us))).alias("window"),
            f.col("size").cast("bigint").alias("size"),
            "timestamp",
        )
        .groupBy("subject", "window", "size")
        .agg(
            f.count("*").alias("n"),
            f.min("timestamp").alias("first"),
            f.max("timestamp").alias("last"),
        )
    )
    sets: Sequence[Sequence[str]] = (["subject", "window"], ["subject"], [])
    at = f.percentile("size", list(PERCENTILES), f.col("n"))
    grouped = counts.groupingSets(sets, "subject", "window").agg(
        f.grouping_id().alias("level"),
        f.sum("n").alias("messages"),
        f.sum(f.col("n") * f.col("size")).alias("bytes"),
        f.min("size").alias("size_min"),
        f.max("size").alias("size_max"),
        f.min("first").alias("first"),
        f.max("last").alias("last"),
        at.alias("percentiles"),
    )
    return grouped.select(
        "*",
        f.col("percentiles")[0].alias("size_p50"),
        f.col("percentiles")[1].alias("size_p95"),
        (f.col("bytes") / f.col("messages")).alias("size_mean"),
    ).drop("percentiles")
