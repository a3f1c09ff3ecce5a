"""Reads a chunk of columns as views of its arrays, without a loop over the rows.

     0 magic "SQC1"    4 rows u32    8 flags u32 (0)    12 count of sections u32 (10)
    16 ten times: offset u32, size u32
    96 numbers i64[rows], times i64[rows] (ns since 1970), then for subject, reply, headers and
       payload, one after the other: offsets i32[rows + 1], and the bytes they point into

Little-endian; every section begins at a multiple of 8. Offsets are in Arrow's format, so a
section can be used as an Arrow buffer. Nothing is copied: the views keep the chunk alive.
Nothing here is compiled, and only the standard library is needed; `to_arrow` needs pyarrow.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

MAGIC: Final = b"SQC1"
SECTIONS: Final = 10
HEAD: Final = struct.Struct("<4s3I")
SECTION: Final = struct.Struct("<II")
HEAD_SIZE: Final = HEAD.size + SECTIONS * SECTION.size
NAMES: Final = ("subject", "reply", "headers", "payload")
# What `Collector.take` returns besides MORE and BAD; columns.pxd repeats these.
FULL: Final = 3
END: Final = 4
GAP: Final = 5


class ChunkError(ValueError):
    """The bytes are not a chunk of columns, or only part of one."""


class Row(NamedTuple):
    """One message of a chunk; the bytes are views into it."""

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
        return self.data[self.offsets[row] : self.offsets[row + 1]]


class Columns:
    """The columns of a chunk. Raises `ChunkError` if the bytes are not a valid chunk."""

    __slots__ = ("_chunk", "headers", "numbers", "payloads", "replies", "subjects", "times")

    def __init__(self, chunk: bytes | bytearray | memoryview) -> None:
        view = memoryview(chunk).cast("B")
        if len(view) < HEAD_SIZE:
            raise ChunkError(f"{len(view)} bytes are too few: a chunk has {HEAD_SIZE} or more")
        magic, rows, flags, count = HEAD.unpack_from(view)
        if magic != MAGIC or count != SECTIONS or flags:
            raise ChunkError(f"not a chunk of columns: it begins with {bytes(view[:16]).hex()}")
        self._chunk = view
        sections = [self._section(index, rows) for index in range(SECTIONS)]
        self.numbers = sections[0].cast("q")
        self.times = sections[1].cast("q")
        pairs = [self._strings(sections[at], sections[at + 1]) for at in range(2, SECTIONS, 2)]
        self.subjects, self.replies, self.headers, self.payloads = pairs

    def _section(self, index: int, rows: int) -> memoryview:
        offset, size = SECTION.unpack_from(self._chunk, HEAD.size + index * SECTION.size)
        wanted = 8 * rows if index < 2 else 4 * (rows + 1) if index % 2 == 0 else size
        if offset % 8 or size != wanted or offset < HEAD_SIZE or offset + size > len(self._chunk):
            raise ChunkError(f"section {index} is {size} bytes at {offset}: truncated?")
        return self._chunk[offset : offset + size]

    def _strings(self, offsets: memoryview, data: memoryview) -> Strings:
        ends = offsets.cast("i")
        if ends[0] != 0 or ends[-1] != len(data):
            raise ChunkError(f"offsets go from {ends[0]} to {ends[-1]}, in {len(data)} bytes")
        return Strings(ends, data)

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Row]:
        for at, (number, time) in enumerate(zip(self.numbers, self.times, strict=True)):
            subject, reply = bytes(self.subjects[at]), bytes(self.replies[at])
            yield Row(number, time, subject, reply, self.headers[at], self.payloads[at])

    def to_arrow(self) -> Any:
        """Return a pyarrow.RecordBatch on the same memory: number, time (ns, UTC), four strings.

        The strings have Arrow's type `binary`: subjects and payloads need not be text.
        """
        import pyarrow as pa

        rows = len(self)
        numbers = [None, pa.py_buffer(self.numbers)]
        times = [None, pa.py_buffer(self.times)]
        arrays = [
            pa.Array.from_buffers(pa.int64(), rows, numbers),
            pa.Array.from_buffers(pa.timestamp("ns", tz="UTC"), rows, times),
        ]
        for strings in (self.subjects, self.replies, self.headers, self.payloads):
            buffers = [None, pa.py_buffer(strings.offsets), pa.py_buffer(strings.data)]
            array = pa.Array.from_buffers(pa.binary(), rows, buffers)
            try:
                array.validate(full=True)  # offsets that point outside would crash later
            except pa.ArrowInvalid as error:
                raise ChunkError(str(error)) from error
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, names=["number", "time", *NAMES])
