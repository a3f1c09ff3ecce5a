"""`seriatim spark stats`: messages, bytes, sizes and rates by subject and window of time."""

import json
import sys
import time
from typing import Annotated

import typer

from pyspark_seriatim.jobs.archive.rows import EVERY, open_archive, subject_pattern
from pyspark_seriatim.jobs.errors import JobError, WrongArguments
from pyspark_seriatim.jobs.running.command import DONE, Conf, Master, Subject, job, settings
from pyspark_seriatim.jobs.running.job_arguments import (
    ANYBODY,
    Access,
    OneArchive,
    OneServer,
    chosen_server,
    job_access,
)
from pyspark_seriatim.jobs.running.spark_session import spark_session
from pyspark_seriatim.jobs.running.watch import terminal
from pyspark_seriatim.jobs.stats.measuring import DEPTH_MAX, Source, measure
from pyspark_seriatim.jobs.stats.stats_output import as_json as in_json
from pyspark_seriatim.jobs.stats.stats_output import (
    check_output,
    make_folder,
    print_measured,
    write_table,
)
from pyspark_seriatim.options import Options
from seriatim.settings.amounts import read_duration
from seriatim.settings.checked import WrongValue
from seriatim.settings.moments import read_moment
from seriatim.settings.shared_options import First, Json, Last, with_options

Window = Annotated[
    str, typer.Option(metavar="TIME", help="The length of a window, such as 10s, 1m, 1h, 1d.")
]
Depth = Annotated[
    int,
    typer.Option(
        min=1, max=DEPTH_MAX, metavar="N", help="How many tokens of a subject to group by."
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Only from this time on: 10m (ago), a date (UTC), or unix ms."
    ),
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Only before this time.")]
Out = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Write all windows and subjects to a .parquet, .csv or .jsonl file.",
        show_default=False,
    ),
]
Top = Annotated[int, typer.Option(min=1, metavar="N", help="How many subjects to print.")]


@job
@with_options(access=job_access)
def stats(
    server: OneServer = None,
    archive: OneArchive = None,
    window: Window = "1m",
    depth: Depth = 1,
    subject: Subject = EVERY,
    first: First = None,
    last: Last = None,
    since: Since = None,
    until: Until = None,
    out: Out = None,
    top: Top = 20,
    as_json: Json = False,
    master: Master = None,
    conf: Conf = None,
    *,
    access: Access = ANYBODY,
) -> int:
    """Measure a journal or an archive: messages, bytes, sizes and rates by subject and time.

    [bold]Examples[/bold]

    [cyan]seriatim spark stats --server nats://127.0.0.1:4222 --since 1h[/cyan]
    [cyan]seriatim spark stats --archive /data/archive --depth 2 --out rates.csv[/cyan]
    [cyan]seriatim spark stats --archive /data/archive --window 1h --out hours.parquet[/cyan]
    """
    window_us = duration_us("--window", window)
    server = chosen_server(server, archive)
    source = source_of(server, archive, subject, (first, last), (since, until), access)
    if out is not None:
        check_output(out)
        make_folder(out)
    spark = spark_session("seriatim stats", master, settings(conf))
    measured = measure(spark, source, window_us, depth)
    if as_json:
        print(json.dumps(in_json(measured), indent=2, ensure_ascii=False))
    else:
        print_measured(measured, top, terminal())
    sys.stdout.flush()  # print the results, even if writing the file fails
    if out is not None:
        write_table(out, measured.windows)
    return DONE


def source_of(
    server: str | None,
    archive: str | None,
    subject: str,
    numbers: tuple[int | None, int | None],
    moments: tuple[str | None, str | None],
    access: Access = ANYBODY,
) -> Source:
    """The source of the rows, checked as far as possible without Spark. Raises `JobError`."""
    if (server is None) == (archive is None):
        raise WrongArguments("nothing to measure: give --server or --archive")
    if None not in numbers and numbers[0] > numbers[1]:  # type: ignore[operator]
        raise WrongArguments(f"--to {numbers[1]} is below --from {numbers[0]}")
    options = ("--since", "--until")
    now_ms = time.time_ns() // 1_000_000
    since, until = (
        None if text is None else moment_ms(option, text, now_ms)
        for option, text in zip(options, moments, strict=True)
    )
    if since is not None and until is not None and until < since:
        raise WrongArguments(f"--until {moments[1]} is before --since {moments[0]}")
    if server is not None:
        for number, moment, names in zip(
            numbers, (since, until), ("--from and --since", "--to and --until"), strict=True
        ):
            if number is not None and moment is not None:
                raise JobError(f"{names} of a journal cannot be combined: give one of them")
        Options.parse({"servers": server, **access, "subscribe": subject}, "batch")
    else:
        subject_pattern(subject)
    found = None if archive is None else open_archive(archive)
    return Source(server, found, subject, numbers, (since, until), access)


def duration_us(option: str, text: str) -> int:
    """Return the microseconds of a duration such as 30s or 1m30s. Raises `WrongArguments`."""
    try:
        us = int(read_duration(text.strip()) * 1_000_000)
    except WrongValue as error:
        raise WrongArguments(f"{option} {text}: {error}") from None
    if us < 1000:
        raise WrongArguments(f"{option} {text}: give a millisecond or more")
    return us


def moment_ms(option: str, text: str, now_ms: int) -> int:
    """Return a moment in ms since 1970. Raises `WrongArguments`."""
    try:
        return read_moment(text, now_ms * 1_000_000) // 1_000_000
    except WrongValue as error:
        raise WrongArguments(f"{option} {text}: {error}") from None
