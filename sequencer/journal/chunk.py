"""The form of a chunk of columns, as `columns.py` writes it; the client has the reader of it.

     0 magic "SQC1"    4 rows u32    8 flags u32        12 count of sections u32 (10)
    16 ten times: offset u32, size u32
    96 numbers i64[rows], times i64[rows] (ns since 1970), then for subject, reply, headers and
       payload, one after the other: offsets i32[rows + 1], and the bytes they point into

Bit i of the flags is set if column i of `COLUMNS` was left out; its sections have size 0.

Little-endian; every section begins at a multiple of 8. Offsets are in Arrow's format, so a
section can be used as an Arrow buffer.
"""

import struct
from collections.abc import Iterable
from typing import Final

MAGIC: Final = b"SQC1"
SECTIONS: Final = 10
HEAD: Final = struct.Struct("<4s3I")
SECTION: Final = struct.Struct("<II")
HEAD_SIZE: Final = HEAD.size + SECTIONS * SECTION.size
COLUMNS: Final = ("number", "time", "subject", "reply", "headers", "payload")
NUMBER, TIME, SUBJECT, REPLY, HEADERS, PAYLOAD = (1 << at for at in range(len(COLUMNS)))
STRINGS: Final = (SUBJECT, REPLY, HEADERS, PAYLOAD)
# Results of `Collector.collect` besides MORE and BAD; columns.pxd repeats these.
FULL: Final = 3
END: Final = 4
GAP: Final = 5


def left_out(names: Iterable[str]) -> int:
    """Return the flags for only these columns. ValueError for an unknown name, or for none."""
    wanted = list(names)
    for name in wanted:
        if name not in COLUMNS:
            raise ValueError(f"{name!r} is not a column; the columns are {', '.join(COLUMNS)}")
    if not wanted:
        raise ValueError(f"no column is wanted; name one or more of {', '.join(COLUMNS)}")
    return sum(1 << at for at, name in enumerate(COLUMNS) if name not in wanted)


def sections(chunk: bytes) -> list[memoryview]:
    """Return the sections of a chunk of our own making, which needs no checks."""
    view = memoryview(chunk)
    places = (SECTION.unpack_from(chunk, HEAD.size + at * SECTION.size) for at in range(SECTIONS))
    return [view[offset : offset + size] for offset, size in places]
