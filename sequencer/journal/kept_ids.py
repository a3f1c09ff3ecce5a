"""Data that outlives the process, so that ids are remembered for as long as they count.

The ids are in the records, but two things are not: when a record was received (its time is the
clock's, which may have been wrong), and what retention has deleted.

    ids.json          the newest number at certain steady times
    ids.known         at a clean stop: all ids that count, so that no record need be read for them
    NUMBER.ids        the ids of a segment that was deleted before they were too old

A steady time counts from the boot. After another boot, the time of day says how long ago ids.json
was written; a clock that goes back makes ids count for longer, never for less. Nothing here is
needed to open a store. Files that cannot be read are skipped; ages then follow from the times of
the records.
"""

import json
import os
import struct
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import accumulate
from typing import Final, NamedTuple

from sequencer.journal.disk import remove, replace
from sequencer.journal.header import number_of, stem

MARKS: Final = "ids.json"
KNOWN: Final = "ids.known"
IDS: Final = ".ids"
MARKS_MAX: Final = 256  # in a window: how precisely the time of receipt of an id is known
HEAD: Final = struct.Struct("<8s16sQ")  # magic, journal, entries
ENTRY: Final = struct.Struct("<QQB")  # number, time, bytes of the key, which follows
CRC: Final = struct.Struct("<I")
MAGIC: Final = b"SEQIDS1\n"
# Of KNOWN: magic, journal, boot, the journal's last number, steady, wall, entries.
KNOWN_HEAD: Final = struct.Struct("<8s16s36s4xQqqQ")
KNOWN_MAGIC: Final = b"SEQIDK1\n"
NUMBERS_AND_TIMES: Final = 16  # bytes for an entry, besides the size of its key and the key

Known = tuple["array[int]", "array[int]", list[bytes]]  # numbers, steady times, keys
KeptId = tuple[int, int, bytes]  # number, the record's time, the key as the window keeps it


class Moment(NamedTuple):
    """The present moment: by the steady clock of this boot, and by the time of day."""

    boot: str
    steady: int
    wall: int


