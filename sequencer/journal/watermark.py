"""The watermark: how much of a member's journal is committed, for readers of its files.

    cluster/watermark   in the directory of the store: journal, member, stream, number, checksum

Numbers above the watermark may still be taken back. The file is a lower bound of what is
committed: the member writes it at most ten times a second and when it stops, and syncs it only
then. It never says more than was committed, whatever happens to the member. A store without the
file is not a member's, or that of a member which has never run: everything in it counts.
"""

import os
import struct
from pathlib import Path
from typing import Final, NamedTuple

from sequencer.journal.crc import crc32c
from sequencer.journal.disk import naming

FOLDER: Final = "cluster"
NAME: Final = "watermark"
MAGIC: Final = b"SEQMARK1"
LAYOUT: Final = struct.Struct("<8sQQQII")
CHECKED: Final = LAYOUT.size - 4


class Watermark(NamedTuple):
    """The content of the file. `stream` is the view's; `cluster recover` with a loss raises it."""

    journal: str
    member: str
    number: int
    stream: int


def watermark_file(store: str) -> str:
    """Return the path of a store's watermark file."""
    return os.path.join(store, FOLDER, NAME)


def read_watermark(store: str) -> Watermark | None:
    """Read a store's watermark; None if there is none, or it is damaged."""
    try:
        data = Path(watermark_file(store)).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(data) < LAYOUT.size:
        return None
    magic, journal, member, number, stream, crc = LAYOUT.unpack_from(data)
    if magic != MAGIC or crc != crc32c(data[:CHECKED]):
        return None
    return Watermark(f"{journal:016x}", f"{member:016x}", number, stream)


class WatermarkFile:
    """A member's own watermark file, which it writes. For one thread."""

    def __init__(self, store: str) -> None:
        """Make the file, if there is none. Raises `OSError`."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        self._file = watermark_file(store)
        self._fd = os.open(self._file, flags, 0o644)
        self._written: Watermark | None = None

    def write(self, mark: Watermark) -> None:
        """Write this watermark, if it is new. Raises `OSError`."""
        if mark == self._written:
            return
        ids = int(mark.journal, 16), int(mark.member, 16)
        data = LAYOUT.pack(MAGIC, *ids, mark.number, mark.stream, 0)[:CHECKED]
        with naming(self._file):
            os.pwrite(self._fd, data + crc32c(data).to_bytes(4, "little"), 0)
        self._written = mark

    def close(self) -> None:
        """Sync and close the file. Raises `OSError`."""
        try:
            os.fdatasync(self._fd)
        finally:
            os.close(self._fd)
