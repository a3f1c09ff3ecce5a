"""The subject index of a sealed segment: each of its subjects, and where its last message is.

     0 magic "SERISUBJ"      8 version u16         10 size of this head u16
    12 count of blocks u32  16 journal u64         24 first number u64     32 last number u64
    40 bytes of the segment that it covers u64     48 where its last record begins u64
    56 that record's crc u32                       60 count of subjects u32
    64 size of the table u32                       68 crc u32: of the table, filter included
    72 size of the filter u32                      76 crc u32: of the 76 bytes before
    80 blocks of entries:   number u64, offset u64, size u16, subject
       table, for each block: where it ends u64, its crc u32, size u16, its first subject;
       then the filter      (version 1 had none, and zeros at 72)

Entries are sorted by subject, so one subject is found by its block alone. A segment whose table of
subjects was `full` has a file without entries, and one that is damaged has no file: they are read
through instead. A missing or wrong file makes a question slower, never wrong. It is wrong if the
segment's size, its numbers, or its last record differ: then it was cut, and written again.

The filter (Bloom's) says of most subjects that the segment does not have that it has not: it needs
ten bits for a subject, and is wrong for one in a hundred. A subject sets `PROBES` bits.

A `SubjectIndex` is a `SegmentView`, so that readers of the journal can read it, too.
`SubjectIndexes` keeps those that were used last: their tables, and not their blocks.
"""

import contextlib
import errno
import os
import struct
import zlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

from sequencer.journal.crc import crc32c
from sequencer.journal.disk import replace
from sequencer.journal.header import SUBJECTS
from sequencer.journal.protocols import ReadableJournal, SegmentView
from sequencer.journal.segment import Segment, read_at
from sequencer.journal.subject_table import SubjectTable

MAGIC: Final = b"SERISUBJ"
VERSION: Final = 2
VERSIONS: Final = (1, 2)
HEAD: Final = struct.Struct("<8sHHIQQQQQIIIII")
HEAD_SIZE: Final = HEAD.size + 4
ENTRY: Final = struct.Struct("<QQH")
FENCE: Final = struct.Struct("<QIH")
BLOCK: Final = 4 << 10  # a block ends with the entry that makes it this long
RECORD_HEAD: Final = struct.Struct("<IIQ")  # as a record begins: crc, length, number

FILTER_BITS: Final = 10  # for a subject
FILTER_MIN: Final = 8
PROBES: Final = 7
KEPT_BYTES: Final = (
    32 << 20
)  # of indexes in memory; a segment has 300 KiB at most, usually far less
FENCE_BYTES: Final = 150  # that a block takes there, besides its first subject: four objects
INDEX_BYTES: Final = 1000

Entry = tuple[bytes, int, int]  # subject, number, offset
Probe = tuple[int, int]  # where a subject's first bit is, and how far apart the others are


def probe_of(subject: bytes) -> Probe:
    """Return what a filter is asked with: two checksums that do not follow from each other."""
    return crc32c(subject), zlib.crc32(subject) | 1


