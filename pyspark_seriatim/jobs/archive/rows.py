"""Reads the rows of an archive from any writer: lists the files, and reads them as Arrow.

    archive = open_archive("/data/archive")       its kind, its files, its facts
    frame(spark, archive, ("sequence", "size"))   its rows, read by Spark's tasks

An archive is what the job `archive` writes (a FileLog), a Delta or Iceberg table, any folder of
Parquet files, or one file. It has a column `sequence` (or `number`, the name in `seriatim journal
export`). A task reads whole files in order with pyarrow, one after the other, so a row's file and
position are known. Memory of a task: about 16 MiB of rows.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from pyspark_seriatim.jobs.errors import JobError, first_line
from pyspark_seriatim.jobs.filelog.filelog import FileLog
from pyspark_seriatim.jobs.filelog.files import Files
from pyspark_seriatim.jobs.filelog.pages import opened
from pyspark_seriatim.jobs.filelog.versions import FOLDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE: Final = "messages"
NUMBER_MAX: Final = (1 << 63) - 1
EVERY: Final = ">"
BATCH_ROWS_MAX: Final = 1 << 20
BATCH_BYTES: Final = 16 << 20
LONG: Final = {"payload", "headers"}  # columns whose values may be long
LONG_ROWS_MAX: Final = 1 << 16
SAMPLE_ROWS: Final = 256
FOOTERS_AT_ONCE: Final = 16
TASKS_EACH: Final = 4  # per core, so that one large file does not delay everything
# The types after reading; the data source's reader has the same.
TYPES: Final = {
    "sequence": pa.int64(),
    "subject": pa.string(),
    "payload": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "reply": pa.string(),
    "headers": pa.map_(pa.string(), pa.list_(pa.string())),
    "size": pa.int64(),  # bytes of the payload, without reading the payload itself
}
DDL: Final = {
    "sequence": "bigint",
    "subject": "string",
    "payload": "binary",
    "timestamp": "timestamp",
    "reply": "string",
    "headers": "map<string,array<string>>",
    "size": "bigint",
}
OTHER_NAMES: Final = {"sequence": "number", "timestamp": "time", "size": "payload"}


@dataclass(frozen=True, slots=True)
class ArchivePart:
    """One Parquet file, with the range of its numbers."""

    path: str  # relative to the root
    rows: int
    first: int
    last: int
    footer: str = ""  # its checksum, according to the list


@dataclass(frozen=True, slots=True)
class OpenArchive:
    """An archive; can be pickled. `first` to `last` is the range it claims, or has."""

    root: str
    kind: str
    parts: tuple[ArchivePart, ...]
    columns: tuple[str, ...]
    subject: str = EVERY
    journal: str = ""
    first: int = 0
    last: int = 0
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of rows, by the archive's list or the files' footers."""
        return sum(part.rows for part in self.parts)

    def within(self, first: int, last: int) -> tuple[ArchivePart, ...]:
        """The files that may hold some of these numbers."""
        return tuple(part for part in self.parts if part.first <= last and first <= part.last)


def open_archive(root: str) -> OpenArchive:
    """The archive at a path or URI. Raises `JobError`."""
    place = Files(root)
    info = place.filesystem.get_file_info(place.inner(""))
    if info.type == fs.FileType.NotFound:
        raise JobError(f"{root}: nothing is there")
    if info.type == fs.FileType.File:
        folder, _, name = place.root.rpartition("/")
        return _of_files(folder, [name], "file")
    names = place.names("")
    if FOLDER in names:
        return _of_log(root)
    if "_delta_log" in names:
        return _of_files(root, _delta_files(place), "delta")
    if "metadata" in names and any(
        name.endswith(".metadata.json") for name in place.names("metadata")
    ):
        return _of_files(root, _iceberg_files(place), "iceberg")
    selector = fs.FileSelector(place.inner(""), recursive=True)
    found = [info.path for info in place.filesystem.get_file_info(selector) if info.is_file]
    inside = [path[len(place.inner("")) + 1 :] for path in found]
    plain = [path for path in inside if path.endswith(".parquet") and not _hidden(path)]
    return _of_files(root, sorted(plain), "parquet")


