"""Follows the segments of a store that another process is writing.

    more(number) -> True: there are bytes, `buffer[at:stop]`, beginning at a record
                 -> Lost: numbers from `number` on are not there; go on after them
                 -> False: nothing more for now

Records that the segments do not have yet are read from the journal window (window_tail.py).

A tail takes no lock. Its descriptor keeps a deleted segment readable. It leaves a segment when a
later one exists and nothing more can be written to this one. Incomplete bytes at the end of the
newest segment are a write in progress and do not count yet. Memory: one buffer of `chunk_bytes`,
or of the longest record so far.

A store may take numbers back. `more` raises `StoreError` if that may concern a number that it has
returned. Each cut is counted in store.json before it begins, and is marked there until it is
complete. So bytes that were read before the count was checked are from before the cut.

In the store of a cluster's member, only committed numbers count. They are never taken back, so the
store may be cut any number of times.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from sequencer.journal.errors import Damage, StoreError
from sequencer.journal.header import START
from sequencer.journal.layout import HEADER_SIZE, RECORD
from sequencer.journal.record import Walk
from sequencer.journal.store_view import StoreView
from sequencer.journal.survey import Survey
from sequencer.journal.wakeup import pause
from sequencer.journal.window_tail import WindowTail

CHUNK_BYTES = 1 << 20
NUMBER_MAX = (1 << 63) - 1
MEMBER_PAUSE = 0.01  # seconds between two looks for what a cluster has committed


class Lost(NamedTuple):
    """Numbers `first` to `last` are not in the store: deleted by retention, or damaged."""

    first: int
    last: int
    damage: Damage | None = None

    def within(self, last: int) -> "Iterator[Lost]":
        """Yield the part up to `last`, if any; damage between two numbers has lost none."""
        end = min(self.last, last)
        if self.first <= end:
            yield self._replace(last=end)


class JournalTail:
    """One reader's position in a store. Written by that reader only."""

    def __init__(self, view: StoreView, reuse: bool, chunk_bytes: int = CHUNK_BYTES) -> None:
        """`reuse` one buffer for all reads; without it, each read has its own, for views of it."""
        self.view = view
        self.buffer: bytes | bytearray = b""
        self.at = self.stop = 0
        self._reuse = bytearray(chunk_bytes) if reuse else None
        self._chunk_bytes = chunk_bytes
        self._fd = -1
        self._first = 0  # of the current segment; 0: there is none
        self._offset = 0  # of store[0], in the segment
        self._seen = 0  # in it: bytes up to here were read, and hold no whole record at `at`
        self._searched = 0  # in it: up to here there is no further good record
        self._again = (0, 0, 0)  # where bytes that are no record were read a second time
        self._spoilt = 0  # a number whose record in the window is not valid
        self._window = WindowTail(view.path, view.salt, view.journal)
        view.check()
        self._cuts = view.cuts - view.cutting  # the last cut that was complete when it was read

    def close(self) -> None:
        """Close the segment and the window."""
        self._close_segment()
        self._window.close()

    def _close_segment(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def more(self, number: int, bad: bool = False) -> bool | Lost:
        """Continue: `buffer[:at]` was used up, `number` is next. `bad`: `at` is not a valid record.

        True: there are new bytes. False: nothing more for now.
        """
        if not self.view.is_committed(number):
            self.stop = self.at  # it may be cut, and other bytes come: they are read again
            self._check()
            return False
        found = self._more(number, bad)
        while self._is_cut(number):  # what was read may be gone: read it again
            self._close_segment()
            self.at = self.stop = 0
            found = self._enter(number)
        return found

    def _more(self, number: int, bad: bool = False) -> bool | Lost:
        if self._fd < 0:
            if bad:
                self._spoilt = number
            found = self._find_in_window(number)
            return self._enter(number) if found is None else found
        if bad:
            self._seen = os.fstat(self._fd).st_size
        elif self._load():
            return True
        following = self.view.after(self._first)
        found = self._find_in_window(number) if following == 0 else None
        if found is not None:
            return found
        if following > number:  # a listing may miss what gets its name meanwhile
            following = self.view.after(self._first, True)
        if bad and self._is_changed(following):
            return True
        lost = self._leap(number, following)
        if lost is not None:
            return lost
        if following == 0:
            self.stop = self.at  # a write in progress: its bytes may be different next time
            self._check()
            return False
        if not bad and self._load():
            return True  # written before the next segment began
        return self._go_on(number, following)

    def wait(self, number: int, seconds: float) -> None:
        """Wait until this number may be there, for at most `seconds`."""
        if self.view.is_member:  # what is committed is not in the window
            pause(min(seconds, MEMBER_PAUSE))
        else:
            self._window.wait(number, seconds)

    def gap(self, number: int, found: int, at: int = -1) -> Lost:
        """Return the loss, if record `found` comes where `number` should be."""
        offset = self._offset + (self.at if at < 0 else at)
        return Lost(number, found - 1, Damage(self._first, offset, offset, number, found - 1))

    def remember(self, number: int) -> None:
        """Remember that `number` is, or will be, at `at`: a search for it starts there."""
        if self._first:
            self.view.remember(self._first, number, self._offset + self.at)

    # Reading bytes

    def _is_changed(self, following: int) -> bool:
        """Read bytes again that are no record: they may be from before the segment had them.

        The last page that was written ends with zeros, and pages may become visible in any order.
        """
        at = self._first, self._offset + self.at, following
        if at == self._again:
            return False
        self._again = at
        self.stop = self.at
        return self._load()

    def _find_in_window(self, number: int) -> bool | None:
        """Like `more`, if the window can tell; None if only the segments can."""
        if self._load_window(number):
            self._close_segment()
            return True
        if self._window.ends_before(number):
            self.stop = self.at  # what follows is being written, or fills the last page
            self._check()
            return False
        return None

    def _load_window(self, number: int) -> bool:
        """Read records from the window, if they are there."""
        if number == self._spoilt:
            return False  # the segments may have it
        limit = self.view.watermark if self.view.is_member else NUMBER_MAX
        part = self._window.more(number, self._chunk_bytes, limit, self._reuse)
        if part is None:
            return False
        self.buffer, self.at, self.stop = part.data, 0, part.size
        self._first, self._offset = part.segment, part.offset
        # A slower look for it would begin at the start of the segment.
        self.view.remember(part.segment, number, part.offset)
        return True

    def _load(self) -> bool:
        """Read on from `at`. False if there is not one more whole record than before."""
        offset, left = self._offset + self.at, self.stop - self.at
        available = os.fstat(self._fd).st_size - offset
        self._seen = offset + max(available, left)
        if available <= left:
            return False
        size = self._chunk_bytes
        if left >= HEADER_SIZE:
            length = int.from_bytes(self.buffer[self.at + 4 : self.at + 8], "little")
            size = max(size, (length + 7) & ~7)
        if size > available and size > self._chunk_bytes:
            return False  # in progress, or its length is damaged: `_leap` finds out
        self._read(offset, min(size, available))
        return self.stop > left

    def _read(self, offset: int, size: int) -> None:
        if self._reuse is None:
            self.buffer = os.pread(self._fd, size, offset)
            self.stop = len(self.buffer)
        else:
            if len(self._reuse) < size:
                self._reuse = bytearray(size)
            with memoryview(self._reuse) as view:
                self.stop = os.preadv(self._fd, [view[:size]], offset)
            self.buffer = self._reuse
        self._offset, self.at = offset, 0
        if self.view.is_member:
            self._leave_uncommitted()

    def _leave_uncommitted(self) -> None:
        """Hide the records above the watermark, as if they were not there yet."""
        walk = Walk(self.view.salt, False)
        walk.attach(self.buffer, 0, self.stop)
        walk.seek(self.view.watermark + 1)
        while walk.skim() == RECORD:
            if walk.number > self.view.watermark:
                self.stop = walk.at
                return

    # Entering and leaving segments

    def _enter(self, number: int) -> bool | Lost:
        """Find the segment of `number`."""
        first = self.view.at(number)
        if first > number:
            first = self.view.at(number, True)
        if first == 0:
            self._check()
            return False
        if not self._open(first):
            return self._enter(number)  # just deleted
        if first > number:
            return Lost(number, first - 1)
        self._offset = self.view.offset(first, number)
        return self._load() or self._more(number)

    def _go_on(self, number: int, following: int) -> bool | Lost:
        """Leave this segment for the next one; the numbers between them are lost."""
        offset = self._offset + self.at
        end = os.fstat(self._fd).st_size
        kept = self.view.holds(self._first)
        damage = Damage(self._first, offset, end, number, following - 1)
        if not self._open(following):
            self._close_segment()
            return self._enter(number)
        if following <= number:
            return self._load() or self._more(number)
        deleted = not kept and offset == end
        return Lost(number, following - 1, None if deleted else damage)

    def _open(self, first: int) -> bool:
        segment_fd = self.view.open(first)
        if segment_fd < 0:
            return False
        self._close_segment()
        self._fd, self._first = segment_fd, first
        self._offset = START
        self.at = self.stop = 0
        self._seen = self._searched = 0
        return True

    def _leap(self, number: int, following: int) -> Lost | None:
        """Skip bytes that are not a record, to the next good one of this segment, if any."""
        offset, size = self._offset + self.at, self._seen
        if size - offset <= HEADER_SIZE or size == self._searched:
            return None
        limit = following or NUMBER_MAX
        survey = Survey(self._fd, self.view.salt, self._first, size, limit)
        survey.begin_at(offset, number)
        end, _ = survey.next_good(offset)
        if end == 0:
            self._searched = size
            return None
        first = survey.walk.number
        self._offset, self.at, self.stop = end, 0, 0
        return Lost(number, first - 1, Damage(self._first, offset, end, number, first - 1))

    def _is_cut(self, number: int) -> bool:
        """True if numbers were taken back, but none before `number`. StoreError if some were."""
        view = self.view
        view.check()
        if view.cuts == self._cuts:
            return False
        is_lost = view.cuts > self._cuts + 1 or number > view.cut + 1
        if is_lost and not view.is_member:
            raise self._truncated()
        if view.cutting:
            return False  # the cut is checked again when it is complete
        self._cuts = view.cuts
        return True

    def _check(self) -> None:
        """Raise `StoreError` if the data being read was truncated or replaced."""
        self.view.check()
        if self._fd >= 0:
            status = os.fstat(self._fd)
            size = max(status.st_size, START)  # its head may still be in progress
            at = self._offset + self.at
            if status.st_nlink == 0 and at == START and self.view.holds(self._first):
                self._close_segment()  # it was empty, and was replaced: it is entered again
            elif status.st_nlink == 0 or (size < at and not self._window.is_left_behind):
                raise self._truncated()  # else its last records are in the window

    def _truncated(self) -> StoreError:
        if self.view.cutting:
            return StoreError(
                f"{self.view.path}: the journal is being cut after number {self.view.cut}; read it"
                " again when the broker has done that"
            )
        return StoreError(
            f"{self.view.path}: the journal was truncated while it was read; read it again"
        )
