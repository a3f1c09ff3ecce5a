"""`archive`: the stream as Parquet files, each message once, for Spark, pyarrow, Delta, Iceberg.

    seriatim spark archive /data/archive --once
    spark-submit --master ... jobs/archive/__main__.py hdfs:///archive --server HOST:4222 --every 60

In <root>: date=<UTC>/token=<first token of the subject>/<first>-<last>-<id>.parquet, rows in the
order of their numbers; _seriatim, the list of valid files (filelog.py) and of the numbers covered;
and _delta_log, or metadata, for Delta and Iceberg. The work is in archiving.py.
"""

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pyspark_seriatim.client import Client, JournalInfo
from pyspark_seriatim.jobs.archive.archiving import TABLE, ArchiveWriter, Mirror, facts_of
from pyspark_seriatim.jobs.archive.compaction import Compactor, in_tasks
from pyspark_seriatim.jobs.archive.coverage import Facts, count
from pyspark_seriatim.jobs.archive.parquet import COLUMNS
from pyspark_seriatim.jobs.errors import JobError, WrongArguments
from pyspark_seriatim.jobs.filelog.filelog import FileLog
from pyspark_seriatim.jobs.filelog.versions import FOLDER
from pyspark_seriatim.jobs.running.command import (
    DEFAULT_SERVER,
    DONE,
    Checkpoint,
    Conf,
    Every,
    Master,
    MaxOffsets,
    Once,
    Server,
    Subject,
    job,
    settings,
)
from pyspark_seriatim.jobs.running.job_arguments import ANYBODY, Access, job_access
from pyspark_seriatim.jobs.running.query_progress import Run, follow
from pyspark_seriatim.jobs.running.spark_session import spark_session
from pyspark_seriatim.options import Options
from seriatim.settings.shared_options import with_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIB: Final = 1 << 20
SMALL, TARGET = 32 * MIB, 128 * MIB
# after so many there is a version, with a file for each partition and task
MAX_OFFSETS: Final = 1_000_000
EVERY_SECONDS: Final = 10.0
LOST_SHOWN: Final = 10
AGE: Final = re.compile(r"(\d+)([smhd]?)")
SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
# Spark hands a task batches of Arrow this large; at worst there are three copies.
CONF: Final = {"spark.sql.execution.arrow.maxBytesPerBatch": str(64 * MIB)}


class ArchiveFormat(StrEnum):
    """The other readers that can find the files."""

    parquet = "parquet"
    delta = "delta"
    iceberg = "iceberg"


class Partition(StrEnum):
    """The naming of folders."""

    token = "date,token"
    date = "date"


class Compression(StrEnum):
    """The files' compression."""

    zstd = "zstd"
    snappy = "snappy"
    none = "none"


