"""`seriatim cardinal`: blocks of a chain over the broker, by the Cardinal Streams protocol."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from seriatim.cli.broker_access import BrokerAccess, access_flags, read_access
from seriatim.cli.errors import CliError, UsageError
from seriatim.settings.shared_options import First, Last, with_options

if TYPE_CHECKING:
    from cardinal.simulation import Plan

app = typer.Typer(
    name="cardinal",
    help="""Publish and follow the blocks of a chain: Cardinal Streams, version 1.

    [bold]Examples[/bold]

    [cyan]seriatim cardinal simulate --lines blocks.jsonl[/cyan]   make up a chain
    [cyan]seriatim cardinal produce blocks.jsonl[/cyan]            publish its blocks
    [cyan]seriatim cardinal consume[/cyan]                         print the blocks, in order
    [cyan]seriatim cardinal inspect[/cyan]                         print its messages in the journal
    """,
    short_help="Publish and follow the blocks of a chain: Cardinal Streams.",
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Application = Annotated[
    str,
    typer.Option(
        *("-a", "--application"), metavar="NAME", help="The word after `cardinal.` in subjects."
    ),
]
SchemaFile = Annotated[
    str | None,
    typer.Option(
        *("--schema",),
        metavar="FILE",
        help="A TOML file: `default`, and a table `topics` that maps patterns to topics.",
        show_default=False,
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        *("--topic",),
        metavar="PATTERN=TOPIC",
        help="Instead of --schema: the topic of keys that begin with PATTERN; repeatable.",
    ),
]
Default = Annotated[
    str,
    typer.Option("--default", metavar="TOPIC", help="With --topic: the topic of all other keys."),
]

NAME, DEFAULT = "chain", "blocks"
# Parameters of `simulate` that have no effect when the chain is not sent.
UNSENT = {"application": "--application", "rate": "--rate", **access_flags()}
UNPERTURBED = {name: f"--{name}" for name in ("producers", "duplicates", "reorder", "loss")}


@app.command()
@with_options(access=read_access)
def produce(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE.jsonl", help="One block a line; - for standard input.", show_default=False
        ),
    ],
    application: Application = NAME,
    schema: SchemaFile = None,
    topic: Topics = None,
    default: Default = DEFAULT,
    rate: Annotated[
        float,
        typer.Option(min=0, metavar="N", help="At most this many blocks per second. 0: no limit."),
    ] = 0.0,
    *,
    access: BrokerAccess,
) -> None:
    """Publish the blocks of a file, each as the messages of the protocol.

    A line is a JSON object with number, hash, parent, weight, updates, deletes, batches; the last
    four are optional. Hashes and values are hex, prefixed with 0x. See docs/cardinal.md.
    A file is checked to its end before anything is published; standard input is checked line by
    line. Publishing a file twice does no harm: the broker drops the duplicates by their ids.

    [bold]Examples[/bold]

    [cyan]seriatim cardinal produce blocks.jsonl[/cyan]
    [cyan]seriatim cardinal produce blocks.jsonl --topic 'a/=accounts' --topic 'l/=logs'[/cyan]
    [cyan]tail -f blocks.jsonl | seriatim cardinal produce - -a evm --schema evm.toml[/cyan]
    """
    from seriatim.cli.cardinal import cardinal_produce
    from seriatim.cli.cardinal.cardinal_schema import application_name, read_schema

    _check_default(context, schema, alone=True)
    wanted = cardinal_produce.ProduceOptions(
        file, application_name(application), read_schema(schema, topic, default), rate
    )
    done = cardinal_produce.produce(access, wanted)
    print(f"published {done.blocks} blocks in {done.messages} messages, up to number {done.last}")


@app.command()
@with_options("token", access=read_access)  # which is where to continue
def consume(
    context: typer.Context,
    application: Application = NAME,
    schema: SchemaFile = None,
    topic: Topics = None,
    default: Default = DEFAULT,
    track: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Only keys that begin with PATTERN; repeatable. Needs the schema.",
        ),
    ] = None,
    from_block: Annotated[
        str | None,
        typer.Option(
            metavar="BLOCK",
            help="Print from this block on: its number or its hash (0x...). "
            "Of a deeper reorg, only blocks with this number or a higher one are printed.",
            show_default=False,
        ),
    ] = None,
    after_block: Annotated[
        str | None,
        typer.Option(
            metavar="HASH",
            help="Continue after the last block that was applied.",
            show_default=False,
        ),
    ] = None,
    token: Annotated[
        str,
        typer.Option(
            metavar="TOKEN",
            help="With --after-block: the token that was printed with it.",
            show_default=False,
        ),
    ] = "",
    threshold: Annotated[
        int, typer.Option(min=0, metavar="N", help="Follow reorgs of up to this many blocks.")
    ] = 128,
    hold: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Without --after-block: how long the first block waits for its parent.",
        ),
    ] = 5.0,
    count: Annotated[
        int,
        typer.Option("-n", "--count", min=0, metavar="N", help="Stop after this many. 0: never."),
    ] = 0,
    once: Annotated[
        bool, typer.Option("--once", metavar=" ", help="Stop at the current end of the stream.")
    ] = False,
    brief: Annotated[
        bool, typer.Option("--brief", metavar=" ", help="Print the number of keys, not the keys.")
    ] = False,
    capture: Annotated[
        str | None,
        typer.Option(
            "--capture",
            metavar="FILE",
            help="Read a capture to its end, instead of a broker.",
            show_default=False,
        ),
    ] = None,
    *,
    access: BrokerAccess,
) -> None:
    """Collect the blocks and print how the chain changes: a line of JSON for each update.

    A line has the blocks `removed` and those `added`, both oldest first, and a `token` to continue
    after it. Dropped messages and abandoned blocks are reported on standard error.

    [bold]Examples[/bold]

    [cyan]seriatim cardinal consume[/cyan]                           the whole past, then live
    [cyan]seriatim cardinal consume --once --from-block 100 --brief[/cyan]
    [cyan]seriatim cardinal consume --topic 'a/=accounts' --track a/ | jq .added[].updates[/cyan]
    [cyan]seriatim cardinal consume --after-block 0x5f.. --token 1141c2c3a6b8558d=88485[/cyan]
    """
    from seriatim.cli.cardinal import cardinal_consume
    from seriatim.cli.cardinal.cardinal_schema import application_name, read_tracking

    _check_default(context, schema, alone=False)
    _check_consume(context, capture)
    wanted = cardinal_consume.ConsumeOptions(
        application_name(application),
        read_tracking(schema, topic, default, track),
        cardinal_consume.read_beginning(from_block, after_block, token),
        threshold,
        count,
        once,
        brief,
        capture,
        hold,
    )
    try:
        whole = cardinal_consume.consume(access, wanted)
    except KeyboardInterrupt:
        if count or once:
            raise  # the wanted block did not come
        return
    raise typer.Exit(0 if whole else 1)


@app.command()
def inspect(
    context: typer.Context,
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="[DIR|FILE]",
            help="A journal, by default where `seriatim serve` keeps it; or a capture.",
            show_default=False,
        ),
    ] = None,
    application: Annotated[
        str | None,
        typer.Option(
            *("-a", "--application"),
            metavar="NAME",
            help="Only this application; by default all.",
            show_default=False,
        ),
    ] = None,
    first: First = None,
    last: Last = None,
    block: Annotated[
        str | None,
        typer.Option(
            metavar="BLOCK",
            help="Only the messages of this block: its hash (0x...), or the beginning of it.",
            show_default=False,
        ),
    ] = None,
    missing: Annotated[
        bool,
        typer.Option("--missing", metavar=" ", help="Only incomplete blocks, and what is missing."),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", metavar=" ", help="Print JSON, one object a line.")
    ] = False,
    capture: Annotated[
        str | None,
        typer.Option(
            "--capture",
            metavar="FILE",
            help="Write the messages of one application to a capture; print none.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print the messages of a journal or a capture, one a line, and what incomplete blocks lack.

    The message that completes a block says so. At the end comes a line for each incomplete block.
    The exit status is 1 if there is such a block, or a malformed message.

    [bold]Examples[/bold]

    [cyan]seriatim cardinal inspect[/cyan]
    [cyan]seriatim cardinal inspect /var/lib/seriatim --from 88485 --block 0x5f[/cyan]
    [cyan]seriatim cardinal inspect stream.capture --missing[/cyan]
    [cyan]seriatim cardinal inspect -a chain --to 9000 --capture old.capture[/cyan]
    [cyan]seriatim cardinal inspect --json | jq 'select(.type == "Batch")'[/cyan]
    """
    from seriatim.cli.cardinal import cardinal_inspect
    from seriatim.cli.cardinal.cardinal_schema import application_name

    if first is not None and last is not None and last < first:
        raise UsageError(f"--to {last} is before --from {first}")
    wanted = cardinal_inspect.InspectOptions(
        None if application is None else application_name(application),
        first,
        last,
        cardinal_inspect.read_block(block),
        missing,
        json,
    )
    if capture is None:
        whole = cardinal_inspect.inspect(path, wanted)
    else:
        _check_inspect(context)
        whole = cardinal_inspect.capture(path, wanted, capture)
    raise typer.Exit(0 if whole else 1)


