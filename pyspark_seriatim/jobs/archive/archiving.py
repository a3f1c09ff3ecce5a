"""Adds a batch of the stream to an archive: rows as Parquet files, numbers in the log.

    archive = ArchiveWriter(FileLog.open(root), wanted, checkpoint)
    stream.writeStream.foreachBatch(archive.take)

Tasks write the files (parquet.py), wherever they run; the driver only lists them. The log
identifies a batch by its numbers: the application is "archive", the batch is the number that comes
next. Numbers that the archive covers are not written again, whether Spark replays a batch or starts
with a new checkpoint. A batch that would leave a gap is refused.

Memory of the driver: the names of a batch's files. Of a task: that of parquet.py.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from pyspark_seriatim.installed import version
from pyspark_seriatim.jobs.archive.compaction import Compactor
from pyspark_seriatim.jobs.archive.coverage import Facts, Range, count, merged, without
from pyspark_seriatim.jobs.archive.parquet import REPORT, Parts, WrittenFile, report, understood
from pyspark_seriatim.jobs.errors import JobError, WrongRows
from pyspark_seriatim.jobs.filelog.filelog import CHANGES, Change, DataFile, FileLog
from pyspark_seriatim.jobs.filelog.files import Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

APPLICATION: Final = "archive"
TABLE: Final = "messages"
MARKER: Final = "_READ_BY_THE_LIST.txt"  # readers of Parquet ignore names with an underscore
MARKED: Final = b"""\
Do not read this folder as plain Parquet files: not all that are here are valid at a time. While
small files are merged, and until those that were merged are deleted, or when the job was killed
in between, their rows are here twice or more. Which files are valid the list in _seriatim says:

    from pyspark_seriatim.jobs.filelog.filelog import FileLog
    log = FileLog.open("<this folder>")
    spark.read.option("basePath", log.root).parquet(*log.paths("messages"))
"""
FORMATS: Final = {"v1": "", "v2": "0:"}  # what precedes the offset of the only source


# Finds the end of a query's batch in the offset log that Spark writes before the batch runs.
#
# <checkpoint>/offsets/7:   v1
#                           {"batchWatermarkMs":0,...}
#                           {"journal":"7f3c...","sequence":5001}
#
# In v2 (`spark.sql.streaming.offsetLog.formatVersion`) the last line begins with `0:`, the source's
# name. The format is internal to Spark, without guarantees: unknown ones are refused.


class UnknownOffsetLog(JobError):
    """Spark writes its checkpoint in an unknown format."""


def ending(checkpoint: Files, batch: int, journal: str) -> int:
    """The number after the last one of a batch. Raises `JobError`, also for another journal."""
    path = f"offsets/{batch}"
    data = checkpoint.read(path)
    lines = data.decode(errors="replace").splitlines() if data is not None else []
    if lines and lines[0] not in FORMATS:
        raise UnknownOffsetLog(
            f"{checkpoint.uri(path)} has the format {lines[0][:20]!r}, which PySpark {version()}"
            f" may write and Seriatim does not know; it knows {', '.join(FORMATS)}. Install a newer"
            " Seriatim, or an older PySpark, and give another --checkpoint"
        )
    try:
        offset = json.loads(lines[2].removeprefix(FORMATS[lines[0]]))
        found, sequence = str(offset["journal"]), int(offset["sequence"])
    except (IndexError, KeyError, TypeError, ValueError):
        raise JobError(
            f"{checkpoint.uri(path)} is missing, or not the offset of one Seriatim stream: give"
            " a checkpoint that this job has made"
        ) from None
    if found != journal:
        raise JobError(
            f"the checkpoint {checkpoint.root} belongs to the journal {found}, but the archive to"
            f" {journal}: give another --checkpoint"
        )
    return sequence


class Mirror(Protocol):
    """Another list of the same files, for readers of another format."""

    def sync(self, log: FileLog) -> None:
        """Copy the log's list of files."""


@dataclass(slots=True)
class Totals:
    """The totals of a run."""

    rows: int = 0
    files: int = 0
    bytes: int = 0


