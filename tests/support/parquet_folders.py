"""Folders of Parquet files for tests, as written by something other than the archive job."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TYPES: dict[str, Any] = {
    "sequence": pa.int64(),
    "subject": pa.string(),
    "payload": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "reply": pa.string(),
    "headers": pa.map_(pa.string(), pa.list_(pa.string())),
}


def rows(numbers: Sequence[int | None], **columns: Sequence[object]) -> pa.Table:
    """A table of these numbers; what is not given follows from the number."""
    found: dict[str, Sequence[object]] = {
        "sequence": numbers,
        "subject": [f"orders.{'eu' if (n or 0) % 2 else 'us'}" for n in numbers],
        "payload": [b"payload %d" % (n or 0) for n in numbers],
        "timestamp": [1_700_000_000_000_000 + (n or 0) * 10 for n in numbers],
    }
    found |= columns
    return pa.table({name: pa.array(values, TYPES[name]) for name, values in found.items()})


def write(root: Path, files: dict[str, pa.Table], row_group: int = 1000) -> str:
    """Write each table to its path under the root; the root."""
    for path, table in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, root / path, row_group_size=row_group)
    return str(root)
