"""`seriatim cq`: the broker as cquencer's own command, for those who know it.

It is `seriatim serve` with the port, one feed, no NATS clients and no journal, and says what is
wrong by the names that this command has.
"""

import os
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from broker.settings.errors import WrongSettings

# What `resolve` calls the settings, and what they are called here.
NAMES = {
    "--sequencer_port": "TCP_PORT",
    "--sequencer_framing": "--framing",
    "--sequencer_subject": "--subject",
    "--feed": "the feed",
}
# `serve` may do without cquencer's port; here there is nothing without it.
ANY_PORT = "give 1 to 65535, or -1 for any free port"
OR_NONE = ", or 0 for none"
# These say themselves what they are about.
SENTENCES = ("--feed: the feed ", "--feed: a feed ")


TcpPort = Annotated[
    str,
    typer.Argument(
        metavar="TCP_PORT", help="Where messages come in (-1: any free port).", show_default=False
    ),
]
Group = Annotated[
    str, typer.Argument(metavar="GROUP", help="The multicast group.", show_default=False)
]
GroupPort = Annotated[
    str, typer.Argument(metavar="MCAST_PORT", help="Its port.", show_default=False)
]
Interface = Annotated[
    str,
    typer.Option(
        metavar="INTERFACE",
        help="What to send by: its name, or IPv4 address. Without, what the routes say.",
        show_default=False,
    ),
]
Framing = Annotated[
    str,
    typer.Option(
        metavar="recv|netstring",
        help="Where a message ends: with what one recv gives, or as a netstring says.",
    ),
]
Ttl = Annotated[str, typer.Option(metavar="COUNT", help="How many networks a datagram may reach.")]
Codec = Annotated[
    str,
    typer.Option(
        metavar="CODEC",
        help="netstring, netstring-subject, binary, moldudp64, or a class of your own.",
    ),
]
Host = Annotated[str, typer.Option("-a", "--host", metavar="HOST", help="The address of TCP_PORT.")]
Port = Annotated[
    str,
    typer.Option(
        *("-p", "--port"), metavar="PORT", help="Let NATS clients in by this port (0: none)."
    ),
]
Subject = Annotated[str, typer.Option(metavar="SUBJECT", help="What they know the messages by.")]
HttpPort = Annotated[
    str, typer.Option("-m", "--http_port", metavar="PORT", help="Monitoring's port (0: off).")
]
StoreDir = Annotated[
    str | None,
    typer.Option(
        *("-sd", "--store_dir"),
        metavar="DIR",
        help="Keep a journal there. Without, a restart begins with number 1 again.",
    ),
]
Debug = Annotated[bool, typer.Option("-D", "--debug", metavar=" ", help="Log who comes and goes.")]


class PortFirst(TyperCommand):
    """A command with a port among its arguments, where -1 is any free one and no option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take -1 for what it is; whatever else is no option is one argument too many."""
        ctx.ignore_unknown_options = "-1" in args
        return super().parse_args(ctx, args)


def cq(
    tcp_port: TcpPort,
    group: Group,
    multicast_port: GroupPort,
    interface: Interface = "",
    framing: Framing = "recv",
    ttl: Ttl = "1",
    codec: Codec = "netstring",
    host: Host = "0.0.0.0",
    port: Port = "0",
    subject: Subject = "cq",
    http_port: HttpPort = "0",
    store_dir: StoreDir = None,
    debug: Debug = False,
) -> None:
    """Be cquencer: number what comes in by TCP, and multicast it.

    One recv is one message, and its number is the answer; one byte asks for the
    last number. docs/cquencer.md tells what is as it was, and what is right now.
    [bold]seriatim serve[/bold] does the same and all the rest: more feeds, other limits.

    [bold]Examples[/bold]

    [cyan]seriatim cq 3001 239.0.0.1 1234[/cyan]
    [cyan]seriatim cq 3001 239.0.0.1 1234 --interface 127.0.0.1[/cyan]   on this machine only
    [cyan]seriatim cq 3001 239.0.0.1 1234 --framing netstring[/cyan]     pipelining is safe
    [cyan]seriatim cq 3001 239.0.0.1 1234 --store_dir cq -p 4222[/cyan]  numbers go on; NATS, too
    """
    from seriatim.cli.serve import become_broker

    place = f"[{group}]" if ":" in group else group
    options = {"interface": interface, "ttl": ttl, "codec": codec}
    given = "".join(f",{name}={value}" for name, value in options.items() if value)
    become_broker(
        settings_of(
            {
                "sequencer.port": tcp_port,
                "sequencer.framing": framing,
                "sequencer.subject": subject,
                "feeds": [f"{place}:{multicast_port}{given}"],
                "host": host,
                "port": port,
                "http_port": http_port,
                "journal.enabled": store_dir is not None,
                "debug": debug,
                **({} if store_dir is None else {"store_dir": store_dir}),
            }
        )
    )


def settings_of(flags: dict[str, Any]) -> Any:
    """The settings, with the environment's for all that is not given. Raises `WrongSettings`."""
    from broker.settings.resolve import resolve

    problems = []
    if flags["sequencer.port"] == "0":
        problems.append(f"TCP_PORT: 0 is not a port to listen on; {ANY_PORT}")
        flags = {**flags, "sequencer.port": "-1"}  # the others are to be told, too
    try:
        return resolve(flags, os.environ, None, problems).settings
    except WrongSettings as wrong:
        raise WrongSettings([_renamed(problem) for problem in wrong.problems]) from None


def _renamed(problem: str) -> str:
    if problem.startswith(SENTENCES):
        return problem.removeprefix("--feed: ")
    for name, ours in NAMES.items():
        if problem.startswith(f"{name}:"):
            return ours + problem.removeprefix(name).replace(ANY_PORT + OR_NONE, ANY_PORT)
    return problem
