"""Finds the existing numbers: rows become sets of numbers, joined by bucket and compared.

    rows of a task --> Census: one partial row for each bucket of each block --> a shuffle by
    stripe (2^30 numbers), sorted by bucket --> Join: one `AuditSummary` for each stripe --> driver

A row has a number, and may have a time and a hash of its content. For each bucket of 2^20 numbers a
partial has the set of its numbers and the set of those seen twice. For each span of 2^16 numbers it
has the earliest and latest time, and a digest of the hashes that does not depend on their order:
their count, xor and sum.

Memory: a block of rows in a task; in a join two buckets of 1 MiB each and their bitmaps.
"""

# Theory of operation
#
# The question is which numbers exist, on one side or on two, and how often. Sorting all numbers
# would answer it, but a journal may have 10^10 of them, and a shuffle would move
# 8 bytes for each. Sets of
# numbers that are nearly without gaps are small, however, so tasks send sets:
#
#     task 1   rows 5 6 7 9 ...  -.                                 one task for each stripe
#                                 |-> partial rows, by bucket ----> bucket 0: union, numbers twice
#     task 2   rows 7 8 4 ...    -'   (a few bytes to 128 KiB)      bucket 1: ...
#                                                                        |
#     stripe  2^30 numbers: what the shuffle is by                       v
#     bucket  2^20 numbers: a set that fits in the cache            one `AuditSummary`
#     span    2^16 numbers: times and a digest of the contents
#
# A number occurs twice if one task has it twice (`doubled`), or if two tasks have it: the second
# partial of a bucket has a bit that is set already (`Bucket.add`).
#
# Contents are compared without moving them. For each span a side gives the count, the xor and the
# sum of its rows' 64-bit hashes. All three can be computed in any order and put together from
# parts, so neither side needs to be sorted. The xor alone would miss a row that occurs twice, as it
# cancels out; the sum and the count show it. Spans that differ are then read again by the caller.
#
# Order is a question about rows as they lie in a file, so it is answered in the task that reads it,
# before the block is sorted: a number below that of the row before is a `Fall`. Times are compared
# in the order of numbers, inside a block, and with the highest number of the blocks before. Blocks
# that overlap are not compared with each other; a span's earliest and latest time shows such a
# case.
#
# Because a partial row is complete in itself, a task that Spark runs a second time changes nothing,
# and no task holds more than one block or two buckets.

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyspark_seriatim.jobs.audit.bitmaps import BITS, Bucket, pack, split, true_ranges
from pyspark_seriatim.jobs.audit.findings import AuditSummary, Fall, Tally
from pyspark_seriatim.jobs.errors import WrongSummary

SPAN_BITS: Final = 16
SPAN: Final = 1 << SPAN_BITS
SPANS: Final = 1 << (BITS - SPAN_BITS)  # in a bucket
STRIPE_BITS: Final = 30
NOTES: Final = -1  # the bucket of notes about a task's rows instead of numbers
BLOCK_ROWS: Final = 1 << 20
NEVER: Final = np.iinfo(np.int64).max
PARTIAL: Final = pa.schema(
    [
        ("stripe", pa.int64()),
        ("bucket", pa.int64()),
        ("side", pa.string()),
        ("rows", pa.int64()),
        ("numbers", pa.binary()),
        ("doubled", pa.binary()),
        ("times", pa.binary()),
        ("digests", pa.binary()),
        ("notes", pa.binary()),
    ]
)
PARTIAL_DDL: Final = (
    "stripe bigint, bucket bigint, side string, rows bigint, numbers binary, doubled binary,"
    " times binary, digests binary, notes binary"
)
SUMMARY_DDL: Final = "stripe bigint, summary binary"
SUMMARY: Final = pa.schema([("stripe", pa.int64()), ("summary", pa.binary())])

Numbers = NDArray[np.int64]


