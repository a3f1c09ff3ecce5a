"""Rows as they come from the stream, and archives of them written without Spark."""

from datetime import UTC, datetime

import pyarrow as pa

from pyspark_seriatim.jobs.archive.parquet import Parts, schema_of
from pyspark_seriatim.jobs.filelog import DataFile, FileLog

DAY_US = 86_400_000_000
NEW_YEAR = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000  # of 2026, us
COLUMNS = ["sequence", "subject", "payload", "timestamp"]


def rows(
    numbers: list[int], subjects: list[str], micros: list[int] | None = None
) -> pa.RecordBatch:
    """A batch without reply and headers."""
    times = micros or [NEW_YEAR + number for number in numbers]
    columns = [numbers, subjects, [b"%d" % n for n in numbers], times]
    schema = schema_of(COLUMNS)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def put(log: FileLog, batch: pa.RecordBatch) -> list[DataFile]:
    """Add rows to an archive, in one version."""
    change = log.begin_change()
    assert change is not None
    parts = Parts(log.place, log.place.relative(change.directory))
    parts.write(batch)
    added = [
        change.add(
            one.path,
            DataFile(
                one.target,
                "messages",
                one.rows,
                0,
                one.first,
                one.last,
                {"date": one.date, "token": str(one.token)},
            ),
        )
        for one in parts.close()
    ]
    change.commit()
    return added
