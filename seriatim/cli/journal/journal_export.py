"""`seriatim journal export`: writes a part of the journal to a Parquet, CSV or JSON lines file.

Parquet has one row for each message: number int64, time timestamp (UTC), subject and reply
string, headers and payload binary. CSV has the same columns; a payload is text, or else base64
after `base64:`. JSON lines are those of `seriatim journal cat --json`.

The file gets its name only when it is complete. Memory: one row group.
"""

import base64
import csv
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from sequencer.journal import Lost, Reader, Record
from sequencer.journal.disk import replacing
from seriatim.cli.errors import CliError, UsageError
from seriatim.cli.journal.journal_cat import as_json
from seriatim.cli.journal.journal_span import Losses, Span, store_errors
from seriatim.cli.progress import Step, bar
from seriatim.client.chunk_columns import Columns
from seriatim.settings.moments import show_time

FORMATS = ("parquet", "csv", "jsonl")
ENDINGS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
GROUP_ROWS_MAX = 1 << 20
GROUP_BYTES_MAX = 64 << 20
CHUNK_BYTES_MAX = 8 << 20
CHUNK_ROWS_MAX = 1 << 16
STEP_ROWS = 1 << 13
NO_PYARROW = (
    "Parquet needs pyarrow, which is not installed here: pip install 'pyarrow>=15',"
    " or give --format csv or --format jsonl"
)


@dataclass(frozen=True, slots=True)
class ExportTarget:
    """The output of an export: its path and format. Path "-" is standard output."""

    path: str
    format: str
    force: bool = False
    microseconds: bool = False
    compression: str = "zstd"


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The result of an export; not `complete` if damage has lost numbers."""

    rows: int
    bytes: int
    complete: bool


def format_of(path: str, chosen: str | None) -> str:
    """The chosen format, or that of the file's name. Raises `CliError`."""
    if chosen is not None and chosen not in FORMATS:
        raise UsageError(f'--format: "{chosen}" is not one of {", ".join(FORMATS)}')
    ending = os.path.splitext(path)[1].lower()
    found = chosen or ENDINGS.get(ending)
    if found is None:
        raise UsageError(f"{path}: its extension is unknown; give --format {'|'.join(FORMATS)}")
    if found == "parquet" and path == "-":
        raise UsageError("Parquet cannot be written to a pipe; give a file with -o")
    return found


def export(reader: Reader, span: Span, target: ExportTarget) -> ExportResult:
    """Write the file. Raises `CliError`."""
    writers = {"parquet": _write_parquet, "csv": _write_csv, "jsonl": _write_jsonl}
    with store_errors(reader.view.path):
        first, last = reader.bounds()
        begin = max(span.first, first) if span.first else first
        end = last if span.last is None else min(span.last, last)
        span = Span(span.first, end, span.wanted)
        with _output(target) as out, bar("exporting", end - begin + 1, "messages") as step:
            outcome = writers[target.format](
                reader, span, target, out, lambda number: step(number - begin)
            )
        return outcome


@contextmanager
def _output(target: ExportTarget) -> Iterator[BinaryIO]:
    """A temporary file next to the target; it takes the target's name on success."""
    if target.path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if os.path.exists(target.path) and not target.force:
        raise CliError(f"{target.path}: the file exists already; --force replaces it")
    with (
        replacing(target.path, durable=False, mode=0o666) as descriptor,  # as the umask says
        open(descriptor, "wb", closefd=False) as out,
    ):
        yield out


def _write_parquet(
    reader: Reader, span: Span, target: ExportTarget, out: BinaryIO, step: Step
) -> ExportResult:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise CliError(NO_PYARROW) from error
    schema = _schema(target.microseconds)
    losses = Losses()
    held: list[Any] = []
    written = rows = size = 0
    options = {"compression": target.compression, "use_dictionary": ["subject", "reply"]}
    with parquet.ParquetWriter(out, schema, write_page_checksum=True, **options) as writer:

        def write_group() -> None:
            nonlocal rows, size
            if held:
                writer.write_table(pa.Table.from_batches(held, schema), row_group_size=rows)
            held.clear()
            rows = size = 0

        for item in reader.columns(
            span.first, span.last, span.wanted, CHUNK_ROWS_MAX, CHUNK_BYTES_MAX
        ):
            if isinstance(item, Lost):
                losses.tell(item)
                continue
            columns = Columns(item)
            if rows + len(columns) > GROUP_ROWS_MAX or size + len(item) > GROUP_BYTES_MAX:
                write_group()
            held.append(_batch(columns, schema))
            rows += len(columns)
            size += len(item)
            written += len(columns)
            step(columns.numbers[-1] + 1)
        write_group()
    return ExportResult(written, out.tell(), not losses.damaged)


def _schema(microseconds: bool) -> Any:
    import pyarrow as pa

    time = pa.timestamp("us" if microseconds else "ns", tz="UTC")
    fields = [("number", pa.int64()), ("time", time), ("subject", pa.string())]
    fields += [("reply", pa.string()), ("headers", pa.binary()), ("payload", pa.binary())]
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in fields])


def _batch(columns: Columns, schema: Any) -> Any:
    """The chunk as a RecordBatch of this schema; subjects that are not valid UTF-8 are escaped."""
    import pyarrow as pa

    batch = columns.to_arrow()
    arrays = []
    for field in schema:
        array = batch.column(field.name)
        if array.type != field.type:
            try:
                array = array.cast(field.type, safe=field.name != "time")
            except pa.ArrowInvalid:
                texts = [one.decode("utf-8", "backslashreplace") for one in array.to_pylist()]
                array = pa.array(texts, field.type)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _write_jsonl(
    reader: Reader, span: Span, target: ExportTarget, out: BinaryIO, step: Step
) -> ExportResult:
    return _write_lines(reader, span, out, step, as_json, b"")


def _write_csv(
    reader: Reader, span: Span, target: ExportTarget, out: BinaryIO, step: Step
) -> ExportResult:
    text = io.StringIO()
    writer = csv.writer(text)

    def line(row: tuple[Any, ...]) -> bytes:
        text.seek(0)
        text.truncate()
        writer.writerow(row)
        return text.getvalue().encode()

    head = line(("number", "time", "subject", "reply", "headers", "payload"))

    def encode(record: Record) -> bytes:
        names = (_cell(record.subject), _cell(record.reply))
        rest = (_cell(record.headers), _cell(record.payload))
        return line((record.number, show_time(record.time), *names, *rest))

    return _write_lines(reader, span, out, step, encode, head)


def _cell(data: bytes | memoryview) -> str:
    """Text as it is; other bytes, and text that looks like `base64:`, in base64."""
    if not data:
        return ""
    plain = bytes(data)
    try:
        text = plain.decode()
    except UnicodeDecodeError:
        text = ""
    if not text or text.startswith("base64:") or "\0" in text:
        return "base64:" + base64.b64encode(plain).decode()
    return text


def _write_lines(
    reader: Reader,
    span: Span,
    out: BinaryIO,
    step: Step,
    encode: Callable[[Record], bytes],
    head: bytes,
) -> ExportResult:
    losses = Losses()
    rows, size = 0, out.write(head)
    for item in reader.records(span.first, span.last, span.wanted):
        if isinstance(item, Lost):
            losses.tell(item)
            continue
        size += out.write(encode(item))
        rows += 1
        if rows % STEP_ROWS == 0:
            step(item.number)
    return ExportResult(rows, size, not losses.damaged)
