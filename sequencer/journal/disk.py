"""Disk operations that need care: reserved space, and files that appear only when complete.

A crash may come between any two calls. So a replacement is written to a temporary file,
synced and renamed, and then the directory is synced. The next opening of the store finds either
the old file or the new one, never half of one.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
from collections.abc import Iterator
from typing import Final

KEEP_SIZE: Final = 1  # FALLOC_FL_KEEP_SIZE: the file's size is still what was written
PAGE: Final = 4096
UNSUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
ZEROS: Final = bytes(1 << 20)
FILE_MODE: Final = 0o640  # payloads and the salt are private
FOLDER_MODE: Final = 0o750
GET_FLAGS: Final = 0x80086601  # FS_IOC_GETFLAGS; it has other numbers on a few machines, where
SET_FLAGS: Final = 0x40086602  # FS_IOC_SETFLAGS     the call just fails
NOCOW: Final = 0x00800000  # FS_NOCOW_FL

_libc = ctypes.CDLL(None, use_errno=True)


def fallocate(fd: int, offset: int, size: int) -> bool:
    """Reserve `size` bytes from `offset` on; False if the filesystem does not support it.

    OSError if there is no room. The standard library has only posix_fallocate, which makes
    the file longer; its size would no longer say how much was written.
    """
    call = getattr(_libc, "fallocate", None)
    if call is None:
        return False
    while call(fd, KEEP_SIZE, ctypes.c_longlong(offset), ctypes.c_longlong(size)) != 0:
        code = ctypes.get_errno()
        if code in UNSUPPORTED:
            return False
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))
    return True


def write_zeros(fd: int, size: int) -> None:
    """Allocate a file by writing zeros, where there is no `fallocate`. May raise OSError."""
    for at in range(0, size, len(ZEROS)):
        pwrite_all(fd, memoryview(ZEROS)[: size - at], at)


def file_system_of(path: str) -> str:
    """Return the kind of a path's file system, such as ext4; "unknown" if it cannot be found."""
    path = os.path.realpath(path)
    found, kind = "", "unknown"
    with contextlib.suppress(OSError), open("/proc/self/mounts", encoding="utf-8") as file:
        for line in file:
            _, mount, of, *_ = line.split(" ")
            mount = mount.replace("\\040", " ")
            if os.path.commonpath((mount, path)) == mount and len(mount) >= len(found):
                found, kind = mount, of  # a later mount at the same path hides the earlier
    return kind


def write_in_place(fd: int) -> None:
    """Have a copy-on-write file system write an empty file's blocks in place, if it can.

    Otherwise each write needs new room, even if the file's room is reserved, and may not get it.
    """
    with contextlib.suppress(OSError):  # most file systems have no such flag, and need none
        flags = int.from_bytes(fcntl.ioctl(fd, GET_FLAGS, bytes(8))[:4], "little")
        fcntl.ioctl(fd, SET_FLAGS, (flags | NOCOW).to_bytes(8, "little"))


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Add the file's name to an OSError: those of calls on a descriptor have none."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = path
        raise


def pwrite_all(fd: int, data: memoryview | bytes, offset: int) -> None:
    """Write all bytes, however few each call writes."""
    view = memoryview(data)
    done = 0
    while done < len(view):
        count = os.pwrite(fd, view[done:], offset + done)
        if count == 0:
            raise OSError(errno.EIO, "the disk wrote 0 bytes and reported no error")
        done += count


@contextlib.contextmanager
def replacing(path: str, *, durable: bool = True, mode: int = FILE_MODE) -> Iterator[int]:
    """Yield a new file that takes the place of `path`, if any, once it is complete.

    If anything is raised before, `path` is as it was. `durable`: it is on the disk afterwards.
    """
    beside = path + ".tmp"
    remove(beside)  # what a crash has left may have another mode or owner
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            yield fd
            if durable:
                with naming(path):
                    os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(beside, path)
    except BaseException:
        remove(beside)
        raise
    if durable:
        sync_folder(os.path.dirname(path))


def replace(path: str, data: bytes, *, durable: bool = True) -> None:
    """Replace a file, or create it, with this content: completely or not at all."""
    with replacing(path, durable=durable) as fd, naming(path):
        pwrite_all(fd, data, 0)


def replace_or_overwrite(path: str, data: bytes) -> None:
    """Replace a small file and sync it, even if the disk is full.

    If there is no room for a temporary file, the file is overwritten in place. A crash at that
    moment may leave it damaged, so it needs a checksum, and its loss must be harmless.
    """
    try:
        replace(path, data)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not os.path.exists(path):
            raise
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            with naming(path):
                pwrite_all(fd, data, 0)
                os.ftruncate(fd, len(data))
                os.fsync(fd)
        finally:
            os.close(fd)


def pwrite_file(path: str, data: bytes, offset: int) -> None:
    """Write all bytes into an existing file."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        with naming(path):
            pwrite_all(fd, data, offset)
    finally:
        os.close(fd)


def sync_file(path: str) -> None:
    """Sync a file to the disk, on a descriptor of its own."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)


def shorten_file(path: str, size: int) -> None:
    """Cut a file off at `size`, and sync it.

    Also rewrites the page that is then the last: an earlier sync of it may have failed.
    """
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.ftruncate(fd, size)
        begin = size - size % PAGE
        pwrite_all(fd, os.pread(fd, size - begin, begin), begin)
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(path: str) -> None:
    """Sync the names in a directory to the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network filesystems have nothing to sync
            raise
    finally:
        os.close(fd)


def make_folder(path: str) -> None:
    """Make a directory and its missing parents, so that a crash does not undo it."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    make_folder(above)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, FOLDER_MODE)
    sync_folder(above)


def is_at(path: str, fd: int) -> bool:
    """True if `path` leads to the file that is open as `fd`."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except (FileNotFoundError, NotADirectoryError):
        return False


def remove(path: str) -> None:
    """Remove a file that is not needed any more, if possible."""
    with contextlib.suppress(OSError):
        os.unlink(path)
