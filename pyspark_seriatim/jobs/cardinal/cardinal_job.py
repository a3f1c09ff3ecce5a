"""`seriatim spark cardinal`: assembles the broker's Cardinal Streams into tables in Parquet.

    <root>/blocks/ updates/ reorgs/ events/    files; the log says which of them are valid
    <root>/_seriatim/                          the log: every batch is one version of all tables
    <root>/_seriatim/state/                    snapshots of the state beside the tables: blocks that
                                               may be needed again, and incomplete ones
    <root>/_seriatim/checkpoint/               Spark's, unless another place is given

`cardinal_tables` reads them. Engines: `fold` assembles the blocks in the driver, in the order of
the messages; `state` on all executors, with transformWithState, and only links them in the driver.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cardinal.chain import THRESHOLD
from cardinal.errors import SchemaError
from cardinal.schema import Tracking
from cardinal.schema_file import describe, parse
from cardinal.transport.envelope import prefix_of
from cardinal.transport.errors import BadTopic
from pyspark_seriatim.client import Client
from pyspark_seriatim.jobs.cardinal.assembly import KEEP_SECONDS, Assembly, AssemblyOptions, Engine
from pyspark_seriatim.jobs.errors import JobError, WrongArguments
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
    from pyspark.sql.streaming.readwriter import DataStreamWriter

MAX_OFFSETS: Final = 250_000  # messages of 200 bytes: 50 MB in the JVM, and as much in Python
EVERY_SECONDS: Final = 1.0  # a version per second is as much as small files allow
ROCKSDB: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}

Application = Annotated[
    str, typer.Argument(metavar="APPLICATION", help="The word after `cardinal.` in subjects.")
]
Root = Annotated[str, typer.Argument(metavar="ROOT", help="The directory of the tables, or a URI.")]
SchemaFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Read only the topics of this schema, a TOML file with `default` and table `topics`.",
        show_default=False,
    ),
]
Track = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="Only keys that begin with PATTERN; repeatable. Needs --schema.",
        show_default=False,
    ),
]
EngineOption = Annotated[
    Engine,
    typer.Option(help="fold: assemble blocks in the driver; state: with transformWithState."),
]
Threshold = Annotated[
    int, typer.Option(min=0, metavar="N", help="Follow reorgs of up to this many blocks.")
]
Keep = Annotated[
    float,
    typer.Option(
        min=0.0,
        metavar="SECONDS",
        help="How long a reader may use files that a later version has replaced.",
    ),
]


@job
@with_options(access=job_access)
def cardinal(
    application: Application,
    root: Root,
    server: Server = DEFAULT_SERVER,
    schema: SchemaFile = None,
    track: Track = None,
    engine: EngineOption = Engine.FOLD,
    threshold: Threshold = THRESHOLD,
    keep: Keep = KEEP_SECONDS,
    once: Once = False,
    every: Every = EVERY_SECONDS,
    max_offsets: MaxOffsets = MAX_OFFSETS,
    checkpoint: Checkpoint = None,
    master: Master = None,
    conf: Conf = None,
    *,
    access: Access = ANYBODY,
) -> int:
    """Assemble Cardinal Streams into tables: blocks, updates, reorgs, events.

    All tables change together: a reader sees one chain of whole blocks. Begins with the first
    message in the journal; when started again, continues where the tables end.

    [bold]Examples[/bold]

    [cyan]seriatim spark cardinal mainnet /data/chain --server nats://127.0.0.1:4222[/cyan]
    [cyan]seriatim spark cardinal mainnet /data/accounts --schema s.toml --track a/ --once[/cyan]
    """
    try:
        prefix_of(application)
    except BadTopic as error:
        raise JobError(str(error)) from error
    tracking = read_tracking(schema, track or ())
    wanted = AssemblyOptions(application, root, server, tracking, engine, threshold, keep, access)
    info = Client.shared(Options.parse({"servers": server, **access}, "stream")).info()
    assembly = Assembly(wanted, info.journal)
    spark = spark_session(f"cardinal {application}", master, {**ROCKSDB, **settings(conf)})
    done = assemble(spark, assembly, max_offsets, None if once else every, checkpoint)
    print(summary(assembly, done))
    return DONE


def assemble(
    spark: "SparkSession",
    assembly: Assembly,
    max_offsets: int = MAX_OFFSETS,
    every: float | None = None,
    checkpoint: str | None = None,
) -> Run:
    """Run the query until it ends; `every` None: until everything up to now is handled.

    Raises the error that ended it.
    """
    query = writer(spark, assembly, max_offsets, checkpoint)
    if every is None:
        query = query.trigger(availableNow=True)
    else:
        query = query.trigger(processingTime=f"{every} seconds")
    try:
        return follow(query.start(), f"assembling {assembly.wanted.application}")
    except Exception:
        if assembly.error is not None:  # one clear message instead of three stack traces
            raise assembly.error from None
        raise


def writer(
    spark: "SparkSession", assembly: Assembly, max_offsets: int, checkpoint: str | None
) -> "DataStreamWriter":
    """The query, without its trigger."""
    wanted = assembly.wanted
    rows = (
        spark.readStream.format("seriatim")
        .options(servers=wanted.server, **wanted.access)
        .option("subscribe", wanted.subjects)
        .option("startingOffsets", assembly.first_offset)
        .option("maxOffsetsPerTrigger", max_offsets)
        .load()
    )
    place = checkpoint or assembly.log.place.uri(f"{FOLDER}/checkpoint")
    found = assembly.source(rows)
    return found.writeStream.foreachBatch(assembly).option("checkpointLocation", place)


def read_tracking(schema: str | None, patterns: Sequence[str]) -> Tracking | None:
    """The tracking that `--schema` and `--track` ask for; None: everything. Raises `JobError`."""
    if schema is None:
        if patterns:
            raise WrongArguments("--track needs --schema: it says which topics have such keys")
        return None
    try:
        found = parse(Path(schema).read_text())
    except OSError as error:
        raise JobError(f"--schema {schema}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise JobError(f"--schema {schema}: not valid TOML: {error}") from error
    except SchemaError as error:
        raise JobError(f"--schema {schema}: {describe(error)}") from error
    try:
        return found.track(*patterns)
    except SchemaError as error:
        raise WrongArguments(f"--track: {describe(error)}") from error


def summary(assembly: Assembly, done: Run) -> str:
    """A summary of a run, in a few lines."""
    counts, chain = assembly.fold.counts, assembly.fold.follower.chain
    batches = "1 batch" if done.batches == 1 else f"{done.batches} batches"
    lines = [
        f"took {done.rows:,} messages in {batches}, {done.seconds:.1f} s ({done.rate:,.0f}/s)",
        f"added {counts['added']:,} blocks; {counts['reorgs']} reorgs",
    ]
    if chain.number is not None:
        lines.append(f"head: block {chain.number} 0x{chain.head.hex()}")
    events = {kind: n for kind, n in counts.items() if kind[0].isupper()}
    if events:
        found = ", ".join(f"{n:,} {kind}" for kind, n in sorted(events.items()))
        lines.append(f"dropped or given up: {found} (table events)")
    return "\n".join(lines)