@dataclass(slots=True)
class NumberBlock:
    """Rows of one side, in order of arrival; times in microseconds since 1970."""

    numbers: Numbers
    times: Numbers | None = None
    hashes: NDArray[np.uint64] | None = None

    def select(self, which: Any) -> "NumberBlock":
        """A selection of the rows, by indexes, booleans or a slice."""
        times = None if self.times is None else self.times[which]
        hashes = None if self.hashes is None else self.hashes[which]
        return NumberBlock(self.numbers[which], times, hashes)


class Census:
    """Counts the rows of one task. `begin_file` per file, `count` for its blocks, then `notes`."""

    def __init__(self, side: str, limit: int, first: int, last: int, content: bool = False) -> None:
        """Counts numbers `first` to `last`; with `content` only the hashes of the rows."""
        self.tally = Tally(limit)
        self._side, self._first, self._last = side, first, last
        self._content = content
        self.begin_file("")

    def begin_file(self, where: str) -> None:
        """Begin the rows of this file."""
        self._where = where
        self._number: int | None = None  # of the previous row
        self._highest: tuple[int, int] | None = None  # the highest number, and its time

    def count(self, block: NumberBlock) -> list[dict[str, Any]]:
        """The partial rows of a block."""
        if not len(block.numbers):
            return []
        lowest, highest = int(block.numbers.min()), int(block.numbers.max())
        if lowest < 1:
            whole = len(block.numbers)
            block = block.select(block.numbers >= 1)
            self.tally.without += whole - len(block.numbers)
        if lowest < self._first or highest > self._last:
            kept = (block.numbers >= self._first) & (block.numbers <= self._last)
            block = block.select(kept)
        if not len(block.numbers):
            return []
        if not self._content:
            self._look_at_order(block.numbers)
        steps = np.diff(block.numbers)
        if len(steps) and steps.min() < 0:
            block = block.select(np.argsort(block.numbers, kind="stable"))
        if block.times is not None:
            self._look_at_times(block.numbers, block.times)
        return [
            self._partial(bucket, block.select(slice(begin, end)))
            for bucket, begin, end in split(block.numbers)
        ]

    def notes(self) -> dict[str, Any]:
        """The partial row about order and times, and rows without a number."""
        row = dict.fromkeys(PARTIAL.names)
        notes = pickle.dumps(self.tally)
        return row | {"stripe": NOTES, "bucket": NOTES, "side": self._side, "notes": notes}

    def _look_at_order(self, numbers: Numbers) -> None:
        before = np.concatenate((numbers[:1], numbers[:-1]))
        if self._number is not None:
            before[0] = self._number
        self._number = int(numbers[-1])
        falls = np.flatnonzero(numbers < before)
        if len(falls):
            some = falls[: self.tally.order.limit]
            pairs = zip(numbers[some].tolist(), before[some].tolist(), strict=True)
            shown = [Fall(self._where, number, number, last) for number, last in pairs]
            self.tally.order.append(len(falls), shown)

    def _look_at_times(self, numbers: Numbers, times: Numbers) -> None:
        """Check the times of ascending numbers; compare with earlier rows only if lower."""
        before = np.concatenate((times[:1], times[:-1]))
        if self._highest is not None and self._highest[0] < numbers[0]:
            before[0] = self._highest[1]
        if self._highest is None or self._highest[0] < numbers[-1]:
            self._highest = int(numbers[-1]), int(times[-1])
        falls = np.flatnonzero(times < before)
        if len(falls):
            some = falls[: self.tally.times.limit]
            rows = zip(
                numbers[some].tolist(), times[some].tolist(), before[some].tolist(), strict=True
            )
            shown = [Fall(self._where, number, time, last) for number, time, last in rows]
            self.tally.times.append(len(falls), shown)

    def _partial(self, bucket: int, block: NumberBlock) -> dict[str, Any]:
        """The partial row of a block for one bucket."""
        row = dict.fromkeys(PARTIAL.names)
        row |= {"stripe": bucket >> (STRIPE_BITS - BITS), "bucket": bucket, "side": self._side}
        offsets = (block.numbers - (bucket << BITS)).astype(np.uint32)
        if not self._content:
            again = offsets[1:] == offsets[:-1]
            row["rows"] = len(offsets)
            if again.any():
                row["doubled"] = pack(np.unique(offsets[1:][again]))
                row["numbers"] = pack(np.concatenate((offsets[:1], offsets[1:][~again])))
            else:
                row["numbers"] = pack(offsets)
        spans = offsets >> np.uint32(SPAN_BITS)
        begins = np.concatenate(([0], np.flatnonzero(spans[1:] != spans[:-1]) + 1))
        here = spans[begins]
        if block.times is not None:
            times = np.empty((SPANS, 2), np.int64)
            times[:] = NEVER, -NEVER
            times[here, 0] = np.minimum.reduceat(block.times, begins)
            times[here, 1] = np.maximum.reduceat(block.times, begins)
            row["times"] = times.tobytes()
        if block.hashes is not None:
            digests = np.zeros((SPANS, 3), np.uint64)
            digests[here, 0] = np.diff(begins, append=len(offsets)).astype(np.uint64)
            digests[here, 1] = np.bitwise_xor.reduceat(block.hashes, begins)
            digests[here, 2] = np.add.reduceat(block.hashes, begins)
            row["digests"] = digests.tobytes()
        return row


