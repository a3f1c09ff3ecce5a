"""Turns a page that the disk cannot provide into an error, instead of the end of the process.

window_guard.h does it, and says how; uncompiled, plain_guard.py does the same. The memory keeps its
content, but is not the file's any more: what is written there is lost with the process. So the
writer calls `check` before it counts what it has put there, and readers call `check_content`.
"""

import errno
import os

import cython

if not cython.compiled:
    from sequencer.journal.plain_guard import (
        GUARD_GONE,
        GUARD_NO_PAGE,
        guard_begin,
        guard_end,
        guard_heal,
    )

GONE = (
    "the journal window was cut short, or cannot be read any more; stop the broker, and see what"
    " its next start says"
)
NO_PAGE = "the disk gives no more pages to the journal window"


class WindowGuard:
    """The guard of one mapped window: `size` bytes at `address`. It owns the file's descriptor.

    Keep it for as long as the memory is used.
    """

    def __init__(self, file: str, fd: int, address: int, size: int, locked: bool) -> None:
        self.file = file
        self.fd = fd
        self.size = size
        self.guard = guard_begin(address, size, fd, locked)
        if not self.guard:
            raise MemoryError

    def __del__(self) -> None:
        if self.guard:
            guard_end(self.guard)

    @property
    def is_lost(self) -> bool:
        """True if some of the content is gone."""
        return self.guard.lost != 0

    def check(self) -> None:
        """Map all pages from the file again. OSError if one cannot be had."""
        if self.guard.count == 0 and self.guard.lost == 0:
            return
        error = guard_heal(self.guard)
        if error == GUARD_GONE:
            raise OSError(errno.EIO, GONE, self.file)
        if error == GUARD_NO_PAGE:
            raise OSError(errno.EIO, NO_PAGE, self.file)
        if error:
            raise OSError(error, os.strerror(error), self.file)

    def check_size(self) -> None:
        """Raise OSError if the file was cut short."""
        if os.fstat(self.fd).st_size < self.size:
            raise OSError(errno.EIO, GONE, self.file)

    def check_content(self) -> None:
        """Raise OSError if some of the content is gone."""
        if self.guard.lost:
            raise OSError(errno.EIO, GONE, self.file)
