"""Clusters of three servers on this machine, with etcd where they need it."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

from benchmarks.errors import BenchmarkError
from benchmarks.keepers import Journal, Keeper, Stream
from benchmarks.process import free_port
from benchmarks.requester import Requester
from benchmarks.usage import cpu_seconds

BIN = Path(sys.executable).parent
MEMBERS = 3
READY_S = 60.0
STREAM = b"BENCH"


class ServerCluster(ABC):
    """Three servers; `start` starts one of them again."""

    name: ClassVar[str]
    prefix: ClassVar[bytes]  # of a subject, if it asks for an acknowledgement
    keeper: ClassVar[Keeper]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = [free_port() for _ in range(MEMBERS)]
        self.inner = [free_port() for _ in range(MEMBERS)]
        self.processes: list[subprocess.Popen[bytes]] = []
        self.others: list[subprocess.Popen[bytes]] = []

    @abstractmethod
    def command(self, at: int) -> list[str]:
        """Return the command that starts server `at`."""

    @abstractmethod
    async def leader(self, without: int = -1) -> int:
        """Return the leader, asking a server other than `without`; -1 while it is unknown."""

    @abstractmethod
    async def hand_over(self, leader: int) -> None:
        """Ask the leader to let another one lead."""

    @abstractmethod
    async def whole(self) -> None:
        """Wait until all three have everything."""

    @abstractmethod
    def prepare(self) -> None:
        """Prepare the cluster before the servers start."""

    def start(self, at: int) -> None:
        """Start server `at`, and return when it listens."""
        process = self.run(self.command(at), f"{at}")
        self.processes[at : at + 1] = [process]
        await_port(self.ports[at], self.folder / f"{at}.log")

    def run(self, command: list[str], name: str) -> subprocess.Popen[bytes]:
        """Start a process of the cluster, with a log in its folder."""
        environment = {
            key: text for key, text in os.environ.items() if not key.startswith("SERIATIM_")
        }
        with open(self.folder / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )

    def cpu_seconds(self) -> float:
        """Return the CPU time of all running processes."""
        return sum(cpu_seconds(one.pid) for one in (*self.processes, *self.others))

    def __enter__(self) -> Self:
        try:
            self.prepare()
            for at in range(MEMBERS):
                self.processes.append(self.run(self.command(at), f"{at}"))
            for at in range(MEMBERS):
                await_port(self.ports[at], self.folder / f"{at}.log")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.processes, *self.others):
            process.kill()
            process.wait()


class SeriatimCluster(ServerCluster):
    """Three members and an etcd."""

    name = "seriatim"
    prefix = b"$SEQ.PUB."
    keeper = Journal("none")
    frame: ClassVar[str] = "none"

    def prepare(self) -> None:
        etcd = f"http://127.0.0.1:{free_port()}"
        peer = f"http://127.0.0.1:{free_port()}"
        words = ["etcd", "--data-dir", str(self.folder / "etcd"), "--log-level", "error"]
        words += ["--listen-client-urls", etcd, "--advertise-client-urls", etcd]
        words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        self.others = [self.run([*words, "--initial-cluster", f"default={peer}"], "etcd")]
        await_port(int(etcd.rpartition(":")[2]), self.folder / "etcd.log")
        self.etcd = ["--cluster", "bench", "--etcd", etcd]
        init = [str(BIN / "seriatim"), "cluster", "init", *self.etcd, "-sd", self.store(0)]
        subprocess.run(init, check=True, capture_output=True)

    def store(self, at: int) -> str:
        return str(self.folder / f"store-{at}")

    def command(self, at: int) -> list[str]:
        words = [str(BIN / "seriatim"), "serve", "--frame", self.frame, "-sd", self.store(at)]
        words += ["-a", "127.0.0.1", "-p", str(self.ports[at]), *self.etcd]
        return [*words, "--cluster_port", str(self.inner[at])]

    async def leader(self, without: int = -1) -> int:
        asked = await self.ask(0 if without else 1)
        ids = {id_of(self.store(at)): at for at in range(MEMBERS)}
        return ids.get(str(asked.get("coordinator")), -1)

    async def ask(self, at: int) -> dict[str, object]:
        asking = await Requester.open(self.ports[at])
        found = await asking.request(b"$SEQ.INFO")
        asking.close()
        return json.loads(found) if found else {}

    async def hand_over(self, leader: int) -> None:
        command = [str(BIN / "seriatim"), "cluster", "handover", *self.etcd]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise BenchmarkError(f"{' '.join(command)}: {done.stderr or done.stdout}")

    async def whole(self) -> None:
        end = time.monotonic() + READY_S
        while len((await self.ask(0)).get("members", ())) < MEMBERS:  # type: ignore[arg-type]
            if time.monotonic() > end:
                raise BenchmarkError("the members do not get in sync")


class JetStreamCluster(ServerCluster):
    """Three nats-servers, and a stream of three replicas in files."""

    name = "jetstream"
    prefix = b""
    keeper = Stream()

    def prepare(self) -> None:
        """Do nothing: the servers need no preparation."""

    def command(self, at: int) -> list[str]:
        routes = ", ".join(f"nats://127.0.0.1:{port}" for port in self.inner)
        config = self.folder / f"{at}.conf"
        config.write_text(
            f'listen: "127.0.0.1:{self.ports[at]}"\nserver_name: n{at}\n'
            f'jetstream: {{ store_dir: "{self.folder}/store-{at}" }}\n'
            f'cluster: {{ name: bench, listen: "127.0.0.1:{self.inner[at]}",'
            f" routes: [{routes}] }}\n"
        )
        return [str(BIN / "nats-server"), "-c", str(config)]

    async def info(self, at: int, seconds: float = 1.0) -> dict[str, dict[str, object]]:
        """Return the stream's info from its leader; empty if no answer comes in time."""
        asking = await Requester.open(self.ports[at])
        found = await asking.request(b"$JS.API.STREAM.INFO." + STREAM, seconds=seconds)
        asking.close()
        return json.loads(found) if found else {}

    async def leader(self, without: int = -1) -> int:
        said = await self.info(0 if without else 1)
        name = str(said.get("cluster", {}).get("leader", ""))
        return int(name[1:]) if name else -1

    async def hand_over(self, leader: int) -> None:
        asking = await Requester.open(self.ports[leader])
        await asking.request(b"$JS.API.STREAM.LEADER.STEPDOWN." + STREAM)
        asking.close()

    async def whole(self) -> None:
        end = time.monotonic() + READY_S
        wanted = {"name": "BENCH", "subjects": ["bench.>"], "num_replicas": MEMBERS}
        text = json.dumps({**wanted, "storage": "file"}).encode()
        while time.monotonic() < end:
            said = await self.info(0)
            if not said:
                asking = await Requester.open(self.ports[0])
                await asking.request(b"$JS.API.STREAM.CREATE." + STREAM, text)
                asking.close()
                continue
            replicas = said["cluster"].get("replicas", [])
            assert isinstance(replicas, list)
            if len(replicas) == MEMBERS - 1 and all(one.get("current") for one in replicas):
                return
        raise BenchmarkError("the stream does not get whole")


def id_of(store: str) -> str:
    """The id of the member that has this store."""
    found: str = json.loads(Path(store, "cluster", "member.json").read_text())["member"]
    return found


def await_port(port: int, log: Path) -> None:
    """Wait until a process listens on the port."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), READY_S).close()
            return
        except OSError:
            time.sleep(0.01)  # another program's port: there is no event to await
    raise BenchmarkError(f"nobody listens on {port}: {log.read_text(errors='replace')[-500:]}")
