"""The part of a folder's files in the system's page cache, by mincore(2)."""

import contextlib
import ctypes
import mmap
import os
from pathlib import Path

PROT_NONE = 0
FAILED = ctypes.c_void_p(-1).value
library = ctypes.CDLL(None, use_errno=True)
library.mmap.restype = ctypes.c_void_p
library.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_long),
)
library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
library.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)


def cached_bytes(folder: Path) -> int:
    """Return how many bytes of the folder's files are in memory. Files may vanish meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file():
                total += _cached(path)
    return total


def _cached(path: Path) -> int:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        pages = -(-size // mmap.PAGESIZE)
        if not pages:
            return 0
        # Nothing is read through the mapping, so it brings no page into memory.
        at = library.mmap(None, size, PROT_NONE, mmap.MAP_SHARED, file.fileno(), 0)
    if at == FAILED:
        raise OSError(ctypes.get_errno(), f"{path} cannot be mapped")
    try:
        vector = ctypes.create_string_buffer(pages)
        if library.mincore(at, size, vector):
            raise OSError(ctypes.get_errno(), "mincore failed")
        return sum(byte & 1 for byte in vector.raw[:pages]) * mmap.PAGESIZE
    finally:
        library.munmap(at, size)
