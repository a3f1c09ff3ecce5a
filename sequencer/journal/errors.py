"""What a store can say when something is wrong with it, each in one line with what to do.

    StoreError              it cannot be opened, or not as it is
      StoreLocked           another process has it open for writing

A disk that is full or fails under an open store raises plain OSError: that may pass.
"""

from typing import NamedTuple

ELSEWHERE = "choose another directory"  # a caller appends how to do so, if it knows


class StoreError(Exception):
    """The store cannot be used as it is; `str()` says what, where, and what to do."""


class StoreLocked(StoreError):
    """Another process writes this store; `pid` is its process id, 0 where it is not known."""

    def __init__(self, text: str, pid: int) -> None:
        super().__init__(text)
        self.pid = pid


class Damage(NamedTuple):
    """Numbers that are lost, and the bytes in whose place they were: none where they miss."""

    segment: int  # the first number of the segment: its name
    offset: int  # where the bytes that are no record begin
    end: int  # where the next good record begins, or the segment's end
    first: int
    last: int

    def __str__(self) -> str:
        numbers = f"number {self.first}" if self.first == self.last else "numbers "
        if self.first != self.last:
            numbers += f"{self.first} to {self.last}"
        where = f"in segment {self.segment} at bytes {self.offset} to {self.end}"
        return f"{numbers} lost {where}"
