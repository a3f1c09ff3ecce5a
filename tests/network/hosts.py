"""Several hosts on one machine: network namespaces on a switch, each by a cable or a lossy wire.

    with Network() as network:
        broker, far = network.host("broker"), network.host("far", wired=True)
        with far.inside(): ...            sockets made and processes started here are the host's
        far.wires[0].set("right udp loss 0.05")

A host has an interface eth0, eth1, .. on each of the network's LANs, with the addresses
10.77.LAN.N and fd77:LAN::N, and by default sends multicast by eth0. Needs root and iproute2.
Everything is removed when the context ends; leftovers of a killed run are removed by the next.
"""

import ctypes
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.network.wire import COMPILER, Wire
from tests.support.places import ROOT

NAMES = Path("/run/netns")
OURS = "seriatim-"
SEED = int(os.environ.get("NETWORK_SEED", "20"))
CLONE_NEWNET = 0x40000000
SIOCETHTOOL = 0x8946
FEATURES = 4  # ETH_SS_FEATURES
COUNT_STRINGS, GET_STRINGS, SET_FEATURES = 0x37, 0x1B, 0x3B  # GSSET_INFO, GSTRINGS, SFEATURES
STRING_BYTES = 32
READY_S = 60.0  # for the kernel to see that a cable is in

_serial = count()
_libc = ctypes.CDLL(None, use_errno=True)


