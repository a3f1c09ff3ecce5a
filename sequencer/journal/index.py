"""The index of a segment's numbers: in memory while it grows, in a file once it is sealed.

     0 magic "SERINDEX"      8 version u16         10 size of this head u16
    12 flags u32 (bit 0: some record has a Nats-Msg-Id)
    16 journal u64          24 first number u64    32 last number u64
    40 first time u64       48 last time u64       56 bytes of the segment that it covers u64
    64 count of marks u32   68 count of damages u32
    72 crc u32: of the marks and damages           76 crc u32: of the 76 bytes before
    80 marks:   number u64, time u64, offset u64 (bit 63: a Nats-Msg-Id before the next mark)
       damages: offset u64, end u64, first number u64, last number u64

A mark points to a record. There is at most one per 24 KiB, and one after every damage. At any rate
of messages there is one in some 32 KiB: a buffer of records (record.py). A missing or wrong index
makes reading slower, never wrong: the keeper rewrites it.

`Marks` are all marks of a segment, `Fence` is what is kept in memory of those in a file.
"""

import os
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from sequencer.journal.crc import crc32c
from sequencer.journal.disk import replace
from sequencer.journal.errors import Damage
from sequencer.journal.header import START

MAGIC: Final = b"SERINDEX"
VERSION: Final = 1
STRIDE: Final = 24 << 10  # less than a buffer of records, so each of them has its mark
PART: Final = 64  # marks; a part of a file is read on its own
HEAD: Final = struct.Struct("<8sHHIQQQQQQIII")
HEAD_SIZE: Final = HEAD.size + 4
MARK_SIZE: Final = 24
PART_SIZE: Final = MARK_SIZE * PART
DAMAGE: Final = struct.Struct("<QQQQ")
IDS: Final = 1 << 63
OFFSET: Final = IDS - 1


class Marks:
    """The marks of one segment, by offset, three words each."""

    __slots__ = ("next", "words")

    def __init__(self, words: "array[int] | None" = None) -> None:
        self.words = array("Q") if words is None else words
        self.next = 0  # the offset from which the next mark is due

    def __len__(self) -> int:
        return len(self.words) // 3

    def add(self, number: int, time: int, offset: int) -> None:
        self.words.extend((number, time, offset))
        self.next = offset + STRIDE

    def add_inner(self, inner: Iterable[tuple[int, int]], time: int, base: int, ids: bool) -> None:
        """Add those of these records that are due; they are given by number, and place from `base`.

        With `ids`, there may be a Nats-Msg-Id after each. A loop for each batch, so it is short.
        """
        words: list[int] = []
        flag, due = IDS if ids else 0, self.next - base
        for number, place in inner:
            if place >= due:
                words += (number, time, base + place | flag)
                due = place + STRIDE
        self.words.extend(words)
        self.next = base + due

    def note_ids(self) -> None:
        """Note that a record after the last mark has a Nats-Msg-Id."""
        self.words[-1] |= IDS

    @property
    def any_ids(self) -> bool:
        return any(word & IDS for word in self.words[2::3])

    def before_number(self, number: int) -> int:
        """The offset of the last mark at or before this number; the start if there is none."""
        words = self.words
        count = bisect_right(range(len(self)), number, key=lambda at: words[3 * at])
        return words[3 * count - 1] & OFFSET if count else START

    def before_time(self, time: int) -> int:
        """The offset of the last mark before this time; the first record of that time follows."""
        words = self.words
        count = bisect_left(range(len(self)), time, key=lambda at: words[3 * at + 1])
        return words[3 * count - 1] & OFFSET if count else START

    def until(self, offset: int) -> "Marks":
        """The marks before this offset."""
        words = self.words
        count = bisect_left(range(len(self)), offset, key=lambda at: words[3 * at + 2] & OFFSET)
        return Marks(words[: 3 * count])

    def id_blocks(self, size: int) -> list[tuple[int, int]]:
        """Return the ranges with records that have a Nats-Msg-Id; `size` is the segment's."""
        offsets = [*self.words[2::3], size]
        starts = enumerate(offsets[:-1])
        return [(word & OFFSET, offsets[at + 1] & OFFSET) for at, word in starts if word & IDS]