def filter_of(subjects: list[bytes]) -> bytearray:
    """Return the filter of these subjects."""
    bits = bytearray(max(FILTER_MIN, len(subjects) * FILTER_BITS // 8 + 1))
    size = 8 * len(bits)
    for subject in subjects:
        at, step = probe_of(subject)
        for _ in range(PROBES):
            place = at % size
            bits[place >> 3] |= 1 << (place & 7)
            at += step
    return bits


class SubjectIndex:
    """A good subject index, as a segment of blocks. For the thread that reads the journal."""

    __slots__ = (
        *("_bits", "_covered", "_crcs", "_ends", "_fd", "_file", "_holders", "_subjects"),
        *("kept_bytes", "segment", "size"),
    )

    start = HEAD_SIZE

    def __init__(self, segment: Segment, table: bytes, count: int, bits: bytes) -> None:
        self.segment = segment
        self._file = segment.path + SUBJECTS
        self._covered = segment.size, segment.last
        self._bits = bits
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
        self.kept_bytes = INDEX_BYTES + len(table) + count * FENCE_BYTES + len(bits)

    @property
    def fits(self) -> bool:
        """True if the segment is as it was when this was read."""
        segment = self.segment
        return self._covered == (segment.size, segment.last) and not segment.gone

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return len(self._ends)

    def may_have(self, probe: Probe) -> bool:
        """False if the segment surely has not the subject of this probe."""
        bits = self._bits
        size = 8 * len(bits)
        at, step = probe
        for _ in range(PROBES if size else 0):
            place = at % size
            if not bits[place >> 3] >> (place & 7) & 1:
                return False
            at += step
        return True

    def __str__(self) -> str:
        return self._file

    @property
    def readable(self) -> int:
        return self.size

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
        got = read_at(self._fd, offset, into[:want], wait)
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

    def number_in(self, offset: int, data: memoryview, subject: bytes) -> int | None:
        """The number of a subject's last message, by its block; 0: it has none. None as above."""
        if crc32c(data) != self._crcs[bisect_right(self._ends, offset)]:
            return None
        at, size, text = 0, len(subject), bytes(data)
        if subject not in text:
            return 0
        while at < len(text):
            number, _, length = ENTRY.unpack_from(text, at)
            at += ENTRY.size + length
            if length == size and text.startswith(subject, at - length):
                return int(number)
        return 0

    def subjects_from(self, prefix: bytes, blocks: int) -> list[bytes] | None:
        """Return all subjects that begin so, and some others. None if they may be in more blocks.

        None, too, if a block cannot be read from memory, or is damaged.
        """
        begin = max(bisect_right(self._subjects, prefix) - 1, 0)
        end = begin
        found: list[bytes] = []
        self.hold()
        try:
            while end < len(self._ends) and (
                end == begin or self._subjects[end].startswith(prefix)
            ):
                if end - begin == blocks:
                    return None
                at = self._ends[end - 1] if end else HEAD_SIZE
                data = bytearray(self._ends[end] - at)
                with memoryview(data) as view:
                    self.read(at, view, False)
                    entries = self.entries(at, view)
                if entries is None:
                    return None
                found += [subject for subject, _, _ in entries]
                end += 1
        except OSError:
            return None
        finally:
            self.release()
        return found


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
    begun, first, blocks = 0, b"", 0
    subjects: list[bytes] = []

    def close() -> None:
        nonlocal begun, blocks
        fences.extend(FENCE.pack(HEAD_SIZE + len(body), crc32c(body[begun:]), len(first)) + first)
        begun = len(body)
        blocks += 1

    for subject, number, offset in table.sorted():
        if begun == len(body):
            first = subject
        body += ENTRY.pack(number, offset, len(subject)) + subject
        subjects.append(subject)
        if len(body) - begun >= BLOCK:
            close()
    if begun < len(body):
        close()
    bits = filter_of(subjects) if subjects else b""
    fences += bits
    head = HEAD.pack(
        *(MAGIC, VERSION, HEAD_SIZE, blocks, int(journal, 16), segment.first, segment.last),
        *(segment.size, table.last_at, crc, len(subjects), len(fences), crc32c(fences)),
        len(bits),
    )
    data = head + struct.pack("<I", crc32c(head)) + body + fences
    replace(segment.path + SUBJECTS, data, durable=False)


def read_subjects(segment: SegmentView, journal: str) -> SubjectIndex | None:
    """Return the index of a segment; None if there is none that can be used."""
    if not isinstance(segment, Segment) or segment.following is None:
        return None
    found = _read(segment, journal)
    if found is None or found.blocks == 0:
        return None
    split = len(found.table) - found.filter_size
    return SubjectIndex(segment, found.table[:split], found.blocks, found.table[split:])


def has_subjects(segment: Segment, journal: str) -> bool:
    """True if there is a good file of this version, even if it says that there is no index."""
    found = _read(segment, journal)
    return found is not None and found.version == VERSION


class SubjectIndexes:
    """The subject indexes of one journal that were used last. For the thread that reads it.

    Memory: `KEPT_BYTES`, whatever the segments have.
    """

    def __init__(self, journal: ReadableJournal) -> None:
        self._journal = journal
        self._kept: OrderedDict[SegmentView, SubjectIndex] = OrderedDict()
        self._bytes = 0

    def of(self, segment: SegmentView) -> SubjectIndex | None:
        """Return the index of a segment; None if there is none that can be used."""
        index = self._kept.get(segment)
        if index is not None:
            if index.fits:
                self._kept.move_to_end(segment)
                return index
            self.forget(segment)
        index = read_subjects(segment, self._journal.id)
        if index is not None:
            self._kept[segment] = index
            self._bytes += index.kept_bytes
            while self._bytes > KEPT_BYTES and len(self._kept) > 1:
                self.forget(next(iter(self._kept)))
        return index

    def forget(self, segment: SegmentView) -> None:
        """Forget an index: it is damaged, or its segment was deleted."""
        index = self._kept.pop(segment, None)
        if index is not None:
            self._bytes -= index.kept_bytes

    def forget_deleted(self) -> None:
        """Forget the indexes of segments that were deleted or cut."""
        for segment in [one for one, index in self._kept.items() if not index.fits]:
            self.forget(segment)


class _Read(NamedTuple):
    """The head and the table of a file that belongs to its segment."""

    version: int
    blocks: int
    table: bytes
    filter_size: int


def _read(segment: Segment, journal: str) -> _Read | None:
    """Return what a file says besides its entries; None if it is missing, damaged, or foreign."""
    try:
        with open(segment.path + SUBJECTS, "rb", buffering=0) as file:
            head = file.read(HEAD_SIZE)
            if len(head) < HEAD_SIZE or crc32c(head[:-4]) != int.from_bytes(head[-4:], "little"):
                return None
            magic, version, _, blocks, id, first, last, covered, last_at, crc, *rest = HEAD.unpack(
                head[: HEAD.size]
            )
            _, size, table_crc, filter_size = rest
            there = (segment.first, segment.last, segment.size)
            if magic != MAGIC or version not in VERSIONS or id != int(journal, 16):
                return None
            if (first, last, covered) != there or not _has_record(segment, last_at, last, crc):
                return None
            end = os.fstat(file.fileno()).st_size
            file.seek(max(end - size, HEAD_SIZE))
            table = file.read(size)
            if crc32c(table) != table_crc or filter_size > size:
                return None
    except OSError:
        return None
    return _Read(version, blocks, table, filter_size)


def _has_record(segment: Segment, at: int, number: int, crc: int) -> bool:
    """True if the segment has this record: else it was cut and written again."""
    data = bytearray(RECORD_HEAD.size)
    with memoryview(data) as view:
        got = segment.read(at, view, True)
    found_crc, _, found_number = RECORD_HEAD.unpack(data)
    return got == len(data) and (found_crc, found_number) == (crc, number)