def plan_of(
    *,
    blocks: Annotated[int, typer.Option(min=1, metavar="N", help="How many blocks.")] = 100,
    updates: Annotated[int, typer.Option(min=0, metavar="N", help="Updates per block.")] = 20,
    value_bytes: Annotated[int, typer.Option(min=0, metavar="N", help="Bytes per value.")] = 64,
    sub_batch: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Updates per block in a sub-batch. 0: no sub-batch."),
    ] = 3,
    forks: Annotated[
        float,
        typer.Option(min=0, max=1, metavar="P", help="The probability of a fork at each block."),
    ] = 0.1,
    fork_depth: Annotated[
        int, typer.Option(min=1, metavar="N", help="A fork replaces at most this many blocks.")
    ] = 3,
    producers: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many redundant producers send everything.")
    ] = 1,
    duplicates: Annotated[
        float, typer.Option(min=0, max=1, metavar="P", help="The fraction of messages sent twice.")
    ] = 0.0,
    reorder: Annotated[
        int, typer.Option(min=0, metavar="N", help="Messages arrive up to this many places late.")
    ] = 0,
    loss: Annotated[
        float, typer.Option(min=0, max=1, metavar="P", help="The fraction of messages never sent.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed makes the same chain.")] = 0,
) -> "Plan":
    """Return the chain to make up, and what the network does to its messages."""
    from cardinal.simulation import Plan

    return Plan(
        blocks=blocks,
        updates=updates,
        value_bytes=value_bytes,
        sub_batch=sub_batch,
        forks=forks,
        fork_depth=fork_depth,
        producers=producers,
        duplicates=duplicates,
        reorder=reorder,
        loss=loss,
        seed=seed,
    )