def _hidden(path: str) -> bool:
    """True if Spark ignores a path: a part of it begins with `_` or `.`."""
    return any(name.startswith(("_", ".")) for name in path.split("/"))


def _of_log(root: str) -> OpenArchive:
    log = FileLog.open(root)
    files = log.files(TABLE)
    facts = log.facts
    parts = tuple(ArchivePart(f.path, f.rows, f.first, f.last, f.footer) for f in files)
    if not parts and "covered" not in facts:
        raise JobError(f"{root}: its list, in {FOLDER}, has no messages and is not an archive's")
    columns = _columns_of_log(log.place, parts, facts)
    covered = facts.get("covered") or [[p.first, p.last] for p in parts] or [[1, 0]]
    first, last = min(span[0] for span in covered), max(span[1] for span in covered)
    subject = str(facts.get("subject", EVERY))
    journal = str(facts.get("journal", ""))
    return OpenArchive(root, "seriatim", parts, columns, subject, journal, first, last, facts)


def _columns_of_log(
    place: Files, parts: Sequence[ArchivePart], facts: dict[str, Any]
) -> tuple[str, ...]:
    """The columns of the log's files, by its facts; without facts, by the first file."""
    noted = facts.get("columns")
    if noted:
        return tuple(name for name in DDL if name in noted or OTHER_NAMES.get(name) in noted)
    return _columns(place, parts[0].path) if parts else tuple(DDL)


def _of_files(root: str, paths: Sequence[str], kind: str) -> OpenArchive:
    """An archive without a list that says what is in its files."""
    if not paths:
        raise JobError(f"{root}: there are no Parquet files, and no table's metadata")
    place = Files(root)
    columns = _columns(place, paths[0])
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        found = list(pool.map(lambda path: _read_part(place, path), paths))
    parts = sorted((part for part in found if part.rows), key=lambda p: (p.first, p.path))
    if not parts:
        return OpenArchive(root, kind, (), columns)
    first, last = parts[0].first, max(part.last for part in parts)
    return OpenArchive(root, kind, tuple(parts), columns, first=first, last=last)


def _delta_files(place: Files) -> list[str]:
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError:
        raise JobError("a Delta table needs deltalake: pip install 'deltalake>=1.0'") from None
    try:
        return [place.relative(uri) for uri in DeltaTable(place.root).file_uris()]
    except DeltaError as error:
        raise JobError(f"{place.root}: {error}") from error


def _iceberg_files(place: Files) -> list[str]:
    """The files of the newest metadata. Raises `JobError` if delete files remove rows."""
    try:
        from pyiceberg.table import StaticTable
    except ImportError:
        raise JobError(
            "an Iceberg table needs pyiceberg: pip install 'pyiceberg[sql-sqlite]>=0.9'"
        ) from None
    names = [name for name in place.names("metadata") if name.endswith(".metadata.json")]
    newest = max(names, key=lambda name: int(re.sub(r"\D.*", "", name.lstrip("v")) or 0))
    tasks = list(StaticTable.from_metadata(place.uri(f"metadata/{newest}")).scan().plan_files())
    if any(task.delete_files for task in tasks):
        raise JobError(f"{place.root}: it has delete files, which only Iceberg's readers support")
    return [place.relative(task.file.file_path) for task in tasks]


def _columns(place: Files, path: str) -> tuple[str, ...]:
    """Return the columns of `DDL` that a file has. Raises `JobError` if it is not an archive's."""
    schema = opened(place, path).schema_arrow
    there = tuple(name for name in DDL if _name_in(schema.names, name))
    if "sequence" not in there:
        raise JobError(f"{place.uri(path)} has no column 'sequence'; it has {schema.names}")
    typed = schema.field(str(_name_in(schema.names, "headers"))) if "headers" in there else None
    if typed is not None and not pa.types.is_map(typed.type):
        there = tuple(name for name in there if name != "headers")
    return there


