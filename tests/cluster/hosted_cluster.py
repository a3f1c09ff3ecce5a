"""A cluster with disks and clocks that fail; and one whose members are hosts of a network.

    with ShimmedCluster() as cluster:
        cluster.faults[2].set("write die")
        cluster.set_clock(1, 3600)

Needs a C compiler.

    with HostedCluster() as cluster:        besides
        cluster.cut(0, 1)             nothing comes from member 0 to member 1
        cluster.cut(0, ETCD)          nor to etcd; heal() ends all of it
        with cluster.full(2): ...     no room on its disk

Clients are inside a member's host: only what members and etcd say to each other is cut. Needs root,
iproute2, iptables and a C compiler: `why_not()`.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path

from tests.crash.disks import mounted
from tests.crash.disks import why_not as why_no_disk
from tests.crash.shim import COMPILER, WHY_NOT, Faults, library, preload
from tests.network.hosts import Host, Network
from tests.network.hosts import why_not as why_no_network
from tests.support.cluster_start import ClusterOf
from tests.support.depth import depth
from tests.support.etcd_server import EtcdServer
from tests.support.places import ROOT
from tests.support.processes import SeriatimServer

CLOCK = Path(__file__).with_name("clock.c")
ETCD = -1  # as a member's number
SECOND = 10**9
DISK_BYTES = depth(128, 4096) << 20
PIECE = 1 << 20
SEGMENT_BYTES = 1 << 18  # room that is taken before it is written


class HostedServer(SeriatimServer):
    """A broker on a host, which its clients are on, too."""

    inside: Callable[[], AbstractContextManager[None]] = staticmethod(nullcontext)

    def start(self, port: int = -1) -> "HostedServer":
        with self.inside():
            super().start(port)
        return self


class ShimmedCluster(ClusterOf):
    """Members 0, 1 ..., of which each has a clock that can be set, and a disk that fails."""

    def __init__(self, count: int = 3, more: list[str] | None = None) -> None:
        super().__init__(count, more=more)
        self.faults: list[Faults] = []
        self._count = count

    def prepare(self) -> None:
        super().prepare()
        self.prepare_shims()

    def prepare_shims(self) -> None:
        """Nothing fails yet, and all clocks are right."""
        for at in range(self._count):
            folder = self.folder / f"faults-{at}"
            folder.mkdir()
            self.faults.append(Faults(folder))
            self.set_clock(at, 0)

    def flags(self, at: int) -> list[str]:
        return [*super().flags(at), "--segment_bytes", str(SEGMENT_BYTES)]

    def made(self, at: int, store: Path) -> SeriatimServer:
        member = self.server(at, store)
        shims = preload(store, faults=self.faults[at])
        shims["LD_PRELOAD"] += f":{library(CLOCK)}"
        member.env.update(shims, CLOCK_AHEAD=str(self._clock(at)))
        return member

    def server(self, at: int, store: Path) -> SeriatimServer:
        """Member `at` without its shims."""
        return SeriatimServer("netstring", arguments=self.flags(at), store=store)

    def set_clock(self, at: int, seconds: float) -> None:
        """Set the clock of a member so far ahead of the others."""
        ahead = int(seconds * SECOND).to_bytes(8, "little", signed=True)
        with open(self._clock(at), "r+b" if self._clock(at).exists() else "wb") as file:
            file.write(ahead)  # in place: the file is mapped

    def _clock(self, at: int) -> Path:
        return self.folder / f"clock-{at}"


class HostedCluster(ShimmedCluster):
    """Each member is on its host and its disk, and etcd on another host."""

    def __init__(self, count: int = 3, more: list[str] | None = None) -> None:
        super().__init__(count, more=more)
        self.network = Network()
        self.hosts: list[Host] = []
        self.disks: list[Path] = []

    def prepare(self) -> None:
        self._stack.enter_context(self.network)
        self.hosts = [self.network.host(f"m{at}") for at in range(self._count)]
        self.etcd_host = self.network.host("etcd")
        self.etcd = EtcdServer(address=self.etcd_host.address(), inside=self.etcd_host.inside)
        (self.folder / "secret").write_text("so that members may be elsewhere than on loopback")
        self.prepare_shims()
        for at in range(self._count):
            disk = self._stack.enter_context(mounted("tmpfs", DISK_BYTES))
            (disk / "store").mkdir()
            (self.folder / f"store-{at}").symlink_to(disk / "store")
            self.disks.append(disk)

    def flags(self, at: int) -> list[str]:
        own = ["--cluster_host", self.hosts[at].address()]
        return [*super().flags(at), *own, "--cluster_secret", str(self.folder / "secret")]

    def server(self, at: int, store: Path) -> SeriatimServer:
        member = HostedServer("netstring", arguments=self.flags(at), store=store)
        member.inside = self.hosts[at].inside
        return member

    def inside_etcd(self) -> AbstractContextManager[None]:
        return self.etcd_host.inside()

    # What fails

    def cut(self, here: int, there: int) -> None:
        """Nothing that `here` sends comes to `there` any more; nobody says so."""
        wall = f"-s {self._host(here).address()} -j DROP"
        self._filter(there, f"-A INPUT {wall}")

    def part(self, here: int, there: int) -> None:
        """Cut them off from each other."""
        self.cut(here, there)
        self.cut(there, here)

    def isolate(self, at: int) -> None:
        """Cut a member off from the others and from etcd."""
        for other in (*range(self._count), ETCD):
            if other != at:
                self.part(at, other)

    def heal(self) -> None:
        for at in (*range(self._count), ETCD):
            self._filter(at, "-F INPUT")

    @contextmanager
    def full(self, at: int) -> Iterator[None]:
        """The disk of a member has no room, but where something is already."""
        filler = self.disks[at] / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:  # in pieces: what is asked for at once is given whole or not at all
                file.write(bytes(PIECE))
        try:
            yield
        finally:
            filler.unlink()

    def _host(self, at: int) -> Host:
        return self.etcd_host if at == ETCD else self.hosts[at]

    def _filter(self, at: int, words: str) -> None:
        with self._host(at).inside():
            subprocess.run(["iptables", "-w", *words.split()], check=True)


@cache
def why_not() -> str:
    """Why there can be no such cluster here; empty if there can."""
    if COMPILER is None:
        return WHY_NOT
    if why_no_network() or why_no_disk("tmpfs"):
        return why_no_network() or why_no_disk("tmpfs")
    if shutil.which("iptables") is None:
        subprocess.run([ROOT / ".ci" / "need", "iptables"], check=False)
    with Network() as network, network.host("a").inside():
        drop = ["iptables", "-w", "-A", "INPUT", "-s", "10.77.0.2", "-j", "DROP"]
        try:
            tried = subprocess.run(drop, capture_output=True, text=True)
        except OSError as error:
            return f"no packet can be dropped here: {error}"
    return f"no packet can be dropped here: {tried.stderr}" if tried.returncode else ""
