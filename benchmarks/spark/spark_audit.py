"""The audit of an archive, compared with Spark's own check of the same files.

Spark's own query is the weaker one: the count of rows, the lowest and highest number, and the count
of distinct ones. It shows that something is missing, but not what, and ignores the order.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.spark.runs import Run, Scenario
from pyspark_seriatim.jobs.audit.audit_report import findings_of
from pyspark_seriatim.jobs.audit.auditing import Auditor, look_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS_EACH: Final = 2_000_000  # per file, as the job `archive` makes them when it compacts
SUBJECTS: Final = ("orders.eu", "orders.us", "trades.eu", "trades.us")
BEGIN_US: Final = 1_767_225_600_000_000


@contextmanager
def archive_of(rows: int) -> Iterator[str]:
    """A folder of Parquet files with the numbers 1 to `rows`, small payloads, four subjects."""
    with tempfile.TemporaryDirectory(prefix="seriatim-audit-") as folder:
        for at, first in enumerate(range(1, rows + 1, ROWS_EACH)):
            table = _rows(first, min(ROWS_EACH, rows + 1 - first))
            pq.write_table(table, Path(folder, f"{at:05}.parquet"), row_group_size=1 << 20)
        yield folder


def _rows(first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    subject = pa.DictionaryArray.from_arrays(
        pa.array((numbers % len(SUBJECTS)).astype(np.int32)), pa.array(SUBJECTS)
    )
    payloads = pa.array([b"%016d" % at for at in range(1000)], pa.binary())
    return pa.table(
        {
            "sequence": numbers,
            "subject": subject,
            "payload": payloads.take(pa.array(numbers % 1000)),
            "timestamp": pa.array(BEGIN_US + numbers * 10, pa.timestamp("us", "UTC")),
        }
    )


def audit(spark: "SparkSession", rows: int) -> Run:
    """Every number, once, in order: numbers and times of all files."""
    with archive_of(rows) as root:
        begun = time.perf_counter()
        verdict = Auditor(spark, look_at(None, root)).examine()
        seconds = time.perf_counter() - begun
    assert findings_of(verdict) == [], "the archive is whole"
    assert verdict.summary.side("archive").numbers == rows
    return Run(rows, seconds, note="no gaps, no duplicates, in order, times never decrease")


def spark_alone(spark: "SparkSession", rows: int) -> Run:
    """Count, minimum, maximum and distinct numbers, by Spark SQL."""
    from pyspark.sql import functions as f

    with archive_of(rows) as root:
        begun = time.perf_counter()
        found = (
            spark.read.parquet(root)
            .agg(
                f.count("*").alias("rows"),
                f.min("sequence").alias("first"),
                f.max("sequence").alias("last"),
                f.count_distinct("sequence").alias("numbers"),
            )
            .first()
        )
        seconds = time.perf_counter() - begun
    assert found is not None
    assert tuple(found) == (rows, 1, rows, rows)
    return Run(rows, seconds, note="only that something is missing, not what; no order")


SCENARIOS: Final[dict[str, Scenario]] = {
    "audit": audit,
    "audit, Spark alone": spark_alone,
}
