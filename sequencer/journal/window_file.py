"""The file `window`: the newest records of a journal, in pages that stay in memory.

     0 magic "SERIWNDW"    8 version u32        12 slabs u32       16 size of a slab u64
    24 journal u64        32 boot id, 16 bytes  48 inode of the file u64
    56 CRC-32C u32: of the 56 bytes before      64 last u64: the newest number here or before
    72 for each slab: first number u64 (0: it has none), position of that record u64,
       first number of its segment u64, offset of that record in its segment u64

Little-endian. The slabs begin at byte 4096. Each has records one after the other, as a segment
has them, and behind these may be older ones. So a record counts only if its number is the one
that must follow.

What a program has written here outlives the program. It does not surely outlive the machine: then
any page may have any older content, or none. `boot` tells whether it is still the same run of the
machine, and the inode whether it is still the same file: a copy may have been made while it was
written.
"""

import errno
import os
import struct
from typing import Final, NamedTuple

from sequencer.journal.bell import Bell
from sequencer.journal.crc import crc32c
from sequencer.journal.disk import FILE_MODE, fallocate, remove, sync_folder
from sequencer.journal.layout import RECORD
from sequencer.journal.record import Walk

FILE: Final = "window"
MAGIC: Final = b"SERIWNDW"
VERSION: Final = 1
PAGE: Final = 4096  # the head; and what the positions of a record here and on the disk share
HEAD: Final = struct.Struct("<8sIIQQ16sQ")
CRC: Final = struct.Struct("<I")
LAST: Final = 8  # which word of the head
SLABS: Final = 9  # the word of the first slab's entry
ENTRY: Final = 4  # words
SLABS_MAX: Final = 16
SLAB_MIN: Final = 1 << 16
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
NUMBER_AT: Final = 8  # in a record


class WindowHead(NamedTuple):
    """What the head says."""

    journal: str  # 16 hex digits
    slabs: int
    slab_bytes: int
    boot: bytes
    inode: int
    last: int


def create(path: str, journal: str, size: int, last: int) -> tuple[int, WindowHead]:
    """Make an empty window of about `size` bytes in a store that ends with `last`; its descriptor.

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
        os.ftruncate(fd, total)
        if not fallocate(fd, 0, total):
            os.posix_fallocate(fd, 0, total)
        inode = os.fstat(fd).st_ino
        head = WindowHead(journal, slabs, slab_bytes, boot_id(), inode, last)
        os.pwrite(fd, _encode(head), 0)
        os.fsync(fd)
        os.rename(file + ".tmp", file)
        sync_folder(path)
    except BaseException:
        os.close(fd)
        remove(file + ".tmp")
        raise
    return fd, head


def remove_window(path: str) -> None:
    """Remove the window of a store whose segments have all that is in it."""
    try:
        os.unlink(os.path.join(path, FILE))
    except FileNotFoundError:
        return
    sync_folder(path)


def boot_id() -> bytes:
    """Which run of the machine this is: 16 bytes; zeros if the system does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return bytes.fromhex(file.read().strip().replace("-", ""))
    except (OSError, ValueError):
        return bytes(16)


class SlabStart(NamedTuple):
    """Where the first record of a slab is."""

    number: int
    position: int
    end: int  # of the slab
    segment: int  # the first number of its segment
    offset: int  # in its segment
    place: int  # which slab it is


