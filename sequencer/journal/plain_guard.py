"""The counterpart of window_guard.h for a build that is not compiled.

The handler is a function in Python. It runs in the middle of a copy, in the thread that holds the
interpreter's lock: nothing else touches the memory of the window without it.
"""

import ctypes
import errno
import mmap
import os
import platform
import signal
from typing import Final

GUARD_GONE: Final = -1
GUARD_NO_PAGE: Final = -2
PAGE: Final = mmap.PAGESIZE
# Machines where glibc's `struct sigaction` and siginfo_t are as below.
KNOWN: Final = ("x86_64", "aarch64", "riscv64", "ppc64le")
ADDRESS_ERROR: Final = 2  # BUS_ADRERR
SIGINFO: Final = 4  # SA_SIGINFO
MAY_MOVE_TO: Final = 3  # MREMAP_MAYMOVE | MREMAP_FIXED
POPULATE_WRITE: Final = 23
LOCK_ON_FAULT: Final = 1
FAILED: Final = ctypes.c_void_p(-1).value

_libc = ctypes.PyDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
_libc.mremap.restype = ctypes.c_void_p
_libc.mremap.argtypes = (*[ctypes.c_void_p], *[ctypes.c_size_t] * 2, ctypes.c_int, ctypes.c_void_p)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Action(ctypes.Structure):
    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class PlainGuard:
    """The guard of one window: its mapping, and which pages were replaced."""

    def __init__(self, address: int, size: int, fd: int, locked: bool) -> None:
        self.address, self.size, self.fd, self.locked = address, size, fd, locked
        self.replaced: list[int] = []  # offsets of pages
        self.lost = 0

    @property
    def count(self) -> int:
        return len(self.replaced)


_guards: list[PlainGuard] = []
_before = _Action()


def _on_fault(number: int, info: int, _context: int) -> None:
    code = ctypes.c_int.from_address(info + 8).value
    address = ctypes.c_size_t.from_address(info + 16).value
    if code == ADDRESS_ERROR:
        for guard in _guards:
            offset = (address - guard.address) // PAGE * PAGE
            if 0 <= offset < guard.size and _replace(guard, offset):
                return
    _libc.sigaction(number, ctypes.byref(_before), None)
    if code <= 0:
        signal.raise_signal(number)


_handler = _Handler(_on_fault)
_installed: list[bool] = []


def guard_begin(address: int, size: int, fd: int, locked: bool) -> PlainGuard:
    """Guard `size` bytes at `address`, a mapping of this file from its beginning."""
    guard = PlainGuard(address, size, fd, locked)
    _guards.append(guard)
    if not _installed and platform.machine() in KNOWN:
        _installed.append(True)
        pointer = ctypes.cast(_handler, ctypes.c_void_p)
        action = _Action(handler=pointer, flags=SIGINFO)
        _libc.sigaction(int(signal.SIGBUS), ctypes.byref(action), ctypes.byref(_before))
    return guard


def guard_end(guard: PlainGuard) -> None:
    """End the guard: the memory is not used any more. Closes the file."""
    _guards.remove(guard)
    _libc.close(guard.fd)


def guard_heal(guard: PlainGuard) -> int:
    """Write all pages back that were replaced. Returns 0, GUARD_GONE, GUARD_NO_PAGE or an errno."""
    if os.fstat(guard.fd).st_size < guard.size:
        guard.lost = 1
    while guard.replaced and not guard.lost:
        error = _heal(guard, guard.replaced[0])
        if error:
            return error
        del guard.replaced[0]
    return GUARD_GONE if guard.lost else 0


def _replace(guard: PlainGuard, offset: int) -> bool:
    """Replace a page by memory with the same content."""
    want = min(PAGE, guard.size - offset)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    made = _libc.mmap(None, PAGE, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if made == FAILED:
        return False
    try:
        data = os.pread(guard.fd, want, offset)
    except OSError:
        data = b""
    if len(data) < want:
        guard.lost = 1
    ctypes.memmove(made, data, len(data))
    guard.replaced.append(offset)
    return bool(_libc.mremap(made, PAGE, PAGE, MAY_MOVE_TO, guard.address + offset) != FAILED)


def _heal(guard: PlainGuard, offset: int) -> int:
    """Write one page back, and map the file's page in its place again."""
    want = min(PAGE, guard.size - offset)
    try:
        os.pwrite(guard.fd, ctypes.string_at(guard.address + offset, want), offset)
    except OSError as error:
        return error.errno or errno.EIO
    access = mmap.PROT_READ | mmap.PROT_WRITE
    made = _libc.mmap(None, PAGE, access, mmap.MAP_SHARED, guard.fd, offset)
    if made == FAILED:
        return ctypes.get_errno()
    if guard.locked:
        _libc.mlock2(ctypes.c_void_p(made), ctypes.c_size_t(PAGE), LOCK_ON_FAULT)
    if _libc.madvise(made, PAGE, POPULATE_WRITE) and ctypes.get_errno() != errno.EINVAL:
        code = ctypes.get_errno()
        _libc.munmap(made, PAGE)
        return GUARD_NO_PAGE if code == errno.EFAULT else code
    if _libc.mremap(made, PAGE, PAGE, MAY_MOVE_TO, guard.address + offset) == FAILED:
        code = ctypes.get_errno()
        _libc.munmap(made, PAGE)
        return code
    return 0
