"""`seriatim cardinal`: blocks of a chain over the broker, by the Cardinal Streams protocol."""

from typing import Annotated

import typer

from seriatim.cli.errors import CliError

app = typer.Typer(
    name="cardinal",
    help="""Blocks of a chain over the broker: Cardinal Streams, version 1.

    [bold]Examples[/bold]

    [cyan]seriatim cardinal simulate --lines blocks.jsonl[/cyan]   a chain to begin with
    [cyan]seriatim cardinal produce blocks.jsonl[/cyan]            its blocks, as messages
    [cyan]seriatim cardinal consume[/cyan]                         the blocks again, in order
    [cyan]seriatim cardinal inspect[/cyan]                         its messages in the journal
    """,
    short_help="Blocks of a chain over the broker, by Cardinal Streams.",
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
        help="A TOML file: `default`, and a table `topics` of patterns to topics.",
        show_default=False,
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        *("--topic",),
        metavar="PATTERN=TOPIC",
        help="Instead of --schema: keys that begin so are counted, and go there; repeatable.",
    ),
]
Default = Annotated[
    str, typer.Option("--default", metavar="TOPIC", help="With --topic: where all else goes.")
]
Url = Annotated[
    str,
    typer.Option(
        *("-s", "--url", "--server"),
        metavar="URL",
        envvar="SERIATIM_URL",
        help="The broker: nats://HOST:PORT, or HOST:PORT.",
    ),
]

# What `consume` takes.
Track = Annotated[
    list[str] | None,
    typer.Option(metavar="PATTERN", help="Only keys that begin so; repeatable. Needs the schema."),
]
FromBlock = Annotated[
    str | None,
    typer.Option(
        metavar="BLOCK",
        help="Print from this block on: its number, or its hash (0x...). "
        "Of a reorg that goes deeper, what has this number or a higher one.",
        show_default=False,
    ),
]
AfterBlock = Annotated[
    str | None,
    typer.Option(
        metavar="HASH", help="Continue after the last block that was applied.", show_default=False
    ),
]
Token = Annotated[
    str,
    typer.Option(
        metavar="TOKEN",
        help="With --after-block: the token printed with it.",
        show_default=False,
    ),
]
Threshold = Annotated[
    int, typer.Option(min=0, metavar="N", help="Follow reorgs of up to this many blocks.")
]
Hold = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="Without --after-block: how long the first block waits for a parent on its way.",
    ),
]
Count = Annotated[
    int, typer.Option("-n", "--count", min=0, metavar="N", help="Stop after this many. 0: never.")
]
Once = Annotated[
    bool, typer.Option("--once", metavar=" ", help="Stop at the current end of the stream.")
]
Captured = Annotated[
    str | None,
    typer.Option(
        "--capture",
        metavar="FILE",
        help="Read a capture instead, to its end, and no broker.",
        show_default=False,
    ),
]
Brief = Annotated[bool, typer.Option("--brief", metavar=" ", help="How many keys, and not which.")]

# What `simulate` takes.
Blocks = Annotated[int, typer.Option(min=1, metavar="N", help="How many blocks.")]
Updates = Annotated[int, typer.Option(min=0, metavar="N", help="Updates of a block.")]
ValueBytes = Annotated[int, typer.Option(min=0, metavar="N", help="Bytes of a value.")]
SubBatch = Annotated[
    int, typer.Option(min=0, metavar="N", help="Updates of a block in a sub-batch. 0: none.")
]
Forks = Annotated[float, typer.Option(min=0, max=1, metavar="P", help="How often a fork begins.")]
ForkDepth = Annotated[
    int, typer.Option(min=1, metavar="N", help="A fork replaces at most this many blocks.")
]
Producers = Annotated[
    int, typer.Option(min=1, metavar="N", help="How many producers send everything.")
]
Duplicates = Annotated[
    float, typer.Option(min=0, max=1, metavar="P", help="This part is sent twice.")
]
Reorder = Annotated[
    int, typer.Option(min=0, metavar="N", help="Messages come up to this many places late.")
]
Loss = Annotated[float, typer.Option(min=0, max=1, metavar="P", help="This part is never sent.")]
Pace = Annotated[
    float, typer.Option(min=0, metavar="N", help="Blocks a second. 0: as fast as it goes.")
]
Seed = Annotated[int, typer.Option(metavar="N", help="The same seed makes the same chain.")]

