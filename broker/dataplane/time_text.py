"""A time as text, rewritten from message to message.

    2026-01-31T12:00:00.123456789Z     RFC 3339, always 30 characters
    |-- day --|  second |- ns --|

The text stays in place. A time of the same second changes nine digits, one of the same day six
more. Only another day asks the calendar, so it does not matter if a clock goes backwards.
"""

import time
from typing import Final

import cython

if not cython.compiled:
    SECOND_NS = 1_000_000_000
    DAY_S = 86_400
    TIME_SIZE = 30

EPOCH: Final = b"1970-01-01T00:00:00.000000000Z"


class TimeText:
    """The text of one time, `ns` since 1970."""

    def __init__(self) -> None:
        self.text = bytearray(EPOCH)
        self.data = self.text
        self.ns = self.second = self.day = 0

    def write(self, ns: int) -> int:
        """Write another time."""
        second = ns // SECOND_NS
        if second != self.second:
            self._write_second(second)
        self.ns = ns
        rest = ns - second * SECOND_NS
        at = TIME_SIZE - 2
        while at > TIME_SIZE - 11:
            self.data[at] = ord("0") + rest % 10
            rest //= 10
            at -= 1
        return 0

    def _write_second(self, second: int) -> int:
        day = second // DAY_S
        if day != self.day:
            self.text[:10] = b"%04d-%02d-%02d" % time.gmtime(day * DAY_S)[:3]
            self.day = day
        left = second - day * DAY_S
        self._write_pair(11, left // 3600)
        self._write_pair(14, left // 60 % 60)
        self._write_pair(17, left % 60)
        self.second = second
        return 0

    def _write_pair(self, at: int, value: int) -> None:
        self.data[at] = ord("0") + value // 10
        self.data[at + 1] = ord("0") + value % 10


def timestamp(ns: int) -> bytes:
    """Return the text of a time."""
    text = TimeText()
    text.write(ns)
    return bytes(text.text)