def partial_batch(rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """Partial rows as Arrow."""
    return pa.RecordBatch.from_pylist(list(rows), schema=PARTIAL)


def blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[NumberBlock, int]]:
    """Batches of `number` and, if present, `time` and `hash`, as blocks of many rows.

    With each, how many rows had no number.
    """
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= BLOCK_ROWS:
            yield _block(waiting)
            waiting, rows = [], 0
    if rows:
        yield _block(waiting)


def _block(batches: list[pa.RecordBatch]) -> tuple[NumberBlock, int]:
    table = pa.Table.from_batches(batches)
    nulls = table.column("number").null_count
    if nulls:
        table = table.filter(table.column("number").is_valid())

    def array(name: str) -> Any:
        if name not in table.column_names:
            return None
        column = table.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        return column.fill_null(0).to_numpy() if column.null_count else column.to_numpy()

    hashes = array("hash")
    block = NumberBlock(
        array("number"), array("time"), None if hashes is None else hashes.view(np.uint64)
    )
    return block, nulls


@dataclass(frozen=True, slots=True)
class CountRows:
    """For mapInArrow: turns rows of one side into partials. Each task's rows count as one file."""

    side: str
    limit: int
    first: int
    last: int
    content: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        census = Census(self.side, self.limit, self.first, self.last, self.content)
        for block, nulls in blocks(batches):
            census.tally.without += 0 if self.content else nulls
            rows = census.count(block)
            if rows:
                yield partial_batch(rows)
        if not self.content:
            yield partial_batch([census.notes()])


