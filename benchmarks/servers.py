"""The servers under test, as data: a name, the frame it delivers, its command, how it keeps.

In a command, `{port}` is the port to listen on, `{bin}` the directory of this Python's commands,
`{store}` a directory for what the server keeps in this run, `{config}` a file that contains
`config`, and `{group}` and `{feed_port}` the destination of multicast. Everything else has its
default: JetStream syncs every 2 minutes, Seriatim's journal every 100 ms.
"""

import os
import shlex
import socket
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast, get_args

from benchmarks.errors import BenchmarkError
from benchmarks.wire import Frame
from broker.clients.inbox import RECEIVE_BYTES

Keeps = Literal["", "journal", "jetstream"]  # the protocol for questions about what is kept
Takes = Literal[
    "nats", "redis", "recv", "netstring", "multicast", "nothing"
]  # the protocol for input

BASELINE = "nats-server"
SERIATIM = "{bin}/seriatim serve -a 127.0.0.1 -p {port} --loop"
JOURNAL = f"{SERIATIM} asyncio --store_dir {{store}}"
NATS = "{bin}/nats-server -a 127.0.0.1 -p {port}"
GROUP = "239.255.42.22"
REDIS = "redis-server --bind 127.0.0.1 --port {port} --appendonly yes --appendfsync everysec"
FEED = f"{SERIATIM} asyncio --no-journal --feed {{group}}:{{feed_port}},interface=127.0.0.1"
CQ = "cq {port} {group} {feed_port}"
OURS = f"{{bin}}/seriatim {CQ} --interface 127.0.0.1"
FLOOR = "floor {group} {feed_port} {messages} {size}"
PROGRAM = "program:"  # a command with this prefix is one of the benchmark's programs in C
BARE_FLOOR = f"{PROGRAM}broker_floor {{port}} {RECEIVE_BYTES}"
ECHO_SECONDS = 0.5
REDIS_REMEDY = "apt-get install redis-server"
ORIGINAL = "cq"  # not part of this repository: its binary must be given
ALWAYS = """\
listen: "127.0.0.1:{port}"
jetstream: {{ store_dir: "{store}", sync_interval: always }}
"""
# Clients without credentials are a user, with rights like an application's.
PERMITTED = """\
[authorization]
no_auth_user = "bench"
[[authorization.users]]
user = "bench"
password = "bench"
[authorization.users.permissions]
publish = {{ allow = ["bench", "bench.>", "orders.*.new"], deny = ["bench.secret.>"] }}
subscribe = {{ allow = ["bench", "bench.>", "_INBOX.>"], deny = ["bench.secret.>", "*.private"] }}
"""


USER = """\
[[authorization.users]]
user = "bench"
password = "bench"
"""
NATS_USER = """\
listen: "127.0.0.1:{port}"
authorization {{ users: [ {{ user: bench, password: bench }} ] }}
"""


@dataclass(frozen=True, slots=True)
class Server:
    """One server under test."""

    name: str
    frame: Frame
    command: str
    keeps: Keeps = ""
    config: str = ""
    uncompiled: bool = False  # runs a copy of our sources without compiled modules
    scale: float = 1.0  # of each scenario's messages: slow servers need fewer for the same time
    takes: Takes = "nats"
    has_users: bool = False  # clients must log in

    @property
    def is_floor(self) -> bool:
        """True if it only shows the cost of the system itself."""
        return self.takes == "nothing" or self.command.startswith(PROGRAM)

    @property
    def feeds(self) -> bool:
        """True if it sends by multicast."""
        return "{feed_port}" in self.command and self.takes != "multicast"

    def arguments(self, port: int, feed_port: int, place: Path) -> list[str]:
        """Return the command's words, ready for exec; write `config` to `place` first."""
        values = {
            "port": port,
            "bin": Path(sys.executable).parent,
            "store": place / "store",
            "config": place / "config",
            "group": GROUP,
            "feed_port": feed_port,
        }
        if self.config:
            (place / "config").write_text(self.config.format(**values))
        return [word.format(**values) for word in shlex.split(self.command)]


