"""A ring with a disk's troubles: no room, failing writes, and syncs on demand."""

import errno
from collections.abc import Callable

from sequencer.journal.kept_ids import Moment
from sequencer.journal.ring import Ring, RingSegment

STEP = 512  # bytes reserved beyond what is needed
PROBLEM = "No space left on device"


class Disk(Ring):
    """A store for the keeper. It keeps everything; `limit` is how many bytes it has reserved."""

    def __init__(self, number: int, checked: bool) -> None:
        super().__init__(1 << 40)
        self.path = ""
        self.checked = checked
        self.last = self.durable = number
        self._active = RingSegment(number + 1, bytearray())
        self._segments = [self._active]
        self.written = self.limit = 0
        self.short = self.broken = False
        self.stuck_at: int | None = None  # the last number accepted before a write failed
        self.highest_error: OSError | None = None
        self.is_crowded = False
        self.room = 0

    def use_keeper(
        self,
        sync_soon: Callable[[], object],
        wait_for_sync: Callable[[], object],
        run_alone: Callable[[Callable[[], None]], None],
    ) -> None:
        """Use none of it: this disk asks for no sync."""

    def reserve(self, need: int) -> None:
        if self.written + need > self.limit:
            if self.short:
                raise OSError(errno.ENOSPC, PROBLEM)
            self.limit = self.written + need + STEP
        self.room = self.limit - self.written

    def write(self, view: memoryview, first: int, last: int, time: int, ids: bool) -> None:
        if self.broken:
            self.stuck_at = last
            raise OSError(errno.ENOSPC, PROBLEM)
        super().write(view, first, last, time, ids)
        self.stuck_at = None
        self.written += len(view)
        self.room = self.limit - self.written
        assert self.room >= 0, "nothing is taken that there is no room for"

    @property
    def report(self) -> list[tuple[str, str]]:
        return []

    @property
    def bytes_put(self) -> int:
        return self.written

    def sync(self) -> int:
        self.durable = self.last
        return self.durable

    def check_files(self) -> None:
        pass  # there are none

    def roll_if_due(self, now: int) -> None:
        """Do nothing: a new segment begins by size only."""

    def next_over(self, now: int) -> int:
        return 0

    def retain(self, now: int, keep_from: int) -> list[tuple[int, int]]:
        return []

    def note_ids(self, steady: int) -> None:
        """Do nothing: ids do not outlive the process."""

    def save_ids(self, now: Moment) -> None:
        """Do nothing: ids do not outlive the process."""

    def save_known_ids(self, now: Moment) -> None:
        """Do nothing: ids do not outlive the process."""

    def build_indexes(self) -> bool:
        return False

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def mend(self) -> None:
        """Make the disk work again, with room."""
        self.short = self.broken = False