@app.command()
@with_options(plan=plan_of, access=read_access)
def simulate(
    context: typer.Context,
    application: Application = NAME,
    rate: Annotated[
        float, typer.Option(min=0, metavar="N", help="Blocks per second. 0: no limit.")
    ] = 0.0,
    lines: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Publish nothing; write the blocks to a file for `produce`."
        ),
    ] = None,
    capture: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Publish nothing; write the messages to a capture."),
    ] = None,
    schema: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the schema of the chain to this file.")
    ] = None,
    *,
    plan: "Plan",
    access: BrokerAccess,
) -> None:
    """Make up a chain with forks, and publish it as redundant producers on a bad network would.

    All copies of a message have the same id, so the broker numbers it once. At the end, prints the
    head and the state that a consumer must arrive at.

    [bold]Examples[/bold]

    [cyan]seriatim cardinal simulate --blocks 1000 --rate 10[/cyan]
    [cyan]seriatim cardinal simulate --producers 3 --loss 0.05 --reorder 200 --seed 7[/cyan]
    [cyan]seriatim cardinal simulate --lines blocks.jsonl --schema chain.toml[/cyan]
    [cyan]seriatim cardinal simulate --loss 0.01 --capture bad.capture[/cyan]
                                              then: seriatim cardinal inspect bad.capture --missing
    """
    from seriatim.cli.cardinal import cardinal_simulate
    from seriatim.cli.cardinal.cardinal_schema import application_name

    _check_simulate(context, lines, capture)
    target = cardinal_simulate.SimulationTarget(
        application_name(application), access, rate, lines, capture
    )
    cardinal_simulate.simulate(plan, target, schema)


# Flags that would have no effect beside others are refused.


def _is_given(context: typer.Context, name: str) -> bool:
    """True if a parameter was given on the command line, not by an environment variable."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _refuse_unused(
    context: typer.Context, beside: str, unused: Mapping[str, str], why: str
) -> None:
    """Refuse given parameters that have no effect because of `beside`."""
    given = [flag for name, flag in unused.items() if _is_given(context, name)]
    if given:
        raise CliError(f"{', '.join(given)}: has no effect with {beside}, {why}")


def _check_default(context: typer.Context, schema: str | None, alone: bool) -> None:
    """Refuse `--default` without --topic, unless `alone`; also with --schema."""
    if schema is not None:
        _refuse_unused(
            context, "--schema", {"default": "--default"}, "which has a default of its own"
        )
    elif not alone and not _is_given(context, "topic") and _is_given(context, "default"):
        raise CliError(
            "--default: has no effect without --topic, which says what does not go there"
        )


def _check_consume(context: typer.Context, capture: str | None) -> None:
    """Refuse broker and application with --capture: a capture file replaces both."""
    if capture is not None:
        unused = {"application": "--application", **access_flags("token")}
        _refuse_unused(context, "--capture", unused, "which is read instead of a broker")


def _check_inspect(context: typer.Context) -> None:
    """Refuse flags for printing with --capture, which prints no messages."""
    unused = {"missing": "--missing", "json": "--json"}
    _refuse_unused(context, "--capture", unused, "which prints nothing of the messages")


def _check_simulate(context: typer.Context, lines: str | None, capture: str | None) -> None:
    """Refuse the flags for sending with a file; with --lines, those for network faults, too."""
    if lines is not None:
        _refuse_unused(
            context, "--lines", UNSENT | UNPERTURBED, "which has the blocks and sends nothing"
        )
    if capture is not None:
        _refuse_unused(context, "--capture", UNSENT, "which is a file and sends nothing")
