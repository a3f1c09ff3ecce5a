"""Reads a range of the journal again, from front to back, without holding up the event loop.

    scan = JournalScan(journal, loop, first)
    async for buffer, size in scan.pieces():
        scan.used = ...        how many bytes of whole records were used
        scan.number = ...      the number of the next record
        break                  whenever enough was seen

A piece is a megabyte, or less; its records are used in one turn of the event loop. A thread reads
what is not in memory. The range ends at the end of the journal as it is in that turn, so nothing is
missed between the last piece and what is written from then on. Retention may delete what is read:
then the scan goes on with the first number that is left. Damage is passed by, as readers of the
journal do.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from sequencer.journal.layout import HEADER_SIZE, LENGTH_MAX
from sequencer.journal.protocols import ReadableJournal, SegmentView

PIECE: Final = 1 << 20
RETRY: Final = 0.1  # seconds, when the disk cannot be read
TRIES_MAX: Final = 50  # then the rest of the segment is passed by


class JournalScan:
    """One reading of the journal, from number `first` on."""

    def __init__(
        self,
        journal: ReadableJournal,
        loop: asyncio.AbstractEventLoop,
        first: int,
        piece: int = PIECE,
        lacks: Callable[[SegmentView], bool] | None = None,
    ) -> None:
        """Read pieces of so many bytes, and pass by the segments that `lacks` names."""
        self.number = first
        self.used = 0
        self._journal = journal
        self._loop = loop
        self._piece = piece
        self._lacks = lacks
        self._buffer = bytearray(piece)

    def advance(self, used: int, number: int) -> None:
        """Note that so many bytes of the piece are done, and which number comes next at least."""
        self.used = used
        self.number = max(self.number, number)

    async def pieces(self) -> AsyncIterator[tuple[bytearray, int]]:
        """Yield a buffer and how many bytes of it were read."""
        journal = self._journal
        segment, offset = journal.locate(self.number)
        span = self._piece
        waits = False  # for the disk: what is in memory may end within a record
        entered: SegmentView | None = None
        tries = 0
        while True:
            if segment.gone:
                self.number = max(self.number, journal.first)
                segment, offset = journal.locate(self.number)
            if segment is not entered and self._lacks is not None and self._lacks(segment):
                offset = segment.size
            entered = segment
            size = await self._read(segment, offset, span, waits)
            if segment.gone:
                continue
            if size == 0:
                if segment.size > offset and tries < TRIES_MAX:
                    tries += 1  # it was just written, or the disk does not give it now
                    await asyncio.sleep(0 if tries == 1 else RETRY)
                    continue
                tries = 0
                following = segment.following
                if following is None:
                    return
                segment, offset = following, following.start
                continue
            self.used = tries = 0
            yield self._buffer, size
            await asyncio.sleep(0)  # others are served between two pieces
            if self.used:
                offset += self.used
                span, waits = self._piece, False
                continue
            need = self._length(size)
            is_cut = waits and size < span  # a thread has waited, and the file has no more
            if size < need <= segment.size - offset and not is_cut:
                span, waits = need, True
                continue
            good = journal.next_good(segment, offset, self.number)
            if good is None:
                return
            segment, offset, self.number = good
            span, waits = self._piece, False

    def _length(self, size: int) -> int:
        """Return how many bytes the next record has; 0 if that cannot be."""
        if size < HEADER_SIZE:
            return HEADER_SIZE
        length = int.from_bytes(self._buffer[4:8], "little")
        return (length + 7) & ~7 if HEADER_SIZE <= length <= LENGTH_MAX else 0

    async def _read(self, segment: SegmentView, offset: int, span: int, waits: bool) -> int:
        if len(self._buffer) < span or span == self._piece < len(self._buffer):
            self._buffer = bytearray(span)
        segment.hold()
        try:
            with memoryview(self._buffer) as view:
                if not waits:
                    with contextlib.suppress(BlockingIOError):
                        return segment.read(offset, view[:span], False)
                return await self._loop.run_in_executor(
                    None, segment.read, offset, view[:span], True
                )
        except OSError:
            return 0
        finally:
            segment.release()
