"""Numbers in ASCII decimal: their width, and how to write them.

A frame is `L:<n>:<number>,<m>:<payload>,,` (https://cr.yp.to/proto/netstrings.txt).
"""

import cython

if not cython.compiled:
    NETSTRING_MAX = 23  # of a number: `19:9223372036854775807,`


def width_of(value: int) -> int:
    """Return how many decimal digits a number has."""
    width = 1
    while value >= 10:
        value //= 10
        width += 1
    return width


def inner_size(number: int, size: int) -> int:
    """The length of the content of a frame's outer netstring."""
    width = width_of(number)
    return width_of(width) + width + 2 + width_of(size) + size + 2


def frame_size(number: int, size: int) -> int:
    """The length of the whole frame around a payload of that size."""
    inner = inner_size(number, size)
    return width_of(inner) + inner + 2


def write_decimal(out: bytearray, at: int, value: int) -> int:
    """Write a number at `out[at:]`; return where it ends."""
    end = at + width_of(value)
    at = end
    while True:
        at -= 1
        out[at] = ord("0") + value % 10
        value //= 10
        if value == 0:
            return end


def write_netstring(out: bytearray, at: int, value: int) -> int:
    """Write a number as a netstring at `out[at:]`; return where it ends."""
    at = write_decimal(out, at, width_of(value))
    out[at] = ord(":")
    at = write_decimal(out, at + 1, value)
    out[at] = ord(",")
    return at + 1
