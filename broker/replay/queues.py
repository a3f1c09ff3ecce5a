"""The queues of cursors: ready, parked, or waiting for a number.

Each queue can remove any cursor at any moment, in O(log n) at most: a client may begin and end a
million replays, and those that ended must leave nothing behind. A cursor is in one queue at a time,
its `queue`.
"""

from operator import attrgetter

from broker.dataplane.connection import Connection
from broker.limits.fair_queue import FairQueue
from broker.replay.cursor import Cursor


class CursorQueue(FairQueue[Connection, Cursor]):
    """Cursors by connection: the connections take turns, however many cursors each has.

    `FairQueue.put(self, ...)` is a third faster than `super().put(...)`; each step needs both.
    """

    def __init__(self) -> None:
        super().__init__(attrgetter("connection"))

    def put(self, cursor: Cursor) -> None:
        """Append a cursor to its connection's line."""
        cursor.queue = self
        FairQueue.put(self, cursor)

    def pop(self) -> Cursor:
        """Take the next cursor; its connection goes to the end."""
        cursor: Cursor = FairQueue.pop(self)
        cursor.queue = None
        return cursor

    def discard(self, cursor: Cursor) -> None:
        """Remove a cursor that has ended."""
        FairQueue.discard(self, cursor)
        cursor.queue = None

    def pop_key(self, connection: Connection) -> list[Cursor]:
        """Take all cursors of one connection."""
        cursors = FairQueue.pop_key(self, connection)
        for cursor in cursors:
            cursor.queue = None
        return cursors


class Waiting:
    """Cursors that wait for a number: a binary heap in which each knows its place."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Cursor]] = []
        self._put = 0  # cursors put so far: for equal numbers, first come, first served

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def lowest(self) -> int:
        """The lowest number that a cursor waits for; there must be one."""
        return self._heap[0][0]

    def put(self, cursor: Cursor) -> None:
        """Let a cursor wait for its current number."""
        cursor.queue = self
        self._put += 1
        self._heap.append((cursor.number, self._put, cursor))
        self._rise(len(self._heap) - 1)

    def pop_reached(self, last: int) -> Cursor | None:
        """Take the cursor with the lowest number, if that is at most `last`."""
        if not self._heap or self._heap[0][0] > last:
            return None
        cursor = self._heap[0][2]
        self.discard(cursor)
        return cursor

    def discard(self, cursor: Cursor) -> None:
        """Remove a cursor that has ended, or whose number has come."""
        heap, at = self._heap, cursor.heap_index
        last = heap.pop()
        if at < len(heap):
            heap[at] = last
            self._rise(self._sink(at))
        cursor.queue = None

    def _rise(self, at: int) -> None:
        heap = self._heap
        entry = heap[at]
        while at and heap[(at - 1) >> 1] > entry:
            heap[at] = heap[(at - 1) >> 1]
            heap[at][2].heap_index = at
            at = (at - 1) >> 1
        heap[at] = entry
        entry[2].heap_index = at

    def _sink(self, at: int) -> int:
        heap = self._heap
        entry, end = heap[at], len(heap)
        while (below := 2 * at + 1) < end:
            if below + 1 < end and heap[below + 1] < heap[below]:
                below += 1
            if heap[below] > entry:
                break
            heap[at] = heap[below]
            heap[at][2].heap_index = at
            at = below
        heap[at] = entry
        return at
