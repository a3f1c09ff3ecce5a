"""The servers under test, as data: a name, the frame it delivers, its command, how it keeps.

In a command, `{port}` is the port to listen on, `{bin}` the directory of this Python's commands,
`{store}` a directory of this run's own for what the server keeps, and `{config}` a file that
holds `config`. All else is as it comes: JetStream syncs every 2 minutes, our journal every
100 ms.
"""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from benchmarks.errors import BenchmarkError
from benchmarks.wire import Frame

Keeps = Literal["", "journal", "jetstream"]  # whose language a client speaks about what is kept

BASELINE = "nats-server"
SERIATIM = "{bin}/seriatim serve -a 127.0.0.1 -p {port} --loop"
JOURNAL = f"{SERIATIM} asyncio --store_dir {{store}}"
NATS = "{bin}/nats-server -a 127.0.0.1 -p {port}"
ALWAYS = """\
listen: "127.0.0.1:{port}"
jetstream: {{ store_dir: "{store}", sync_interval: always }}
"""


@dataclass(frozen=True, slots=True)
class Server:
    """One server under test."""

    name: str
    frame: Frame
    command: str
    keeps: Keeps = ""
    config: str = ""
    uncompiled: bool = False  # runs a copy of our sources that has no compiled module
    scale: float = 1.0  # of each scenario's messages: what is slow needs fewer for the same time

    def arguments(self, port: int, place: Path) -> list[str]:
        """Return the command's words, ready to be executed; write `config` to `place` first."""
        values = {
            "port": port,
            "bin": Path(sys.executable).parent,
            "store": place / "store",
            "config": place / "config",
        }
        if self.config:
            (place / "config").write_text(self.config.format(**values))
        return [word.format(**values) for word in shlex.split(self.command)]


KNOWN = {
    server.name: server
    for server in (
        Server("seriatim", "netstring", JOURNAL, "journal"),
        Server("seriatim-always", "netstring", f"{JOURNAL} --sync always", "journal"),
        Server("seriatim-no-journal", "netstring", f"{SERIATIM} asyncio --no-journal"),
        Server("seriatim-bare", "netstring", f"{SERIATIM} asyncio --no-journal --ring_bytes 0"),
        Server("seriatim-uvloop", "netstring", f"{SERIATIM} uvloop --no-journal"),
        Server("seriatim-header", "header", f"{SERIATIM} asyncio --no-journal --frame header"),
        Server("seriatim-none", "none", f"{SERIATIM} asyncio --no-journal --frame none"),
        Server(
            "seriatim-uncompiled", "netstring", f"{SERIATIM} asyncio --no-journal",
            uncompiled=True, scale=0.05,
        ),
        Server(BASELINE, "none", NATS),
        Server("jetstream", "none", f"{NATS} -js -sd {{store}}", "jetstream", scale=0.1),
        Server(
            "jetstream-always", "none", "{bin}/nats-server -c {config}", "jetstream", ALWAYS,
            scale=0.1,
        ),
    )
}  # fmt: skip


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
    keeps: Keeps = "journal" if "{store}" in command else ""
    if name in KNOWN:
        keeps = KNOWN[name].keeps
    return Server(name, cast(Frame, frame), command, keeps)
