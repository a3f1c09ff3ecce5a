"""Follows the journal window of a store that another process writes, or has written.

    more(number) -> WindowPart   records from this number on
                 -> None         they are not here, but in the segments, or nowhere
    ends_before(number)          the store, as the window says, ends before this number
    wait(number, seconds)        returns when this number may be there

The writer does not notice readers, and uses a slab again when it needs it. So each read is followed
by a look at the head: if the slab was used again meanwhile, the reader was too slow, and continues
with the segments. The bytes are trimmed to whole records up to the last number in the head.
"""

from typing import Final, NamedTuple

from sequencer.journal.layout import HEADER_SIZE, RECORD
from sequencer.journal.record import Walk
from sequencer.journal.wakeup import FUTEX, pause
from sequencer.journal.window_file import SlabStart, WindowView

LOOK: Final = 0.25  # seconds after which a waiting reader looks whether another broker has begun
PAUSE: Final = 0.02  # seconds between two looks where there is no window to wait at


class WindowPart(NamedTuple):
    """Records that were read: `data[:size]`, and where they are in their segment."""

    data: bytes | bytearray
    size: int
    segment: int
    offset: int


class WindowTail:
    """One reader's position in the window. Written by that reader only."""

    def __init__(self, path: str, salt: int, journal: str) -> None:
        self._path = path
        self._salt = salt
        self._journal = journal
        self._view: WindowView | None = None
        self._start: SlabStart | None = None  # of the slab that was read last
        self._position = 0  # of the record after the last one that was read, in that slab
        self._number = 0  # of that record
        self._walk = Walk(salt, False)
        self._walk_number = 0  # the last one of a span
        self._awaited = 0  # the number that was there already when it was last waited for

    def close(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None
        self._start = None

    def more(
        self, number: int, most: int, limit: int, reuse: bytearray | None
    ) -> WindowPart | None:
        """Return records from `number` on, up to `limit`, about `most` bytes of them."""
        view = self._current_view()
        if view is None or view.head is None:
            return None
        limit = min(limit, view.head.said)
        if number > limit:
            return None
        start = next((one for one in reversed(view.starts) if one.number <= number), None)
        if start is None:
            return None
        position = start.position
        size = start.end - position  # to look for it
        if number == self._number and start == self._start:
            position, size = self._position, most
        while True:
            data, got = self._read(view, position, min(size, start.end - position), reuse)
            begin, end = self._span(data, got, number, limit)
            if not view.still_has(start):
                return None
            length = int.from_bytes(data[4:8], "little") + 7 & ~7
            if end or got < HEADER_SIZE or not got < length <= start.end - position:
                break
            size = length  # a long record
        if begin == end:
            return None
        self._start, self._position, self._number = start, position + end, self._walk_number + 1
        offset = start.offset + position + begin - start.position
        if begin:
            return WindowPart(
                bytes(memoryview(data)[begin:end]), end - begin, start.segment, offset
            )
        return WindowPart(data, end, start.segment, offset)

    def ends_before(self, number: int) -> bool:
        """True if the window says that the store ends before `number`, and can be believed."""
        view = self._view
        if view is None or view.head is None or not view.is_current:
            return False
        return view.is_whole and 0 < view.head.said < number  # 0: it does not say

    @property
    def is_left_behind(self) -> bool:
        """True if no process writes here: it is a copy, or from before the machine was started."""
        view = self._view
        return view is not None and view.is_current and not view.is_whole

    def wait(self, number: int, seconds: float) -> None:
        """Wait until this number may be there, for at most `seconds`.

        The writer wakes the readers that wait at its window. After a restart the window is another
        file, and while no broker runs there may be none: the wait looks for a new one.
        """
        left = seconds
        while left > 0:
            view = self._current_view()
            if view is None or view.head is None:
                pause(min(left, PAUSE))
                return
            if view.head.said >= number:
                if self._awaited == number:  # it cannot be read yet, or is damaged
                    pause(min(left, PAUSE))
                self._awaited = number
                return
            if not FUTEX:
                pause(min(left, PAUSE))
                return
            view.wait(min(left, LOOK))
            left -= LOOK

    def _current_view(self) -> WindowView | None:
        """Return the window as it is now; None if the store has none, or another journal's."""
        view = self._view
        if view is not None and not view.is_current:
            self.close()
            view = None
        if view is None:
            try:
                view = self._view = WindowView(self._path, self._salt)
            except OSError:
                return None
        else:
            view.refresh()
        if view.head is not None and view.head.journal != self._journal:
            self.close()
            return None
        return view

    def _read(
        self, view: WindowView, position: int, size: int, reuse: bytearray | None
    ) -> tuple[bytes | bytearray, int]:
        if reuse is None or len(reuse) < size:
            data = view.read(position, size)
            return data, len(data)
        return reuse, view.read_into(position, reuse, size)

    def _span(self, data: bytes | bytearray, size: int, number: int, limit: int) -> tuple[int, int]:
        """Return the span of the records from `number` to `limit`. Older ones may follow them."""
        walk = self._walk
        walk.attach(data, 0, size)
        walk.seek(number)
        state = walk.skim()
        while state == RECORD and walk.number < number:
            state = walk.skim()
        if state != RECORD or walk.number != number:
            return 0, 0
        begin = walk.at
        walk.attach(data, begin, size)
        walk.seek(limit + 1)  # in one go to the last one, or to the first above the limit
        end, before = walk.after, 0
        while walk.skim() == RECORD and walk.number <= limit:
            if before and walk.number != before + 1:
                break
            before, end = walk.number, walk.after
        self._walk_number = before or limit
        return begin, end
