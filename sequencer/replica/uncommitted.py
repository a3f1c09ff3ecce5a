"""The journal as the coordinator's sequencer writes it: how many bytes wait to be committed.

A coordinator whose members do not acknowledge must stop taking messages: what is not committed can
neither be deleted nor shown, and a member that comes back must be sent all of it.
"""

from collections import deque

from sequencer.replica.replicated_log import ReplicatedLog


class UncommittedLog:
    """An `EpochJournal` in front of the log. Written by the sequencer and by the reign."""

    def __init__(self, log: ReplicatedLog) -> None:
        self._log = log
        self._sizes: deque[tuple[int, int]] = deque()  # last number, bytes
        self.bytes = 0
        self.written = 0  # bytes, in this reign

    @property
    def salt(self) -> int:
        return self._log.salt

    @property
    def epoch(self) -> int:
        return self._log.epoch

    @property
    def checked(self) -> bool:
        return self._log.checked

    @property
    def last(self) -> int:
        return self._log.last

    @property
    def newest_time(self) -> int:
        return self._log.newest_time

    @property
    def room(self) -> int:
        return self._log.room

    def begin_epoch(self, epoch: int) -> None:
        self._log.begin_epoch(epoch)

    def reserve(self, need: int) -> None:
        self._log.reserve(need)

    def write(self, view: memoryview, first: int, last: int, time: int, ids: bool) -> None:
        self._log.write(view, first, last, time, ids)
        size = len(view)
        self._sizes.append((last, size))
        self.bytes += size
        self.written += size

    def committed(self, number: int) -> None:
        """Everything up to here is committed."""
        while self._sizes and self._sizes[0][0] <= number:
            self.bytes -= self._sizes.popleft()[1]
