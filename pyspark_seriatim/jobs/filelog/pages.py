"""Checksums of Parquet files: of pages, which the format supports, and of footers.

A page may carry a CRC-32 of its bytes. Archives are written with it, and readers verify it. The
format has none for the footer. So the list of files has a checksum of each footer, made when a file
is added; a file that is read by the list is compared with it.
"""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from pyspark_seriatim.jobs.errors import JobError, first_line
from pyspark_seriatim.jobs.filelog.files import Files

TAIL: Final = 8  # the footer's length, and PAR1
HEADER_BYTES: Final = 64  # more than what comes before the checksum in a page's header
I32, CRC_FIELD = 5, 4
BATCH_BYTES: Final = 16 << 20
VERIFY: Final = "parquet.page.verify-checksum.enabled"  # for Spark's own reader


def opened(place: Files, path: str, footer: str = "") -> pq.ParquetFile:
    """A file whose pages are verified as they are read. Raises `JobError`.

    `footer` is its checksum in the list; if that is empty, it is not compared.
    """
    with reading(place, path):
        if footer and footer_sum(place, path) != footer:
            raise JobError(
                f"{place.uri(path)}: its footer is not the one that was written: the file was"
                " damaged, or replaced"
            )
        return pq.ParquetFile(
            place.inner(path), filesystem=place.filesystem, page_checksum_verification=True
        )


@contextmanager
def reading(place: Files, path: str) -> Iterator[None]:
    """Turn errors of the file into `JobError`s that name it."""
    try:
        yield
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise JobError(f"{place.uri(path)}: {first_line(error)}") from error


def footer_sum(place: Files, path: str) -> str:
    """The CRC-32 of a file's footer and what follows it; empty if the file is not Parquet."""
    with place.filesystem.open_input_file(place.inner(path)) as file:
        size = file.size()
        if size < TAIL:
            return ""
        tail = file.read_at(TAIL, size - TAIL)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != b"PAR1" or length + TAIL > size:
            return ""
        return f"{zlib.crc32(file.read_at(length + TAIL, size - length - TAIL)):08x}"


def has_sums(place: Files, path: str, metadata: Any) -> bool:
    """True if the pages of a file have checksums; looks at the first one."""
    if not metadata.num_row_groups or not metadata.row_group(0).num_columns:
        return True
    column = metadata.row_group(0).column(0)
    begins = [column.dictionary_page_offset, column.data_page_offset]
    with place.filesystem.open_input_file(place.inner(path)) as file:
        header = file.read_at(HEADER_BYTES, min(at for at in begins if at is not None))
    return CRC_FIELD in _fields(header)


def _fields(header: bytes) -> Iterator[int]:
    """The leading fields of a page's header, all of type i32."""
    at = field = 0
    while at < len(header):
        delta, kind = header[at] >> 4, header[at] & 15
        if kind != I32 or not delta:
            return
        field += delta
        yield field
        at += 1
        while at < len(header) and header[at] & 0x80:
            at += 1
        at += 1


def read_through(place: Files, path: str, file: pq.ParquetFile, without: Sequence[str]) -> None:
    """Read the columns except `without`, which are read elsewhere. Raises `JobError`."""
    metadata = file.metadata
    names = [name for name in file.schema_arrow.names if name not in without]
    if not names:
        return
    with reading(place, path):
        for group in range(metadata.num_row_groups):
            about = metadata.row_group(group)
            each = max(about.total_byte_size / max(about.num_rows, 1), 1)
            rows = min(max(int(BATCH_BYTES / each), 1), 1 << 16)
            for _ in file.iter_batches(rows, [group], names, use_threads=False):
                pass


def all_batches(
    place: Files, path: str, file: pq.ParquetFile, rows: int
) -> Iterator[pa.RecordBatch]:
    """All rows of a file, this many at a time. Raises `JobError`."""
    with reading(place, path):
        yield from file.iter_batches(rows)