Root = Annotated[str, typer.Argument(metavar="ROOT", help="The archive: a folder, or a URI.")]
FormatOption = Annotated[
    ArchiveFormat, typer.Option(help="List the files for readers of Delta or Iceberg, too.")
]
Catalog = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="The Iceberg catalog, as named in pyiceberg's settings. By default one in ROOT.",
        show_default=False,
    ),
]
PartitionOption = Annotated[
    Partition,
    typer.Option(
        help="Folders by date and first token; by date alone if there are many first tokens."
    ),
]
Headers = Annotated[
    bool, typer.Option("--headers/--no-headers", help="Keep headers and reply subjects, too.")
]
CompressionOption = Annotated[Compression, typer.Option(help="The files' compression.")]
Start = Annotated[
    str,
    typer.Option(
        metavar="WHERE",
        help="Where a new archive begins: earliest, latest, or a number.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--fail-on-data-loss/--no-fail-on-data-loss",
        help="Stop if the broker no longer has some numbers; or record them as lost and continue.",
    ),
]
Compact = Annotated[
    bool, typer.Option("--compact", metavar=" ", help="Merge small files from time to time.")
]
Small = Annotated[int, typer.Option(metavar="BYTES", min=1, help="Smaller files are merged.")]
Target = Annotated[int, typer.Option(metavar="BYTES", min=1, help="The size of merged files.")]
Vacuum = Annotated[
    str,
    typer.Option(
        metavar="AGE",
        help="When files are deleted after a merge: seconds, or 15m, 24h, 7d. Until then readers"
        " that do not use the list see their rows twice.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions:
    """The options of an archive. `age` in seconds; `every` None: everything up to now."""

    root: str
    server: str = DEFAULT_SERVER
    access: Access = field(default_factory=dict)
    subject: str = ">"
    format: ArchiveFormat = ArchiveFormat.parquet
    catalog: str = ""
    partition: Partition = Partition.token
    headers: bool = True
    compression: Compression = Compression.zstd
    start: str = "earliest"
    strict: bool = True
    checkpoint: str | None = None
    every: float | None = None
    max_offsets: int = MAX_OFFSETS
    compact: bool = False
    small: int = SMALL
    target: int = TARGET
    age: float = 0.0

    @property
    def columns(self) -> list[str]:
        """The columns of the files."""
        return list(COLUMNS.names if self.headers else COLUMNS.names[:4])


@job
@with_options(access=job_access)
def archive(
    root: Root,
    server: Server = DEFAULT_SERVER,
    subject: Subject = ">",
    format: FormatOption = ArchiveFormat.parquet,
    catalog: Catalog = "",
    partition: PartitionOption = Partition.token,
    headers: Headers = True,
    compression: CompressionOption = Compression.zstd,
    start: Start = "earliest",
    strict: Strict = True,
    checkpoint: Checkpoint = None,
    once: Once = False,
    every: Every = EVERY_SECONDS,
    max_offsets: MaxOffsets = MAX_OFFSETS,
    compact: Compact = False,
    small: Small = SMALL,
    target: Target = TARGET,
    vacuum: Vacuum = "0",
    master: Master = None,
    conf: Conf = None,
    *,
    access: Access = ANYBODY,
) -> int:
    """Write the stream to Parquet, Delta or Iceberg, each message once.

    When started again, it continues where the archive ends.

    [bold]Examples[/bold]

    [cyan]seriatim spark archive /data/archive --once[/cyan]
    [cyan]seriatim spark archive /data/archive --server HOST:4222 --compact --every 60[/cyan]
    [cyan]seriatim spark archive /data/orders --subject 'orders.>' --format delta --once[/cyan]
    """
    if small > target:
        raise WrongArguments(
            f"--small {small} is above --target {target}: merged files would count as small"
        )
    options = ArchiveOptions(
        root=root,
        server=server,
        access=access,
        subject=subject,
        format=format,
        catalog=catalog,
        partition=partition,
        headers=headers,
        compression=compression,
        start=start,
        strict=strict,
        checkpoint=checkpoint,
        every=None if once else every,
        max_offsets=max_offsets,
        compact=compact,
        small=small,
        target=target,
        age=seconds(vacuum),
    )
    client = Client.shared(Options.parse(source_options(options, 0), "stream"))
    check(options, client.info())  # fail before a Spark session is started
    session = spark_session(f"archive {root}", master, CONF | settings(conf))
    # the start of a new archive depends on the journal's current numbers
    work, done = archived(session, options, client.info())
    print(summary(work, done))
    return DONE


def check(options: ArchiveOptions, info: JournalInfo) -> None:
    """Raise `JobError` if this does not fit the existing archive."""
    known, wanted = facts_of(FileLog.open(options.root)), wanted_of(options, info)
    if known is not None:
        known.check(options.root, wanted)
    elif wanted.start > info.last + 1:
        raise JobError(f"--start {options.start}: the last number of the journal is {info.last}")


def archived(
    session: "SparkSession", options: ArchiveOptions, info: JournalInfo
) -> tuple[ArchiveWriter, Run]:
    """Run the query until it ends. Raises the error that ended it."""
    log = FileLog.open(options.root)
    work = archive_of(session, options, log, info)
    work.repair()  # leftovers of a crash
    tasks = session.sparkContext.defaultParallelism  # for a large batch; a small one has fewer
    source = session.readStream.format("seriatim").options(**source_options(options, work.begin))
    stream = source.option("minPartitions", tasks).load()
    writer = (
        stream.writeStream.queryName(f"archive {options.root}")
        .option("checkpointLocation", work.checkpoint)
        .foreachBatch(work.add_batch)
    )
    if options.every is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{options.every} seconds")
    done = follow(writer.start(), "archive")
    work.finish()
    return work, done


def archive_of(
    session: "SparkSession", options: ArchiveOptions, log: FileLog, info: JournalInfo
) -> ArchiveWriter:
    """The writer of the batches. Raises `JobError` if they do not fit this archive."""
    wanted = wanted_of(options, info)
    partition = wanted.partition
    compression = options.compression.value
    compactor, first_kept = None, None
    if options.compact:
        compactor = Compactor(
            in_tasks(session),
            options.small,
            options.target,
            options.age,
            "token" in partition,
            compression,
        )
    if not options.strict:
        client = Client.shared(Options.parse(source_options(options, wanted.start), "stream"))
        first_kept = lambda: client.info().first  # noqa: E731
    archive = ArchiveWriter(
        log,
        wanted,
        options.checkpoint or log.place.uri(f"{FOLDER}/checkpoint"),
        compression=compression,
        compactor=compactor,
        first_kept=first_kept,
    )
    archive.mirror = mirror_of(options, log.root, partition)
    return archive


def wanted_of(options: ArchiveOptions, info: JournalInfo) -> Facts:
    """The facts of the archive if it is new. Raises `JobError`."""
    partition = options.partition.value.split(",")
    start = beginning(options.start, info)
    facts = Facts(info.journal, options.subject, options.columns, partition, start, [], [])
    return replace(facts, restricted=info.restricted)


def mirror_of(options: ArchiveOptions, root: str, partition: list[str]) -> Mirror | None:
    """The list for readers of another format."""
    if options.format is ArchiveFormat.delta:
        from pyspark_seriatim.jobs.archive.delta import DeltaMirror

        return DeltaMirror(root, options.columns, partition)
    if options.format is ArchiveFormat.iceberg:
        from pyspark_seriatim.jobs.archive.iceberg import IcebergMirror

        return IcebergMirror(root, options.columns, options.catalog)
    return None


def source_options(options: ArchiveOptions, begin: int) -> dict[str, str]:
    """The data source's options, to read the stream from number `begin` on."""
    return {
        "servers": options.server,
        **options.access,
        "subscribe": options.subject,
        "startingOffsets": str(max(begin, 1)),
        "maxOffsetsPerTrigger": str(options.max_offsets),
        "failOnDataLoss": str(options.strict).lower(),
        "includeHeaders": str(options.headers).lower(),
        "includeReply": str(options.headers).lower(),
    }


def beginning(start: str, info: JournalInfo) -> int:
    """The number where a new archive begins. Raises `JobError`."""
    places = {"earliest": info.first, "latest": info.last + 1}
    if start not in places and not (start.isascii() and start.isdigit() and int(start)):
        raise WrongArguments(f"--start {start}: write earliest, latest, or a number from 1 on")
    return places[start] if start in places else int(start)


def seconds(age: str) -> float:
    """An age such as 90, 15m, 24h, 7d, in seconds. Raises `JobError`."""
    found = AGE.fullmatch(age)
    if not found:
        raise WrongArguments(f"--vacuum {age}: write seconds, or 15m, 24h, 7d")
    return float(int(found[1]) * SECONDS[found[2]])


def summary(work: ArchiveWriter, done: Run) -> str:
    """A summary for the user."""
    facts, totals = work.facts, work.totals
    lines = [
        f"{totals.rows:,} messages in {totals.files:,} files, {totals.bytes:,} bytes,"
        f" {done.batches:,} batches, {done.rate:,.0f} messages/s"
    ]
    if work.compactor is not None:
        merged, made = work.compactor.merged, work.compactor.made
        lines.append(f"{merged:,} small files merged into {made:,}")
    files = work.log.files(TABLE)
    covered = ", ".join(f"{first:,} to {last:,}" for first, last in facts.covered) or "none"
    rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
    lines.append(
        f"{work.log.root}: numbers {covered}; {rows:,} messages in {len(files):,} files,"
        f" {size:,} bytes"
    )
    replaced = len(work.log.state.removed)
    if replaced:
        lines.append(
            f"{replaced:,} merged files are still there: until they are deleted (--vacuum) the"
            " plain folder has their rows twice; read by the list"
        )
    if facts.lost:
        shown = ", ".join(f"{first:,} to {last:,}" for first, last in facts.lost[:LOST_SHOWN])
        more = ", ..." if len(facts.lost) > LOST_SHOWN else ""
        lines.append(f"lost: {count(facts.lost):,} numbers, {shown}{more}")
    return "\n".join(lines)