class KeptIds:
    """The ids to keep of a store. `note` and `cut` are the writer's; other writes the keeper's."""

    def __init__(self, folder: str, journal: str, window_ns: int, most: int, now: Moment) -> None:
        self.folder = folder
        self.journal = journal
        self.window_ns = window_ns
        self.most = most  # ids
        self._opened = now
        self._marks: deque[tuple[int, int]] = deque()  # (number, steady), both rising
        self._is_saved = True
        self._files: deque[tuple[str, int, int]] = deque()  # path, received, ids; oldest first
        self._load_marks(now)

    # When a number was received

    def note(self, number: int, steady: int) -> None:
        """Note that `number` is now the newest. Marks are at least `_apart` from each other."""
        marks = self._marks
        if marks and (number <= marks[-1][0] or steady - marks[-1][1] < self._apart):
            return
        marks.append((number, steady))
        while len(marks) > 1 and marks[1][1] <= steady - self.window_ns:
            marks.popleft()
        self._is_saved = False

    @property
    def noted(self) -> int:
        """The number of the last mark."""
        return self._marks[-1][0] if self._marks else 0

    def cut(self, number: int) -> None:
        """Forget the marks above this number: the numbers after it are given again."""
        while self._marks and self._marks[-1][0] > number:
            self._marks.pop()
            self._is_saved = False

    def receipts(self) -> Callable[[int, int], int]:
        """Return a function of a record's number and time.

        It returns the steady time at which the record was received, or a later one. It is for now:
        it does not know of later marks.
        """
        steady, wall = self._opened.steady, self._opened.wall
        numbers, times = [mark[0] for mark in self._marks], [mark[1] for mark in self._marks]
        count = len(numbers)

        def received(number: int, time: int) -> int:
            at = bisect_left(numbers, number)
            if 0 < at < count:
                return times[at]
            by_time = steady - max(wall - time, 0)
            if at:  # after the last mark
                return max(by_time, times[-1])
            return min(by_time, times[0]) if count else by_time  # the first may be much later

        return received

    @property
    def counting(self) -> tuple[int, int]:
        """Return which ids count: those from a number on; before it, those from a time on."""
        now, marks = self._opened, self._marks
        at = bisect_right(marks, now.steady - self.window_ns, key=lambda mark: mark[1])
        if at:
            return marks[at - 1][0] + 1, 1 << 63
        return marks[0][0] + 1 if marks else 1 << 63, max(now.wall - self.window_ns, 0)

    def save(self, now: Moment) -> None:
        """Write the marks if they have changed. Raises `OSError`."""
        if self._is_saved:
            return
        self._is_saved = True
        marks = list(self._marks)
        fields = {"journal": self.journal, **now._asdict(), "marks": marks}
        self._replace(MARKS, json.dumps(fields, separators=(",", ":")).encode())

    # Clean stops

    def save_known(self, known: Known, last: int, now: Moment) -> None:
        """Write the ids that count, as of the journal's last number. Raises `OSError`."""
        numbers, times, keys = known
        fields = (self.journal.encode(), now.boot.encode(), last, now.steady, now.wall, len(keys))
        parts = [KNOWN_HEAD.pack(KNOWN_MAGIC, *fields), numbers.tobytes(), times.tobytes()]
        parts += [bytes(map(len, keys)), *keys]
        data = b"".join(parts)
        self._replace(KNOWN, data + CRC.pack(zlib.crc32(data)))

    def take_known(self, last: int, report: list[tuple[str, str]]) -> Known | None:
        """Return what the last stop saved, and remove it; None if it is not of this moment."""
        path = os.path.join(self.folder, KNOWN)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            report.append(("warning", f"{path}: {error.strerror}; ids are read from the records"))
            return None
        remove(path)
        known = self._known_in(data, last)
        if known is None:
            text = "damaged, or not of this journal's end; ids are read from the records"
            report.append(("warning", f"{path}: {text}"))
        return known

    def _known_in(self, data: bytes, last: int) -> Known | None:
        if len(data) < KNOWN_HEAD.size + CRC.size or CRC.unpack(data[-4:])[0] != zlib.crc32(
            memoryview(data)[:-4]
        ):
            return None
        magic, of, boot, saved_last, steady, wall, count = KNOWN_HEAD.unpack_from(data)
        if (magic, of, saved_last) != (KNOWN_MAGIC, self.journal.encode(), last):
            return None
        now, at = self._opened, KNOWN_HEAD.size
        numbers, times = array("q", data[at : at + 8 * count]), array("q")
        times.frombytes(data[at + 8 * count : at + NUMBERS_AND_TIMES * count])
        if len(times) != count:
            return None
        if not now.boot or boot.rstrip(b"\0") != now.boot.encode():
            shift = now.steady - steady - max(now.wall - wall, 0)
            times = array("q", [min(time + shift, now.steady) for time in times])
        at += NUMBERS_AND_TIMES * count
        ends = list(accumulate(data[at : at + count], initial=at + count))
        if ends[-1] != len(data) - CRC.size:
            return None
        return numbers, times, list(map(data.__getitem__, map(slice, ends, ends[1:])))

    # Deleted segments

    def keep(self, first: int, ids: Iterable[KeptId], received: int) -> None:
        """Keep the ids of the segment that begins at `first` and is about to be deleted.

        `received` is the time of receipt of its newest message, by the clock that `tidy` gets.
        Raises `OSError`.
        """
        parts, count = [b""], 0
        for number, time, key in ids:
            parts += (ENTRY.pack(number, time, len(key)), key)
            count += 1
        if count == 0:
            return
        parts[0] = HEAD.pack(MAGIC, self.journal.encode(), count)
        data = b"".join(parts)
        path = self._replace(stem(first) + IDS, data + CRC.pack(zlib.crc32(data)))
        self._files.append((path, received, count))

    def tidy(self, now: int) -> None:
        """Remove files that are too old, or beyond the number of ids that are remembered."""
        files, more = self._files, sum(count for _, _, count in self._files)
        while files and (now - files[0][1] >= self.window_ns or more - files[0][2] >= self.most):
            path, _, count = files.popleft()
            more -= count
            remove(path)

    def deleted(self, before: int) -> Iterator[KeptId]:
        """The ids of messages before this number that were kept here, in number order."""
        firsts = sorted(
            first for name in os.listdir(self.folder) if (first := number_of(name, IDS))
        )
        for first in firsts:
            path = os.path.join(self.folder, stem(first) + IDS)
            found = _ids_in(path, self.journal)
            if not found or first >= before:  # the segment is there after all
                remove(path)
                continue
            self._files.append((path, self._opened.wall, len(found)))
            yield from (one for one in found if one[0] < before)

    @property
    def _apart(self) -> int:
        return self.window_ns // MARKS_MAX

    def _replace(self, name: str, data: bytes) -> str:
        """Write a file completely or not at all."""
        path = os.path.join(self.folder, name)
        replace(path, data, durable=name not in (MARKS, KNOWN))
        return path

    def _load_marks(self, now: Moment) -> None:
        """Read the marks that an earlier process saved, in steady time of this boot."""
        with suppress(OSError, ValueError, TypeError, KeyError):
            with open(os.path.join(self.folder, MARKS), "rb") as file:
                fields = json.load(file)
            if fields["journal"] != self.journal:
                return
            shift = 0
            if not now.boot or fields["boot"] != now.boot:
                shift = now.steady - fields["steady"] - max(now.wall - fields["wall"], 0)
            found = [(int(number), int(steady) + shift) for number, steady in fields["marks"]]
            self._marks.extend((number, min(steady, now.steady)) for number, steady in found)


def _ids_in(path: str, journal: str) -> list[KeptId]:
    """Return the ids in a file; none if it is damaged, or of another journal."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return []
    if len(data) < HEAD.size + CRC.size or CRC.unpack(data[-4:])[0] != zlib.crc32(data[:-4]):
        return []
    magic, of, count = HEAD.unpack_from(data)
    if (magic, of) != (MAGIC, journal.encode()):
        return []
    found, at = [], HEAD.size
    for _ in range(count):
        number, time, size = ENTRY.unpack_from(data, at)
        at += ENTRY.size + size
        found.append((number, time, data[at - size : at]))
    return found
