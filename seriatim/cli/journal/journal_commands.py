"""`seriatim journal`: look at a journal on disk, check it, copy it, export it, repair it.

All commands but truncate and index only read it; they work while a broker writes it.
"""

import sys
from typing import Annotated

import typer

from seriatim.cli.completion import one_of
from seriatim.cli.errors import CliError, UsageError
from seriatim.settings.shared_options import First, Json, Last

app = typer.Typer(
    name="journal",
    help="""Look at a journal on disk, check it, copy it, export it, cut it.

    [bold]Examples[/bold]

    [cyan]seriatim journal info[/cyan]                       what the journal holds
    [cyan]seriatim journal cat --since 10m --follow[/cyan]   the last ten minutes, then live
    [cyan]seriatim journal copy /backup/seriatim[/cyan]      a backup, while the broker runs
    [cyan]seriatim journal verify /backup/seriatim[/cyan]    status 1 if a byte is wrong
    """,
    short_help="Look at a journal on disk, check it, copy it, export it, cut it.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Folder = Annotated[
    str | None,
    typer.Argument(
        metavar="[DIR]",
        help="The directory of the journal; by default that of `seriatim serve`.",
        show_default=False,
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Only from this time on: 10m (ago), a date (UTC), or unix ms."
    ),
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Only before this time.")]
Subjects = Annotated[
    list[str] | None,
    typer.Option(
        "--subject", metavar="SUBJECT", help="Only this subject; wildcards allowed, repeatable."
    ),
]


@app.command()
def info(folder: Folder = None, json: Json = False) -> None:
    """Show which numbers and times a journal holds, which process writes it, and its segments.

    [bold]Examples[/bold]

    [cyan]seriatim journal info[/cyan]
    [cyan]seriatim journal info /var/lib/seriatim[/cyan]
    [cyan]seriatim journal info --json | jq .last[/cyan]
    """
    from seriatim.cli.journal import journal_info
    from seriatim.cli.journal.journal_span import directory, note_member, open_reader, store_errors

    path = directory(folder)
    note_member(path)
    with store_errors(path):
        found = journal_info.info_of(open_reader(path))
    if json:
        print(journal_info.as_json(found))
    else:
        journal_info.print_table(found)


@app.command()
def cat(
    folder: Folder = None,
    first: First = None,
    last: Last = None,
    since: Since = None,
    until: Until = None,
    subject: Subjects = None,
    count: Annotated[
        int, typer.Option("-n", "--count", min=0, metavar="N", help="At most this many. 0: all.")
    ] = 0,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", metavar=" ", help="Wait for new messages, too.")
    ] = False,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", metavar=" ", help="Print only the payloads, with nothing between them."
        ),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", metavar=" ", help="Print JSON, one message a line.")
    ] = False,
    frame: Annotated[
        bool, typer.Option("--frame", metavar=" ", help="Print the frame, a nested netstring.")
    ] = False,
) -> None:
    """Print messages of a journal, in their order.

    [bold]Examples[/bold]

    [cyan]seriatim journal cat --since 10m[/cyan]
    [cyan]seriatim journal cat --from 88485 --to 88500 --json | jq .payload[/cyan]
    [cyan]seriatim journal cat --subject 'orders.>' --follow[/cyan]
    [cyan]seriatim journal cat --frame > frames[/cyan]     frames back to back, to decode later
    """
    from seriatim.cli.journal.journal_cat import cat, encoder
    from seriatim.cli.journal.journal_span import (
        directory,
        note_member,
        open_reader,
        span_of,
        store_errors,
    )

    chosen = [name for name, on in (("raw", raw), ("json", json), ("frame", frame)) if on]
    if len(chosen) > 1:
        raise UsageError(f"give one of {' and '.join(f'--{name}' for name in chosen)}, not both")
    path = directory(folder)
    note_member(path)
    with store_errors(path):
        reader = open_reader(path)
        span = span_of(reader, first, last, since, until, subject)
        out = sys.stdout.buffer
        encode = encoder(chosen[0] if chosen else "text", out.isatty())
        whole = cat(reader, span, follow, count, out, encode)
    raise typer.Exit(0 if whole else 1)


@app.command()
def export(
    folder: Folder = None,
    output: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="FILE", help="The file to write; - for standard output."
        ),
    ] = ...,  # type: ignore[assignment]
    format: Annotated[
        str | None,
        typer.Option(
            metavar="parquet|csv|jsonl",
            help="By default from the file's name.",
            autocompletion=one_of(("parquet", "csv", "jsonl")),
        ),
    ] = None,
    first: First = None,
    last: Last = None,
    since: Since = None,
    until: Until = None,
    subject: Subjects = None,
    microseconds: Annotated[
        bool,
        typer.Option(
            "--microseconds",
            metavar=" ",
            help="Times in Parquet in microseconds, as Spark 3 needs.",
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", metavar=" ", help="Replace an existing file.")
    ] = False,
) -> None:
    """Write the journal, or a part of it, to a Parquet, CSV or JSON lines file.

    [bold]Examples[/bold]

    [cyan]seriatim journal export -o journal.parquet[/cyan]
    [cyan]seriatim journal export /var/lib/seriatim -o orders.csv --subject 'orders.>'[/cyan]
    [cyan]seriatim journal export -o - --format jsonl --since 1h | gzip > hour.jsonl.gz[/cyan]
    """
    from seriatim.cli.journal import journal_export
    from seriatim.cli.journal.journal_span import (
        directory,
        note_member,
        open_reader,
        span_of,
        store_errors,
    )

    chosen = journal_export.format_of(output, format)
    path = directory(folder)
    note_member(path)
    with store_errors(path):
        reader = open_reader(path)
        span = span_of(reader, first, last, since, until, subject)
    target = journal_export.ExportTarget(output, chosen, force, microseconds)
    done = journal_export.export(reader, span, target)
    print(
        f"seriatim: exported {done.rows} messages, {done.bytes} bytes, to {output}",
        file=sys.stderr,
    )
    raise typer.Exit(0 if done.complete else 1)


