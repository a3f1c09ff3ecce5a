"""Wakes readers in other processes when a journal has new records, so that they need not poll.

It is a futex, futex(2): the low half of the word `last` in the head of the journal window. The
writer wakes the waiting readers after it has written a new number there. Readers have the page
mapped read-only: the system compares the word and begins to wait in one step, so no number is
overlooked. The writer does not know whether anyone waits; it makes one system call for all the
records that it releases together.
"""

import ctypes
import errno
import mmap
import os
import platform
from typing import Final, Self

# The C library has no function for it. On a machine that is not listed, readers poll.
NUMBERS: Final = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
FUTEX: Final = NUMBERS.get(platform.machine(), 0)
WAIT: Final = 0

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))

    @classmethod
    def of(cls, seconds: float) -> Self:
        whole = int(seconds)
        return cls(whole, int((seconds - whole) * 1e9))


def pause(seconds: float) -> None:
    """Sleep, when there is nothing to wait for."""
    _libc.nanosleep(ctypes.byref(_Timespec.of(seconds)), None)


class Wakeup:
    """The reader's side: waits for a newer number. Raises OSError if the file cannot be mapped."""

    def __init__(self, fd: int, offset: int) -> None:
        page = _libc.mmap(None, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        if page == ctypes.c_void_p(-1).value:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self._page = page
        self._word = page + offset

    def wait(self, seen: int, seconds: float) -> bool:
        """Wait until the word is no longer `seen`; return False after `seconds`."""
        limit = _Timespec.of(seconds)
        words = (FUTEX, self._word, WAIT, seen & 0xFFFFFFFF, ctypes.addressof(limit))
        if _libc.syscall(*map(ctypes.c_long, words)) == 0:
            return True
        return ctypes.get_errno() != errno.ETIMEDOUT

    def close(self) -> None:
        """Unmap the page."""
        _libc.munmap(self._page, mmap.PAGESIZE)
