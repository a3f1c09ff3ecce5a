"""The command `seriatim help`: what `--help` prints, for people who begin with the word."""

from typing import Annotated, Any

import typer

from seriatim.cli.completion import command_words
from seriatim.cli.errors import UsageError

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[COMMAND [SUBCOMMAND]]",
        help="A command, such as `stream ls`.",
        show_default=False,
        autocompletion=command_words,
    ),
]


def show_help(context: typer.Context, words: Words = None) -> None:
    """Print the help of a command, as its --help does.

    [bold]Examples[/bold]

    [cyan]seriatim help[/cyan]
    [cyan]seriatim help sub[/cyan]
    [cyan]seriatim help stream ls[/cyan]
    """
    at: Any = context.find_root()
    for word in words or ():
        if not hasattr(at.command, "resolve_command"):
            raise UsageError(f"`{at.command_path}` has no commands of its own; leave out {word!r}")
        name, command, _ = at.command.resolve_command(at, [word])
        at = command.context_class(command, at, info_name=name, **command.context_settings)
    typer.echo(at.get_help())
