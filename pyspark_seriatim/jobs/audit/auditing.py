"""An audit: does every number exist once, in order, with its original content?

    archive: its files, one after the other --> Census --\\
    journal: its range --> number, time, hash --> Census --> by stripe --> Join --> AuditSummary
    archive: the same range --> number, hash --> Census -/          content, if both are given

The content of 2^16 numbers is compared by digests that do not depend on the order. Where they
differ, the numbers of a few spans are compared one by one. Files are checked in the order of their
own rows. Memory does not grow with the range; census.py says how much it is.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_seriatim.client import Client, JournalInfo
from pyspark_seriatim.jobs.archive.coverage import merged
from pyspark_seriatim.jobs.archive.rows import (
    DDL,
    ArchivePart,
    OpenArchive,
    batches,
    frame,
    open_archive,
    over_parts,
    parts_of,
    subject_pattern,
)
from pyspark_seriatim.jobs.audit.census import (
    PARTIAL_DDL,
    SPAN,
    SUMMARY_DDL,
    Census,
    CountRows,
    Join,
    blocks,
    partial_batch,
)
from pyspark_seriatim.jobs.audit.findings import AuditSummary, Tally
from pyspark_seriatim.jobs.audit.scope import Range, Scope, scope_of
from pyspark_seriatim.jobs.errors import JobError, WrongArguments
from pyspark_seriatim.jobs.filelog.files import Files
from pyspark_seriatim.jobs.filelog.pages import has_sums, opened, read_through
from pyspark_seriatim.jobs.running.watch import watching
from pyspark_seriatim.options import NO_OPTIONS, Options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ATTEMPTS: Final = 3  # retention rarely deletes numbers that are being read even twice
SPANS_MAX: Final = 16  # a million numbers that are compared one by one
SHOWN: Final = 10
ROWS_EACH: Final = 4_000_000  # that one task reads of the journal
CONTENT: Final = ("subject", "payload", "timestamp", "headers", "reply")
REPLACED: Final = "\ufffd"  # in Spark's rows, for a subject that is not UTF-8
BATCH_BYTES: Final = "16m"  # partial rows have up to 260 KiB each


@dataclass(frozen=True, slots=True)
class Difference:
    """A number for which the two sides have different messages."""

    number: int
    columns: tuple[str, ...]


@dataclass(slots=True)
class Verdict:
    """The result of an audit, and its scope."""

    archive: OpenArchive | None
    journal: JournalInfo | None
    scope: Scope
    summary: AuditSummary
    compared: tuple[str, ...] = ()  # columns
    differing: int = 0  # numbers, in the spans that were examined
    differences: list[Difference] = field(default_factory=list)

    def misses_below(self, number: int) -> bool:
        """True if the journal lacks numbers below this one."""
        found = [self.summary.extra, self.summary.side("journal").gaps]
        return any(ranges.shown[0][0] < number for ranges in found if ranges.shown)


@dataclass(frozen=True, slots=True)
class CountArchive:
    """For mapInArrow: turns indexes of files into partials of their rows, in each file's order.

    If content is compared, subjects in `compare` that cannot be compared exactly are counted. With
    `payloads` every other column is read as well, to verify the checksums of all pages.
    """

    archive: OpenArchive
    limit: int
    span: Range
    pattern: str | None
    compare: Range | None = None
    payloads: bool = True

    def __call__(self, indexes: Any) -> Iterator[pa.RecordBatch]:
        census = Census("archive", self.limit, *self.span)
        place = Files(self.archive.root)
        wanted = ["sequence", "timestamp", *(["subject"] if self.compare else [])]
        columns = [name for name in wanted if name in self.archive.columns]
        for part in parts_of(self.archive, indexes):
            census.begin_file(part.path)
            try:
                self._verify(place, part, columns, census.tally)
                read = batches(place, part.path, columns, (), self.pattern, footer=part.footer)
                renamed = (self._named(batch, census.tally) for batch in read)
                for block, nulls in blocks(renamed):
                    census.tally.without += nulls
                    rows = census.count(block)
                    if rows:
                        yield partial_batch(rows)
            except JobError as error:
                census.tally.unreadable.append(1, [str(error)])
        yield partial_batch([census.notes()])

    def _verify(
        self, place: Files, part: ArchivePart, columns: Sequence[str], tally: Tally
    ) -> None:
        """Verify the checksums of a file, except of columns that are read anyway."""
        tally.files += 1
        file = opened(place, part.path, part.footer)
        tally.bare_footers += not part.footer
        tally.bare_pages += not has_sums(place, part.path, file.metadata)
        if not self.payloads:
            return
        try:
            read_through(place, part.path, file, columns)
        except JobError as error:  # a damaged value may not be a number
            tally.unreadable.append(1, [str(error)])

    def _named(self, batch: pa.RecordBatch, tally: Tally) -> pa.RecordBatch:
        """Numbers and times; problems with subjects are counted."""
        if self.compare is not None and "subject" in batch.schema.names:
            tally.replaced += replaced_in(batch, self.compare)
            batch = batch.select([name for name in batch.schema.names if name != "subject"])
        names = {"sequence": "number", "timestamp": "time"}
        return batch.rename_columns([names[name] for name in batch.schema.names])


def unverified(tally: Tally, payloads: bool) -> Iterator[str]:
    """The parts of the files that have no checksum, or whose checksum was not verified."""
    if not payloads:
        yield (
            "payloads were not read (--no-payloads): only the columns sequence and timestamp were"
            " checked; the other pages' checksums were not verified"
        )
    for bare, what in ((tally.bare_pages, "pages"), (tally.bare_footers, "footer")):
        if bare:
            yield (
                f"{bare:,} of {tally.files:,} files have no checksum of their {what}: a changed"
                " byte there is found only where it makes a file unreadable, its numbers wrong,"
                " or other than the journal (--server)"
            )


def replaced_in(batch: pa.RecordBatch, span: Range) -> int:
    """Count the rows of these numbers that may have another subject in the journal."""
    subjects = batch.column("subject")
    if not pc.any(pc.match_substring(subjects, REPLACED)).as_py():
        return 0
    numbers = batch.column("sequence")
    inside = pc.and_(pc.greater_equal(numbers, span[0]), pc.less_equal(numbers, span[1]))
    return int(pc.sum(pc.and_(inside, pc.match_substring(subjects, REPLACED))).as_py() or 0)


@dataclass(frozen=True, slots=True)
class Sides:
    """The sides to audit: an archive, the journal of a broker, or both."""

    server: str | None
    archive: OpenArchive | None
    journal: JournalInfo | None
    access: Mapping[str, str] = field(default_factory=dict)

    def scope(self, first: int | None, last: int | None, subject: str | None) -> Scope:
        """Return the numbers to audit. Raises `JobError`."""
        return scope_of(self.archive, self.journal, first, last, subject)


def look_at(server: str | None, root: str | None, access: Mapping[str, str] = NO_OPTIONS) -> Sides:
    """Open the given sides. Raises `JobError`, `BrokerError`."""
    archive = None if root is None else open_archive(root)
    journal = None if server is None else _info(server, access)
    return Sides(server, archive, journal, access)


def _info(server: str, access: Mapping[str, str]) -> JournalInfo:
    with closing(Client(Options.parse({"servers": server, **access}, "batch"))) as client:
        return client.info()


class Auditor:
    """One audit in a Spark session."""

    def __init__(
        self, spark: "SparkSession", sides: Sides, limit: int = SHOWN, payloads: bool = True
    ) -> None:
        """Raises `JobError` if payloads must be compared but not read."""
        if not payloads and sides.archive is not None and sides.server is not None:
            raise WrongArguments(
                "--no-payloads: with --server payloads are compared; leave one out"
            )
        self._payloads = payloads
        self._spark = spark
        self._sides = sides
        self._limit = limit
        self.archive = sides.archive

    def examine(
        self, first: int | None = None, last: int | None = None, subject: str | None = None
    ) -> Verdict:
        """Audit these numbers and subjects, or all. Raises `JobError`."""
        for _ in range(ATTEMPTS):
            scope = self._sides.scope(first, last, subject)
            verdict = self._verdict(scope)
            if self._sides.server is None or not _holds(scope.journal):
                return verdict
            now = _info(self._sides.server, self._sides.access)
            if not verdict.misses_below(now.first):
                return verdict
            self._sides = replace(self._sides, journal=now)
            if self._sides.scope(first, last, subject).journal[0] == scope.journal[0]:
                return verdict  # the journal no longer has the requested numbers
        raise JobError("the broker deletes numbers faster than they can be read: give --from")

    def _verdict(self, scope: Scope) -> Verdict:
        compared = self._content() if scope.compare is not None else ()
        summary = self._summary(scope, compared)
        verdict = Verdict(self.archive, self._sides.journal, scope, summary, compared)
        if summary.spans:
            self._narrow(verdict)
        replaced = summary.sides["archive"].replaced if "archive" in summary.sides else 0
        if self.archive is not None:
            scope.notes += unverified(summary.side("archive"), self._payloads)
        if replaced:
            scope.notes.append(
                f"rows whose subject has U+FFFD: {replaced:,}. Spark shows invalid UTF-8 that way,"
                " in the archive and in the journal; the original bytes are not compared"
            )
        return verdict

    def _content(self) -> tuple[str, ...]:
        assert self.archive is not None
        return tuple(name for name in CONTENT if name in self.archive.columns)

    def _summary(self, scope: Scope, compared: Sequence[str]) -> AuditSummary:
        partials = list(self._partials(scope, compared))
        whole = AuditSummary(self._limit, SPANS_MAX)
        if partials:
            join = Join(self._limit, SPANS_MAX, scope.compare)
            joined = (
                reduce(lambda one, other: one.union(other), partials)
                .repartition("stripe")
                .sortWithinPartitions("stripe", "bucket")
                .mapInArrow(join, SUMMARY_DDL)
            )
            with _batches_of(self._spark, BATCH_BYTES), watching(self._spark, "auditing"):
                rows = joined.collect()
            for row in sorted(rows, key=lambda row: row["stripe"]):
                whole.append(Join.read(row["summary"]))
        if scope.whole:
            for name in whole.sides:
                whole.side(name).within(*getattr(scope, name))
        return whole

    def _partials(self, scope: Scope, compared: Sequence[str]) -> Iterator["DataFrame"]:
        pattern = subject_pattern(scope.subject)
        if self.archive is not None:
            compare = scope.compare if "subject" in compared else None
            count = CountArchive(
                self.archive, self._limit, scope.archive, pattern, compare, self._payloads
            )
            yield over_parts(self._spark, self.archive, count, PARTIAL_DDL)
        if _holds(scope.journal):
            rows = self._journal(scope.journal, scope.subject, compared or ("timestamp",))
            wanted = [_number(), rows["timestamp"].alias("time")]
            wanted += [_hash(compared).alias("hash")] if compared else []
            yield rows.select(*wanted).mapInArrow(
                CountRows("journal", self._limit, *scope.journal), PARTIAL_DDL
            )
        if self.archive is not None and scope.compare is not None and compared:
            columns = ("sequence", *compared)
            rows = frame(self._spark, self.archive, columns, (scope.compare,), pattern, True)
            yield rows.select(_number(), _hash(compared).alias("hash")).mapInArrow(
                CountRows("archive", self._limit, *scope.compare, True), PARTIAL_DDL
            )

    def _journal(self, span: Range, subject: str, columns: Sequence[str]) -> "DataFrame":
        """Rows of the journal, without lost numbers, which are therefore found missing."""
        assert self._sides.server is not None
        names = dict.fromkeys(("sequence", "timestamp", *columns))
        tasks = max(
            self._spark.sparkContext.defaultParallelism, (span[1] - span[0]) // ROWS_EACH + 1
        )
        options = {
            "servers": self._sides.server,
            **self._sides.access,
            "subscribe": subject,
            "startingOffsets": str(span[0]),
            "endingOffsets": str(span[1] + 1),
            "failOnDataLoss": "false",
            "minPartitions": str(tasks),
            "includeHeaders": str("headers" in names).lower(),
            "includeReply": str("reply" in names).lower(),
        }
        schema = ", ".join(f"{name} {DDL[name]}" for name in names)
        return self._spark.read.format("seriatim").schema(schema).options(**options).load()

    def _narrow(self, verdict: Verdict) -> None:
        """Compare the numbers of the differing spans one by one."""
        assert self.archive is not None
        compare = verdict.scope.compare
        assert compare is not None
        begins = verdict.summary.spans_shown
        spans = [(max(b, compare[0]), min(b + SPAN - 1, compare[1])) for b in begins]
        columns = verdict.compared
        wanted = [_number(), *(_hash([name]).alias(name) for name in columns)]
        subject = verdict.scope.subject
        end = verdict.scope.journal[1]  # numbers that are not in the journal have been reported
        asked = [(first, min(last, end)) for first, last in merged(spans)]
        here = [self._journal(span, subject, columns).select(*wanted) for span in asked]
        pattern = subject_pattern(subject)
        there = frame(self._spark, self.archive, ("sequence", *columns), spans, pattern, True)
        with watching(self._spark, "comparing"):
            journal = reduce(lambda one, other: one.union(other), here).toArrow()
            archive = there.select(*wanted).toArrow()
        numbers, found = differences(journal, archive, columns, self._limit)
        verdict.differing, verdict.differences = numbers, found


def differences(
    journal: pa.Table, archive: pa.Table, columns: Sequence[str], limit: int
) -> tuple[int, list[Difference]]:
    """Count the numbers with different hashes on the two sides; also return the first ones."""
    journal = journal.sort_by("number")
    known = journal.column("number").to_numpy()
    asked = archive.column("number").to_numpy()
    at = np.minimum(np.searchsorted(known, asked), max(len(known) - 1, 0))
    both = known[at] == asked if len(known) else np.zeros(len(asked), np.bool_)
    differ = {}
    for name in columns:
        one, other = journal.column(name).to_numpy(), archive.column(name).to_numpy()
        differ[name] = both & (one[at] != other) if len(known) else both
    some = reduce(np.logical_or, differ.values())
    numbers = np.unique(asked[some])
    shown = []
    for number in numbers[:limit].tolist():
        rows = asked == number
        which = tuple(name for name in columns if (differ[name] & rows).any())
        shown.append(Difference(number, which))
    return len(numbers), shown


def _holds(span: Range) -> bool:
    return span[0] <= span[1]


def _number() -> "Column":
    from pyspark.sql import functions as f

    return f.col("sequence").alias("number")


def _hash(columns: Sequence[str]) -> "Column":
    """A hash of these columns and the number. Maps have none, so their entries are sorted first."""
    from pyspark.sql import functions as f

    entries = f.array_sort(f.map_entries("headers"))
    none = f.coalesce(f.size("headers") < 1, f.lit(True))
    each = [f.when(~none, entries) if name == "headers" else f.col(name) for name in columns]
    return f.xxhash64(f.col("sequence"), *each)


@contextmanager
def _batches_of(spark: "SparkSession", size: str) -> Iterator[None]:
    """Limit Arrow batches to this size while inside."""
    key = "spark.sql.execution.arrow.maxBytesPerBatch"
    before = spark.conf.get(key, None)
    spark.conf.set(key, size)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)