KNOWN = {
    server.name: server
    for server in (
        Server("seriatim", "netstring", JOURNAL, "journal"),
        Server("seriatim-js", "netstring", f"{JOURNAL} -js", "jetstream"),
        Server("seriatim-day", "netstring", f"{JOURNAL} --retain_bytes 2GiB", "journal"),
        Server("seriatim-always", "netstring", f"{JOURNAL} --sync always", "journal"),
        Server("seriatim-no-journal", "netstring", f"{SERIATIM} asyncio --no-journal"),
        Server("seriatim-bare", "netstring", f"{SERIATIM} asyncio --no-journal --ring_bytes 0"),
        Server(
            "seriatim-permitted", "netstring",
            f"{SERIATIM} asyncio --no-journal --ring_bytes 0 -c {{config}}", config=PERMITTED,
        ),
        Server("seriatim-uvloop", "netstring", f"{SERIATIM} uvloop --no-journal"),
        Server("seriatim-header", "header", f"{SERIATIM} asyncio --no-journal --frame header"),
        Server("seriatim-stamp", "stamp", f"{SERIATIM} asyncio --no-journal --frame stamp"),
        Server(
            "seriatim-requests", "header", f"{JOURNAL} --frame header --exclude _INBOX.>", "journal"
        ),
        Server("seriatim-none", "none", f"{SERIATIM} asyncio --no-journal --frame none"),
        Server(
            "seriatim-uncompiled", "netstring", f"{SERIATIM} asyncio --no-journal",
            uncompiled=True, scale=0.05,
        ),
        Server(
            "seriatim-password", "netstring", f"{JOURNAL} -c {{config}}", "journal", USER,
            has_users=True,
        ),
        Server(BASELINE, "none", NATS),
        Server(
            "nats-server-password", "none", "{bin}/nats-server -c {config}", "", NATS_USER,
            has_users=True,
        ),
        Server("jetstream", "none", f"{NATS} -js -sd {{store}}", "jetstream", scale=0.1),
        Server(
            "jetstream-always", "none", "{bin}/nats-server -c {config}", "jetstream", ALWAYS,
            scale=0.1,
        ),
        Server("redis", "none", f"{REDIS} --save ''", takes="redis"),
        Server("seriatim-cq", "netstring", OURS, takes="recv"),
        Server(
            "seriatim-cq-netstring", "netstring", f"{OURS} --framing netstring", takes="netstring"
        ),
        Server(ORIGINAL, "netstring", CQ, takes="recv"),
        Server("seriatim-feed", "netstring", FEED),
        Server("seriatim-feed-plain", "netstring", f"{FEED},segmentation=false"),
        Server("seriatim-feed-packed", "netstring", f"{FEED},packing=true"),
        Server("receiver", "netstring", "receiver {group} {feed_port}", takes="multicast"),
        Server("listener", "netstring", "listener {group} {feed_port}", takes="multicast"),
        Server("floor-journal", "none", f"{BARE_FLOOR} {{store}}"),
        Server("floor-bare", "none", BARE_FLOOR),
        Server("floor", "netstring", f"{FLOOR} 1 1 0", scale=0.2, takes="nothing"),
        Server("floor-segmented", "netstring", f"{FLOOR} 64 1 0", takes="nothing"),
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
    if keeps and "-js" in shlex.split(command):
        keeps = "jetstream"
    takes: Takes = "nats"
    if name in KNOWN:
        keeps, takes = KNOWN[name].keeps, KNOWN[name].takes
    return Server(name, cast(Frame, frame), command, keeps, takes=takes)


def original(path: Path) -> Server:
    """Return the original cq, whose binary is at `path`. It sends by the system's routes.

    So a route must lead to this machine itself; without one, cq ends at once.
    """
    if not os.access(path, os.X_OK) or path.is_dir():
        raise BenchmarkError(f"--cq {path}: is no program; build it from cquencer's sources")
    if not multicast_stays_here():
        raise BenchmarkError(
            "--cq: multicast does not stay on this machine; begin the command with\n"
            "unshare -rn sh -c 'ip link set lo up; ip route add 239.0.0.0/8 dev lo; exec \"$@\"' -"
        )
    program = shlex.quote(str(path.resolve())).replace("{", "{{").replace("}", "}}")
    return replace(KNOWN[ORIGINAL], command=CQ.replace(ORIGINAL, program, 1))


def multicast_stays_here() -> bool:
    """True if datagrams sent to the group without a given interface come back by lo."""
    membership = socket.inet_aton(GROUP) + socket.inet_aton("127.0.0.1")
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as member,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        member.bind((GROUP, 0))
        member.settimeout(ECHO_SECONDS)
        try:
            member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            sender.sendto(b"?", member.getsockname())
            return member.recv(16) == b"?"
        except OSError:
            return False
