"""Refuses flags that would have no effect beside others. All functions raise `CliError`."""

from collections.abc import Mapping

import typer

from seriatim.cli.broker_access import access_flags
from seriatim.cli.errors import CliError

# Parameters of `simulate` that have no effect when the chain is not sent.
UNSENT = {"application": "--application", "rate": "--rate", **access_flags()}
UNPERTURBED = {name: f"--{name}" for name in ("producers", "duplicates", "reorder", "loss")}


def is_given(context: typer.Context, name: str) -> bool:
    """True if a parameter was given on the command line, not by an environment variable."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def refuse_unused(context: typer.Context, beside: str, unused: Mapping[str, str], why: str) -> None:
    """Refuse given parameters that have no effect because of `beside`."""
    given = [flag for name, flag in unused.items() if is_given(context, name)]
    if given:
        raise CliError(f"{', '.join(given)}: has no effect with {beside}, {why}")


def check_default(context: typer.Context, schema: str | None, alone: bool) -> None:
    """Refuse `--default` without --topic, unless `alone`; also with --schema."""
    if schema is not None:
        refuse_unused(
            context, "--schema", {"default": "--default"}, "which has a default of its own"
        )
    elif not alone and not is_given(context, "topic") and is_given(context, "default"):
        raise CliError(
            "--default: has no effect without --topic, which says what does not go there"
        )


def check_consume(context: typer.Context, capture: str | None) -> None:
    """Refuse broker and application with --capture: a capture file replaces both."""
    if capture is not None:
        unused = {"application": "--application", **access_flags("token")}
        refuse_unused(context, "--capture", unused, "which is read instead of a broker")


def check_inspect(context: typer.Context) -> None:
    """Refuse flags for printing with --capture, which prints no messages."""
    unused = {"missing": "--missing", "json": "--json"}
    refuse_unused(context, "--capture", unused, "which prints nothing of the messages")


def check_simulate(context: typer.Context, lines: str | None, capture: str | None) -> None:
    """Refuse the flags for sending with a file; with --lines, those for network faults, too."""
    if lines is not None:
        refuse_unused(
            context, "--lines", UNSENT | UNPERTURBED, "which has the blocks and sends nothing"
        )
    if capture is not None:
        refuse_unused(context, "--capture", UNSENT, "which is a file and sends nothing")
