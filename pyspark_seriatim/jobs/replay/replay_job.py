"""`seriatim spark replay`: publishes an archive again, in its order, each message once."""

from typing import Annotated

import typer

from pyspark_seriatim.jobs.replay.replay_options import Renaming, ReplayOptions, options_of
from pyspark_seriatim.jobs.replay.replaying import Replayed, ReplayRun
from pyspark_seriatim.jobs.running.command import (
    DEFAULT_SERVER,
    DONE,
    Conf,
    Master,
    Server,
    Subject,
    job,
    settings,
)
from pyspark_seriatim.jobs.running.job_arguments import ANYBODY, Access, job_access
from pyspark_seriatim.jobs.running.query_progress import bar
from pyspark_seriatim.jobs.running.spark_session import spark_session
from seriatim.settings.shared_options import First, Last, with_options

Root = Annotated[
    str, typer.Argument(metavar="ROOT", help="The archive, or a folder of Parquet files.")
]
Rate = Annotated[
    float, typer.Option(min=0.0, metavar="N", help="Messages per second. 0: no limit.")
]
Prefix = Annotated[
    str,
    typer.Option(
        metavar="PREFIX", help="Prepend this to each subject, with a dot.", show_default=False
    ),
]
Strip = Annotated[
    str,
    typer.Option(
        metavar="PREFIX", help="Remove this from the front of each subject.", show_default=False
    ),
]
Origin = Annotated[
    bool,
    typer.Option(
        "--origin-headers", metavar=" ", help="Add Nats-Origin-Sequence, Nats-Origin-Time-Stamp."
    ),
]
Skip = Annotated[
    bool,
    typer.Option(
        "--skip-unpublishable",
        metavar=" ",
        help="Skip and count messages that the broker refuses; otherwise they end the replay.",
    ),
]
Application = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="A name for this replay: the same publishes nothing twice, another one all again.",
        show_default=False,
    ),
]


@job
@with_options(access=job_access)
def replay(
    root: Root,
    server: Server = DEFAULT_SERVER,
    first: First = None,
    last: Last = None,
    subject: Subject = ">",
    rate: Rate = 0.0,
    prefix: Prefix = "",
    strip: Strip = "",
    origin_headers: Origin = False,
    skip_unpublishable: Skip = False,
    application: Application = None,
    master: Master = None,
    conf: Conf = None,
    *,
    access: Access = ANYBODY,
) -> int:
    """Publish an archive again, in the order of its numbers, with headers and reply subjects.

    Each message is published once. A replay that was stopped or killed continues where it was when
    it is started again; if the archive has grown, it publishes what is new.

    [bold]Examples[/bold]

    [cyan]seriatim spark replay /data/archive --server nats://127.0.0.1:4222[/cyan]
    [cyan]seriatim spark replay /data/archive --prefix replayed --rate 50000[/cyan]
    [cyan]seriatim spark replay /data/archive --from 88485 --application again[/cyan]
    """
    renaming = Renaming(prefix, strip)
    asked = root, server, first, last, subject, renaming, application, origin_headers, rate
    options = options_of(*asked, skip_unpublishable, access)
    spark = spark_session("seriatim replay", master, settings(conf))
    replay = ReplayRun(spark, options)
    with bar("replaying", "messages") as step:
        done = replay.run(lambda so_far: step(so_far.rows, options.archive.rows))
    print(summary(options, done))
    return DONE


def summary(options: ReplayOptions, done: Replayed) -> str:
    """Describe the published messages."""
    skipped = (
        f"; {done.skipped:,} that cannot be published were skipped, the first: {done.example}"
        if done.skipped
        else ""
    )
    if not done.rows:
        if skipped:
            return f"nothing was published, up to number {done.upto:,} of the archive{skipped}"
        if not done.upto:
            return f"nothing to replay: no message of {options.subject} in the range asked for"
        return (
            f"nothing to replay: {options.application!r} reached number {done.upto:,} before, and"
            " continues after it; --application NAME replays under another name"
        )
    rate = done.rows / done.seconds if done.seconds else 0.0
    doubled = (
        f"; {done.doubled:,} rows with duplicate numbers were left out" if done.doubled else ""
    )
    return (
        f"replayed {done.rows:,} messages, up to number {done.upto:,} of the archive, as numbers"
        f" {done.first:,} to {done.last:,}, in {done.seconds:.1f} s ({rate:,.0f} a second){doubled}"
        f"{skipped}"
    )
