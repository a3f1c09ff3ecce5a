"""A batch of the stream into an archive: its rows into Parquet files, its numbers into the log.

    archive = ArchiveWriter(FileLog.open(root), wanted, checkpoint)
    stream.writeStream.foreachBatch(archive.take)

Tasks write the files (parquet.py), wherever they run; the driver only lists them. A batch is known
by its numbers: the log's application is "archive" and its batch the number that comes next. What
the archive covers is not written again, whether Spark replays a batch, or begins anew with another
checkpoint; and what would leave a hole is refused.

Memory of the driver: the names of a batch's files. Of a task: that of parquet.py.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from pyspark_seriatim.jobs.archive.compaction import Compactor
from pyspark_seriatim.jobs.archive.coverage import Facts, Range, count, merged, without
from pyspark_seriatim.jobs.archive.offsets_log import ending
from pyspark_seriatim.jobs.archive.parquet import REPORT, Parts, WrittenFile, report, understood
from pyspark_seriatim.jobs.errors import JobError, WrongRows
from pyspark_seriatim.jobs.filelog.filelog import CHANGES, Change, DataFile, FileLog
from pyspark_seriatim.jobs.filelog.files import Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

APPLICATION: Final = "archive"
TABLE: Final = "messages"
MARKER: Final = "_READ_BY_THE_LIST.txt"  # readers of Parquet overlook such a name
MARKED: Final = b"""\
Do not read this folder as plain Parquet files: not all that are here are valid at a time. While
small files are merged, and until those that were merged are deleted, or when the job was killed
in between, their rows are here twice or more. Which files are valid the list in _seriatim says:

    from pyspark_seriatim.jobs.filelog.filelog import FileLog
    log = FileLog.open("<this folder>")
    spark.read.option("basePath", log.root).parquet(*log.paths("messages"))
