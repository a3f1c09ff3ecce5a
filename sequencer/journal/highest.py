"""The highest number that the disk is known to have had: kept beside the segments that have it.

    .highest    two slots, 4096 bytes apart, written in turns; the higher good one counts

     0 magic "SERIHIGH"     8 journal u64     16 number u64     24 crc u32: of the 24 bytes before

Segments can be cut short or taken away while nobody looks. Their end says which number comes
next, so what they have lost would be given to other messages. This file says that there was more.

It is written when the segments are synced, after them, and is not waited for: so it never says
more than they had on the disk, be there a power cut at any moment. A slot that such a cut has
torn is told by its checksum, and the other one counts. The slots lie in different blocks of a disk.
"""

import contextlib
import os
import struct
from typing import Final

from sequencer.journal.crc import crc32c
from sequencer.journal.disk import pwrite_all, replace

FILE: Final = ".highest"  # before the segments where names are sorted: rsync copies it first
MAGIC: Final = b"SERIHIGH"
SLOT: Final = struct.Struct("<8sQQ")
CRC: Final = struct.Struct("<I")
SLOT_SIZE: Final = SLOT.size + CRC.size
SLOTS: Final = (0, 4096)


class Highest:
    """The file, as the writer of a store has it open. One thread at a time."""

    def __init__(self, path: str, journal: str) -> None:
        self.file = os.path.join(path, FILE)
        self.number = -1  # what the file says; -1 while there is none to write to
        self._journal = journal
        self._fd = -1
        self._slot = 0  # to be written next

    def begin(self, number: int) -> None:
        """Rewrite the file, even with a lower number; it is then on the disk. OSError."""
        self.close()
        start(self.file, self._journal, number)
        self._fd = os.open(self.file, os.O_RDWR | os.O_CLOEXEC)
        self.number = number

    def write(self, number: int) -> None:
        """All up to `number` is on the disk. OSError: the file says what it said before."""
        if number <= self.number:
            return
        if self._fd < 0:
            self.begin(number)
            return
        pwrite_all(self._fd, _encode(self._journal, number), SLOTS[self._slot])
        self._slot = 1 - self._slot
        self.number = number

    def close(self) -> None:
        """Bring it to the disk, if it can be, and close it."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.fdatasync(self._fd)
            os.close(self._fd)
        self._fd = self.number = -1
        self._slot = 0


def start(file: str, journal: str, number: int) -> None:
    """Put a new file there that says this number; it is on the disk then. OSError."""
    replace(file, _encode(journal, number).ljust(SLOTS[1], b"\0") + _encode(journal, number))


def read_highest(path: str, journal: str) -> int | None:
    """The number that the file of this journal says; 0 where there is none, None if damaged."""
    file = os.path.join(path, FILE)
    try:
        with open(file, "rb") as opened:
            data = opened.read(SLOTS[1] + SLOT_SIZE)
    except FileNotFoundError:
        return 0
    said = [one for slot in SLOTS if (one := _decode(data[slot : slot + SLOT_SIZE]))]
    if not said:
        return None
    return max((number for of, number in said if of == journal), default=0)


def _encode(journal: str, number: int) -> bytes:
    data = SLOT.pack(MAGIC, int(journal, 16), number)
    return data + CRC.pack(crc32c(data))


def _decode(data: bytes) -> tuple[str, int] | None:
    """Journal and number; None where they are damaged."""
    if len(data) < SLOT_SIZE:
        return None
    magic, journal, number = SLOT.unpack_from(data)
    (crc,) = CRC.unpack_from(data, SLOT.size)
    if magic != MAGIC or crc != crc32c(data[: SLOT.size]):
        return None
    return f"{journal:016x}", number