# What `inspect` takes.
OfBlock = Annotated[
    str | None,
    typer.Option(
        metavar="BLOCK",
        help="Only the messages of this block: its hash (0x...), or how it begins.",
        show_default=False,
    ),
]
OnlyMissing = Annotated[
    bool,
    typer.Option("--missing", metavar=" ", help="Only incomplete blocks, and what is missing."),
]
Json = Annotated[bool, typer.Option("--json", metavar=" ", help="A line of JSON for each.")]
CaptureTarget = Annotated[
    str | None,
    typer.Option(
        "--capture",
        metavar="FILE",
        help="Print no messages; write them to a capture, of one application.",
        show_default=False,
    ),
]

# Where `simulate` writes to.
Lines = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Publish nothing; write the blocks as lines for `produce`."),
]
Capture = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Publish nothing; write the messages to a capture."),
]
SchemaTarget = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write the schema of the chain to it.")
]
NAME, DEFAULT = "chain", "blocks"
DEFAULT_URL = "nats://127.0.0.1:4222"


@app.command()
def produce(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE.jsonl", help="A block a line; - for standard input.", show_default=False
        ),
    ],
    application: Application = NAME,
    schema: SchemaFile = None,
    topic: Topics = None,
    default: Default = DEFAULT,
    rate: Annotated[
        float,
        typer.Option(min=0, metavar="N", help="At most this many blocks a second. 0: no limit."),
    ] = 0.0,
    url: Url = DEFAULT_URL,
) -> None:
    """Publish the blocks of a file, each as the messages of the protocol.

    A line is a JSON object with number, hash, parent, weight, updates, deletes, batches; hashes
    and values are hex behind 0x, the last four may be left out. docs/cardinal.md has it in full.
    A file is checked to its end before anything is published; of standard input each line, with
    those before it. To publish it twice does no harm: the broker knows the messages by their ids.

    [bold]Examples[/bold]

    [cyan]seriatim cardinal produce blocks.jsonl[/cyan]
    [cyan]seriatim cardinal produce blocks.jsonl --topic 'a/=accounts' --topic 'l/=logs'[/cyan]
    [cyan]tail -f blocks.jsonl | seriatim cardinal produce - -a evm --schema evm.toml[/cyan]
    """
    from seriatim.cli.cardinal import cardinal_flags, cardinal_produce
    from seriatim.cli.cardinal.cardinal_schema import application_name, read_schema

    cardinal_flags.check_default(context, schema, alone=True)
    wanted = cardinal_produce.ProduceOptions(
        file, application_name(application), read_schema(schema, topic, default), rate
    )
    done = cardinal_produce.produce(url, wanted)
    print(f"published {done.blocks} blocks in {done.messages} messages, up to number {done.last}")