"""


class Mirror(Protocol):
    """Another list of the same files, for readers of another format."""

    def sync(self, log: FileLog) -> None:
        """List what the log lists."""


@dataclass(slots=True)
class Totals:
    """What a run has done."""

    rows: int = 0
    files: int = 0
    bytes: int = 0


class ArchiveWriter:
    """What is done with a batch. Written by Spark's thread that runs the query."""

    def __init__(
        self,
        log: FileLog,
        wanted: Facts,
        checkpoint: str,
        *,
        compression: str = "zstd",
        compactor: Compactor | None = None,
        first_kept: Callable[[], int] | None = None,
    ) -> None:
        """Raises `JobError` where what is wanted does not belong into the archive that is there.

        With `first_kept`, the broker's first number, losses are noted where a subject filter hides
        them; without it only those that leave a hole between numbers.
        """
        self.log = log
        self.totals = Totals()
        self.compactor = compactor
        self.mirror: Mirror | None = None  # set once the archive is known to be the right one
        self._facts = facts_of(log) or self._founded(wanted)
        self._facts.check(log.root, wanted)
        if not log.place.exists(MARKER):
            log.place.make(CHANGES)
            log.place.create(MARKER, MARKED, CHANGES)
        self.begin = self._facts.next  # where a query without a checkpoint is to begin
        self._checkpoint = Files(checkpoint)
        self._compression, self._first_kept = compression, first_kept

    @property
    def facts(self) -> Facts:
        """What the archive says of itself now."""
        return self._facts

    @property
    def checkpoint(self) -> str:
        """As Spark takes it."""
        return self._checkpoint.root

    def take(self, frame: "DataFrame", batch: int) -> None:
        """Add a batch, if it is not there yet. Called by Spark."""
        first = ending(self._checkpoint, batch - 1, self._facts.journal) if batch else self.begin
        end = ending(self._checkpoint, batch, self._facts.journal)
        if end > first:
            self.add(frame, first, end)

    def add(self, frame: "DataFrame", first: int, end: int) -> None:
        """Add the rows of the numbers `first` to `end` - 1, of which `frame` has all that match."""
        change = self.log.begin(APPLICATION, end)
        if change is not None:
            self._facts = facts_of(self.log) or self._facts
            following = self._continued(first)
            if first < following:
                first, frame = following, frame.where(f"sequence >= {following}")
            written, runs = self._write(frame, change.directory)
            rows = sum(file.rows for file in written)
            seen = merged(runs)
            check_rows((first, end - 1), rows, seen)
            for file in written:
                tags = {"date": file.date} | ({} if file.token is None else {"token": file.token})
                added = change.add(
                    file.path,
                    DataFile(file.target, TABLE, file.rows, 0, file.first, file.last, tags),
                )
                self.totals.bytes += added.bytes
            facts = self._with((first, end - 1), runs)
            self._note(change, facts)
            change.commit()
            self._facts = facts
            self.totals.rows += rows
            self.totals.files += len(written)
        self.reflect()
        if self.compactor is not None and self.compactor.due():
            self._compact(self.compactor)

    def finish(self) -> None:
        """What is to be done when the query has ended."""
        if self.compactor is not None:
            self._compact(self.compactor)

    def repair(self) -> None:
        """Do what a run before has not come to: another list, the deletion of merged files.

        And of those that it has moved to their place, and then was killed before they were listed.
        """
        self.log.recover()
        self.reflect()
        if self.compactor is not None:
            self.compactor.vacuum(self.log)

    def reflect(self) -> None:
        """Let the readers of another format see what the log has."""
        if self.mirror is not None:
            self.mirror.sync(self.log)

    def _compact(self, compactor: Compactor) -> None:
        """Merge files; those that were merged are deleted when nobody's list has them any more."""
        compactor.compact(self.log)
        self.reflect()
        compactor.vacuum(self.log)

    def _founded(self, wanted: Facts) -> Facts:
        """Note what a new archive is of, and where it begins, before anything is read."""
        change = self.log.begin()
        assert change is not None, "a change without a batch is never a repeated one"
        self._note(change, wanted)
        change.commit()
        return wanted

    def _note(self, change: Change, facts: Facts) -> None:
        for key, value in facts.noted().items():
            change.fact(key, value)

    def _continued(self, first: int) -> int:
        """Where the archive goes on, which is not before `first`. Raises `JobError`."""
        following = self._facts.next
        if first > following:
            raise JobError(
                f"{self.log.root} goes on at number {following}, and the checkpoint"
                f" {self._checkpoint.root} at {first}: what is between would be missing. Delete the"
                " checkpoint, and the archive goes on where it ends"
            )
        return following

    def _write(self, frame: "DataFrame", directory: str) -> tuple[list[WrittenFile], list[Range]]:
        """Let the tasks write, and hear what they wrote."""
        root = self.log.root
        folder = Files(root).relative(directory)
        by_token = "token" in self._facts.partition
        task = writer_task(root, folder, by_token, self._compression)
        return understood(frame.select(*self._facts.columns).mapInArrow(task, REPORT).collect())

    def _with(self, batch: Range, runs: list[Range]) -> Facts:
        """The facts with a batch, of which the runs of numbers were read."""
        lost: list[Range] = []
        if self._facts.subject == ">":
            lost = without(batch, runs)
        elif self._first_kept is not None:
            lost = [(batch[0], min(self._first_kept() - 1, batch[1]))]
        return replace(
            self._facts,
            covered=merged([*self._facts.covered, batch]),
            lost=merged([*self._facts.lost, *lost]),
        )


def check_rows(batch: Range, rows: int, seen: list[Range]) -> None:
    """Raise `WrongRows` unless these are so many rows of a batch, each number once."""
    first, last = batch
    numbers = count(seen)
    if rows != numbers:
        what = f"there are {rows} rows of {numbers} different numbers"
    elif count(without(batch, seen)) != last - first + 1 - rows:
        others = without((seen[0][0], seen[-1][1]), [batch])
        shown = ", ".join(f"{begin} to {end}" for begin, end in others)
        what = f"there are rows of other numbers: {shown}"
    else:
        return
    raise WrongRows(
        f"numbers {first} to {last} were read, and {what}; nothing of this batch is in the archive."
        " Start the job again; `seriatim spark audit --server URL` shows what is wrong with the"
        " journal"
    )


def facts_of(log: FileLog) -> Facts | None:
    """What an archive says of itself; None in a new one. Raises `JobError` for other logs."""
    try:
        return Facts.of(log.facts)
    except JobError as error:
        raise JobError(f"{log.root}: {error}") from None


def writer_task(
    root: str, folder: str, by_token: bool, compression: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does with its rows. Sent to the executors."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = Parts(Files(root), folder, by_token, compression)
        for batch in batches:
            parts.write(batch)
        yield report(parts)

    return write
