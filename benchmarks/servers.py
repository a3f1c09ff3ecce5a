"""The servers under test, as data: a name, the frame it delivers, and its command.

In a command, `{port}` is the port to listen on and `{bin}` the directory of this Python's
commands. nats-server runs with its defaults (no JetStream, no monitoring), as Seriatim does.
"""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import cast, get_args

from benchmarks.errors import BenchmarkError
from benchmarks.wire import Frame

BASELINE = "nats-server"
DEFAULT = ("seriatim", BASELINE)
SERIATIM = "{bin}/seriatim serve -a 127.0.0.1 -p {port}"


@dataclass(frozen=True, slots=True)
class Server:
    """One server under test."""

    name: str
    frame: Frame
    command: str
    uncompiled: bool = False  # runs a copy of our sources that has no compiled module
    scale: float = 1.0  # of each scenario's messages: what is slow needs fewer for the same time

    def arguments(self, port: int) -> list[str]:
        """Return the command's words, ready to be executed."""
        directory = Path(sys.executable).parent
        return [word.format(port=port, bin=directory) for word in shlex.split(self.command)]


KNOWN = {
    server.name: server
    for server in (
        Server("seriatim", "netstring", f"{SERIATIM} --loop asyncio"),
        Server("seriatim-uvloop", "netstring", f"{SERIATIM} --loop uvloop"),
        Server("seriatim-header", "header", f"{SERIATIM} --loop asyncio --frame header"),
        Server("seriatim-none", "none", f"{SERIATIM} --loop asyncio --frame none"),
        Server("seriatim-uncompiled", "netstring", f"{SERIATIM} --loop asyncio", True, 0.05),
        Server(BASELINE, "none", "{bin}/nats-server -a 127.0.0.1 -p {port}"),
    )
}


def server_from_option(text: str) -> Server:
    """Read `NAME[:FRAME]=COMMAND`, the way to try another build or another server."""
    label, _, command = text.partition("=")
    name, _, frame = label.partition(":")
    frame = frame or (KNOWN[name].frame if name in KNOWN else "netstring")
    if not name or "{port}" not in command or frame not in get_args(Frame):
        raise BenchmarkError(
            f"--server-cmd {text!r}: write NAME[:FRAME]=COMMAND with {{port}} in the command; "
            f"the frames are {', '.join(get_args(Frame))}"
        )
    return Server(name, cast(Frame, frame), command)
