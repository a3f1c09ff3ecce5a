"""Reads records that are not in the system's memory: in threads, a few buffers at a time.

    fetch -> asked for --(a place is free)--> read by a thread --> the cursor's turn -> take

Memory: `FETCHES` buffers in all, including those that wait for their cursor's turn.
"""

import asyncio
import errno
from collections import OrderedDict
from collections.abc import Callable

from broker.replay.cursor import Cursor

FETCHES = 16  # buffers being filled, or waiting for their cursor's turn


class Fetcher:
    """The reads that threads make for cursors. One per broker.

    `fetched` and `failed` are called in the loop, unless the cursor has ended.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        fetched: Callable[[Cursor], None],
        failed: Callable[[Cursor, BaseException], None],
    ) -> None:
        self._loop = loop
        self._fetched = fetched
        self._failed = failed
        self._asked: OrderedDict[Cursor, int] = OrderedDict()
        self._places = FETCHES

    def fetch(self, cursor: Cursor, size: int) -> None:
        """Read `size` bytes from the cursor's position."""
        cursor.home = self
        self._asked[cursor] = size
        self._next()

    def take(self, cursor: Cursor) -> bytearray | None:
        """Return the buffer read for the cursor, which frees a place for another."""
        buffer, cursor.fetched = cursor.fetched, None
        if buffer is not None:
            self._vacate()
        return buffer

    def discard(self, cursor: Cursor) -> None:
        """Forget a cursor that has ended, without waiting for a thread that reads for it."""
        self._asked.pop(cursor, None)
        cursor.home = None

    def _vacate(self) -> None:
        self._places += 1
        self._next()

    def _next(self) -> None:
        while self._asked and self._places:
            cursor, size = self._asked.popitem(last=False)
            self._places -= 1
            self._read(cursor, size)

    def _read(self, cursor: Cursor, size: int) -> None:
        piece, offset = cursor.reading, cursor.offset
        piece.hold()  # the cursor may end in the meantime

        def read() -> bytearray:
            buffer = bytearray(min(size, piece.size - offset))
            with memoryview(buffer) as view:
                filled = piece.read(offset, view, True)
            if filled < len(buffer):
                raise OSError(errno.EIO, "the file is shorter than it was")
            return buffer

        def done(future: "asyncio.Future[bytearray]") -> None:
            piece.release()
            cursor.home = None
            error = future.exception()
            if error is None and not cursor.ended:
                cursor.fetched = future.result()
                self._fetched(cursor)
                return
            self._vacate()
            if error is not None and not cursor.ended:
                self._failed(cursor, error)

        self._loop.run_in_executor(None, read).add_done_callback(done)