class ArchiveWriter:
    """The writer of batches into an archive. Only Spark's thread for the query changes it."""

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
        """Raises `JobError` if the request does not fit the existing archive.

        With `first_kept`, the broker's first number, losses are recorded even if a subject filter
        or permissions hide them; otherwise only those that leave a gap between numbers.
        """
        self.log = log
        self.totals = Totals()
        self.compactor = compactor
        self.mirror: Mirror | None = None  # set once the archive is known to fit
        self._facts = facts_of(log) or self._founded(wanted)
        self._facts.check(log.root, wanted)
        if not log.place.exists(MARKER):
            log.place.make(CHANGES)
            log.place.create(MARKER, MARKED, CHANGES)
        self.begin = self._facts.next  # where a query without a checkpoint must begin
        self._checkpoint = Files(checkpoint)
        self._compression, self._first_kept = compression, first_kept

    @property
    def facts(self) -> Facts:
        """The archive's current facts."""
        return self._facts

    @property
    def checkpoint(self) -> str:
        """The path in the form Spark takes."""
        return self._checkpoint.root

    def add_batch(self, frame: "DataFrame", batch: int) -> None:
        """Add a batch, unless it was added before. Called by Spark."""
        first = ending(self._checkpoint, batch - 1, self._facts.journal) if batch else self.begin
        end = ending(self._checkpoint, batch, self._facts.journal)
        if end > first:
            self.add(frame, first, end)

    def add(self, frame: "DataFrame", first: int, end: int) -> None:
        """Add numbers `first` to `end` - 1; `frame` has all rows of them that match."""
        change = self.log.begin_change(APPLICATION, end)
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
        """Compact once more when the query has ended."""
        if self.compactor is not None:
            self._compact(self.compactor)

    def repair(self) -> None:
        """Complete the work of an interrupted run: the other list, the deletion of merged files.

        Also deletes files that the run had moved to their place but not listed.
        """
        self.log.recover()
        self.reflect()
        if self.compactor is not None:
            self.compactor.vacuum(self.log)

    def reflect(self) -> None:
        """Update the list for readers of another format."""
        if self.mirror is not None:
            self.mirror.sync(self.log)

    def _compact(self, compactor: Compactor) -> None:
        """Merge files, then delete those that no list contains any more."""
        compactor.compact(self.log)
        self.reflect()
        compactor.vacuum(self.log)

    def _founded(self, wanted: Facts) -> Facts:
        """Record a new archive's facts and beginning before anything is read."""
        change = self.log.begin_change()
        assert change is not None, "a change without a batch always takes effect"
        self._note(change, wanted)
        change.commit()
        return wanted

    def _note(self, change: Change, facts: Facts) -> None:
        for key, value in facts.noted().items():
            change.fact(key, value)

    def _continued(self, first: int) -> int:
        """Return where the archive continues. Raises `JobError` if that is before `first`."""
        following = self._facts.next
        if first > following:
            raise JobError(
                f"{self.log.root} continues at number {following}, but the checkpoint"
                f" {self._checkpoint.root} at {first}: the numbers between would be missing. Delete"
                " the checkpoint; then the archive continues where it ends"
            )
        return following

    def _write(self, frame: "DataFrame", directory: str) -> tuple[list[WrittenFile], list[Range]]:
        """Have the tasks write the rows, and collect what they wrote."""
        root = self.log.root
        folder = Files(root).relative(directory)
        by_token = "token" in self._facts.partition
        task = writer_task(root, folder, by_token, self._compression)
        return understood(frame.select(*self._facts.columns).mapInArrow(task, REPORT).collect())

    def _with(self, batch: Range, runs: list[Range]) -> Facts:
        """The facts after a batch of which these runs of numbers were read."""
        lost: list[Range] = []
        if self._facts.subject == ">" and not self._facts.restricted:
            lost = without(batch, runs)
        elif self._first_kept is not None:
            lost = [(batch[0], min(self._first_kept() - 1, batch[1]))]
        return replace(
            self._facts,
            covered=merged([*self._facts.covered, batch]),
            lost=merged([*self._facts.lost, *lost]),
        )


def check_rows(batch: Range, rows: int, seen: list[Range]) -> None:
    """Raise `WrongRows` unless these rows are the batch's, each number once."""
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
    """The facts of an archive; None in a new one. Raises `JobError` for other logs."""
    try:
        return Facts.of(log.facts)
    except JobError as error:
        raise JobError(f"{log.root}: {error}") from None


def writer_task(
    root: str, folder: str, by_token: bool, compression: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that writes a task's rows. Sent to the executors."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = Parts(Files(root), folder, by_token, compression)
        for batch in batches:
            parts.write(batch)
        yield report(parts)

    return write
