"""`seriatim destn`: prints a multicast group, as cquencer's own destn does, and in better forms.

datagrams       23:5:88485,11:hello world,,      as they come, nothing between them
--decode           88485  orders.new  hello world
--json          {"number": 88485, ...}           binary payloads in base64
--raw           hello world                      the payload alone, nothing between them
"""

from typing import Annotated

import typer

from seriatim.cli.errors import CliError, UsageError

VIEWS = ("decode", "json", "raw")
NUMBER_MAX = (1 << 63) - 2  # the last number that a message can have

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="The multicast group.")]
PortArgument = Annotated[
    int, typer.Argument(min=1, max=65535, metavar="PORT", help="Its port.", show_default=False)
]
Decode = Annotated[
    bool,
    typer.Option(
        "--decode", metavar=" ", help="Print number, subject and payload, a message a line."
    ),
]
Payloads = Annotated[
    bool,
    typer.Option("--raw", metavar=" ", help="Print only the payloads, with nothing between them."),
]
Interface = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS|NAME",
        help="Where to listen: a local address, or the name of an interface.",
        show_default=False,
    ),
]
CodecName = Annotated[
    str, typer.Option("--codec", metavar="NAME", help="The feed's codec, or package.module:Class.")
]
Second = Annotated[
    str,
    typer.Option(
        metavar="GROUP:PORT[,interface=..]",
        help="Another feed of the same messages; the first copy counts.",
        show_default=False,
    ),
]
Fill = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="The server to ask for missing messages: nats://HOST:PORT or mold://HOST:PORT.",
        show_default=False,
    ),
]
First = Annotated[
    int | None,
    typer.Option(
        "--from", min=1, max=NUMBER_MAX, metavar="N", help="Begin at number N, in the past."
    ),
]
Patience = Annotated[
    float | None,
    typer.Option(
        "--patience",
        min=0.0,
        max=60.0,
        metavar="SECONDS",
        help="How long a missing number may still come by itself before it is asked for, or lost."
        " By default 0.005; more for feeds whose datagrams overtake each other.",
        show_default=False,
    ),
]
Filtered = Annotated[
    str,
    typer.Option(
        metavar="SUBJECT", help="The feed's filter: numbers that it leaves out are not lost."
    ),
]
Count = Annotated[
    int, typer.Option("-n", "--count", min=0, metavar="N", help="Stop after this many. 0: never.")
]


def destn(
    group: GroupArgument,
    port: PortArgument,
    interface: Interface = "",
    codec: CodecName = "netstring",
    decode: Decode = False,
    json: Annotated[
        bool, typer.Option("--json", metavar=" ", help="Print JSON, one message a line.")
    ] = False,
    raw: Payloads = False,
    ordered: Annotated[
        bool,
        typer.Option("--ordered", metavar=" ", help="Each number once, in order; report losses."),
    ] = False,
    fill: Fill = "",
    first: First = None,
    second: Second = "",
    patience: Patience = None,
    filtered: Filtered = ">",
    count: Count = 0,
    stats: Annotated[
        bool, typer.Option("--stats", metavar=" ", help="Print totals at the end.")
    ] = False,
) -> None:
    """Show what a multicast group brings. Ctrl-C or SIGTERM ends it.

    Without options: prints the datagrams as they come, like cquencer's destn.
    --fill, --from, --second and --patience imply --ordered. Losses go to standard error.

    [bold]Examples[/bold]

    [cyan]seriatim destn 239.0.0.1 1234[/cyan]
    [cyan]seriatim destn 239.0.0.1 1234 --interface eth1 --decode[/cyan]
    [cyan]seriatim destn 239.0.0.1 1234 --ordered --fill nats://10.0.0.7:4222[/cyan]
                                  nothing lost, nothing twice
    [cyan]seriatim destn 239.0.0.1 1234 --fill nats://10.0.0.7:4222 --from 1 --json[/cyan]
                                  the whole past, then live
    [cyan]seriatim destn 239.0.0.1 1234 --second 239.0.0.2:1234,interface=eth2 --stats[/cyan]
    """
    from seriatim.cli.cquencer import destination
    from seriatim.cli.pubsub import pub

    if first is not None and not fill:
        raise UsageError("--from begins in the past, which a feed does not have; give --fill")
    pub.checked_subject(filtered, wildcards=True)
    ordered = bool(ordered or fill or second or patience is not None)
    _check_filter(filtered, codec, ordered)
    try:
        destination.listen(
            destination.feeds_of(group, port, interface, second),
            destination.DestinationOptions(
                codec=codec,
                fill=fill,
                start="live" if first is None else first,
                subject=filtered,
                view=_view(decode, json, raw),
                count=count,
                ordered=ordered,
                stats=stats,
                patience=destination.PATIENCE_SECONDS if patience is None else patience,
            ),
        )
    except KeyboardInterrupt:
        if count:
            raise  # lost numbers were reported


def _view(*on: bool) -> str:
    """The chosen view, or none."""
    chosen = [name for name, wanted in zip(VIEWS, on, strict=True) if wanted]
    if len(chosen) > 1:
        raise UsageError(f"give one of {' and '.join(f'--{name}' for name in chosen)}, not both")
    return chosen[0] if chosen else ""


def _check_filter(subject: str, codec: str, ordered: bool) -> None:
    """Refuse a filter that would have no effect on the output."""
    if subject != ">" and not ordered and codec != "moldudp64":
        raise CliError(
            "--filtered has no effect without --ordered, which reports losses: give"
            " --ordered, or leave it out"
        )
