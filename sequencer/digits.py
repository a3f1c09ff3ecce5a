"""Numbers in ASCII decimal: their width, and how to write them.

A frame is `L:<n>:<number>,<m>:<payload>,,` (https://cr.yp.to/proto/netstrings.txt).
"""

import cython

if not cython.compiled:
    WIDTH_MAX = 20  # digits of the largest number in 64 bits
    NETSTRING_MAX = 23  # of a number: `19:9223372036854775807,`

# "00", "01" ... "99": the two digits of a number below 100 are at twice its value.
PAIRS = (
    b"0001020304050607080910111213141516171819"
    b"2021222324252627282930313233343536373839"
    b"4041424344454647484950515253545556575859"
    b"6061626364656667686970717273747576777879"
    b"8081828384858687888990919293949596979899"
)


def width_of(value: int) -> int:
    """Return how many decimal digits a number has."""
    width = 1
    while value >= 10_000:
        value //= 10_000
        width += 4
    if value < 100:
        return width + (value >= 10)
    return width + 2 + (value >= 1000)


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
        two = 2 * (value % 100)
        value //= 100
        at -= 2
        out[at] = PAIRS[two]
        out[at + 1] = PAIRS[two + 1]
    two = 2 * value
    if value >= 10:
        out[at - 2] = PAIRS[two]
    out[at - 1] = PAIRS[two + 1]
    return end


def write_netstring(out: bytearray, at: int, value: int) -> int:
    """Write a number as a netstring at `out[at:]`; return where it ends."""
    at = write_decimal(out, at, width_of(value))
    out[at] = ord(":")
    at = write_decimal(out, at + 1, value)
    out[at] = ord(",")
    return at + 1