def _name_in(names: Sequence[str], wanted: str) -> str | None:
    """The name of a column in a file."""
    other = OTHER_NAMES.get(wanted, "")
    return wanted if wanted in names else other if other in names else None


def _read_part(place: Files, path: str) -> ArchivePart:
    """The range of numbers, by the footer, or else by the numbers themselves."""
    file = opened(place, path)
    metadata = file.metadata
    ranges = [_numbers_of(metadata, group) for group in range(metadata.num_row_groups)]
    known = [one for one in ranges if one is not None]
    if not metadata.num_rows:
        return ArchivePart(path, 0, 0, 0)
    if len(known) < len(ranges):
        name = _name_in(file.schema_arrow.names, "sequence")
        found = pc.min_max(file.read([name]).column(0)).as_py()
        known = [(found["min"] or 0, found["max"] or 0)]
    first, last = min(one[0] for one in known), max(one[1] for one in known)
    return ArchivePart(path, metadata.num_rows, first, last)


def _numbers_of(metadata: Any, group: int) -> tuple[int, int] | None:
    """The lowest and highest number of a row group, if its footer has them."""
    row_group = metadata.row_group(group)
    for at in range(row_group.num_columns):
        column = row_group.column(at)
        if column.path_in_schema in ("sequence", OTHER_NAMES["sequence"]):
            statistics = column.statistics
            if statistics is not None and statistics.has_min_max:
                return int(statistics.min), int(statistics.max)
    return None


def batches(
    place: Files,
    path: str,
    columns: Sequence[str],
    spans: Sequence[tuple[int, int]] = (),
    pattern: str | None = None,
    batch_bytes: int = BATCH_BYTES,
    footer: str = "",
) -> Iterator[pa.RecordBatch]:
    """The rows of a file in their order, of `TYPES`; only of these spans of numbers, if given.

    `pattern` is a regular expression for subjects, `footer` what `pages.opened` compares. Raises
    `JobError`.
    """
    file = opened(place, path, footer)
    names = file.schema_arrow.names
    needed = [*columns, *(["sequence"] if spans else []), *(["subject"] if pattern else [])]
    stored = {name: _name_in(names, name) for name in dict.fromkeys(needed)}
    if None in stored.values():
        lacking = next(name for name, found in stored.items() if found is None)
        raise JobError(f"{place.uri(path)} has no column {lacking!r}; it has {names}")
    groups = list(range(file.metadata.num_row_groups))
    if spans:
        groups = [group for group in groups if _overlaps(file.metadata, group, spans)]
    if not groups:
        return
    wanted = list(dict.fromkeys(str(name) for name in stored.values()))
    try:
        at_once = _rows_at_once(file, groups, wanted, batch_bytes)
        for batch in file.iter_batches(at_once, groups, wanted, use_threads=False):
            made = {name: _column(batch, str(stored[name]), name) for name in stored}
            whole = pa.RecordBatch.from_pydict(made)
            yield _chosen(whole, spans, pattern).select(list(columns))
    except (OSError, pa.ArrowException) as error:
        raise JobError(f"{place.uri(path)}: {first_line(error)}") from error


def _rows_at_once(file: pq.ParquetFile, groups: list[int], names: list[str], size: int) -> int:
    """Return how many rows fit the memory, by the footer and by the first rows.

    A value stored once for many rows is small in a file, but has its full length in memory.
    """
    metadata = file.metadata
    stored = sum(metadata.row_group(group).total_byte_size for group in groups)
    rows = sum(metadata.row_group(group).num_rows for group in groups)
    each = stored / max(rows, 1)
    most = BATCH_ROWS_MAX
    if LONG & set(names):
        most = LONG_ROWS_MAX
        first = next(file.iter_batches(SAMPLE_ROWS, groups[:1], names, use_threads=False), None)
        if first is not None and first.num_rows:
            each = max(each, first.nbytes / first.num_rows)
    return min(max(int(size / max(each, 1)), 1), most)


