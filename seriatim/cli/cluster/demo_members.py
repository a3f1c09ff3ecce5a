"""The demo's processes: an etcd and three members on loopback, with temporary stores."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from broker.cluster.engine.etcd import EtcdAccess, EtcdGateway
from broker.cluster.engine.view_keeper import EngineError
from seriatim.cli.cluster import cluster_init
from seriatim.cli.cluster.demo_network import HOST, DemoNetwork, free_ports
from seriatim.cli.errors import CliError

CLUSTER: Final = "demo"
NAMES: Final = ("one", "two", "three")
ETCD_S: Final = 30.0
RETRY_S: Final = 0.1
COMMAND: Final = "from seriatim.cli import main; main()"
NO_ETCD: Final = (
    "etcd is not installed; the cluster keeps its membership there. Install the package of your"
    " system (Debian: apt install etcd-server), or a release of https://etcd.io; 3.4.22 or later,"
    " or 3.5.6 or later"
)


class DemoMembers:
    """The etcd and the members: `start` starts them, `close` ends them."""

    def __init__(self) -> None:
        """Raises `CliError` if there is no etcd."""
        self._program = shutil.which("etcd") or ""
        if not self._program:
            raise CliError(NO_ETCD)
        self.folder = Path(tempfile.mkdtemp(prefix="seriatim-demo-"))
        self.network = DemoNetwork(self._hello_id, NAMES)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._etcd: subprocess.Popen[bytes] | None = None
        etcd, peer, *rest = free_ports(2 + 2 * len(NAMES))
        self.endpoint, self._peer = f"http://{HOST}:{etcd}", f"http://{HOST}:{peer}"
        self._etcd_port = etcd
        self._clients = dict(zip(NAMES, rest[::2], strict=True))
        self._listeners = dict(zip(NAMES, rest[1::2], strict=True))
        self._flags: dict[str, list[str]] = {}

    @property
    def access(self) -> EtcdAccess:
        """The demo's own access to etcd, which bypasses the network that it cuts."""
        return EtcdAccess((self.endpoint,))

    def urls(self) -> dict[str, str]:
        """The members' addresses for clients, by name."""
        return {name: f"nats://{HOST}:{port}" for name, port in self._clients.items()}

    async def start(self) -> None:
        """Start etcd, and make the cluster; members are started one by one. Raises `CliError`."""
        await self._start_etcd()
        first = str(self.folder / NAMES[0])
        await asyncio.to_thread(cluster_init.make, self.access, CLUSTER, first, 2)
        for name in NAMES:
            own = await self.network.door(name, self._etcd_port, dialled=False)
            door = await self.network.door(name, self._listeners[name], dialled=True)
            self._flags[name] = [
                *("--name", name, "--frame", "netstring", "-a", HOST),
                *("-p", str(self._clients[name]), "-sd", str(self.folder / name)),
                *("--cluster", CLUSTER, "--etcd", f"http://{HOST}:{own}"),
                *("--cluster_port", str(self._listeners[name])),
                *("--cluster_advertise", f"{HOST}:{door}"),
            ]
            self._begin(name)

    async def start_again(self, name: str) -> None:
        """Start a member again."""
        await self.network.unshut(name)
        self._begin(name)

    def _begin(self, name: str) -> None:
        clean = {key: text for key, text in os.environ.items() if not key.startswith("SERIATIM_")}
        command = [sys.executable, "-P", "-c", COMMAND, "serve", *self._flags[name]]
        self.processes[name] = self._spawn(command, name, clean)

    def kill(self, name: str) -> None:
        """End a member as `kill -9` does."""
        self.processes[name].kill()
        self.processes[name].wait()
        self.network.shut(name)

    def freeze(self, name: str) -> None:
        """Stop a member by SIGSTOP; its connections stay open."""
        self.processes[name].send_signal(signal.SIGSTOP)

    async def thaw(self, name: str) -> None:
        """Let a frozen member go on, by SIGCONT."""
        self.processes[name].send_signal(signal.SIGCONT)

    def member_id(self, name: str) -> str:
        """The id that a member has written into its store; empty: none yet."""
        try:
            file = self.folder / name / "cluster" / "member.json"
            found: str = json.loads(file.read_text())["member"]
        except (OSError, ValueError, KeyError):
            return ""
        return found

    def name_of(self, member: str) -> str:
        """The name of a member."""
        return next((name for name in NAMES if self.member_id(name) == member), member)

    def log_of(self, name: str) -> str:
        """The last lines of a process's log."""
        try:
            return "\n".join((self.folder / f"{name}.log").read_text().splitlines()[-20:])
        except OSError:
            return ""

    def ended(self) -> list[str]:
        """The members whose process has ended."""
        return [name for name, process in self.processes.items() if process.poll() is not None]

    def close(self) -> None:
        """End all processes, and delete what they have stored."""
        self.network.close()
        started = [*self.processes.values(), *([self._etcd] if self._etcd else [])]
        for process in started:
            process.kill()
        for process in started:
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _hello_id(self, name: str) -> bytes:
        return bytes.fromhex(self.member_id(name))[::-1]

    async def _start_etcd(self) -> None:
        command = [
            *(self._program, "--data-dir", str(self.folder / "etcd"), "--log-level", "error"),
            *("--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint),
            *("--listen-peer-urls", self._peer, "--initial-advertise-peer-urls", self._peer),
            *("--initial-cluster", f"default={self._peer}"),
        ]
        self._etcd = self._spawn(command, "etcd", dict(os.environ))
        gateway = EtcdGateway(self.access)
        try:
            async with asyncio.timeout(ETCD_S):
                while self._etcd.poll() is None:
                    try:
                        await gateway.call("/v3/maintenance/status", {})
                        return
                    except EngineError:
                        await asyncio.sleep(RETRY_S)
        except TimeoutError:
            pass
        finally:
            await gateway.close()
        raise CliError(f"etcd did not start:\n{self.log_of('etcd')}")

    def _spawn(
        self, command: list[str], name: str, environment: dict[str, str]
    ) -> "subprocess.Popen[bytes]":
        """Start a process in its own session, so that Ctrl-C reaches only the demo."""
        with open(self.folder / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