class WindowView:
    """A window as another process, or the next start, sees it. OSError if there is none.

    It is read, not mapped: a page that the disk does not give is an error then, and not a signal.
    """

    def __init__(self, path: str, salt: int) -> None:
        self.path = os.path.join(path, FILE)
        self._salt = salt
        self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        self._bell: Bell | None = None
        self.head: WindowHead | None = None
        self.starts: list[SlabStart] = []
        self.refresh()
        self.is_whole = self._is_whole()

    def refresh(self) -> None:
        """Read the head again. `starts` are those of the slabs in use, in order."""
        data = os.pread(self._fd, PAGE, 0)
        self.head = head = _decode(data)
        self.starts = []
        if head is None:
            return
        for at in range(head.slabs):
            number, position, *where = struct.unpack_from("<4Q", data, 8 * (SLABS + ENTRY * at))
            begin = PAGE + at * head.slab_bytes
            end = begin + head.slab_bytes
            if number and begin <= position < end:
                self.starts.append(SlabStart(number, position, end, where[0], where[1], at))
        self.starts.sort()

    def still_has(self, start: SlabStart) -> bool:
        """Whether the slab is not used again, so that what was read of it is what was written."""
        data = os.pread(self._fd, 8, 8 * (SLABS + ENTRY * start.place))
        return data == start.number.to_bytes(8, "little")

    @property
    def is_current(self) -> bool:
        """Whether this is still the store's window."""
        try:
            return os.stat(self.path).st_ino == os.fstat(self._fd).st_ino
        except FileNotFoundError:
            return False

    def _is_whole(self) -> bool:
        """Whether all that was written here is here: the file and the machine are the same."""
        head = self.head
        if head is None:
            return False
        same_boot = any(head.boot) and head.boot == boot_id()
        return same_boot and head.inode == os.fstat(self._fd).st_ino

    def close(self) -> None:
        if self._bell is not None:
            self._bell.close()
            self._bell = None
        os.close(self._fd)

    def wait(self, seconds: float) -> bool:
        """Wait until there is a newer number than the head said when it was read.

        False after `seconds`.
        """
        if self.head is None:
            return False
        if self._bell is None:
            self._bell = Bell(self._fd, 8 * LAST)
        return self._bell.wait(self.head.last, seconds)

    def read(self, position: int, size: int) -> bytes:
        """The bytes at a position; fewer at the end of the file."""
        return os.pread(self._fd, size, position)

    def read_into(self, position: int, into: bytearray, size: int) -> int:
        """Read into a buffer; return how many bytes."""
        with memoryview(into) as view:
            return os.preadv(self._fd, [view[:size]], position)

    def records(self, number: int) -> bytes:
        """The records from a number on that follow each other in one slab; empty: none is here."""
        for start in reversed(self.starts):
            if start.number <= number:
                data = self.read(start.position, start.end - start.position)
                found = self._from(data, 0, number)
                if found:
                    return found
        return self._search(number)

    def _from(self, data: bytes, at: int, number: int) -> bytes:
        """The records from a number on, in those that begin at `at`. Behind them are older ones."""
        walk = Walk(self._salt)
        walk.begin(data, at, len(data))
        walk.seek(number)
        begin, end = -1, 0
        while walk.next() == RECORD and walk.number <= number:
            if walk.number == number:
                begin, end = walk.at if begin < 0 else begin, walk.after
                number += 1
            elif begin >= 0:
                break
        return data[begin:end] if begin >= 0 else b""

    def _search(self, number: int) -> bytes:
        """Look for a record everywhere: the head, or a record before it, may be damaged."""
        word = number.to_bytes(8, "little")
        data = self.read(0, os.fstat(self._fd).st_size)
        at = data.find(word, PAGE + NUMBER_AT)
        while at >= 0:
            if at % 8 == 0:
                found = self._from(data, at - NUMBER_AT, number)
                if found:
                    return found
            at = data.find(word, at + 1)
        return b""


def _encode(head: WindowHead) -> bytes:
    sizes = (VERSION, head.slabs, head.slab_bytes)
    data = HEAD.pack(MAGIC, *sizes, int(head.journal, 16), head.boot, head.inode)
    data += CRC.pack(crc32c(data)) + bytes(4)
    return data + struct.pack("<Q", head.last)


def _decode(data: bytes) -> WindowHead | None:
    """The head, or None if it is damaged."""
    if len(data) < PAGE:
        return None
    magic, version, slabs, slab_bytes, journal, boot, inode = HEAD.unpack_from(data)
    (crc,) = CRC.unpack_from(data, HEAD.size)
    if magic != MAGIC or version != VERSION or crc != crc32c(data[: HEAD.size]):
        return None
    (last,) = struct.unpack_from("<Q", data, 8 * LAST)
    return WindowHead(f"{journal:016x}", slabs, slab_bytes, boot, inode, last)
