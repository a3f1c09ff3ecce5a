"""The files of journal windows, changed as only a machine can change them."""

import os
from collections.abc import Callable
from pathlib import Path

from sequencer.journal.crc import crc32c
from sequencer.journal.window_file import CRC, FILE, HEAD, NEWEST


def boot_again(folder: Path) -> None:
    """Have every window below `folder` be of another run of the machine."""
    _change(folder, lambda path: [os.urandom(16), path.stat().st_ino])


def stay_up(folder: Path) -> None:
    """Have every window below `folder` be the very file that was written, and not a copy of it."""
    _change(folder, lambda path: [path.stat().st_ino])


def _change(folder: Path, end: Callable[[Path], list[object]]) -> None:
    """Give heads, unless they are damaged, other fields at their end."""
    for path in (*folder.rglob(FILE), *folder.rglob(NEWEST)):
        with path.open("r+b") as file:
            head = file.read(HEAD.size)
            if CRC.pack(crc32c(head)) == file.read(CRC.size):
                fields, others = HEAD.unpack(head), end(path)
                changed = HEAD.pack(*fields[: -len(others)], *others)
                file.seek(0)
                file.write(changed + CRC.pack(crc32c(changed)))