def _overlaps(metadata: Any, group: int, spans: Sequence[tuple[int, int]]) -> bool:
    known = _numbers_of(metadata, group)
    return known is None or any(first <= known[1] and known[0] <= last for first, last in spans)


def _column(batch: pa.RecordBatch, stored: str, name: str) -> pa.Array:
    column = batch.column(stored)
    if name == "size":
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        column = pc.binary_length(column)
    wanted = TYPES[name]
    if column.type == wanted:
        return column
    return column.cast(wanted, safe=name not in ("timestamp", "subject"))


def _chosen(
    batch: pa.RecordBatch, spans: Sequence[tuple[int, int]], pattern: str | None
) -> pa.RecordBatch:
    mask = None
    if spans:
        numbers = batch.column("sequence")
        for first, last in spans:
            inside = pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last))
            mask = inside if mask is None else pc.or_(mask, inside)
    if pattern is not None:
        matches = pc.match_substring_regex(batch.column("subject"), pattern)
        mask = matches if mask is None else pc.and_(mask, matches)
    return batch if mask is None else batch.filter(mask)


def subject_pattern(subjects: str) -> str | None:
    """A regular expression for comma-separated subjects with NATS' wildcards; None for all."""
    each = [subject.strip() for subject in subjects.split(",")]
    if EVERY in each:
        return None
    return f"^(?:{'|'.join(_one_pattern(subject) for subject in each)})$"


def _one_pattern(subject: str) -> str:
    tokens = subject.split(".")
    if not all(tokens) or EVERY in tokens[:-1] or set(subject) & set(" \t\r\n"):
        raise JobError(
            f"--subject {subject}: not a valid subject; write orders.eu, orders.* or orders.>"
        )
    wild = {"*": r"[^.]+", EVERY: r"[^.]+(?:\.[^.]+)*"}  # no wildcard matches an empty token
    return r"\.".join(wild.get(token) or re.escape(token) for token in tokens)


@dataclass(frozen=True, slots=True)
class ReadRows:
    """For mapInArrow: turns indexes of files into their rows."""

    archive: OpenArchive
    columns: tuple[str, ...]
    spans: tuple[tuple[int, int], ...] = ()
    pattern: str | None = None
    lenient: bool = False  # unreadable files are skipped; something else reports them

    def __call__(self, indexes: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in parts_of(self.archive, indexes):
            try:
                yield from batches(
                    Files(self.archive.root),
                    part.path,
                    self.columns,
                    self.spans,
                    self.pattern,
                    footer=part.footer,
                )
            except JobError:
                if not self.lenient:
                    raise


def parts_of(archive: OpenArchive, indexes: Iterable[pa.RecordBatch]) -> Iterator[ArchivePart]:
    """The files that a task must read."""
    for batch in indexes:
        for index in batch.column(0).to_pylist():
            yield archive.parts[index]


def frame(
    spark: "SparkSession",
    archive: OpenArchive,
    columns: Sequence[str],
    spans: Sequence[tuple[int, int]] = (),
    pattern: str | None = None,
    lenient: bool = False,
) -> "DataFrame":
    """The rows of an archive, from the files that may hold some of `spans`."""
    if spans:
        inside = {part for first, last in spans for part in archive.within(first, last)}
        archive = replace(archive, parts=tuple(p for p in archive.parts if p in inside))
    read = ReadRows(archive, tuple(columns), tuple(spans), pattern, lenient)
    return over_parts(spark, archive, read, ", ".join(f"{name} {DDL[name]}" for name in columns))


def over_parts(
    spark: "SparkSession", archive: OpenArchive, function: Callable[..., Any], ddl: str
) -> "DataFrame":
    """The results of `function`, which gets indexes of an archive's files."""
    files = len(archive.parts)
    tasks = min(files, spark.sparkContext.defaultParallelism * TASKS_EACH)
    return spark.range(0, files, 1, max(tasks, 1)).mapInArrow(function, ddl)
