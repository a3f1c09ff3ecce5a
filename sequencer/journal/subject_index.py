"""The subject index of a sealed segment: each of its subjects, and where its last message is.

     0 magic "SERISUBJ"      8 version u16         10 size of this head u16
    12 count of blocks u32  16 journal u64         24 first number u64     32 last number u64
    40 bytes of the segment that it covers u64     48 where its last record begins u64
    56 that record's crc u32                       60 count of subjects u32
    64 size of the table u32                       68 crc u32: of the table
    72 zeros u32            76 crc u32: of the 76 bytes before
    80 blocks of entries:   number u64, offset u64, size u16, subject
       table, for each block: where it ends u64, its crc u32, size u16, its first subject

Entries are sorted by subject, so one subject is found by its block alone. A segment whose table of
subjects was `full` has a file without entries, and one that is damaged has no file: they are read
through instead. A missing or wrong file makes a question slower, never wrong. It is wrong if the
segment's size, its numbers, or its last record differ: then it was cut, and written again.

A `SubjectIndex` is a `SegmentView`, so that readers of the journal can read it, too.
"""

import contextlib
import errno
import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from sequencer.journal.crc import crc32c
from sequencer.journal.disk import UNSUPPORTED, replace
from sequencer.journal.header import SUBJECTS
from sequencer.journal.protocols import SegmentView
from sequencer.journal.segment import Segment
from sequencer.journal.subject_table import SubjectTable

MAGIC: Final = b"SERISUBJ"
VERSION: Final = 1
HEAD: Final = struct.Struct("<8sHHIQQQQQIIIII")
HEAD_SIZE: Final = HEAD.size + 4
ENTRY: Final = struct.Struct("<QQH")
FENCE: Final = struct.Struct("<QIH")
BLOCK: Final = 16 << 10  # a block ends with the entry that makes it this long
BLOCK_MAX: Final = BLOCK + ENTRY.size + (1 << 16)
RECORD_HEAD: Final = struct.Struct("<IIQ")  # as a record begins: crc, length, number

Entry = tuple[bytes, int, int]  # subject, number, offset


class SubjectIndex:
    """A good subject index, as a segment of blocks. For the thread that reads the journal."""

    __slots__ = ("_crcs", "_ends", "_fd", "_file", "_holders", "_subjects", "segment", "size")

    start = HEAD_SIZE

    def __init__(self, segment: Segment, table: bytes, count: int) -> None:
        self.segment = segment
        self._file = segment.path + SUBJECTS
        self._ends: list[int] = []
        self._crcs: list[int] = []
        self._subjects: list[bytes] = []
        self._fd = -1
        self._holders = 0
        at = 0
        for _ in range(count):
            end, crc, size = FENCE.unpack_from(table, at)
            at += FENCE.size + size
            self._ends.append(end)
            self._crcs.append(crc)
            self._subjects.append(table[at - size : at])
        self.size = self._ends[-1]

    def __str__(self) -> str:
        return self._file

    @property
    def first(self) -> int:
        return self.segment.first

    @property
    def last(self) -> int:
        return self.segment.last

    @property
    def gone(self) -> bool:
        return self.segment.gone

    @property
    def following(self) -> SegmentView | None:
        return self.segment.following

    def hold(self) -> None:
        """Keep the index readable, even if it is deleted."""
        self._holders += 1
        if self._fd < 0:
            with contextlib.suppress(OSError):  # `read` will fail, and then it matters
                self._fd = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC)

    def release(self) -> None:
        """Release a hold; the last release closes the file."""
        assert self._holders, "every release has its hold"
        self._holders -= 1
        if self._holders == 0 and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read(self, offset: int, into: memoryview, wait: bool) -> int:
        """Copy whole blocks at `offset`, as `SegmentView` says. For any thread, while held."""
        want = min(len(into), self.size - offset)
        if want <= 0:
            return 0
        if self._fd < 0:
            raise OSError(errno.ENOENT, "the file is gone", self._file)
        got = self._pread(into[:want], offset, wait)
        if got < want:
            if not wait:
                raise BlockingIOError  # only a part is in memory
            raise OSError(errno.EIO, f"the file ends before byte {self.size}", self._file)
        return got

    def block_of(self, subject: bytes) -> int:
        """Return where the block begins that has a subject, or the beginning of those after it."""
        at = bisect_right(self._subjects, subject) - 1
        return self._ends[at - 1] if at > 0 else HEAD_SIZE

    def end_of_block(self, offset: int) -> int:
        """Return where the block ends that begins at `offset`."""
        return self._ends[bisect_right(self._ends, offset)]

    def entries(self, offset: int, data: memoryview) -> list[Entry] | None:
        """The entries of the block at `offset`; None if `data` is not what was written there."""
        if crc32c(data) != self._crcs[bisect_right(self._ends, offset)]:
            return None
        return list(_entries(bytes(data)))

    def _pread(self, into: memoryview, offset: int, wait: bool) -> int:
        if not wait and Segment.nowait:
            try:
                return os.preadv(self._fd, [into], offset, os.RWF_NOWAIT)
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    raise
        return os.preadv(self._fd, [into], offset)


