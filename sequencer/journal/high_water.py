"""The file `.highest`: the highest number that the segments on disk are known to have had.

    .highest    two slots, 4096 bytes apart, written in turn; the higher valid one counts

     0 magic "SERIHIGH"     8 journal u64     16 number u64     24 crc u32: of the 24 bytes before

Someone may truncate or delete segments while no broker runs. The next number follows from the end
of the segments, so the numbers of the lost messages would be given to others. This file shows
that there were more.

It is written after each sync of the segments, and nothing waits for it. So it never claims more
than was on the disk, even after a power cut at any moment. A slot torn by a power cut fails its
checksum; then the other one counts. The slots lie in different blocks of the disk.
"""

import contextlib
import os
import struct
from typing import Final

from sequencer.journal.crc import crc32c
from sequencer.journal.disk import pwrite_all, replace

FILE: Final = ".highest"  # sorts before the segments, so rsync copies it first
MAGIC: Final = b"SERIHIGH"
SLOT: Final = struct.Struct("<8sQQ")
CRC: Final = struct.Struct("<I")
SLOT_SIZE: Final = SLOT.size + CRC.size
SLOTS: Final = (0, 4096)


class HighWater:
    """The file, as the writer of a store has it open. For one thread at a time."""

    def __init__(self, path: str, journal: str) -> None:
        self.file = os.path.join(path, FILE)
        self.number = -1  # what the file says; -1 while there is no file to write to
        self._journal = journal
        self._fd = -1
        self._slot = 0  # to be written next

    def rewrite(self, number: int) -> None:
        """Rewrite the file, even with a lower number, and sync it. May raise OSError."""
        self.close()
        start(self.file, self._journal, number)
        self._fd = os.open(self.file, os.O_RDWR | os.O_CLOEXEC)
        self.number = number

    def write(self, number: int) -> None:
        """Note that everything up to `number` is on the disk. On OSError the file is as before."""
        if number <= self.number:
            return
        if self._fd < 0:
            self.rewrite(number)
            return
        pwrite_all(self._fd, _encode(self._journal, number), SLOTS[self._slot])
        self._slot = 1 - self._slot
        self.number = number

    def close(self) -> None:
        """Sync the file, if possible, and close it."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.fdatasync(self._fd)
            os.close(self._fd)
        self._fd = self.number = -1
        self._slot = 0


def start(file: str, journal: str, number: int) -> None:
    """Replace the file by one with this number, and sync it. May raise OSError."""
    replace(file, _encode(journal, number).ljust(SLOTS[1], b"\0") + _encode(journal, number))


def read_highest(path: str, journal: str) -> int | None:
    """The number in this journal's file; 0 if there is no file, None if it is damaged."""
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
    """Return journal and number; None if they are damaged."""
    if len(data) < SLOT_SIZE:
        return None
    magic, journal, number = SLOT.unpack_from(data)
    (crc,) = CRC.unpack_from(data, SLOT.size)
    if magic != MAGIC or crc != crc32c(data[: SLOT.size]):
        return None
    return f"{journal:016x}", number
