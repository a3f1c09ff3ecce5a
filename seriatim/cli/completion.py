"""`seriatim completion SHELL`, and the values that a shell completes.

Only names of letters, digits and `_.@+-` are completed: shells expand what completions contain, and
a name may come from a broker.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from seriatim.cli.errors import UsageError

if TYPE_CHECKING:
    from seriatim.cli.broker_access import BrokerAccess

SHELLS: Final = ("bash", "zsh", "fish")
VARIABLE: Final = "_SERIATIM_COMPLETE"  # in which a shell's script asks
ASKING_SECONDS_MAX: Final = 0.3  # a person waits for the key

_PLAIN: Final = re.compile(r"[\w.@+-]+", re.ASCII)

Completer = Callable[[str], list[str]]


def one_of(choices: Sequence[str]) -> Completer:
    """Return a completer of fixed words."""

    def complete(incomplete: str) -> list[str]:
        return list(choices)

    return complete


def context_names(incomplete: str) -> list[str]:
    """Complete the name of a context."""
    from seriatim.cli.context import context_files

    return _plain(context_files.names())


def stream_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a stream, if a broker is there and answers at once."""
    return _asked(ctx, "streams")


def consumer_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the name of a consumer of the stream before it."""
    return _asked(ctx, "consumers", ctx.params["stream"])


def command_words(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Complete the words of `seriatim help`: a command, and one of its commands."""
    at: Any = ctx.find_root().command
    for word in ctx.params.get("words") or ():
        at = getattr(at, "commands", {}).get(word)
    found = getattr(at, "commands", {})
    return [(name, one.get_short_help_str()) for name, one in found.items() if not one.hidden]


class SettingsCommand(TyperCommand):
    """A command whose rare options are completed too, once their beginning says so."""

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the options that people use; all of them if none of these begins so."""
        found = super().shell_complete(ctx, incomplete)
        if found or not incomplete.startswith("-"):
            return found
        for option in self.params:
            option.hidden = False  # type: ignore[attr-defined]
        return super().shell_complete(ctx, incomplete)


def completion(
    shell: Annotated[
        str,
        typer.Argument(
            metavar="|".join(SHELLS),
            help="The shell.",
            show_default=False,
            autocompletion=one_of(SHELLS),
        ),
    ],
) -> None:
    """Print the script with which a shell completes commands, options and values.

    Names of contexts, streams and consumers are completed, too; the last two if
    a broker answers at once.

    [bold]Examples[/bold]

    [cyan]source <(seriatim completion bash)[/cyan]       in ~/.bashrc
    [cyan]source <(seriatim completion zsh)[/cyan]        in ~/.zshrc, after compinit
    [cyan]seriatim completion fish > ~/.config/fish/completions/seriatim.fish[/cyan]
    """
    from typer._completion_shared import get_completion_script

    if shell not in SHELLS:
        raise UsageError(f"{shell!r} is not one of {', '.join(SHELLS)}")
    print(get_completion_script(prog_name="seriatim", complete_var=VARIABLE, shell=shell))


def _plain(names: Iterable[str]) -> list[str]:
    return [name for name in names if _PLAIN.fullmatch(name)]


def _asked(ctx: typer.Context, what: str, *of: str) -> list[str]:
    """Ask the broker of the options so far; nothing on any failure."""
    import asyncio
    import inspect

    from seriatim.cli.broker_access import read_access
    from seriatim.cli.stream.jetstream_api import JetStreamApi, with_api

    async def ask(access: "BrokerAccess") -> list[dict[str, Any]]:
        async def use(api: JetStreamApi) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = await getattr(api, what)(*of)
            return found

        async with asyncio.timeout(ASKING_SECONDS_MAX):
            found: list[dict[str, Any]] = await with_api(access, use)
            return found

    options = inspect.signature(read_access).parameters
    try:
        access = read_access(**{name: ctx.params[name] for name in options if name in ctx.params})
        found = asyncio.run(ask(access))
        names = [one["name"] if what == "consumers" else one["config"]["name"] for one in found]
        return _plain(names)
    except Exception:  # a key was pressed; an error would be printed into the line
        return []