def _entries(data: bytes) -> Iterator[Entry]:
    at = 0
    while at < len(data):
        number, offset, length = ENTRY.unpack_from(data, at)
        at += ENTRY.size + length
        yield data[at - length : at], number, offset


def write_subjects(segment: Segment, journal: str, table: SubjectTable, crc: int) -> None:
    """Write the file, without a sync; `crc` is that of the last record.

    The table must have all of the segment. If it is full, the file says that there is no index.
    """
    body, fences = bytearray(), bytearray()
    begun, first, count, blocks = 0, b"", 0, 0

    def close() -> None:
        nonlocal begun, blocks
        fences.extend(FENCE.pack(HEAD_SIZE + len(body), crc32c(body[begun:]), len(first)) + first)
        begun = len(body)
        blocks += 1

    for subject, number, offset in table.sorted():
        if begun == len(body):
            first = subject
        body += ENTRY.pack(number, offset, len(subject)) + subject
        count += 1
        if len(body) - begun >= BLOCK:
            close()
    if begun < len(body):
        close()
    head = HEAD.pack(
        *(MAGIC, VERSION, HEAD_SIZE, blocks, int(journal, 16), segment.first, segment.last),
        *(segment.size, table.last_at, crc, count, len(fences), crc32c(fences), 0),
    )
    data = head + struct.pack("<I", crc32c(head)) + body + fences
    replace(segment.path + SUBJECTS, data, durable=False)


def read_subjects(segment: SegmentView, journal: str) -> SubjectIndex | None:
    """Return the subject index of a segment; None if it has no good one."""
    found = _read(segment, journal) if isinstance(segment, Segment) and segment.following else None
    if found is None or not found[1]:
        return None
    segment, blocks, table = found
    return SubjectIndex(segment, table, blocks)


def has_subjects(segment: Segment, journal: str) -> bool:
    """True if there is a good file, even if it only says that there is no index."""
    return _read(segment, journal) is not None


def _read(segment: Segment, journal: str) -> tuple[Segment, int, bytes] | None:
    """Return the segment, the number of blocks in its index, and their table."""
    try:
        with open(segment.path + SUBJECTS, "rb", buffering=0) as file:
            head = file.read(HEAD_SIZE)
            if len(head) < HEAD_SIZE or crc32c(head[:-4]) != int.from_bytes(head[-4:], "little"):
                return None
            magic, version, _, blocks, id, first, last, covered, last_at, crc, *rest = HEAD.unpack(
                head[: HEAD.size]
            )
            _, size, table_crc, _ = rest
            there = (segment.first, segment.last, segment.size)
            if magic != MAGIC or version != VERSION or id != int(journal, 16):
                return None
            if (first, last, covered) != there or not _has_record(segment, last_at, last, crc):
                return None
            end = os.fstat(file.fileno()).st_size
            file.seek(max(end - size, HEAD_SIZE))
            table = file.read(size)
            if crc32c(table) != table_crc:
                return None
    except OSError:
        return None
    return segment, blocks, table


def _has_record(segment: Segment, at: int, number: int, crc: int) -> bool:
    """True if the segment has this record: else it was cut and written again."""
    data = bytearray(RECORD_HEAD.size)
    with memoryview(data) as view:
        got = segment.read(at, view, True)
    found_crc, _, found_number = RECORD_HEAD.unpack(data)
    return got == len(data) and (found_crc, found_number) == (crc, number)