@app.command()
def verify(folder: Folder = None, json: Json = False) -> None:
    """Check every byte: checksums, numbers, times, indexes. Status 1 when something is lost.

    [bold]Examples[/bold]

    [cyan]seriatim journal verify[/cyan]
    [cyan]seriatim journal verify /backup/seriatim[/cyan]    a copy, before it is needed
    [cyan]seriatim journal verify --json | jq .first[/cyan]
    """
    from seriatim.cli.journal import journal_repair
    from seriatim.cli.journal.journal_span import directory, note_member

    path = directory(folder)
    note_member(path)
    whole = journal_repair.verify(path, json)
    raise typer.Exit(0 if whole else 1)


@app.command()
def copy(
    folders: Annotated[
        list[str],
        typer.Argument(
            metavar="[DIR] COPY",
            help="The directory of the journal, by default that of `seriatim serve`, and a new one"
            " for the copy.",
            show_default=False,
        ),
    ],
) -> None:
    """Copy a journal to a new directory, also while a broker writes it.

    The copy has every message that existed when the command began, and often later ones.
    A broker can start on it. Status 1 if there is no copy, or if it lacks damaged messages.

    [bold]Examples[/bold]

    [cyan]seriatim journal copy /var/lib/seriatim /backup/seriatim[/cyan]
    [cyan]seriatim journal copy /backup/seriatim[/cyan]    copies the journal of `seriatim serve`
    """
    from seriatim.cli.journal import journal_copy
    from seriatim.cli.journal.journal_span import directory

    if len(folders) > 2:
        raise UsageError(f"unexpected argument: {folders[2]}; give one directory, or two")
    whole = journal_copy.copy(directory(None if len(folders) == 1 else folders[0]), folders[-1])
    raise typer.Exit(0 if whole else 1)


@app.command()
def truncate(
    folder: Folder = None,
    after: Annotated[
        int,
        typer.Option("--after", min=0, metavar="N", help="The last number to keep."),
    ] = ...,  # type: ignore[assignment]
    yes: Annotated[bool, typer.Option("-y", "--yes", metavar=" ", help="Do not ask.")] = False,
) -> None:
    """Delete every message after a number, permanently. The broker must be stopped.

    The deleted numbers will be given to other messages, under a new epoch: subscribers
    that received the old messages must know.

    [bold]Examples[/bold]

    [cyan]seriatim journal truncate --after 88485[/cyan]
    [cyan]seriatim journal truncate /var/lib/seriatim --after 88485 --yes[/cyan]
    [cyan]seriatim journal truncate --after 0[/cyan]       everything, unless retention deleted some
    """
    from seriatim.cli.journal import journal_repair
    from seriatim.cli.journal.journal_span import directory

    path = directory(folder)
    first, last, count = journal_repair.loss_behind(path, after)
    if not count:
        print(f"no messages after number {after}")
        return
    messages = f"number {first}" if count == 1 else f"numbers {first} to {last}"
    what = f"{messages} of {path}: {count} message{'s' * (count != 1)}"
    if not yes:
        if not sys.stdin.isatty():
            raise CliError(f"{what} would be lost; give --yes to confirm")
        typer.confirm(f"{what} will be lost permanently. Continue?", abort=True)
    cut = journal_repair.truncate(path, after)
    print(f"deleted {what}, {cut.bytes:,} bytes; the next number is {after + 1}")


@app.command()
def index(
    folder: Folder = None,
    every: Annotated[
        bool, typer.Option("--all", metavar=" ", help="Rewrite valid ones, too.")
    ] = False,
) -> None:
    """Write indexes that are missing or invalid. The broker must be stopped.

    A broker does the same in the background. Without an index the journal is complete;
    only lookups are slower.

    [bold]Examples[/bold]

    [cyan]seriatim journal index[/cyan]
    [cyan]seriatim journal index --all[/cyan]
    [cyan]seriatim journal index /backup/seriatim[/cyan]
    """
    from seriatim.cli.journal import journal_repair
    from seriatim.cli.journal.journal_span import directory

    path = directory(folder)
    written = journal_repair.index(path, every)
    print(f"wrote {written} index{'es' * (written != 1)}")
