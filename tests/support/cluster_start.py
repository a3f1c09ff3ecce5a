"""A cluster on this machine: an etcd and members, each its own process with its own store."""

import base64
import json
import os
import shutil
import tempfile
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.commands import run_command
from tests.support.etcd_server import EtcdServer
from tests.support.processes import BIN, SeriatimServer

QUICK = ["--cluster_dead", "1.5", "--cluster_slow", "1"]
ID_S = 30.0  # a bound for what hangs
# On a busy machine another member may take longer to take over than publishers usually wait.
PATIENT = ["--cluster_patience", "60s"]


class ClusterOf:
    """`count` members; `start` makes the first one a cluster, and starts all of them."""

    def __init__(
        self,
        count: int = 3,
        name: str = "orders",
        more: list[str] | None = None,
        folder: Path | None = None,
    ) -> None:
        """In `folder` there may be a store of the first member, `store-0`, already."""
        self.name = name
        self.folder = folder or Path(tempfile.mkdtemp(prefix="seriatim-cluster-"))
        self.etcd: EtcdServer
        self.more = more or []
        self.members: list[SeriatimServer] = []
        self._count = count
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.callback(shutil.rmtree, self.folder, True)
        try:
            self.prepare()
            self._stack.enter_context(self.etcd)
            self.start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self.members:
            member.kill()
        if kind is not None:
            for at, member in enumerate(self.members):
                print(f"--- member {at} ---", *member.log[-60:], sep="\n")
        self._stack.close()

    def prepare(self) -> None:
        """Before anything starts: say where."""
        self.etcd = EtcdServer()

    def flags(self, at: int) -> list[str]:
        """How member `at` is started, besides its address."""
        given = ["--cluster", self.name, "--etcd", self.etcd.endpoint, "--cluster_port", "-1"]
        patience = [] if "--cluster_patience" in self.more else PATIENT
        return [*given, *QUICK, *patience, *self.more]

    def view(self) -> dict[str, Any]:
        """The view, as the engine has it."""
        kept = self._get("view")
        found: dict[str, Any] = json.loads(kept[f"/seriatim/{self.name}/view"])
        return found

    def coordinator(self) -> int:
        """Which member coordinates."""
        return self.number_of(self.view()["coordinator"])

    def number_of(self, member: str) -> int:
        """Which of the members has this id."""
        return self.ids().index(member)

    def ids(self) -> list[str]:
        """The id of each member, which writes it into its store."""
        return [self._id(at) for at in range(len(self.members))]

    def _id(self, at: int) -> str:
        """Return a member's id. A member without a store makes one when it starts: wait for it."""
        file, end = self.folder / f"store-{at}" / "cluster" / "member.json", time.monotonic() + ID_S
        while True:
            try:
                found: str = json.loads(file.read_text())["member"]
                return found
            except FileNotFoundError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)  # another process: no event to await

    def _get(self, key: str) -> dict[str, str]:
        name = f"/seriatim/{self.name}/{key}".encode()
        answer = self.etcd.call("/v3/kv/range", {"key": base64.b64encode(name).decode()})
        return {
            base64.b64decode(kept["key"]).decode(): base64.b64decode(kept["value"]).decode()
            for kept in answer.get("kvs", ())
        }

    def init(self, store: Path) -> None:
        """Make a store the cluster's first member."""
        command = [str(BIN / "seriatim"), "cluster", "init", "--cluster", self.name]
        command += ["--etcd", self.etcd.endpoint, "-sd", str(store)]
        with self.inside_etcd():
            done = run_command(command, os.environ)
        assert done.returncode == 0, done.stderr.decode()

    def inside_etcd(self) -> AbstractContextManager[None]:
        """The network that etcd answers in."""
        return nullcontext()

    def made(self, at: int, store: Path) -> SeriatimServer:
        """Member `at`, not started yet."""
        return SeriatimServer(arguments=self.flags(at), store=store, frame="netstring")

    def start(self) -> None:
        """Start all members, the first one first."""
        for at in range(self._count):
            store = self.folder / f"store-{at}"
            if at == 0:
                self.init(store)
            member = self.made(at, store)
            self.members.append(member)
            self._stack.callback(member.__exit__, AssertionError, None, None)
            member.start()
