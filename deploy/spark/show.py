"""Shows what `archive` and `cardinal` wrote: `python show.py ARCHIVE TABLES`.

Reads the files by their list with pyarrow, so no JVM starts. Prints the last rows of each table,
and the number of messages in each folder.
"""

import sys
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from pyspark_seriatim.jobs.cardinal import cardinal_tables
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog import FileLog

ROWS = 5
BYTES_SHOWN, TEXT_SHOWN = 12, 40
WIDTH = 132  # without a terminal


def text(value: Any) -> str:
    """A value for a cell: bytes in hexadecimal unless they are text; long values are cut."""
    if isinstance(value, bytes):
        readable = value.isascii() and value.decode().isprintable()
        return cut(value.decode(), TEXT_SHOWN) if readable else cut(f"0x{value.hex()}", BYTES_SHOWN)
    if isinstance(value, list):
        return ", ".join(text(one) for one in value)
    if isinstance(value, datetime):
        return value.strftime("%H:%M:%S")
    return cut(str(value), TEXT_SHOWN)


def cut(shown: str, most: int) -> str:
    """The beginning of a text, with a sign if there is more."""
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def table(title: str, names: list[str], rows: list[dict[str, Any]]) -> Table:
    """Rows as a table to print."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for name in names:
        made.add_column(name)
    for row in rows:
        made.add_row(*(text(row[name]) for name in names))
    return made


def messages(root: str) -> Table:
    """The folders of an archive with their counts, and the last message of each."""
    log = FileLog.open(root)
    if not log.files("messages"):
        raise JobError(f"{root}: there are no messages")
    folders: dict[str, dict[str, Any]] = {}
    for file in log.files("messages"):
        folder = str(PurePosixPath(file.path).parent)
        found = folders.setdefault(
            folder, {"folder": folder, "files": 0, "rows": 0, "first": file.first}
        )
        found["files"] += 1
        found["rows"] += file.rows
        found["last"] = file.last
        place = log.place
        read = pq.ParquetFile(place.inner(file.path), filesystem=place.filesystem)
        last = read.read_row_group(read.num_row_groups - 1, ["subject", "payload"])
        found |= last.slice(last.num_rows - 1).to_pylist()[0]
    names = ["folder", "files", "rows", "first", "last", "subject", "payload"]
    return table(f"{root}: messages, and the last of each folder", names, list(folders.values()))


def main() -> int:
    archive, chain = sys.argv[1:]
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    try:
        console.print(messages(archive))
        tables = cardinal_tables.open(chain)
        for name in ("blocks", "updates", "reorgs"):
            found = tables.arrow(name)
            if not found.num_rows:
                raise JobError(f"{chain}: there are no {name}")
            last = found.slice(max(found.num_rows - ROWS, 0)).to_pylist()
            title = f"{chain}: {name}, the last of {found.num_rows:,} rows"
            console.print(table(title, found.column_names, last))
    except JobError as error:
        print(f"show.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
