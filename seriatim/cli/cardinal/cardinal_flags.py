"""Flags that would say nothing beside others: told, and not passed over. All raise `CliError`."""

from collections.abc import Mapping

import typer

from seriatim.cli.errors import CliError

# Parameters of `simulate` that say nothing when the chain is not sent.
UNSENT = {"application": "--application", "rate": "--rate", "url": "--url"}
UNPERTURBED = {name: f"--{name}" for name in ("producers", "duplicates", "reorder", "loss")}


def is_given(context: typer.Context, name: str) -> bool:
    """Whether a parameter stands on the command line; a variable of the environment does not."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def refuse_unused(context: typer.Context, beside: str, unused: Mapping[str, str], why: str) -> None:
    """Refuse the parameters that are given and say nothing because of `beside`."""
    given = [flag for name, flag in unused.items() if is_given(context, name)]
    if given:
        raise CliError(f"{', '.join(given)}: has no effect with {beside}, {why}")


def check_default(context: typer.Context, schema: str | None, alone: bool) -> None:
    """`--default` goes with --topic; `alone`: it may stand without."""
    if schema is not None:
        refuse_unused(
            context, "--schema", {"default": "--default"}, "which has a default of its own"
        )
    elif not alone and not is_given(context, "topic") and is_given(context, "default"):
        raise CliError(
            "--default: has no effect without --topic, which says what does not go there"
        )


def check_consume(context: typer.Context, capture: str | None) -> None:
    """A capture needs no broker, and is of one application."""
    if capture is not None:
        unused = {"application": "--application", "url": "--url"}
        refuse_unused(context, "--capture", unused, "which is read instead of a broker")


def check_inspect(context: typer.Context) -> None:
    """What is written to a capture is not printed."""
    unused = {"missing": "--missing", "json": "--json"}
    refuse_unused(context, "--capture", unused, "which prints nothing of the messages")


def check_simulate(context: typer.Context, lines: str | None, capture: str | None) -> None:
    """A file takes no pace, and lines no bad network."""
    if lines is not None:
        refuse_unused(
            context, "--lines", UNSENT | UNPERTURBED, "which has the blocks and sends nothing"
        )
    if capture is not None:
        refuse_unused(context, "--capture", UNSENT, "which is a file and sends nothing")
