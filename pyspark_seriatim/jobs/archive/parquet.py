"""Writes a task's rows to Parquet files: one for each date (UTC) and first token of a subject.

    date=2026-01-01/token=orders/<first>-<last>-<id>.parquet

In: record batches with `sequence`, `subject`, `timestamp` and further columns, in the order of the
numbers. Out: a `WrittenFile` for each file. Rows keep their order, so each file is sorted.

Payloads are plain and without statistics, since few repeat; numbers and times are delta-encoded,
subjects use a dictionary.

Memory: `BUFFER_BYTES` of rows in all open files of the task together, and the current batch.
"""

import hashlib
import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog.files import Files

BUFFER_BYTES: Final = 128 << 20  # per task; at this limit the fullest file is written
GROUP_BYTES: Final = 32 << 20  # of a row group, before compression: a reader holds one
GROUP_ROWS: Final = 1 << 20
PARTITIONS_MAX: Final = 1000  # per task: each is an open file, and later one more small file
TOKEN_BYTES_MAX: Final = 180  # a folder's name has at most 255, of which `token=` uses some
DAY_US: Final = 86_400_000_000
NO_TOKEN: Final = "__HIVE_DEFAULT_PARTITION__"  # Hive's name of a folder for null
# The characters that Spark escapes in partition folders; pyarrow and DuckDB unescape them, too.
UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")