def ip(*lines: str, namespace: str = "") -> str:
    """What lines of iproute2's `ip` say, in a namespace if one is given; one that fails raises."""
    command = ["ip", "-details", *(["-n", namespace] if namespace else []), "-batch", "-"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {' | '.join(lines)}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """What this thread opens and starts in the context belongs to the namespace."""
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    there = os.open(NAMES / namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(there)
        yield
    finally:
        _enter(here)
        os.close(here)
        os.close(there)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def give_whole_frames(interface: str) -> None:
    """Let an interface hand over whole frames: no segmentation, no checksum is left to others.

    This is `ethtool -K .. off` for all of what a sender leaves to the hardware, without ethtool.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:

        def ask(request: bytes) -> bytes:
            memory = ctypes.create_string_buffer(request, len(request))
            wanted = struct.pack("16sP", interface.encode(), ctypes.addressof(memory))
            fcntl.ioctl(control, SIOCETHTOOL, wanted)
            return memory.raw

        answer = ask(struct.pack("=IIQI", COUNT_STRINGS, 0, 1 << FEATURES, 0))
        (size,) = struct.unpack_from("=I", answer, 16)
        answer = ask(struct.pack("=III", GET_STRINGS, FEATURES, size) + bytes(size * STRING_BYTES))
        blocks = [[0, 0] for _ in range((size + 31) // 32)]
        for at in range(size):
            name = answer[12 + at * STRING_BYTES :][:STRING_BYTES].rstrip(b"\0").decode()
            if name.startswith(("tx-checksum", "tx-tcp", "tx-udp", "tx-gso", "tx-generic-seg")):
                blocks[at // 32][0] |= 1 << at % 32  # to be changed; and to 0
        request = b"".join(struct.pack("=II", *block) for block in blocks)
        ask(struct.pack("=II", SET_FEATURES, len(blocks)) + request)


class Host:
    """One machine of a network; `wires` by lan, without an entry where it hangs on a cable."""

    def __init__(self, name: str, namespace: str, number: int, switch: str) -> None:
        self.name, self.namespace, self.number, self.switch = name, namespace, number, switch
        self.wires: dict[int, Wire] = {}

    def address(self, lan: int = 0) -> str:
        return f"10.77.{lan}.{self.number}"

    def address6(self, lan: int = 0) -> str:
        return f"fd77:{lan}::{self.number}"

    def inside(self) -> AbstractContextManager[None]:
        """What this thread opens and starts in the context is this host's."""
        return inside(self.namespace)

    def link(self, up: bool, lan: int = 0) -> None:
        """`ip link set ethN up` or `down`, as its administrator does; its routes go and come."""
        ip(f"link set eth{lan} {'up' if up else 'down'}", namespace=self.namespace)
        if up:
            self.route(lan)
            self.await_cable(lan)

    def renew(self, lan: int = 0) -> None:
        """Take an interface on a cable away, and put a new one in its place, of the same name."""
        ip(f"link delete eth{lan}", namespace=self.namespace)
        self.lay_cable(lan)

    def lay_cable(self, lan: int) -> None:
        """Have an interface on a cable to the switch."""
        port = f"{self.name}{lan}"
        pair = f"link add eth{lan} type veth peer name {port} netns {self.switch}"
        ip(pair, namespace=self.namespace)
        self.connect(lan)

    def connect(self, lan: int) -> None:
        """Give the interface its addresses, and the switch its other end."""
        ip(f"link set {self.name}{lan} master br{lan} up", namespace=self.switch)
        ip(
            f"address add {self.address(lan)}/24 dev eth{lan}",
            f"address add {self.address6(lan)}/64 dev eth{lan} nodad",
            f"link set eth{lan} up",
            namespace=self.namespace,
        )
        self.route(lan)
        self.await_cable(lan)

    def plug(self, up: bool, lan: int = 0) -> None:
        """Pull its plug out of the switch, or put it back."""
        ip(f"link set {self.name}{lan} {'up' if up else 'down'}", namespace=self.switch)
        if up:
            self.await_cable(lan)

    def await_cable(self, lan: int) -> None:
        """Wait until both ends have seen that they are connected: before, the switch drops all.

        A worker of the kernel's sees to that, behind the back of who sets a link up.
        """
        port, interface = f"{self.name}{lan}", f"eth{lan}"
        for name, namespace, words in (
            (port, self.switch, "state forwarding"),
            (interface, self.namespace, "state UP"),
        ):
            until = time.monotonic() + READY_S
            while words not in ip(f"link show {name}", namespace=namespace):
                assert time.monotonic() < until, f"{name} never gets to {words}"

    def route(self, lan: int) -> None:
        """Multicast leaves by eth0, unless a socket says otherwise."""
        if lan == 0:
            ip("route replace 224.0.0.0/4 dev eth0", namespace=self.namespace)


class Network:
    """Hosts on one switch for each lan."""

    def __init__(self, lans: int = 1) -> None:
        self.lans = lans
        self.hosts: list[Host] = []
        self._prefix = f"{OURS}{os.getpid()}-{next(_serial)}-"
        self._namespaces: list[str] = []
        self._wires: list[Wire] = []

    def __enter__(self) -> Self:
        sweep()
        try:
            self._switch = self._namespace("switch")
            for lan in range(self.lans):
                bridge = f"link add br{lan} type bridge mcast_snooping 0"
                ip(bridge, f"link set br{lan} up", namespace=self._switch)
        except BaseException:
            self._remove()
            raise
        return self

    def _namespace(self, name: str) -> str:
        namespace = self._prefix + name
        ip(f"netns add {namespace}")
        self._namespaces.append(namespace)
        with inside(namespace):  # no waiting for doubles of an address: there are none
            Path("/proc/sys/net/ipv6/conf/default/accept_dad").write_text("0")
        ip("link set lo up", namespace=namespace)
        return namespace

    def host(self, name: str, wired: bool = False, seed: int = SEED) -> Host:
        """One more host; `wired`: it hangs on wires that can be told to lose, not on cables."""
        number = len(self.hosts) + 1
        host = Host(name, self._namespace(name), number, self._switch)
        self.hosts.append(host)
        for lan in range(self.lans):
            if wired:
                self._lay_wire(host, lan, f"{name}{lan}", seed)
                host.connect(lan)
            else:
                host.lay_cable(lan)
        return host

    def _lay_wire(self, host: Host, lan: int, port: str, seed: int) -> None:
        namespace = self._namespace(f"wire-{port}")
        ip(
            f"link add left type veth peer name {port} netns {self._switch}",
            f"link add right type veth peer name eth{lan} netns {host.namespace}",
            "link set left up",
            "link set right up",
            namespace=namespace,
        )
        for where, interface in ((self._switch, port), (host.namespace, f"eth{lan}")):
            with inside(where):
                give_whole_frames(interface)
        with inside(namespace):
            host.wires[lan] = Wire(seed + lan)
        self._wires.append(host.wires[lan])

    def _remove(self) -> None:
        for wire in self._wires:
            wire.kill()
        for namespace in self._namespaces:
            with suppress(OSError):
                ip(f"netns delete {namespace}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()


def sweep() -> None:
    """Remove the namespaces of runs that ended without doing it."""
    for path in NAMES.glob(f"{OURS}*") if NAMES.is_dir() else []:
        pid = path.name.removeprefix(OURS).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            with suppress(OSError):
                ip(f"netns delete {path.name}")


@cache
def why_not() -> str:
    """Why there can be no such network here; empty if there can."""
    if os.geteuid() != 0:
        return "only root can make a network of its own"
    if COMPILER is None:
        return "no C compiler to build tests/network/wire.c with"
    if shutil.which("ip") is None:
        need = ROOT / ".ci" / "need"
        subprocess.run([need, "iproute2"], check=False)
    try:
        with Network() as network:
            network.host("a", wired=True)
    except OSError as error:
        return f"no network of its own can be made here: {error}"
    return ""