@app.command()
def consume(
    context: typer.Context,
    application: Application = NAME,
    schema: SchemaFile = None,
    topic: Topics = None,
    default: Default = DEFAULT,
    track: Track = None,
    from_block: FromBlock = None,
    after_block: AfterBlock = None,
    token: Token = "",
    threshold: Threshold = 128,
    hold: Hold = 5.0,
    count: Count = 0,
    once: Once = False,
    brief: Brief = False,
    capture: Captured = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Collect the blocks and print how the chain changes: a line of JSON for each update.

    A line has the blocks `removed`, those `added`, both oldest first, and the `token` with which
    one can go on behind it. What was dropped or given up is told on standard error.

    [bold]Examples[/bold]

    [cyan]seriatim cardinal consume[/cyan]                           all there is, then what comes
    [cyan]seriatim cardinal consume --once --from-block 100 --brief[/cyan]
    [cyan]seriatim cardinal consume --topic 'a/=accounts' --track a/ | jq .added[].updates[/cyan]
    [cyan]seriatim cardinal consume --after-block 0x5f.. --token 1141c2c3a6b8558d=88485[/cyan]
    """
    from seriatim.cli.cardinal import cardinal_consume, cardinal_flags
    from seriatim.cli.cardinal.cardinal_schema import application_name, read_tracking

    cardinal_flags.check_default(context, schema, alone=False)
    cardinal_flags.check_consume(context, capture)
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
        whole = cardinal_consume.consume(url, wanted)
    except KeyboardInterrupt:
        if count or once:
            raise  # what was asked for did not come
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
            help="Only this application's; by default all.",
            show_default=False,
        ),
    ] = None,
    first: Annotated[
        int | None,
        typer.Option("--from", min=1, metavar="N", help="The first number.", show_default=False),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option("--to", min=1, metavar="N", help="The last number.", show_default=False),
    ] = None,
    block: OfBlock = None,
    missing: OnlyMissing = False,
    json: Json = False,
    capture: CaptureTarget = None,
) -> None:
    """Print the messages of a journal or a capture, one a line, and what blocks lack.

    A message that makes its block whole says so. At the end comes a line for each block that is
    not whole. Status 1 if there is one, or a message that is none.

    [bold]Examples[/bold]

    [cyan]seriatim cardinal inspect[/cyan]
    [cyan]seriatim cardinal inspect /var/lib/seriatim --from 88485 --block 0x5f[/cyan]
    [cyan]seriatim cardinal inspect stream.capture --missing[/cyan]
    [cyan]seriatim cardinal inspect -a chain --to 9000 --capture old.capture[/cyan]
    [cyan]seriatim cardinal inspect --json | jq 'select(.type == "Batch")'[/cyan]
    """
    from seriatim.cli.cardinal import cardinal_flags, cardinal_inspect
    from seriatim.cli.cardinal.cardinal_schema import application_name

    if first is not None and last is not None and last < first:
        raise CliError(f"--to {last} is before --from {first}")
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
        cardinal_flags.check_inspect(context)
        whole = cardinal_inspect.capture(path, wanted, capture)
    raise typer.Exit(0 if whole else 1)


@app.command()
def simulate(
    context: typer.Context,
    application: Application = NAME,
    blocks: Blocks = 100,
    updates: Updates = 20,
    value_bytes: ValueBytes = 64,
    sub_batch: SubBatch = 3,
    forks: Forks = 0.1,
    fork_depth: ForkDepth = 3,
    producers: Producers = 1,
    duplicates: Duplicates = 0.0,
    reorder: Reorder = 0,
    loss: Loss = 0.0,
    rate: Pace = 0.0,
    seed: Seed = 0,
    lines: Lines = None,
    capture: Capture = None,
    schema: SchemaTarget = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Make up a chain with forks, and publish it as redundant producers on a bad network would.

    Copies of a message have one id, by which the broker knows them: it gives them one number.
    Prints what a consumer must end with.

    [bold]Examples[/bold]

    [cyan]seriatim cardinal simulate --blocks 1000 --rate 10[/cyan]
    [cyan]seriatim cardinal simulate --producers 3 --loss 0.05 --reorder 200 --seed 7[/cyan]
    [cyan]seriatim cardinal simulate --lines blocks.jsonl --schema chain.toml[/cyan]
    [cyan]seriatim cardinal simulate --loss 0.01 --capture bad.capture[/cyan]
                                          then: seriatim cardinal inspect bad.capture --missing
    """
    from cardinal.simulation import Plan
    from seriatim.cli.cardinal import cardinal_flags, cardinal_simulate
    from seriatim.cli.cardinal.cardinal_schema import application_name

    cardinal_flags.check_simulate(context, lines, capture)
    plan = Plan(
        seed=seed,
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
    )
    target = cardinal_simulate.SimulationTarget(
        application_name(application), url, rate, lines, capture
    )
    cardinal_simulate.simulate(plan, target, schema)
