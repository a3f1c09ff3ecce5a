"""`seriatim batches`: the batches that a stopped broker has promised, and giving one of them up."""

import json as jsons
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from seriatim.cli.errors import CliError
from seriatim.cli.journal.journal_commands import Folder
from seriatim.settings.shared_options import Json

if TYPE_CHECKING:
    from broker.staging.open_promises import OpenPromise

app = typer.Typer(
    name="batches",
    help="""See which batches a stopped broker still has to publish, and give one up.

    A broker that starts publishes the rest of them. It cannot if a stage was lost or damaged.

    [bold]Examples[/bold]

    [cyan]seriatim batches list[/cyan]
    [cyan]seriatim batches give-up --application import --batch 7[/cyan]
    """,
    short_help="See which batches a stopped broker still has to publish, and give one up.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("list")
def list_promises(folder: Folder = None, json: Json = False) -> None:
    """List the batches that are promised but not complete. The broker must be stopped.

    [bold]Examples[/bold]

    [cyan]seriatim batches list[/cyan]
    [cyan]seriatim batches list /var/lib/seriatim --json | jq .missing[/cyan]
    """
    from broker.staging.open_promises import open_promises
    from seriatim.cli.journal.journal_span import directory, store_errors

    path = directory(folder)
    with store_errors(path):
        found = open_promises(path)
    for promise in found:
        if json:
            print(jsons.dumps(asdict(promise) | {"fate": promise.fate}))
        else:
            print(f"{_said(promise)}; {_outlook(promise)}")
    if not (found or json):
        print(f"{path}: no promised batch is incomplete")


@app.command()
def give_up(
    folder: Folder = None,
    application: Annotated[
        str, typer.Option("--application", metavar="NAME", help="The application of the batch.")
    ] = ...,  # type: ignore[assignment]
    batch: Annotated[
        int, typer.Option("--batch", min=0, metavar="N", help="The batch to give up.")
    ] = ...,  # type: ignore[assignment]
    yes: Annotated[bool, typer.Option("-y", "--yes", metavar=" ", help="Do not ask.")] = False,
) -> None:
    """Give a promised batch up: it counts as not committed. The broker must be stopped.

    Its rows that are in the journal stay there, and nothing else changes. If the batch is
    committed again, all of its rows are published, and those are there twice.

    [bold]Examples[/bold]

    [cyan]seriatim batches give-up --application import --batch 7[/cyan]
    [cyan]seriatim batches give-up /var/lib/seriatim --application import --batch 7 --yes[/cyan]
    """
    from broker.staging.open_promises import give_up, open_promises
    from seriatim.cli.journal.journal_span import directory, store_errors

    path = directory(folder)
    with store_errors(path):
        found = open_promises(path)
        promise = next(
            (one for one in found if (one.application, one.batch) == (application, batch)), None
        )
        if promise is not None and not yes:
            what = f"{_said(promise)}; {_outlook(promise)}"
            if not sys.stdin.isatty():
                raise CliError(f"{what}; give --yes to confirm")
            typer.confirm(f"{what}. Give it up?", abort=True)
        gone = give_up(path, application, batch)
    print(f"gave up {_said(gone)}")
    if gone.published:
        print("if it is committed again, these rows are there twice")


def _said(promise: "OpenPromise") -> str:
    there = f"{promise.published} of its {promise.rows} rows are published"
    if promise.published:
        there += f", in numbers {promise.first} to {promise.last}"
    return f"batch {promise.batch} of {promise.application}: {there}"


def _outlook(promise: "OpenPromise") -> str:
    if promise.fate == "kept":
        return "a broker that starts publishes the rest"
    what = f"stage{'s' * (len(promise.missing) > 1)} {', '.join(promise.missing)}"
    if promise.fate == "dropped":
        return f"a broker that starts drops it: {what} lost or damaged"
    return f"the rest cannot be published: {what} lost or damaged"
