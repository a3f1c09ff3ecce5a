"""The commands of `seriatim context`, declared for typer."""

import json as jsons
import os
import sys
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from seriatim.cli.broker_access import DEFAULT_URL, read_access
from seriatim.cli.completion import context_names
from seriatim.cli.context import context_files
from seriatim.cli.errors import CliError, UsageError
from seriatim.cli.printable import print_table, printable
from seriatim.client.server_address import without_credentials
from seriatim.settings.secret_texts import HIDDEN, secret_of
from seriatim.settings.shared_options import PANEL, Json, with_options

app = typer.Typer(
    name="context",
    help="""Save connections by name, and select one; `nats` shares them.

    A context has an address, credentials and certificates. Commands that
    connect to a broker take --context NAME, or else use the selected one.
    The files are those of the command line of NATS: both tools share them.

    [bold]Examples[/bold]

    [cyan]seriatim context add prod -s tls://broker:4222 --creds ops.creds[/cyan]
    [cyan]seriatim context select prod[/cyan]
    [cyan]seriatim sub 'orders.>' --context prod[/cyan]
    """,
    short_help="Save connections by name, and select one; `nats` shares them.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The name of a context.",
        show_default=False,
        autocompletion=context_names,
    ),
]
Yes = Annotated[bool, typer.Option("-y", "--yes", "-f", metavar=" ", help="Do not ask.")]


@app.command("ls")
def list_contexts(json: Json = False) -> None:
    """List the contexts; the selected one has a star.

    [bold]Examples[/bold]

    [cyan]seriatim context ls[/cyan]
    [cyan]seriatim context ls --json | jq -r '.[].name'[/cyan]
    """
    selected, rows = context_files.selected(), []
    for name in context_files.names():
        try:
            fields = context_files.load(name).fields
        except CliError as error:
            print(f"seriatim: {printable(str(error))}", file=sys.stderr)
            continue
        url = _without_credentials(str(fields.get("url") or DEFAULT_URL))
        rows.append((name, name == selected, url, str(fields.get("description") or "")))
    if json:
        titles = ("name", "selected", "url", "description")
        print(jsons.dumps([dict(zip(titles, row, strict=True)) for row in rows]))
    elif rows:
        shown = [("*" * is_selected, name, *more) for name, is_selected, *more in rows]
        print_table(("", "NAME", "URL", "DESCRIPTION"), shown)
    else:
        print("seriatim: there are no contexts yet: seriatim context add NAME", file=sys.stderr)


@app.command()
def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            help="Default: the one that commands use now.",
            show_default=False,
            autocompletion=context_names,
        ),
    ] = "",
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", metavar=" ", help="Print passwords, too.")
    ] = False,
    json: Json = False,
) -> None:
    """Show a context, without its passwords.

    [bold]Examples[/bold]

    [cyan]seriatim context show[/cyan]
    [cyan]seriatim context show prod --json | jq -r .url[/cyan]
    """
    wanted = name or os.environ.get(context_files.VARIABLE, "")
    context = context_files.in_use(wanted, or_selected=True)
    if context is None:
        raise CliError("no context is selected; select one: seriatim context select NAME")
    fields = {field: value for field, value in context.fields.items() if value}
    if not show_secrets:
        fields |= {field: HIDDEN for field in context_files.SECRETS if field in fields}
        fields["url"] = _without_credentials(str(fields.get("url") or DEFAULT_URL))
    facts = {"name": context.name, "file": str(context.path), **fields}
    if json:
        print(jsons.dumps(facts))
        return
    print_table(("FIELD", "VALUE"), [(field, str(value)) for field, value in facts.items()])


@app.command()
def select(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]",
            help="The name of a context.",
            show_default=False,
            autocompletion=context_names,
        ),
    ] = "",
    none: Annotated[
        bool, typer.Option("--none", metavar=" ", help="Select none: back to the defaults.")
    ] = False,
) -> None:
    """Select the context that commands use without --context.

    [bold]Examples[/bold]

    [cyan]seriatim context select prod[/cyan]
    [cyan]seriatim context select --none[/cyan]
    """
    if bool(name) == none:
        raise UsageError("give the name of a context, or --none")
    if name:
        context_files.load(name)
    context_files.select(name)
    print(f"selected context {name}" if name else "no context is selected now", file=sys.stderr)


@wraps(read_access)
def _given(**options: Any) -> dict[str, Any]:
    """Return the options that are given. Raises `CliError` if they do not fit together."""
    given = {name: value for name, value in options.items() if value}
    read_access(url=DEFAULT_URL, **given)
    for name in ("password", "token"):
        if name in given:
            given[name] = str(secret_of(given[name]))  # valid: it was read just now
    for name, field in context_files.FIELDS.items():
        if name in given and field in context_files.PATHS:
            given[name] = str(Path(given[name]).absolute())
    return given


@app.command()
@with_options("url", "context_name", given=_given)
def add(
    name: Name,
    url: Annotated[
        str,
        typer.Option(
            *("-s", "--url", "--server"),
            metavar="URL",
            help="The broker: nats://HOST:PORT, tls://HOST:PORT or HOST:PORT; or several with"
            " commas.",
            rich_help_panel=PANEL,
            show_default=DEFAULT_URL,
        ),
    ] = "",
    description: Annotated[
        str, typer.Option(metavar="TEXT", help="What it is for.", show_default=False)
    ] = "",
    select: Annotated[bool, typer.Option("--select", metavar=" ", help="Select it, too.")] = False,
    *,
    given: dict[str, Any],
) -> None:
    """Add a context, or change the given fields of an existing one.

    A secret given as env:NAME or file:PATH is read now, and its value is saved. The file
    belongs to its owner alone (mode 0600).

    [bold]Examples[/bold]

    [cyan]seriatim context add local -s nats://127.0.0.1:4222 --select[/cyan]
    [cyan]seriatim context add prod -s tls://broker --creds ops.creds --tlscacert ca.pem[/cyan]
    [cyan]seriatim context add prod --description 'the exchange'[/cyan]
    """
    context_files.check_name(name)
    before: dict[str, Any] = {}
    if name in context_files.names():
        before = dict(context_files.load(name).fields)
    if url:
        given["url"] = read_access(url=url).full_url
    if description:
        given["description"] = description
    changed = {context_files.FIELDS[one]: value for one, value in given.items()}
    if changed.keys() & set(context_files.LOGINS):  # a context has one way to log in
        before = {one: value for one, value in before.items() if one not in context_files.LOGINS}
    fields = {"description": "", "url": DEFAULT_URL, **before, **changed}
    path = context_files.save(name, fields)
    if select:
        context_files.select(name)
    done = "changed" if before else "added"
    print(f"{done} context {name} in {path}{', and selected it' * select}", file=sys.stderr)


@app.command()
def rm(name: Name, yes: Yes = False) -> None:
    """Delete a context; asks before.

    The selected one can be deleted only if it is the last one.

    [bold]Examples[/bold]

    [cyan]seriatim context rm old --yes[/cyan]
    """
    if name not in context_files.names():
        context_files.load(name)
    if name == context_files.selected() and len(context_files.names()) > 1:
        raise CliError(
            f"{name} is the selected context; select another one first: seriatim context select"
        )
    if not yes:
        if not sys.stdin.isatty():
            raise CliError(f"this deletes context {name}; give --yes to confirm")
        typer.confirm(f"Delete context {name}?", abort=True)
    context_files.remove(name)
    print(f"deleted context {name}", file=sys.stderr)


def _without_credentials(urls: str) -> str:
    return ",".join(map(without_credentials, urls.split(",")))
