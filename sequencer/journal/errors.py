"""Errors of a store, each in one line that says what to do.

    StoreError              it cannot be opened, or not in this state
      StoreLocked           another process has it open for writing
      OpeningStopped        the opening was stopped on request

If the disk under an open store is full or fails, plain OSError is raised: that may pass.
"""

from typing import NamedTuple

ELSEWHERE = "choose another directory"  # callers append how to do that, if they know


class StoreError(Exception):
    """The store cannot be used as it is; `str()` says what is wrong, where, and what to do."""


class StoreLocked(StoreError):
    """Another process writes this store; `pid` is its process id, or 0 if it is not known."""

    def __init__(self, text: str, pid: int, is_leaving: bool = False) -> None:
        super().__init__(text)
        self.pid = pid
        self.is_leaving = is_leaving  # it is stopping, so the store will soon be free


class OpeningStopped(StoreError):
    """The opening was stopped before it was complete. The next one does the rest."""


class Damage(NamedTuple):
    """Lost numbers, and the bytes where they were; no bytes if they are missing altogether."""

    segment: int  # the first number of the segment, which is its name
    offset: int  # where the invalid bytes begin
    end: int  # where the next good record begins, or the end of the segment
    first: int
    last: int

    @property
    def numbers(self) -> str:
        if self.first == self.last:
            return f"number {self.first}"
        return f"numbers {self.first} to {self.last}"

    def __str__(self) -> str:
        where = f"in segment {self.segment} at bytes {self.offset} to {self.end}"
        return f"{self.numbers} lost {where}"
