"""The stream reader: chooses where a micro-batch ends, and the numbers that its tasks read.

Spark keeps one of these for the life of a query, and calls it in this order, some 90 times a second
while nothing happens:

    latestOffset(start, limit)    start itself while there is nothing (or not enough) to read
    reportLatestOffset()          the head, which Spark shows as the lag
    partitions(start, end)        at once, or after a crash for a batch that is replayed

With a subject filter a batch begins when something matches, so foreign messages make no empty
batches. After a million of them there is one anyway, so that a restarted query need not search them
again. There is also one at the end of Trigger.AvailableNow, and when the journal is about to delete
old messages: otherwise foreign numbers, once deleted, would count as lost.
"""

import time
from typing import Final

from pyspark.sql.types import StructType

from pyspark_seriatim import arrow, offsets
from pyspark_seriatim.api import (
    DataSourceStreamReader,
    InputPartition,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark_seriatim.client import JournalInfo
from pyspark_seriatim.offsets import Offset
from pyspark_seriatim.options import Options
from pyspark_seriatim.reading import RangeReader

INFO_AGE_S: Final = 0.02  # the maximum age of the answer to a poll: half of them ask the broker
FOREIGN_MAX: Final = 1_000_000  # foreign numbers after which a batch begins
SCAN_MAX: Final = 20_000_000  # numbers searched in one go, some seconds


class StreamReader(RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query's source, in the driver; its copies in tasks only `read`."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self._initial: Offset | None = None
        self._target: int | None = None  # of Trigger.AvailableNow
        self._begun_at: float | None = None  # when the last batch began
        self._clear = ("", 0, 0)  # journal, and the range in which nothing matches
        self._match = (
            arrow.SubjectMatch(options.subscribe_pattern) if options.subscribe_pattern else None
        )

    def __getstate__(self) -> dict[str, object]:
        return {"options": self.options, "spark_schema": self.spark_schema}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(state["options"], state["spark_schema"])  # type: ignore[misc]

    # Spark's calls

    def initialOffset(self) -> Offset:
        if self._initial is None:
            self._initial = offsets.initial(self.options, self.client().info())
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self.options.max_offsets_per_trigger
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self.client().info().last + 1

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        info = self.client().info(INFO_AGE_S)
        start = start or self.initialOffset()
        head = info.last + 1
        if self._target is not None:
            head = min(head, self._target)
        if offsets.is_symbolic(start):
            number = offsets.resolve(start, info, lambda ns: self._seek(ns, info))
            return offsets.offset(info.journal, min(number, max(head, info.first)))
        what = "startingOffsets" if start == self._initial else "the checkpoint"
        first = offsets.first_of(self.options, start, info, what)
        end = self._end(info, first, head, limit)
        if end == start["sequence"] and info.journal == start["journal"]:
            return start
        return offsets.offset(info.journal, end)

    def reportLatestOffset(self) -> Offset:
        info = self.client().info(INFO_AGE_S)
        return offsets.offset(info.journal, info.last + 1)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        if start == end:
            return []
        info = self.client().info()
        first, stop = offsets.stream_range(self.options, start, end, info)
        return self.parts(info, first, stop, self.options.subscribe)

    def commit(self, end: Offset) -> None:
        """Do nothing: the source keeps nothing for a query that could be released."""

    def stop(self) -> None:
        self.client().close()

    # Decisions

    def _seek(self, time_ns: int, info: JournalInfo) -> int:
        return self.client().number_at(time_ns, info.first, info.last)

    def _end(self, info: JournalInfo, first: int, head: int, limit: ReadLimit | None) -> int:
        """The end of a batch from `first` on; `first` itself if it must wait."""
        if first >= head:
            return first
        match, clear_to = self._first_match(info, first, head)
        if not match:
            return clear_to if self._is_far(info, first, clear_to) else first
        if not self._is_due(head - match):
            return first
        self._begun_at = time.monotonic()
        return offsets.end_of(match, head, getattr(limit, "max_rows", None))

    def _is_far(self, info: JournalInfo, first: int, clear_to: int) -> bool:
        """True if there are enough foreign numbers for an empty batch."""
        foreign = clear_to - first
        if foreign >= FOREIGN_MAX or self._target is not None:  # the next run may be much later
            return True
        return info.full > 0.5 and foreign > first - info.first

    def _is_due(self, available: int) -> bool:
        """True if there is enough for a batch, or it has waited long enough."""
        least = self.options.min_offsets_per_trigger
        if available >= least or self._target is not None or self._begun_at is None:
            return True
        return time.monotonic() - self._begun_at >= self.options.max_trigger_delay / 1000

    def _first_match(self, info: JournalInfo, first: int, head: int) -> tuple[int, int]:
        """The first number before `head` that matches, or 0; and the end of the search."""
        if self.options.subscribe == (">",) and self._match is None:
            return first, first
        journal, begun, at = self._clear
        if journal != info.journal or not begun <= first <= at:
            begun = at = first
        found = 0
        if at < head and self._match is None:
            subjects = self.options.subscribe
            found, at = self.client().first_match(at, head - 1, subjects, SCAN_MAX)
        elif at < head:
            found, at = self._first_of_pattern(at, head)
        self._clear = (info.journal, begun, at)
        return found, at

    def _first_of_pattern(self, first: int, head: int) -> tuple[int, int]:
        """`_first_match` for a pattern, which the broker does not support: reads all messages."""
        assert self._match is not None
        at, last = first, min(head, first + SCAN_MAX) - 1
        subjects = self.options.subscribe
        for chunk in self.client().read(first, last, subjects, columns=("subject",)):
            found = arrow.first_match(chunk.columns, self._match)
            if found:
                return found, found
            at = chunk.next
        return 0, at
