"""Merges the rows of many files into one stream, in the order of their numbers, each number once.

Each file is sorted (an archive's are; `audit` reports others), and holds a part of the numbers, for
example those of one date and one token. A file is opened when the stream reaches its first number.
So few files are open at a time, usually those of one date.

    for batch in Ordered(place, parts, columns, span).batches(): ...

Memory: a batch of each open file, together about twice `BYTES`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyspark_seriatim.jobs.archive.rows import BATCH_BYTES, ArchivePart, batches
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog.files import Files

BYTES: Final = 64 << 20
FILE_BYTES_MIN: Final = 256 << 10  # per file, however many there are


class Ordered:
    """The rows of `parts` whose numbers are in `span`; `doubled` counts duplicates."""

    def __init__(
        self,
        place: Files,
        parts: Sequence[ArchivePart],
        columns: Sequence[str],
        span: tuple[int, int],
        pattern: str | None = None,
    ) -> None:
        self.doubled = 0
        self._place, self._columns, self._span, self._pattern = place, columns, span, pattern
        self._waiting = sorted(parts, key=lambda part: part.first, reverse=True)
        self._open: list[_File] = []
        self._last = 0  # the highest number so far
        self._bytes = min(max(BYTES // max(len(parts), 1), FILE_BYTES_MIN), BATCH_BYTES)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Rows in ascending order, `sequence` the first column. Raises `JobError`."""
        while self._waiting or self._open:
            bound = self._bound()
            taken = [file.upto(bound) for file in self._open]
            self._open = [file for file in self._open if file.load()]
            if any(batch.num_rows for batch in taken):
                yield from self._once(pa.Table.from_batches(taken)).to_batches()

    def _bound(self) -> int:
        """The number up to which all rows of the open files were read."""
        while True:
            bound = min((file.bound for file in self._open), default=None)
            if not self._waiting or (bound is not None and self._waiting[-1].first > bound):
                assert bound is not None, "a file is open, or one waits"
                return bound
            part = self._waiting.pop()
            file = _File(self._place, part, self._read(part))
            if file.load():
                self._open.append(file)
            elif not self._open and not self._waiting:
                return 0

    def _read(self, part: ArchivePart) -> Iterator[pa.RecordBatch]:
        columns = ["sequence", *(name for name in self._columns if name != "sequence")]
        spans, footer = (self._span,), part.footer
        return batches(self._place, part.path, columns, spans, self._pattern, self._bytes, footer)

    def _once(self, table: pa.Table) -> pa.Table:
        numbers = table.column(0).to_numpy()
        if (np.diff(numbers) <= 0).any():
            order = np.argsort(numbers, kind="stable")
            table, numbers = table.take(order), numbers[order]
        if numbers[0] < self._last:
            raise JobError(
                f"number {int(numbers[0])} is in a file of {self._place.root} that is listed with"
                " only higher numbers; `seriatim spark audit` shows what is wrong with the archive"
            )
        first = np.concatenate(([numbers[0] != self._last], numbers[1:] != numbers[:-1]))
        self._last = int(numbers[-1])
        if not first.all():
            self.doubled += int((~first).sum())
            table = table.filter(pa.array(first))
        return table.combine_chunks()


class _File:
    """One open file, with the rows that were read but not returned yet."""

    def __init__(self, place: Files, part: ArchivePart, read: Iterator[pa.RecordBatch]) -> None:
        self._name = place.uri(part.path)
        self._read = read
        self._last = 0
        self._at = 0
        self._batch: pa.RecordBatch | None = None
        self._numbers: NDArray[np.int64] = np.empty(0, np.int64)

    @property
    def bound(self) -> int:
        """The last number that was read."""
        return int(self._numbers[-1])

    def load(self) -> bool:
        """Read more if nothing is left; False at the end of the file. Raises `JobError`."""
        while self._at == len(self._numbers):
            batch = next(self._read, None)
            if batch is None:
                return False
            self._at, self._batch = 0, batch
            numbers = batch.column(0).to_numpy(zero_copy_only=False)
            self._check(numbers)
            self._numbers = numbers
        return True

    def _check(self, numbers: NDArray[np.int64]) -> None:
        """Raise `JobError` if the file is not sorted."""
        before = np.concatenate(([self._last], numbers[:-1]))
        falls = np.flatnonzero(numbers < before)
        if len(falls):
            number = int(numbers[falls[0]])
            raise JobError(
                f"{self._name}: number {number} comes after {int(before[falls[0]])}, so it cannot"
                " be read in order; `seriatim spark audit` shows what is wrong with the archive"
            )
        self._last = int(numbers[-1]) if len(numbers) else self._last

    def upto(self, bound: int) -> pa.RecordBatch:
        """The remaining rows with numbers up to `bound`."""
        assert self._batch is not None
        end = int(np.searchsorted(self._numbers, bound, side="right"))
        begin, self._at = self._at, max(end, self._at)
        return self._batch.slice(begin, self._at - begin)
