"""The file `window`: the newest records of a journal, in pages that stay in memory.

     0 magic "SERIWNDW"    8 version u32        12 slabs u32       16 size of a slab u64
    24 journal u64        32 boot id, 16 bytes  48 inode of the file u64
    56 CRC-32C u32: of the 56 bytes before      64 last u64: the newest number here or before
    72 its seal u64: the lower half of the number u32, the CRC-32C of the number u32
    80 for each slab: first number u64 (0: it has none), position of that record u64,
       first number of its segment u64, offset of that record in its segment u64

Little-endian. The slabs begin at byte 4096. Each contains records one after the other, as in a
segment, and older ones may follow them. So a record counts only if its number is the one
that must follow. Version 1 has no seal, and its slabs' words begin at byte 72.

The content outlives the program that wrote it, but not always a crash of the machine: after that,
any page may have any older content, or none. `boot` tells whether it is still the same run of the
machine, and the inode whether it is still the same file.

The file `.newest` beside it says the newest number once more, for a window that is removed, damaged
or replaced. It is a head without slabs, and its magic is "SERINEWS".
"""

# Theory of operation: what a reader may believe
#
# The next number that a start gives depends on `last`. The word is written without a system call,
# in memory that a kill, a full disk or an operator's `cp` may catch at any moment. So it is never
# believed alone at a start:
#
#     in `.newest`    seal, then number      each pair is written in this order (waker.py), first
#     in `window`     seal, then number      there, then here
#
#     a kill after        `.newest` says      `window` says       the start takes
#     the first seal      n (by its seal)     n - 1               n
#     the first number    n                   n - 1               n
#     the second seal     n                   n (by its seal)     n
#
# The number is that of a release, whose records are in the window before the first seal is. So the
# higher one is right: nothing that was written under it can be missing, unless the machine crashed.
# The seal has the lower half of the number and a checksum of all of it, with the journal as its
# seed. The upper half is tried from the number beside it: that is one step behind at most.
#
# A record is believed if its checksum is right, its number is the one that must follow, and it lies
# where the head says, or else anywhere (`_search`): after a crash the head may be older than the
# records. A search looks at each 8 bytes for the number, so it reads the file once. What costs time
# is a candidate, whose whole length is checked: `SEARCH_FACTOR` bounds the sum of these.

import errno
import os
import stat
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from sequencer.journal.crc import crc32c
from sequencer.journal.disk import (
    FILE_MODE,
    fallocate,
    remove,
    sync_folder,
    write_in_place,
    write_zeros,
)
from sequencer.journal.header import NUMBER_MAX
from sequencer.journal.layout import HEADER_SIZE, LENGTH_MAX, RECORD
from sequencer.journal.record import HEAD as RECORD_HEAD
from sequencer.journal.record import Walk
from sequencer.journal.survey import Survey
from sequencer.journal.waker import seal_of
from sequencer.journal.wakeup import Wakeup

FILE: Final = "window"
NEWEST: Final = ".newest"
MAGIC: Final = b"SERIWNDW"
NEWEST_MAGIC: Final = b"SERINEWS"
VERSION: Final = 2
PAGE: Final = 4096  # the head; and what the positions of a record here and on the disk share
HEAD: Final = struct.Struct("<8sIIQQ16sQ")
CRC: Final = struct.Struct("<I")
LAST: Final = 8  # index of the word in the head
SEAL: Final = LAST + 1
SLABS: Final = 10  # the word of the first slab's entry
SLABS_OF: Final = {1: 9, VERSION: SLABS}
ENTRY: Final = 4  # words
SLABS_MAX: Final = 16
SLAB_MIN: Final = 1 << 16
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
NUMBER_AT: Final = 8  # in a record
CHUNK: Final = 4 << 20
# A search for records checks at most this many bytes of possible records, as a multiple of the
# file's size. Each counts for LEAST or more. So bytes that were published to look like the heads of
# long records cannot make it take longer than that.
SEARCH_FACTOR: Final = 16
LEAST: Final = 1 << 10

Progress = Callable[[str, int, int], None]  # what is being done, bytes done, bytes in all


def no_progress(what: str, done: int, total: int) -> None:
    """Report nothing: for callers that do not wait."""


