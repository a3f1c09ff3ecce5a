"""Finds the rows of promised batches in a journal.

The record of a row has the origin of its batch, and its place in the batch. A journal may have
holes: a power cut takes what was not synced, in any order. So the walk goes on after bad records.
"""

from collections.abc import Collection, Iterator

from sequencer.journal.layout import MORE, RECORD
from sequencer.journal.record import Walk
from sequencer.journal.segment import Segment
from sequencer.journal.store import Store

BUFFER_BYTES = 1 << 20


def rows_of(journal: Store, origins: Collection[int], after: int) -> Iterator[tuple[int, int, int]]:
    """Yield origin, row and number of these origins' rows after a number. Raises `OSError`."""
    if not origins:
        return
    scan = _Scan(journal, origins)
    segment, offset = journal.locate(after + 1)
    for one in journal.segments():
        if one.last > after:
            yield from scan.read(one, offset if one is segment else one.start)


class _Scan:
    """A walk through segments, from the first to the last."""

    def __init__(self, journal: Store, origins: Collection[int]) -> None:
        self._journal = journal
        self._origins = origins
        self._walk = Walk(journal.salt)
        self._buffer = bytearray(BUFFER_BYTES)
        self._following = 0  # the number after the last one seen

    def read(self, segment: Segment, offset: int) -> Iterator[tuple[int, int, int]]:
        """Walk a segment from `offset` on."""
        walk = self._walk
        while offset < segment.size:
            with memoryview(self._buffer) as view:
                got = segment.read(offset, view, True)
            walk.attach(self._buffer, 0, got)
            while (outcome := walk.next()) == RECORD:
                self._following = walk.number + 1
                if walk.origin in self._origins:
                    yield walk.origin, walk.origin_sequence, walk.number
            end = offset + got
            offset += walk.at
            if outcome == MORE and (offset == end or end < segment.size):
                if walk.at == 0:  # a record longer than the buffer
                    self._buffer = bytearray(2 * len(self._buffer))
                continue
            found = self._journal.next_good(segment, offset, self._following)
            if found is None or found[0] is not segment:
                break
            offset = found[1]
