"""The calls to the disk that need care: room that is sure, and files that appear whole.

A crash may come between any two calls. So what replaces a file is written beside it, brought
to the disk, renamed, and then the directory is brought to the disk too: who opens the store
finds the old file or the new one, never half of one.
"""

import contextlib
import ctypes
import errno
import os
from typing import Final

KEEP_SIZE: Final = 1  # FALLOC_FL_KEEP_SIZE: the file's size stays what was written
UNSUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS})
FILE_MODE: Final = 0o640  # payloads, and the salt, are nobody else's business
FOLDER_MODE: Final = 0o750

_libc = ctypes.CDLL(None, use_errno=True)


def fallocate(fd: int, offset: int, size: int) -> bool:
    """Reserve `size` bytes from `offset` on; False where the filesystem cannot do that.

    OSError when there is no room. The standard library has only posix_fallocate, which makes
    the file longer: then its size would not be what was written any more.
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


def pwrite_all(fd: int, data: memoryview | bytes, offset: int) -> None:
    """Write everything, however little each call takes."""
    view = memoryview(data)
    done = 0
    while done < len(view):
        count = os.pwrite(fd, view[done:], offset + done)
        if count == 0:
            raise OSError(errno.EIO, "the disk takes no bytes and says no error")
        done += count


def replace(path: str, data: bytes, *, durable: bool = True) -> None:
    """Put a file with this content in the place of what may be there, whole or not at all."""
    beside = path + ".tmp"
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        try:
            pwrite_all(fd, data, 0)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(beside, path)
    except OSError:
        remove(beside)
        raise
    if durable:
        sync_folder(os.path.dirname(path))


def sync_file(path: str) -> None:
    """Bring a file to the disk, on a descriptor of its own."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)


def sync_folder(path: str) -> None:
    """Bring the names in a directory to the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network filesystems have nothing to sync here
            raise
    finally:
        os.close(fd)


def make_folder(path: str) -> None:
    """Make a directory, and those above it that miss, so that a crash does not undo it."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    make_folder(above)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, FOLDER_MODE)
    sync_folder(above)


def remove(path: str) -> None:
    """Remove a file that nobody needs, if that is possible."""
    with contextlib.suppress(OSError):
        os.unlink(path)
