"""The commands of `seriatim stream`, declared for typer."""

import json as jsons
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seriatim.cli.broker_access import BrokerAccess, read_access
from seriatim.cli.completion import consumer_names, stream_names
from seriatim.cli.errors import CliError
from seriatim.settings.shared_options import Json, with_options

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from seriatim.cli.stream.jetstream_api import JetStreamApi

app = typer.Typer(
    name="stream",
    help="""See the streams and consumers of a running broker, and delete one.

    The broker runs with -js. Clients do all other work with streams, and so does the
    command line of NATS: [bold]nats stream[/bold], [bold]nats consumer[/bold].

    [bold]Examples[/bold]

    [cyan]seriatim stream ls[/cyan]
    [cyan]seriatim stream info ORDERS[/cyan]
    [cyan]seriatim stream consumers ORDERS[/cyan]
    [cyan]seriatim stream rm ORDERS[/cyan]
    """,
    short_help="See the streams and consumers of a running broker, and delete one.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Stream = Annotated[
    str,
    typer.Argument(
        metavar="STREAM",
        help="The name of a stream.",
        show_default=False,
        autocompletion=stream_names,
    ),
]
Consumer = Annotated[
    str | None,
    typer.Argument(
        metavar="[CONSUMER]",
        help="One of its consumers.",
        show_default=False,
        autocompletion=consumer_names,
    ),
]


@app.command("ls")
@with_options(access=read_access)
def list_streams(json: Json = False, *, access: BrokerAccess) -> None:
    """List the streams.

    [bold]Examples[/bold]

    [cyan]seriatim stream ls[/cyan]
    [cyan]seriatim stream ls --json | jq '.[].config.name'[/cyan]
    """
    from seriatim.cli.stream.stream_listing import print_streams

    found = _ask(access, lambda api: api.streams())
    if json:
        _print_json(found)
    elif found:
        print_streams(found)
    else:
        print("seriatim: there are no streams yet", file=sys.stderr)


@app.command()
@with_options(access=read_access)
def info(
    stream: Stream, consumer: Consumer = None, json: Json = False, *, access: BrokerAccess
) -> None:
    """Show a stream, or one of its consumers.

    [bold]Examples[/bold]

    [cyan]seriatim stream info ORDERS[/cyan]
    [cyan]seriatim stream info ORDERS desk[/cyan]
    [cyan]seriatim stream info ORDERS --json | jq .state.messages[/cyan]
    """
    from seriatim.cli.stream.stream_listing import consumer_facts, print_facts, stream_facts

    _check(stream, consumer)
    if consumer is None:
        found = _ask(access, lambda api: api.stream(stream))
        facts = stream_facts
    else:
        found = _ask(access, lambda api: api.consumer(stream, consumer))
        facts = consumer_facts
    if json:
        _print_json(found)
    else:
        print_facts(facts(found))


@app.command()
@with_options(access=read_access)
def consumers(stream: Stream, json: Json = False, *, access: BrokerAccess) -> None:
    """List the consumers of a stream.

    [bold]Examples[/bold]

    [cyan]seriatim stream consumers ORDERS[/cyan]
    [cyan]seriatim stream consumers ORDERS --json | jq '.[].num_pending'[/cyan]
    """
    from seriatim.cli.stream.stream_listing import print_consumers

    _check(stream)
    found = _ask(access, lambda api: api.consumers(stream))
    if json:
        _print_json(found)
    elif found:
        print_consumers(found)
    else:
        print(f"seriatim: {stream} has no consumers", file=sys.stderr)


@app.command()
@with_options(access=read_access)
def rm(
    stream: Stream,
    consumer: Consumer = None,
    yes: Annotated[
        bool, typer.Option("-y", "--yes", "-f", metavar=" ", help="Do not ask.")
    ] = False,
    *,
    access: BrokerAccess,
) -> None:
    """Delete a stream with its consumers, or one consumer; asks before.

    The messages stay in the journal: a new stream with `first_seq` has them again.
    The positions of the consumers are lost.

    [bold]Examples[/bold]

    [cyan]seriatim stream rm ORDERS[/cyan]
    [cyan]seriatim stream rm ORDERS desk --yes[/cyan]
    """
    _check(stream, consumer)
    if not yes:
        what = _ask(access, lambda api: _what_goes(api, stream, consumer))
        if not sys.stdin.isatty():
            raise CliError(f"{what}; give --yes to confirm")
        typer.confirm(f"{what}. Delete it?", abort=True)
    if consumer is None:
        _ask(access, lambda api: api.delete_stream(stream))
        print(f"deleted stream {stream}; its messages are still in the journal")
    else:
        _ask(access, lambda api: api.delete_consumer(stream, consumer))
        print(f"deleted consumer {consumer} of {stream}")


async def _what_goes(api: "JetStreamApi", stream: str, consumer: str | None) -> str:
    """Say what would be deleted."""
    from seriatim.cli.stream.stream_listing import counted

    if consumer is None:
        state = (await api.stream(stream))["state"]
        messages, count = state["messages"], state["consumer_count"]
        having = f"{counted(messages, 'message', 'messages')}, and"
        return f"{stream} has {having} {counted(count, 'consumer', 'consumers')}"
    found = await api.consumer(stream, consumer)
    pending, unacked = found["num_pending"], found["num_ack_pending"]
    having = f"{counted(pending, 'message', 'messages')} pending, and {unacked:,} unacknowledged"
    return f"{consumer} of {stream} has {having}"


def _check(stream: str, consumer: str | None = None) -> None:
    from seriatim.cli.stream.jetstream_api import checked_name

    checked_name(stream, "stream")
    if consumer is not None:
        checked_name(consumer, "consumer")


def _ask(access: BrokerAccess, use: "Callable[[JetStreamApi], Awaitable[Any]]") -> Any:
    import asyncio

    from seriatim.cli.stream.jetstream_api import with_api

    return asyncio.run(with_api(access, use))


def _print_json(found: Any) -> None:
    from seriatim.cli.printable import printable_json

    print(printable_json(jsons.dumps(found, indent=2)))