@dataclass(frozen=True, slots=True)
class Join:
    """For mapInArrow: turns sorted partials of whole stripes into one `AuditSummary` per stripe.

    `compare`: the range of numbers for which the sides are compared, or None.
    """

    limit: int
    spans_limit: int
    compare: tuple[int, int] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for stripe, of_stripe in groupby(rows, lambda row: row["stripe"]):
            whole = AuditSummary(self.limit, self.spans_limit)
            for bucket, of_bucket in groupby(of_stripe, lambda row: row["bucket"]):
                whole.append(self.bucket(bucket, of_bucket))
            columns = [[stripe], [pickle.dumps(whole)]]
            yield pa.RecordBatch.from_arrays(
                [pa.array(c, f.type) for c, f in zip(columns, SUMMARY, strict=True)], schema=SUMMARY
            )

    @staticmethod
    def read(packed: bytes) -> AuditSummary:
        """Unpack the column `summary`."""
        found = pickle.loads(packed)
        if not isinstance(found, AuditSummary):
            raise WrongSummary(f"a task sent {type(found).__name__}, not a summary")
        return found

    def bucket(self, bucket: int, rows: Iterable[dict[str, Any]]) -> AuditSummary:
        """The summary of the partials of one bucket."""
        found = AuditSummary(self.limit, self.spans_limit)
        if bucket == NOTES:
            for row in rows:
                found.side(row["side"]).append(pickle.loads(row["notes"]))
            return found
        sides: dict[str, _Side] = {}
        for row in rows:
            sides.setdefault(row["side"], _Side()).add(row)
        base = bucket << BITS
        for name, side in sides.items():
            side.tell(found.side(name), base)
        if self.compare is not None:
            journal, archive = (sides.get(name) or _Side() for name in ("journal", "archive"))
            self._compare(found, base, journal, archive)
        return found

    def _compare(self, found: AuditSummary, base: int, journal: "_Side", archive: "_Side") -> None:
        assert self.compare is not None
        begin = max(self.compare[0] - base, 0)
        end = min(self.compare[1] + 1 - base, 1 << BITS)
        if begin >= end:
            return
        here, there = journal.seen[begin:end], archive.seen[begin:end]
        if not np.array_equal(here, there):
            found.missing.add_all(*true_ranges(here & ~there, base + begin))
            found.extra.add_all(*true_ranges(there & ~here, base + begin))
        one, other = journal.digests, archive.digests
        if one is not None and other is not None:
            # a span with rows on one side only is reported as missing numbers
            both = (one[:, 0] > 0) & (other[:, 0] > 0)
            for span in np.flatnonzero(both & (one != other).any(axis=1)).tolist():
                found.differs(base + span * SPAN)


class _Side:
    """The partials of one side for one bucket."""

    __slots__ = ("digests", "numbers", "times")

    def __init__(self) -> None:
        self.numbers: Bucket | None = None  # None: only content was compared
        self.times: NDArray[np.int64] | None = None
        self.digests: NDArray[np.uint64] | None = None

    @property
    def seen(self) -> NDArray[np.bool_]:
        """Booleans of the bucket: True for numbers that exist."""
        return (self.numbers or Bucket()).seen

    def add(self, row: dict[str, Any]) -> None:
        """Add one partial row."""
        if row["numbers"] is not None:
            self.numbers = self.numbers or Bucket()
            self.numbers.add(row["rows"], row["numbers"], row["doubled"])
        if row["times"] is not None:
            more = np.frombuffer(row["times"], np.int64).reshape(SPANS, 2)
            times = more.copy() if self.times is None else self.times
            np.minimum(times[:, 0], more[:, 0], out=times[:, 0])
            np.maximum(times[:, 1], more[:, 1], out=times[:, 1])
            self.times = times
        if row["digests"] is not None:
            digests = np.frombuffer(row["digests"], np.uint64).reshape(SPANS, 3)
            if self.digests is None:
                self.digests = digests.copy()
            else:
                self.digests[:, [0, 2]] += digests[:, [0, 2]]
                self.digests[:, 1] ^= digests[:, 1]

    def tell(self, tally: Tally, base: int) -> None:
        """Add the result to the tally; `base` is the first number of the bucket."""
        if self.numbers is None:
            return
        firsts, lasts = true_ranges(self.numbers.seen, base)
        tally.rows = self.numbers.rows
        tally.numbers = int((lasts - firsts + 1).sum())
        tally.first, tally.last = int(firsts[0]), int(lasts[-1])
        tally.gaps.add_all(lasts[:-1] + 1, firsts[1:] - 1)
        if self.numbers.doubled is not None:
            tally.doubled.add_all(*true_ranges(self.numbers.doubled, base))
        if self.times is not None:
            for span, (earliest, latest) in enumerate(self.times.tolist()):
                if earliest <= latest:
                    tally.span_of_time(base + span * SPAN, earliest, latest)
