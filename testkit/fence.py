"""Makes memory unreadable, with the address sanitizer's own marks, set by hand.

A receive buffer is longer than what was received, and a read past `stop` would hit old bytes of
another client without leaving the buffer. Under the sanitizer, `fenced` forbids those bytes while a
kernel works on the buffer; without it, `fenced` does nothing.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

GRANULE = 8  # bytes; a mark before readable memory must cover whole granules

_process = ctypes.CDLL(None)
_poison = getattr(_process, "__asan_poison_memory_region", None)
_unpoison = getattr(_process, "__asan_unpoison_memory_region", None)
for _mark in (_poison, _unpoison):
    if _mark is not None:
        _mark.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        _mark.restype = None


@contextmanager
def fenced(buffer: bytearray, start: int, stop: int) -> Iterator[None]:
    """Forbid reads outside of `buffer[start:stop]`; `start` must be a multiple of `GRANULE`."""
    if _poison is None or _unpoison is None or not buffer:
        yield
        return
    address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    size = len(buffer) + 1  # with the NUL that Python keeps after every bytearray
    _poison(address, start)
    _poison(address + stop, size - stop)
    try:
        yield
    finally:
        _unpoison(address, size)