class WindowHead(NamedTuple):
    """The content of the window's head."""

    journal: str  # 16 hex digits
    slabs: int
    slab_bytes: int
    boot: bytes
    inode: int
    last: int  # from the word that readers wait at
    newest: int | None  # the same, proved by its seal; None if it is damaged
    version: int = VERSION

    @property
    def said(self) -> int:
        """The newest number, as far as can be told."""
        return self.last if self.newest is None else self.newest


def create(path: str, journal: str, size: int, last: int) -> tuple[int, WindowHead]:
    """Make an empty window of about `size` bytes in a store that ends with `last`; return its fd.

    It replaces an older one. Its room is reserved; if the disk is nearly full, it is smaller.
    OSError if there is no room at all.
    """
    while True:
        try:
            return _create(path, journal, size, last)
        except OSError as error:
            if error.errno not in NO_ROOM or size <= 2 * SLAB_MIN:
                raise
            size //= 4


def _create(path: str, journal: str, size: int, last: int) -> tuple[int, WindowHead]:
    slab_bytes = max(size // SLABS_MAX, SLAB_MIN) // PAGE * PAGE
    slabs = max(2, min(SLABS_MAX, size // slab_bytes))
    file = os.path.join(path, FILE)
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    fd = os.open(file + ".tmp", flags, FILE_MODE)
    try:
        total = PAGE + slabs * slab_bytes
        write_in_place(fd)
        os.ftruncate(fd, total)
        if not fallocate(fd, 0, total):
            write_zeros(fd, total)
        inode = os.fstat(fd).st_ino
        head = WindowHead(journal, slabs, slab_bytes, boot_id(), inode, last, last)
        os.pwrite(fd, _encode(head, MAGIC), 0)
        os.fsync(fd)
        os.rename(file + ".tmp", file)
        sync_folder(path)
    except BaseException:
        os.close(fd)
        remove(file + ".tmp")
        raise
    return fd, head


def create_newest(path: str, journal: str, last: int) -> int:
    """Make `.newest`, the second copy of the newest number; return its fd. May raise OSError."""
    file = os.path.join(path, NEWEST)
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    fd = os.open(file + ".tmp", flags, FILE_MODE)
    try:
        inode = os.fstat(fd).st_ino
        head = WindowHead(journal, 0, 0, boot_id(), inode, last, last)
        write_in_place(fd)
        os.pwrite(fd, _encode(head, NEWEST_MAGIC).ljust(PAGE, b"\0"), 0)
        os.fsync(fd)
        os.rename(file + ".tmp", file)
    except BaseException:
        os.close(fd)
        remove(file + ".tmp")
        raise
    return fd


def read_newest(path: str, journal: str) -> WindowHead | None:
    """Read `.newest`; None if it is missing, damaged, a copy, or of another journal."""
    try:
        fd = open_regular(os.path.join(path, NEWEST))
    except OSError:
        return None
    try:
        head = _decode(os.pread(fd, PAGE, 0), NEWEST_MAGIC)
        if head is None or head.journal != journal or head.inode != os.fstat(fd).st_ino:
            return None
        return head
    finally:
        os.close(fd)


def remove_window(path: str) -> None:
    """Remove the window of a store whose segments have all that is in it."""
    gone = False
    for name in (FILE, NEWEST):
        try:
            os.unlink(os.path.join(path, name))
            gone = True
        except FileNotFoundError:
            pass
    if gone:
        sync_folder(path)


def open_regular(file: str) -> int:
    """Open a file to read. OSError if it is anything else: to open a FIFO would wait for ever."""
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "this is not a file", file)
    return fd


def boot_id() -> bytes:
    """Return the id of this run of the machine: 16 bytes; zeros if the system does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return bytes.fromhex(file.read().strip().replace("-", ""))
    except (OSError, ValueError):
        return bytes(16)


class SlabStart(NamedTuple):
    """The position of the first record of a slab."""

    number: int
    position: int
    end: int  # of the slab
    segment: int  # the first number of its segment
    offset: int  # in its segment
    slab: int  # index of the slab


class WindowView:
    """A window as another process, or the next start, sees it. OSError if there is none.

    It is read, not mapped: a page that the disk does not give is an error then, and not a signal.
    """

    def __init__(self, path: str, salt: int, progress: Progress = no_progress) -> None:
        self.path = os.path.join(path, FILE)
        self._salt = salt
        self._progress = progress
        self._fd = open_regular(self.path)
        self._left = SEARCH_FACTOR * os.fstat(self._fd).st_size  # bytes that a search may check
        self._positions: dict[int, int] = {}  # where numbers are, or may be
        self._last_position = PAGE
        self._wakeup: Wakeup | None = None
        self.head: WindowHead | None = None
        self.starts: list[SlabStart] = []
        self.refresh()
        self.is_whole = self._is_whole()

    def refresh(self) -> None:
        """Read the head again. `starts` are those of the slabs in use, in order."""
        data = os.pread(self._fd, PAGE, 0)
        self.head = head = _decode(data, MAGIC)
        self.starts = []
        if head is None:
            return
        for at in range(head.slabs):
            number, position, *where = struct.unpack_from("<4Q", data, 8 * self._entry(at))
            begin = PAGE + at * head.slab_bytes
            end = begin + head.slab_bytes
            if number and begin <= position < end:
                self.starts.append(SlabStart(number, position, end, where[0], where[1], at))
        self.starts.sort()

    def still_has(self, start: SlabStart) -> bool:
        """True if the slab was not used again, so that what was read of it is what was written."""
        data = os.pread(self._fd, 8, 8 * self._entry(start.slab))
        return data == start.number.to_bytes(8, "little")

    def _entry(self, index: int) -> int:
        """Return the index of the word in the head at which a slab's entry begins."""
        assert self.head is not None, "it has slabs"
        return SLABS_OF[self.head.version] + ENTRY * index

    @property
    def is_search_given_up(self) -> bool:
        """True if too many bytes looked like records to check all of them."""
        return self._left < 0

    @property
    def size(self) -> int:
        return os.fstat(self._fd).st_size

    @property
    def is_current(self) -> bool:
        """True if this is still the store's window."""
        try:
            return os.stat(self.path).st_ino == os.fstat(self._fd).st_ino
        except FileNotFoundError:
            return False

    @property
    def is_of_this_boot(self) -> bool:
        """True if the machine was not restarted since, so that no page can have older content."""
        return self.head is not None and is_boot(self.head.boot)

    def _is_whole(self) -> bool:
        """True if all that was written is here: neither the file nor the boot is another one."""
        head = self.head
        return head is not None and self.is_of_this_boot and head.inode == os.fstat(self._fd).st_ino

    def close(self) -> None:
        if self._wakeup is not None:
            self._wakeup.close()
            self._wakeup = None
        os.close(self._fd)

    def wait(self, seconds: float) -> bool:
        """Wait until there is a newer number than the head had when it was read.

        False after `seconds`.
        """
        if self.head is None:
            return False
        if self._wakeup is None:
            self._wakeup = Wakeup(self._fd, 8 * LAST)
        return self._wakeup.wait(self.head.last, seconds)

    def read(self, position: int, size: int) -> bytes:
        """The bytes at a position; fewer at the end of the file."""
        return os.pread(self._fd, size, position)

    def read_into(self, position: int, into: bytearray, size: int) -> int:
        """Read into a buffer; return how many bytes."""
        with memoryview(into) as view:
            return os.preadv(self._fd, [view[:size]], position)

    def records(self, number: int, anywhere: bool = True) -> bytes:
        """Return the consecutive records of one slab from a number on; empty if none is here.

        `anywhere`: also search where the head mentions none. The head may be damaged, or older than
        the records.
        """
        position = self._positions.get(number, 0)
        if position and (found := self._at(position, number)):
            return found
        for start in reversed(self.starts):
            if start.number <= number:
                data = self.read(start.position, start.end - start.position)
                found = self._from(data, start.position, number)
                if found:
                    return found
        return self._search(number) if anywhere else b""

    def next_good(self, number: int, limit: int) -> int:
        """Return the first number from `number` on, before `limit`, that is in a slab; 0: none."""
        head, found = self.head, []
        for index in range(head.slabs if head is not None else 0):
            assert head is not None, "it has slabs"
            begin = PAGE + index * head.slab_bytes
            end = begin + head.slab_bytes
            survey = Survey(self._fd, self._salt, number, end, limit, self._search_progress)
            if survey.next_good(begin - 8)[0]:
                found.append(int(survey.walk.number))
        return min(found, default=0)

    def _search_progress(self, at: int) -> None:
        self._progress(f"searching {self.path}", at, self.size)

    def _at(self, position: int, number: int) -> bytes:
        """Return the records that begin at a position with this number."""
        data = self.read(position, CHUNK)
        length = int.from_bytes(data[4:8], "little") + 7 & ~7
        if len(data) == CHUNK < length <= LENGTH_MAX:
            data = self.read(position, length)
        return self._from(data, position, number)

    def _from(self, data: bytes, position: int, number: int) -> bytes:
        """Return the records from `number` on among those in `data`. Older ones may follow them."""
        walk = Walk(self._salt)
        walk.attach(data, 0, len(data))
        walk.seek(number)
        first, begin, end = number, -1, 0
        while walk.next() == RECORD and walk.number <= number:
            if walk.number == number:
                begin = walk.at if begin < 0 else begin
                walk.advance(NUMBER_MAX + 1, len(data))
                end, number = walk.after, walk.number + 1
            elif begin >= 0:
                break
        if begin < 0:
            return b""
        self._positions[first] = position + begin
        self._positions[number] = self._last_position = position + end
        return data[begin:end]

    def _search(self, number: int) -> bytes:
        """Search for a record everywhere, first after the one that was found last."""
        size = self.size
        middle = self._last_position & ~7
        for begin, stop in ((middle, size), (PAGE, min(middle, size))):
            for base in range(begin, stop, CHUNK):
                self._progress(f"searching {self.path}", base - PAGE, size)
                position = self._candidate(base, min(base + CHUNK, stop), size, number)
                if position:
                    return self._at(position, number)
                if self._left < 0:
                    return b""
        return b""

    def _candidate(self, base: int, stop: int, size: int, number: int) -> int:
        """Return the position of this number's record if it begins in this part, or 0."""
        word = number.to_bytes(8, "little")
        data = self.read(base, stop - base + HEADER_SIZE)
        walk = Walk(self._salt)
        found = data.find(word, NUMBER_AT)
        while 0 <= found < stop - base + NUMBER_AT:
            at = found - NUMBER_AT
            if at % 8 == 0 and len(data) - at >= HEADER_SIZE:
                length = _length(data, at)
                if length and base + at + length <= size:
                    self._left -= max(length, LEAST)
                    if self._left < 0:
                        return 0
                    record = data[at : at + length]
                    if len(record) < length:
                        record = self.read(base + at, length)
                    walk.attach(record, 0, len(record))
                    if walk.next() == RECORD:
                        return base + at
            found = data.find(word, found + 1)
        return 0


def is_boot(boot: bytes) -> bool:
    """True if this is the current run of the machine, as far as the system says."""
    return any(boot) and boot == boot_id()


def _length(data: bytes, at: int) -> int:
    """The padded length of the record whose head may be here; 0 if it cannot be one."""
    _, length, _, _, _, _, _, _, subject, reply, zero, headers = RECORD_HEAD.unpack_from(data, at)
    if zero or length > LENGTH_MAX or length < HEADER_SIZE + subject + reply + headers:
        return 0
    return int(length + 7 & ~7)


def seed_of(journal: str) -> int:
    """Return the seed for the seals of a journal's numbers: another journal's are not valid."""
    return crc32c(bytes.fromhex(journal))


def _newest(number: int, seal: int, journal: str) -> int | None:
    """The number that the seal proves; None if it proves none.

    After a kill the word for the number may be one step behind its seal.
    """
    seed = seed_of(journal)
    above, low = number >> 32, seal & 0xFFFFFFFF
    for high in (above, above + 1, above - 1):
        candidate = high << 32 | low
        if 0 <= candidate < 1 << 63 and seal_of(candidate, seed) == seal:
            return candidate
    return None


def _encode(head: WindowHead, magic: bytes) -> bytes:
    sizes = (VERSION, head.slabs, head.slab_bytes)
    data = HEAD.pack(magic, *sizes, int(head.journal, 16), head.boot, head.inode)
    data += CRC.pack(crc32c(data)) + bytes(4)
    return data + struct.pack("<2Q", head.last, seal_of(head.last, seed_of(head.journal)))


def _decode(data: bytes, wanted: bytes) -> WindowHead | None:
    """Return the head, or None if it is damaged."""
    if len(data) < PAGE:
        return None
    magic, version, slabs, slab_bytes, journal, boot, inode = HEAD.unpack_from(data)
    (crc,) = CRC.unpack_from(data, HEAD.size)
    if magic != wanted or version not in SLABS_OF or crc != crc32c(data[: HEAD.size]):
        return None
    last, seal = struct.unpack_from("<2Q", data, 8 * LAST)
    name = f"{journal:016x}"
    newest = _newest(last, seal, name) if version == VERSION else last
    return WindowHead(name, slabs, slab_bytes, boot, inode, last, newest, version)
