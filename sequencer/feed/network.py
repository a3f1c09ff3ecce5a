"""Numbers in network byte order (big-endian), for the binary codecs."""

import cython


def write_number(out: bytearray, at: int, size: int, value: int) -> int:
    """Write a number of `size` bytes at `out[at:]`; return where it ends."""
    if cython.compiled:
        end = at + size
        while size:
            size -= 1
            out[at + size] = value & 0xFF
            value >>= 8
        return end
    else:
        out[at : at + size] = value.to_bytes(size, "big")
        return at + size


def read_number(data: bytes, at: int, size: int) -> int:
    """Read a number of `size` bytes at `data[at:]`; the caller has checked that they are there."""
    value = 0
    for index in range(at, at + size):
        value = value << 8 | data[index]
    return value
