"""Merges small files of a partition into a few large ones, in one version of the log.

Only neighbours are merged: no other file of the partition has numbers between theirs. So files
never overlap, and each is in ascending order. A reader of an older version is not affected until
the merged files are vacuumed.

Memory: a row group of each file that is merged, and of the one that is written (parquet.py).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from pyspark_seriatim.jobs.archive.parquet import Parts, WrittenFile
from pyspark_seriatim.jobs.errors import WrongRows
from pyspark_seriatim.jobs.filelog.filelog import DataFile, FileLog
from pyspark_seriatim.jobs.filelog.files import Files
from pyspark_seriatim.jobs.filelog.pages import all_batches, opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH_ROWS: Final = 1 << 16
EVERY_BATCHES: Final = 20  # so a file is rewritten a few times until it is large
Group = list[DataFile]
Merge = Callable[[Group], WrittenFile]
Run = Callable[[Merge, list[Group]], list[WrittenFile]]


def plan(files: Iterable[DataFile], small: int, target: int) -> list[Group]:
    """Group files to merge: at least two, each below `small`, at most `target` bytes together."""
    groups: list[Group] = []
    ordered = sorted(files, key=lambda file: (_folder(file), file.first))
    for _, partition in groupby(ordered, _folder):
        group: Group = []
        for file in partition:
            full = sum(one.bytes for one in group) + file.bytes > target
            if file.bytes >= small or full:
                groups.append(group)
                group = []
            if file.bytes < small:
                group.append(file)
        groups.append(group)
    return [group for group in groups if len(group) > 1]


def _folder(file: DataFile) -> str:
    return file.path.rpartition("/")[0]


def merging(root: str, folder: str, by_token: bool, compression: str) -> Merge:
    """The function that merges a group of files. Sent to the executors."""

    def merge(group: Group) -> WrittenFile:
        place = Files(root)
        parts = Parts(place, folder, by_token, compression)
        for one in group:
            with opened(place, one.path, one.footer) as source:
                for batch in all_batches(place, one.path, source, BATCH_ROWS):
                    parts.write(batch)
        written = parts.close()
        if len(written) != 1:
            found = ", ".join(sorted(one.target.rpartition("/")[0] for one in written)) or "none"
            raise WrongRows(
                f"{place.uri(group[0].path)} and {len(group) - 1} more of its folder have rows that"
                f" belong in other folders: {found}; they were not merged. `seriatim spark"
                f" audit --archive {root}` shows what is wrong with the archive"
            )
        return written[0]

    return merge


@dataclass(slots=True)
class Compactor:
    """The schedule and limits of merging. `run` distributes the work: one call for each item."""

    run: Run
    small: int = 32 << 20
    target: int = 128 << 20
    age: float = 0.0  # seconds after which merged files are deleted
    by_token: bool = True
    compression: str = "zstd"
    every: int = EVERY_BATCHES
    batches: int = 0
    merged: int = 0
    made: int = 0

    def due(self) -> bool:
        """Count a batch; True if it is time to compact after it."""
        self.batches += 1
        return self.batches % self.every == 0

    def vacuum(self, log: FileLog) -> None:
        """Delete files that were replaced long enough ago."""
        log.vacuum(self.age)

    def compact(self, log: FileLog) -> None:
        """Merge small files, in one version."""
        groups = plan(log.files(), self.small, self.target)
        if not groups:
            return
        change = log.begin_change()
        assert change is not None, "a change without a batch always takes effect"
        folder = log.place.relative(change.directory)
        work = merging(log.root, folder, self.by_token, self.compression)
        written = self.run(work, groups)
        for group, file in zip(groups, written, strict=True):
            rows = sum(one.rows for one in group)
            if rows != file.rows:
                raise WrongRows(
                    f"{log.place.uri(group[0].path)} and {len(group) - 1} more of its folder have"
                    f" {file.rows} rows, but {rows} by the list; they were not merged."
                    f" `seriatim spark audit --archive {log.root}` shows what is wrong with the"
                    " archive"
                )
            table, tags = group[0].table, group[0].tags
            change.add(
                file.path, DataFile(file.target, table, rows, 0, file.first, file.last, tags)
            )
            for one in group:
                change.remove(one)
        change.commit()
        self.merged += sum(len(group) for group in groups)
        self.made += len(groups)


def in_tasks(session: "SparkSession") -> Run:
    """A `run` that makes each call a Spark task."""

    def run(merge: Merge, groups: list[Group]) -> list[WrittenFile]:
        return list(session.sparkContext.parallelize(groups, len(groups)).map(merge).collect())

    return run