class Fence:
    """The beginnings of the parts of an index, and their checksums: some 1.5 KiB for a segment.

    So a look-up reads one part of the file, and still notices if it is not what was there.
    """

    __slots__ = ("_crcs", "_numbers", "_size")

    def __init__(self, marks: Marks) -> None:
        self._numbers = marks.words[:: 3 * PART]
        self._size = MARK_SIZE * len(marks)
        self._crcs = array("I")
        data = marks.words.tobytes()
        for at in range(0, self._size, PART_SIZE):
            self._crcs.append(crc32c(data[at : at + PART_SIZE]))

    def before_number(self, path: str, number: int) -> int | None:
        """As `Marks.before_number`; None if the file is not what it was. May raise `OSError`."""
        part = bisect_right(self._numbers, number) - 1
        if part < 0:
            return START
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            at = part * PART_SIZE
            data = os.pread(fd, min(PART_SIZE, self._size - at), HEAD_SIZE + at)
        finally:
            os.close(fd)
        if crc32c(data) != self._crcs[part]:
            return None
        words = array("Q", data)
        return words[3 * bisect_right(words[::3], number) - 1] & OFFSET


class Summary(NamedTuple):
    """The head of an index: a summary of its segment."""

    journal: str
    first: int
    last: int
    first_time: int
    last_time: int
    size: int
    ids: bool = False
    marks: int = 0
    damages: int = 0
    crc: int = 0


def write_index(path: str, summary: Summary, marks: Marks, damages: list[Damage]) -> None:
    """Write the file, without a sync: if a crash loses it, it is written again."""
    lost = b"".join(DAMAGE.pack(one.offset, one.end, one.first, one.last) for one in damages)
    body = marks.words.tobytes() + lost
    head = HEAD.pack(
        *(MAGIC, VERSION, HEAD_SIZE, int(marks.any_ids), int(summary.journal, 16)),
        *(summary.first, summary.last, summary.first_time, summary.last_time, summary.size),
        *(len(marks), len(damages), crc32c(body)),
    )
    replace(path, head + struct.pack("<I", crc32c(head)) + body, durable=False)


def read_summary(path: str) -> Summary | None:
    """Read the head of an index; None if it is missing or not a valid index of this version."""
    try:
        with open(path, "rb") as file:
            data = file.read(HEAD_SIZE)
            size = os.fstat(file.fileno()).st_size
    except OSError:
        return None
    if len(data) < HEAD_SIZE:
        return None
    (crc,) = struct.unpack_from("<I", data, HEAD.size)
    if crc != crc32c(data[: HEAD.size]):
        return None
    magic, version, _, flags, journal, *fields = HEAD.unpack_from(data)
    first, last, first_time, last_time, covered, marks, damages, body = fields
    if magic != MAGIC or version != VERSION:
        return None
    if size != HEAD_SIZE + marks * MARK_SIZE + damages * DAMAGE.size:
        return None
    numbers_and_times = (first, last, first_time, last_time)
    ids = bool(flags & 1)
    return Summary(f"{journal:016x}", *numbers_and_times, covered, ids, marks, damages, body)


def read_index(path: str) -> tuple[Summary, Marks, list[Damage]] | None:
    """Read a whole index; None if the file is missing or wrong."""
    summary = read_summary(path)
    if summary is None:
        return None
    try:
        with open(path, "rb") as file:
            body = file.read()[HEAD_SIZE:]
    except OSError:
        return None
    if crc32c(body) != summary.crc:
        return None
    split = summary.marks * MARK_SIZE
    words = array("Q", body[:split])
    lost = [Damage(summary.first, *fields) for fields in DAMAGE.iter_unpack(body[split:])]
    return summary, Marks(words), lost
