"""The tables of a chain: blocks, updates, reorgs and events; one version for all of them.

    from pyspark_seriatim.jobs import cardinal_tables

    cardinal_tables.read(spark, root, "blocks")       the current table
    tables = cardinal_tables.open(root)               one version, for several reads
    tables.spark(spark, "updates"); tables.arrow("reorgs")

In one version the blocks are one chain, from the first to the head, and the updates are those of
these blocks: there are no partial blocks and no second branch. Reading needs no broker.

A file holds blocks of one range of numbers, or reorgs and events of one range of sequences. Files
never change: a reorg replaces the affected files by new ones without the removed blocks. Files of
blocks that no ordinary reorg can reach any more are merged, `MERGE` of a size at a time, until they
are large. So a row is rewritten a few times, however small the batches are.

Memory of a writer: the rows that a batch adds, and a row group of each file that is merged.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyspark_seriatim.jobs.cardinal.fold import Added, EventRow, FoldOutcome, Reorged
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog.filelog import Change, DataFile, FileLog
from pyspark_seriatim.jobs.filelog.pages import VERIFY, opened, reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIME: Final = pa.timestamp("us", tz="UTC")
HASHES: Final = pa.list_(pa.binary())
SCHEMAS: Final = {
    "blocks": pa.schema(
        {
            "number": pa.int64(),
            "hash": pa.binary(),
            "parent": pa.binary(),
            "weight": pa.string(),  # as digits: up to 77
            "updates": pa.int32(),  # keys set
            "deletes": pa.int32(),  # keys deleted
            "first_sequence": pa.int64(),  # of the message that completed it
            "last_sequence": pa.int64(),  # of the same message
            "timestamp": TIME,  # of the same
        }
    ),
    "updates": pa.schema(
        {
            "block": pa.binary(),
            "number": pa.int64(),
            "position": pa.int32(),  # the order in which to apply them
            "key": pa.string(),
            "value": pa.binary(),
            "deleted": pa.bool_(),
        }
    ),
    "reorgs": pa.schema(
        {
            "sequence": pa.int64(),
            "timestamp": TIME,
            "ancestor": pa.binary(),
            "depth": pa.int32(),  # blocks removed
            "removed": HASHES,  # oldest first
            "added": HASHES,
            "beyond": pa.bool_(),  # a reorg by a channel, deeper than the threshold
        }
    ),
    "events": pa.schema(
        {
            "sequence": pa.int64(),
            "timestamp": TIME,
            "kind": pa.string(),
            "block": pa.binary(),
            "number": pa.int64(),
            "text": pa.string(),
        }
    ),
}
OF_BLOCKS: Final = ("blocks", "updates")
MERGE: Final = 16  # so many files of one size are merged into one of the next
SIZES: Final = (64 << 10, 1 << 20, 16 << 20, 256 << 20)  # the limits of the sizes, in bytes
GROUP_ROWS: Final = 131_072  # of a row group: a merge or a reorg holds one
# columns for which a dictionary saves space
REPEATING: Final = ["number", "block", "parent", "kind"]


class Tables:
    """One version of the tables, for reading."""

    def __init__(self, log: FileLog) -> None:
        self.log = log
        self.version = log.version

    @property
    def about(self) -> dict[str, Any]:
        """The facts of the assembly: its settings, and the last message; empty before it begins."""
        found: dict[str, Any] = self.log.facts.get("cardinal", {})
        return found

    def paths(self, table: str) -> list[str]:
        """The files of a table. Raises `JobError` for an unknown table."""
        _schema(table)
        return self.log.paths(table)

    def spark(self, spark: "SparkSession", table: str) -> "DataFrame":
        """A table as a DataFrame. Raises `JobError`."""
        from pyspark.sql.pandas.types import from_arrow_schema

        paths = self.paths(table)
        schema = from_arrow_schema(_schema(table))
        if not paths:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).option(VERIFY, "true").parquet(*paths)

    def arrow(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """A table in memory. Raises `JobError`."""
        schema = _schema(table)
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        place = self.log.place
        parts = []
        for one in self.log.files(table):
            with reading(place, one.path), opened(place, one.path, one.footer) as source:
                parts.append(source.read(schema.names))
        return pa.concat_tables([schema.empty_table(), *parts])


def open(root: str) -> Tables:
    """The last version of the tables under `root`. Raises `FileLogError`."""
    return Tables(FileLog.open(root))


def read(spark: "SparkSession", root: str, table: str) -> "DataFrame":
    """A table of the last version. To read several that must match, use one `open`."""
    return open(root).spark(spark, table)


class LatestBlocks:
    """The blocks of the last version, for a fold."""

    def __init__(self, log: FileLog) -> None:
        self._log = log

    def behind(self, ancestor: bytes, below: int | None) -> list[tuple[int, bytes]]:
        """Return numbers and hashes of the blocks after `ancestor`; all, if it is not there.

        Reads backwards from the head, as far as needed.
        """
        place = self._log.place
        found: list[tuple[int, bytes]] = []
        wanted = pa.scalar(ancestor, pa.binary())
        for file in reversed(self._log.files("blocks")):
            with reading(place, file.path), opened(place, file.path, file.footer) as source:
                rows = source.read(["number", "hash"])
            if below is not None:
                rows = rows.filter(pc.field("number") < below)
            at = pc.index(rows["hash"], wanted).as_py()
            rest = rows.slice(at + 1)
            found[:0] = zip(rest["number"].to_pylist(), rest["hash"].to_pylist(), strict=True)
            if at >= 0:
                break
        return found


class Writer:
    """The writer of outcomes into changes of one log."""

    def __init__(self, log: FileLog) -> None:
        self._log = log
        self._count = 0  # of files written, to name them

    def write(self, change: Change, outcome: FoldOutcome, stable: int) -> None:
        """Write an outcome into a change. Blocks below number `stable` no longer change."""
        removed: set[str] = set()
        if outcome.cut is not None:
            removed = self._cut(change, outcome.cut)
        if outcome.added:
            edges = outcome.added[0].block.number, outcome.added[-1].block.number
            self._new(change, "blocks", _blocks(outcome.added), edges)
            self._new(change, "updates", _updates(outcome.added), edges)
        if outcome.reorgs:
            numbers = [one.sequence for one in outcome.reorgs]
            self._new(change, "reorgs", _reorgs(outcome.reorgs), (min(numbers), max(numbers)))
        if outcome.events:
            numbers = [one.sequence for one in outcome.events]
            self._new(change, "events", _events(outcome.events), (min(numbers), max(numbers)))
        for table in SCHEMAS:
            files = [one for one in self._log.files(table) if one.path not in removed]
            if table in OF_BLOCKS:
                files = [one for one in files if one.last < stable]
            self._merge(change, table, run_to_merge(files))

    def _cut(self, change: Change, cut: int) -> set[str]:
        """Remove the blocks from this number on; return the paths of the files that had some."""
        reached = [f for table in OF_BLOCKS for f in self._log.files(table) if f.last >= cut]
        for file in reached:
            change.remove(file)
            if file.first < cut:
                kept = (group.filter(pc.field("number") < cut) for group in self._groups([file]))
                self._write(change, file.table, kept, (file.first, cut - 1))
        return {file.path for file in reached}

    def _merge(self, change: Change, table: str, files: Sequence[DataFile]) -> None:
        if files:
            edges = min(one.first for one in files), max(one.last for one in files)
            self._write(change, table, self._groups(files), edges)
            for file in files:
                change.remove(file)

    def _new(self, change: Change, table: str, rows: pa.Table, edges: tuple[int, int]) -> None:
        if rows.num_rows:
            self._write(change, table, iter([rows]), edges)

    def _groups(self, files: Sequence[DataFile]) -> Iterator[pa.Table]:
        place = self._log.place
        for file in files:
            with reading(place, file.path), opened(place, file.path, file.footer) as source:
                for group in range(source.num_row_groups):
                    yield source.read_row_group(group)

    def _write(
        self, change: Change, table: str, groups: Iterator[pa.Table], edges: tuple[int, int]
    ) -> None:
        """Write a file, and add it to the change if it has rows."""
        place, schema, rows = self._log.place, SCHEMAS[table], 0
        self._count += 1
        temporary = f"{change.directory}/{table}-{self._count}.parquet"
        repeating = [name for name in REPEATING if name in schema.names]
        with pq.ParquetWriter(
            place.inner(place.relative(temporary)),
            schema,
            filesystem=place.filesystem,
            use_dictionary=repeating,
            write_statistics=["number", "sequence"],
            write_page_checksum=True,
        ) as writer:
            for group in groups:
                rows += group.num_rows
                writer.write_table(group, row_group_size=GROUP_ROWS)
        if rows:
            path = f"{table}/{edges[0]:019}-{edges[1]:019}-{self._count}.parquet"
            change.add(temporary, DataFile(path, table, rows, 0, *edges))


def run_to_merge(files: Sequence[DataFile]) -> list[DataFile]:
    """The first `MERGE` neighbours of the same size, other than the largest."""
    run: list[DataFile] = []
    for file in files:
        if run and _size(file) != _size(run[0]):
            run = []
        if _size(file) < len(SIZES):
            run.append(file)
        if len(run) == MERGE:
            return run
    return []


def _size(file: DataFile) -> int:
    return sum(file.bytes >= size for size in SIZES)


def _schema(table: str) -> pa.Schema:
    if table not in SCHEMAS:
        raise JobError(f'there is no table "{table}": there are {", ".join(SCHEMAS)}')
    return SCHEMAS[table]


def _blocks(added: Sequence[Added]) -> pa.Table:
    blocks = [one.block for one in added]
    columns = {
        "number": [one.number for one in blocks],
        "hash": [one.hash for one in blocks],
        "parent": [one.parent for one in blocks],
        "weight": [str(one.weight) for one in blocks],
        "updates": [len(one.updates) for one in blocks],
        "deletes": [len(one.deletes) for one in blocks],
        "first_sequence": [min(one.token.values()) for one in blocks],
        "last_sequence": [one.last for one in blocks],
        "timestamp": [one.time for one in added],
    }
    return pa.Table.from_pydict(columns, schema=SCHEMAS["blocks"])


def _updates(added: Sequence[Added]) -> pa.Table:
    """A row for each key, sorted: the same for any order of the messages."""
    keys: list[str] = []
    values: list[bytes | None] = []
    rows, deletes = [], []
    for one in added:
        updates, gone = one.block.updates, sorted(one.block.deletes)
        keys += gone
        values += [None] * len(gone)
        names = sorted(updates)
        keys += names
        values += map(updates.__getitem__, names)
        rows.append(len(gone) + len(names))
        deletes.append(len(gone))
    block = np.repeat(np.arange(len(added)), rows)
    begin = np.repeat(np.cumsum([0, *rows[:-1]]), rows)
    position = np.arange(len(keys)) - begin
    hashes = pa.array([one.block.hash for one in added], pa.binary())
    numbers = pa.array([one.block.number for one in added], pa.int64())
    columns = [
        hashes.take(pa.array(block)),
        numbers.take(pa.array(block)),
        pa.array(position, pa.int32()),
        pa.array(keys, pa.string()),
        pa.array(values, pa.binary()),
        pa.array(position < np.repeat(deletes, rows)),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMAS["updates"])


def _reorgs(reorgs: Sequence[Reorged]) -> pa.Table:
    columns = {
        "sequence": [one.sequence for one in reorgs],
        "timestamp": [one.time for one in reorgs],
        "ancestor": [one.ancestor for one in reorgs],
        "depth": [len(one.removed) for one in reorgs],
        "removed": [one.removed for one in reorgs],
        "added": [one.added for one in reorgs],
        "beyond": [one.beyond for one in reorgs],
    }
    return pa.Table.from_pydict(columns, schema=SCHEMAS["reorgs"])


def _events(events: Sequence[EventRow]) -> pa.Table:
    columns = {
        "sequence": [one.sequence for one in events],
        "timestamp": [one.time for one in events],
        "kind": [one.kind for one in events],
        "block": [one.hash for one in events],
        "number": [one.number for one in events],
        "text": [one.text for one in events],
    }
    return pa.Table.from_pydict(columns, schema=SCHEMAS["events"])
