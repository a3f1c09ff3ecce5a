"""Reads a chunk of columns as views of its arrays, without a loop over the rows.

     0 magic "SQC1"    4 rows u32    8 flags u32        12 count of sections u32 (10)
    16 ten times: offset u32, size u32
    96 numbers i64[rows], times i64[rows] (ns since 1970), then for subject, reply, headers and
       payload, one after the other: offsets i32[rows + 1], and the bytes they point into

Bit i of the flags is set if column i of `COLUMNS` was left out; its sections have size 0.

Little-endian; every section begins at a multiple of 8. Offsets are in Arrow's format, so a
section can be used as an Arrow buffer. Nothing is copied: the views keep the chunk alive.
A chunk may come from anywhere. What its head says is checked at once, and the offsets when they
are used: here, or by Arrow.
"""

import struct
from collections.abc import Iterable, Iterator
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from seriatim.client.errors import BrokerError

MAGIC: Final = b"SQC1"
SECTIONS: Final = 10
HEAD: Final = struct.Struct("<4s3I")
SECTION: Final = struct.Struct("<II")
HEAD_SIZE: Final = HEAD.size + SECTIONS * SECTION.size
COLUMNS: Final = ("number", "time", "subject", "reply", "headers", "payload")
NOTHING: Final = (1 << len(COLUMNS)) - 1  # every column left out: not a chunk
ARRAYS: Final = ("numbers", "times", "subjects", "replies", "headers", "payloads")


class ChunkError(BrokerError, ValueError):
    """The bytes are not a chunk of columns, or only part of one."""


class Row(NamedTuple):
    """One message of a chunk. Headers and payload are views; what was left out is 0 or empty."""

    number: int
    time: int
    subject: bytes
    reply: bytes
    headers: memoryview
    payload: memoryview


class Strings:
    """One column of byte strings: row `row` is `data[offsets[row] : offsets[row + 1]]`."""

    __slots__ = ("data", "offsets")

    def __init__(self, offsets: memoryview, data: memoryview) -> None:
        self.offsets = offsets
        self.data = data

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> memoryview:
        start, end = self.offsets[row], self.offsets[row + 1]
        if not 0 <= start <= end <= len(self.data):
            raise ChunkError(f"row {row} is at {start} to {end}, in {len(self.data)} bytes")
        return self.data[start:end]

    def __iter__(self) -> Iterator[memoryview]:
        return (self.data[start:end] for start, end in pairwise(self.ends()))

    def blobs(self) -> list[bytes]:
        """Return a copy of each. Raises `ChunkError` if the offsets are wrong."""
        ends, data = self.ends(), bytes(self.data)
        return [data[start:end] for start, end in pairwise(ends)]

    def ends(self) -> list[int]:
        """Return the offsets. Raises `ChunkError` unless each is in the bytes, and none falls."""
        ends: list[int] = self.offsets.tolist()
        if ends != sorted(ends):  # the first is 0, and the last the size of the bytes
            raise ChunkError("offsets of a column fall")
        return ends


class Columns:
    """The columns of a chunk. Raises `ChunkError` if the bytes are not a valid chunk.

    `names` are the columns that it contains. The others raise `ChunkError` when they are used.
    """

    __slots__ = ("_chunk", "_rows", "names", *ARRAYS)

    numbers: memoryview
    times: memoryview
    subjects: Strings
    replies: Strings
    headers: Strings
    payloads: Strings

    def __init__(self, chunk: bytes | bytearray | memoryview) -> None:
        view = memoryview(chunk).cast("B")
        if len(view) < HEAD_SIZE:
            raise ChunkError(f"{len(view)} bytes are too few: a chunk has {HEAD_SIZE} or more")
        magic, rows, flags, count = HEAD.unpack_from(view)
        if magic != MAGIC or count != SECTIONS or flags >= NOTHING:
            raise ChunkError(f"not a chunk of columns: it begins with {bytes(view[:16]).hex()}")
        self._chunk = view
        self._rows = rows
        self.names = tuple(name for at, name in enumerate(COLUMNS) if not flags >> at & 1)
        for at, name in enumerate(ARRAYS):
            there = not flags >> at & 1
            if at < 2:
                numbers = self._section(at, 8 * rows if there else 0)
                if there:
                    setattr(self, name, numbers.cast("q"))
            else:
                offsets = self._section(2 * at - 2, 4 * (rows + 1) if there else 0)
                data = self._section(2 * at - 1, None if there else 0)
                if there:
                    setattr(self, name, self._strings(offsets, data))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name not in ARRAYS:
                raise AttributeError(f"a chunk of columns has no attribute {name!r}")
            column = COLUMNS[ARRAYS.index(name)]
            raise ChunkError(f"{column} was left out of this chunk; it has {', '.join(self.names)}")

    def _section(self, index: int, wanted: int | None) -> memoryview:
        """Return one section; `wanted` is the size that it must have, if that is known."""
        offset, size = SECTION.unpack_from(self._chunk, HEAD.size + index * SECTION.size)
        wanted = size if wanted is None else wanted
        if offset % 8 or size != wanted or offset < HEAD_SIZE or offset + size > len(self._chunk):
            raise ChunkError(f"section {index} is {size} bytes at {offset}: truncated?")
        return self._chunk[offset : offset + size]

    def _strings(self, offsets: memoryview, data: memoryview) -> Strings:
        ends = offsets.cast("i")
        if ends[0] != 0 or ends[-1] != len(data):
            raise ChunkError(f"offsets go from {ends[0]} to {ends[-1]}, in {len(data)} bytes")
        return Strings(ends, data)

    def strings(self, name: str) -> Strings:
        """Return one of the columns of byte strings, by its name."""
        found: Strings = getattr(self, ARRAYS[COLUMNS.index(name)])
        return found

    def __len__(self) -> int:
        return int(self._rows)

    def __iter__(self) -> Iterator[Row]:
        integers = [self._values(name, 0) for name in COLUMNS[:2]]
        strings = [self._values(name, memoryview(b"")) for name in COLUMNS[2:]]
        for number, time, subject, reply, headers, payload in zip(*integers, *strings, strict=True):
            yield Row(number, time, bytes(subject), bytes(reply), headers, payload)

    def _values(self, column: str, default: Any) -> Iterable[Any]:
        """The values of a column, or as many defaults."""
        if column not in self.names:
            return repeat(default, self._rows)
        values: Iterable[Any] = getattr(self, ARRAYS[COLUMNS.index(column)])
        return values

    def to_arrow(self) -> Any:
        """Return a pyarrow.RecordBatch on the same memory: number, time (ns, UTC), four strings.

        Columns that were left out are not in it. The strings have Arrow's type `binary`: subjects
        and payloads need not be text.
        """
        import pyarrow as pa

        from seriatim.client import arrow_columns

        arrays = []
        for name in self.names:
            column = getattr(self, ARRAYS[COLUMNS.index(name)])
            if isinstance(column, Strings):
                arrays.append(arrow_columns.binary(column))
            else:
                arrays.append(arrow_columns.integers(column, arrow_columns.TYPES[name]))
        return pa.RecordBatch.from_arrays(arrays, names=list(self.names))
