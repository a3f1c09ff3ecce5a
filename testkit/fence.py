"""Memory that must not be read, made so: the address sanitizer's own marks, set by hand.

A receive buffer is longer than what was received, and a read past `stop` would hit old bytes
of another client without leaving the buffer. Under the sanitizer `fenced` forbids those bytes
for as long as a kernel looks at the buffer; without it, it does nothing.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

GRANULE = 8  # bytes; marks in front of something allowed cover whole granules only

_process = ctypes.CDLL(None)
_poison = getattr(_process, "__asan_poison_memory_region", None)
_unpoison = getattr(_process, "__asan_unpoison_memory_region", None)
for _mark in (_poison, _unpoison):
    if _mark is not None:
        _mark.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        _mark.restype = None


@contextmanager
def fenced(buffer: bytearray, start: int, stop: int) -> Iterator[None]:
    """Only `buffer[start:stop]` may be read meanwhile; `start` is a multiple of `GRANULE`."""
    if _poison is None or _unpoison is None or not buffer:
        yield
        return
    address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    size = len(buffer) + 1  # and the NUL that Python keeps behind every bytearray
    _poison(address, start)
    _poison(address + stop, size - stop)
    try:
        yield
    finally:
        _unpoison(address, size)
