"""Numbers in ASCII decimal: their width, and how to write them.

A frame is `L:<n>:<number>,<m>:<payload>,,` (https://cr.yp.to/proto/netstrings.txt).
"""

import cython

if not cython.compiled:
    WIDTH_MAX = 20  # digits of the largest number in 64 bits
    NETSTRING_MAX = 23  # of a number: `19:9223372036854775807,`


def width_of(value: int) -> int:
    """Return how many decimal digits a number has."""
    width, power = 1, 10
    while value >= power and width < WIDTH_MAX:  # a multiplication takes a fifth of a division
        power *= 10
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
    while value >= 100:  # two digits for each long division
        two = value % 100
        value //= 100
        at -= 2
        out[at] = ord("0") + two // 10
        out[at + 1] = ord("0") + two % 10
    if value >= 10:
        out[at - 2] = ord("0") + value // 10
    out[at - 1] = ord("0") + value % 10
    return end


def write_netstring(out: bytearray, at: int, value: int) -> int:
    """Write a number as a netstring at `out[at:]`; return where it ends."""
    at = write_decimal(out, at, width_of(value))
    out[at] = ord(":")
    at = write_decimal(out, at + 1, value)
    out[at] = ord(",")
    return at + 1
