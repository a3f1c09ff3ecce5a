"""The results of `stats`: printed as a table, and written as Parquet, CSV or JSON lines."""

import json
import os
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from pyspark_seriatim.jobs.errors import JobError, WrongArguments, first_line
from pyspark_seriatim.jobs.filelog.files import Files
from pyspark_seriatim.jobs.stats.measuring import Measured

FORMATS: Final = (".parquet", ".csv", ".jsonl")
UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
SUBJECT_SHOWN_MAX: Final = 60
SUBJECT_WIDTH_MIN: Final = 12  # a longer subject wraps in a narrow terminal


def check_output(path: str) -> str:
    """The format, from a path's ending. Raises `JobError`."""
    for ending in FORMATS:
        if path.endswith(ending):
            return ending
    raise WrongArguments(
        f"--out {path}: the name says the format; end it with {', '.join(FORMATS)}"
    )


def make_folder(path: str) -> None:
    """Create the folder for a file to be written later. Raises `JobError` if that fails."""
    folder = _folder_of(path)
    try:
        folder.make("")
    except OSError as error:
        raise JobError(f"--out {path}: {first_line(error)}") from error
    if "://" not in folder.root and not os.access(folder.root, os.W_OK):
        raise JobError(f"--out {path}: cannot write to {folder.root}")
    if Files(path).exists("") and Files(path).size("") is None:
        raise JobError(f"--out {path}: that is a folder; name a file")


def _folder_of(path: str) -> Files:
    return Files(Files(path).root.rpartition("/")[0] or "/")


def write_table(path: str, table: pa.Table) -> None:
    """Write a file that appears only when it is complete."""
    ending = check_output(path)
    place, name = _folder_of(path), path.rpartition("/")[2]
    temporary = f".{name}.new"
    place.make("")
    with place.filesystem.open_output_stream(place.inner(temporary)) as stream:
        if ending == ".parquet":
            pq.write_table(table, stream, compression="zstd", write_page_checksum=True)
        elif ending == ".csv":
            pa.csv.write_csv(table, stream)
        else:
            for batch in table.to_batches(max_chunksize=10_000):
                stream.write("".join(f"{_json(row)}\n" for row in batch.to_pylist()).encode())
    place.filesystem.move(place.inner(temporary), place.inner(name))


def _json(row: dict[str, Any]) -> str:
    return json.dumps({name: _plain(value) for name, value in row.items()}, ensure_ascii=False)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def as_json(measured: Measured) -> dict[str, Any]:
    """The subjects and the totals, for programs."""
    whole = [{n: _plain(v) for n, v in row.items()} for row in measured.whole.to_pylist()]
    subjects = [{n: _plain(v) for n, v in row.items()} for row in measured.subjects.to_pylist()]
    for row in whole:
        del row["subject"]
    return {"all": whole[0] if whole else None, "subjects": subjects}


def print_measured(measured: Measured, top: int, console: Console) -> None:
    """The busiest subjects, and the totals."""
    if not measured.whole.num_rows:
        console.print("no messages")
        return
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    heads = ("subject", "messages", "bytes", "min", "p50", "p95", "max", "mean")
    for head in (*heads, "messages/s", "bytes/s", "peak/s"):
        numeric = head != "subject"
        wide = 0 if numeric else SUBJECT_WIDTH_MIN
        table.add_column(
            head, justify="right" if numeric else "left", no_wrap=numeric, min_width=wide
        )
    peaks = _peaks(measured)
    rows = measured.subjects.slice(0, top).to_pylist()
    for row in rows:
        table.add_row(row["subject"][:SUBJECT_SHOWN_MAX], *_cells(row, peaks.get(row["subject"])))
    (whole,) = measured.whole.to_pylist()
    left = measured.subjects.num_rows - len(rows)
    if left:
        table.add_row(f"... {left:,} more")
    table.add_row(
        f"all {measured.subjects.num_rows:,}", *_cells(whole, peaks.get(None)), style="bold"
    )
    console.print(table)
    first, last = (whole[name].strftime("%Y-%m-%d %H:%M:%S") for name in ("first", "last"))
    seconds = measured.window_us / 1e6
    console.print(
        f"\nfrom {first} to {last} UTC; peak: the busiest window of {seconds:g} s", highlight=False
    )


def _peaks(measured: Measured) -> dict[str | None, float]:
    """Messages per second in the busiest window, for each subject and for all (None)."""
    windows = measured.windows
    each = windows.group_by("subject").aggregate([("messages_per_second", "max")])
    names, rates = each.column("subject"), each.column("messages_per_second_max")
    found: dict[str | None, float] = dict(zip(names.to_pylist(), rates.to_pylist(), strict=True))
    of_all = windows.group_by("window").aggregate([("messages_per_second", "sum")])
    found[None] = max(of_all.column("messages_per_second_sum").to_pylist(), default=0.0)
    return found


def _cells(row: dict[str, Any], peak: float | None) -> list[str]:
    sizes = [_bytes(row[f"size_{name}"]) for name in ("min", "p50", "p95", "max", "mean")]
    return [
        f"{row['messages']:,}",
        _bytes(row["bytes"]),
        *sizes,
        _count(row["messages_per_second"]),
        _bytes(row["bytes_per_second"]),
        _count(peak or 0.0),
    ]


def _count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _bytes(value: float) -> str:
    """Format a number of bytes, in units of 1000."""
    size = float(value)
    for unit in UNITS[:-1]:
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} {UNITS[-1]}"