COLUMNS: Final = pa.schema(
    [
        ("sequence", pa.int64()),
        ("subject", pa.string()),
        ("payload", pa.binary()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("reply", pa.string()),
        ("headers", pa.map_(pa.string(), pa.list_(pa.string()))),
    ]
)

Numbers = npt.NDArray[np.int64]
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file in the staging folder: of one partition, with numbers `first` to `last`."""

    path: str  # in the form Spark takes
    date: str
    token: str | None  # None: not partitioned by token
    rows: int
    first: int
    last: int

    @property
    def target(self) -> str:
        """The file's final path, relative to the root."""
        return f"{partition_path(self.date, self.token)}/{self.first:020}-{self.last:020}.parquet"


def schema_of(columns: list[str]) -> pa.Schema:
    """The schema of the files, with the columns in this order."""
    return pa.schema([COLUMNS.field(name) for name in columns])


def partition_path(date: str, token: str | None) -> str:
    """The folders of a partition, as Hive and Spark name them."""
    return f"date={date}" if token is None else f"date={date}/token={escaped(token)}"


def escaped(token: str) -> str:
    """A token as part of a folder's name. If it is too long it is cut, and its hash appended.

    The empty one gets the name that Hive gives to null. A token that really has that name gets
    another one, so that the two do not share a folder.
    """
    if token in ("", NO_TOKEN):
        return f"%{ord(token[0]):02X}{token[1:]}" if token else NO_TOKEN
    name = UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", token)
    if len(name.encode()) > TOKEN_BYTES_MAX:
        digest = hashlib.sha256(token.encode()).hexdigest()[:16]
        kept = token.encode()[: TOKEN_BYTES_MAX // 3 - 17].decode(errors="ignore")
        return f"{UNSAFE.sub(lambda found: f'%{ord(found[0]):02X}', kept)}~{digest}"
    return name


class PartFile:
    """An open file of one partition, with rows that are not written yet."""

    def __init__(self, place: Files, folder: str, schema: pa.Schema, compression: str) -> None:
        self.path = f"{folder}/{uuid.uuid4().hex}.parquet"
        self.buffered, self.rows = 0, 0
        self.first, self.last = 0, 0
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._writer = pq.ParquetWriter(
            place.inner(self.path),
            schema,
            filesystem=place.filesystem,
            compression=compression,
            compression_level=1 if compression == "zstd" else None,
            use_dictionary=[name for name in ("subject", "reply") if name in schema.names],
            column_encoding={"sequence": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"},
            write_statistics=["sequence", "subject", "timestamp"],
            write_page_checksum=True,
            sorting_columns=[pq.SortingColumn(schema.get_field_index("sequence"))],
        )

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows whose numbers are above all before."""
        numbers = batch.column("sequence")
        self.first = self.first or numbers[0].as_py()
        self.last = numbers[-1].as_py()
        self.rows += len(batch)
        self.buffered += batch.nbytes
        self._waiting_rows += len(batch)
        self._waiting.append(batch)
        if self.buffered >= GROUP_BYTES or self._waiting_rows >= GROUP_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write the pending rows as a row group."""
        if self._waiting:
            self._writer.write_table(
                pa.Table.from_batches(self._waiting), row_group_size=GROUP_ROWS
            )
        self._waiting, self._waiting_rows, self.buffered = [], 0, 0

    def close(self) -> None:
        """Write the rest, and the footer."""
        self.flush()
        self._writer.close()


class Parts:
    """The files of a task."""

    def __init__(
        self, place: Files, folder: str, by_token: bool = True, compression: str = "zstd"
    ) -> None:
        self.holes: list[Range] = []  # numbers missing between the first and the last
        self.first, self.last = 0, 0
        self._place, self._folder = place, folder
        self._by_token, self._compression = by_token, compression
        self._open: dict[tuple[int, str | None], PartFile] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the next rows. Raises `JobError` if they are not in ascending order."""
        if not len(batch):
            return
        self._check_numbers(batch.column("sequence").to_numpy())
        for key, rows in split(batch, self._by_token):
            part = self._open.get(key)
            if part is None:
                part = self._open[key] = self._begin(rows.schema)
            part.add(rows)
        while sum(part.buffered for part in self._open.values()) > BUFFER_BYTES:
            max(self._open.values(), key=lambda part: part.buffered).flush()

    def close(self) -> list[WrittenFile]:
        """Close the files."""
        written = []
        for (day, token), part in self._open.items():
            part.close()
            path, date = self._place.uri(part.path), str(np.datetime64(day, "D"))
            written.append(WrittenFile(path, date, token, part.rows, part.first, part.last))
        return written

    def _begin(self, schema: pa.Schema) -> PartFile:
        if len(self._open) == PARTITIONS_MAX:
            raise JobError(
                f"the subjects of one task have more than {PARTITIONS_MAX} first tokens: partition"
                " by the date alone (--partition date)"
            )
        return PartFile(self._place, self._folder, schema, self._compression)

    def _check_numbers(self, numbers: Numbers) -> None:
        """Check the order, and record gaps."""
        steps = np.diff(numbers, prepend=self.last or numbers[0] - 1)
        if steps.min() < 1:
            at = int(steps.argmin())
            before = int(numbers[at] - steps[at])
            raise JobError(f"number {numbers[at]} comes after {before}: the rows are not in order")
        for behind in np.flatnonzero(steps > 1):
            number = int(numbers[behind])
            self.holes.append((number - int(steps[behind]) + 1, number - 1))
        self.first, self.last = self.first or int(numbers[0]), int(numbers[-1])


def split(
    batch: pa.RecordBatch, by_token: bool
) -> Iterator[tuple[tuple[int, str | None], pa.RecordBatch]]:
    """The rows of each partition (days since 1970, token), in their order."""
    moments = batch.column("timestamp").cast(pa.int64()).to_numpy()
    days = np.floor_divide(moments, DAY_US)
    low = int(days.min())
    tokens, codes = first_tokens(batch.column("subject")) if by_token else ([None], days * 0)
    keys = np.asarray((days - low) * len(tokens) + codes)
    if keys[0] == keys[-1] and (keys == keys[0]).all():
        yield (low + int(keys[0]) // len(tokens), tokens[int(keys[0]) % len(tokens)]), batch
        return
    small = keys.max() < 1 << 16  # then a radix sort is used
    order = np.argsort(keys.astype(np.uint16) if small else keys, kind="stable")
    keys = keys[order]
    begin = 0
    for end in [*(np.flatnonzero(np.diff(keys)) + 1).tolist(), len(keys)]:
        day, token = divmod(int(keys[begin]), len(tokens))
        # A copy, because a slice would keep the whole batch alive for as long as a rare token
        # waits.
        yield (low + day, tokens[token]), batch.take(pa.array(order[begin:end]))
        begin = end


def first_tokens(subjects: pa.Array) -> tuple[list[str | None], Numbers]:
    """The distinct first tokens, and for each row the index of its own."""
    rows = subjects.dictionary_encode()
    heads = pc.list_element(pc.split_pattern(rows.dictionary, ".", max_splits=1), 0)
    found = heads.dictionary_encode()
    codes = found.indices.to_numpy()[rows.indices.to_numpy()]
    return found.dictionary.to_pylist(), codes.astype(np.int64)


# A task's report to the driver: a row for each file, and one without a path for the task itself.
REPORT: Final = (
    "path string, date string, token string, rows bigint, first bigint, last bigint, holes string"
)
REPORT_SCHEMA: Final = pa.schema(
    [(name, pa.string()) for name in ("path", "date", "token")]
    + [(name, pa.int64()) for name in ("rows", "first", "last")]
    + [("holes", pa.string())]
)


def report(parts: Parts) -> pa.RecordBatch:
    """Close the files, and report what was written."""
    rows: list[dict[str, Any]] = [
        {name: getattr(file, name) for name in WrittenFile.__slots__} for file in parts.close()
    ]
    if parts.first:
        holes = ",".join(f"{first}-{last}" for first, last in parts.holes)
        rows.append({"first": parts.first, "last": parts.last, "rows": 0, "holes": holes})
    return pa.RecordBatch.from_pylist(rows, schema=REPORT_SCHEMA)


def understood(rows: Iterable[Any]) -> tuple[list[WrittenFile], list[Range]]:
    """Read the reports of all tasks: their files, and the runs of numbers they have seen."""
    written, runs = [], []
    for row in rows:
        if row["path"]:
            written.append(WrittenFile(*(row[name] for name in WrittenFile.__slots__)))
            continue
        begin = row["first"]
        for hole in filter(None, row["holes"].split(",")):
            first, _, last = hole.partition("-")
            runs.append((begin, int(first) - 1))
            begin = int(last) + 1
        runs.append((begin, row["last"]))
    return written, sorted(runs)
