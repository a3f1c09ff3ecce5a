"""Numbers in ASCII decimal, and how long they make a frame.

A frame is `L:<n>:<number>,<m>:<payload>,,` (https://cr.yp.to/proto/netstrings.txt).
"""


def width_of(value: int) -> int:
    """How many decimal digits a number has."""
    width = 1
    while value >= 10:
        value //= 10
        width += 1
    return width


def inner_size(number: int, size: int) -> int:
    """The length of what is in a frame's outer netstring."""
    width = width_of(number)
    return width_of(width) + width + 2 + width_of(size) + size + 2


def frame_size(number: int, size: int) -> int:
    """The length of the whole frame around a payload of that size."""
    inner = inner_size(number, size)
    return width_of(inner) + inner + 2
