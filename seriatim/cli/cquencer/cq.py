"""`seriatim cq`: the broker with cquencer's own command line.

It is `seriatim serve` with cquencer's port and one feed, without NATS clients or a journal. Error
messages use this command's names for the settings.
"""

import os
from dataclasses import replace
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from broker.settings.errors import WrongSettings
from seriatim.cli.completion import one_of

# The names of the settings: in `resolve`, and here.
NAMES = {
    "--sequencer_port": "TCP_PORT",
    "--sequencer_framing": "--framing",
    "--sequencer_subject": "--subject",
    "--feed": "the feed",
}
# For `serve` cquencer's port is optional; here it is the command's purpose.
ANY_PORT = "give 1 to 65535, or -1 for any free port"
OR_NONE = ", or 0 for none"
# These messages name their subject themselves.
SENTENCES = ("--feed: the feed ", "--feed: a feed ")


TcpPort = Annotated[
    str,
    typer.Argument(
        metavar="TCP_PORT",
        help="The port that accepts messages (-1: any free port).",
        show_default=False,
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
        help="The interface to send by: its name or IPv4 address. Default: the routing table's.",
        show_default=False,
    ),
]
Framing = Annotated[
    str,
    typer.Option(
        metavar="recv|netstring",
        help="Where a message ends: at the end of one recv, or of a netstring.",
        autocompletion=one_of(("recv", "netstring")),
    ),
]
Ttl = Annotated[str, typer.Option(metavar="COUNT", help="How many networks a datagram may cross.")]
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
    typer.Option(*("-p", "--port"), metavar="PORT", help="A port for NATS clients, too (0: none)."),
]
Subject = Annotated[
    str, typer.Option(metavar="SUBJECT", help="The subject of the messages, for NATS clients.")
]
HttpPort = Annotated[
    str, typer.Option("-m", "--http_port", metavar="PORT", help="Monitoring's port (0: off).")
]
StoreDir = Annotated[
    str | None,
    typer.Option(
        *("-sd", "--store_dir"),
        metavar="DIR",
        help="Keep a journal there. Without one, a restart begins at number 1 again.",
    ),
]
Debug = Annotated[
    bool, typer.Option("-D", "--debug", metavar=" ", help="Log connections and disconnections.")
]


class PortFirst(TyperCommand):
    """A command whose first argument is a port: -1 is any free port, not an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept -1 as an argument; any other unknown option is an extra argument."""
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
    """Act as cquencer: number what comes in by TCP, and multicast it.

    One recv is one message, and its number is the answer; one byte asks for the
    last number. docs/from-cquencer.md says what is the same as in cquencer and what differs.
    [bold]seriatim serve[/bold] does the same and more: several feeds, other limits.

    [bold]Examples[/bold]

    [cyan]seriatim cq 3001 239.0.0.1 1234[/cyan]
    [cyan]seriatim cq 3001 239.0.0.1 1234 --interface 127.0.0.1[/cyan]   on this machine only
    [cyan]seriatim cq 3001 239.0.0.1 1234 --framing netstring[/cyan]     pipelining is safe
    [cyan]seriatim cq 3001 239.0.0.1 1234 --store_dir cq -p 4222[/cyan]  keeps numbers; serves NATS
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
    """The settings: the given flags, else the environment. Raises `WrongSettings`."""
    from broker.settings.resolve import resolve

    problems = []
    if flags["sequencer.port"] == "0":
        problems.append(f"TCP_PORT: 0 is not a port to listen on; {ANY_PORT}")
        flags = {**flags, "sequencer.port": "-1"}  # so that the other problems are reported, too
    try:
        effective = resolve(flags, os.environ, None, problems)
    except WrongSettings as wrong:
        raise WrongSettings([_renamed(problem) for problem in wrong.problems]) from None
    return replace(effective, sources=effective.sources._replace(lists_clients=True))


def _renamed(problem: str) -> str:
    if problem.startswith(SENTENCES):
        return problem.removeprefix("--feed: ")
    for name, ours in NAMES.items():
        if problem.startswith(f"{name}:"):
            return ours + problem.removeprefix(name).replace(ANY_PORT + OR_NONE, ANY_PORT)
    return problem
