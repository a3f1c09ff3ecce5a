"""A real etcd on loopback, with a data directory of its own; installed if it is missing.

with EtcdServer() as etcd:
    etcd.endpoint          http://127.0.0.1:PORT
    etcd.kill()            SIGKILL; `start()` continues with the same data and ports
    etcd.pause()           SIGSTOP; `go_on()`
    etcd.call("/v3/kv/compaction", {"revision": 7})
"""

import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.places import ROOT

READY_S = 60.0
STOP_S = 30.0


@functools.cache
def etcd_program() -> str:
    """The etcd of the PATH; Debian's, installed now if it is missing."""
    if shutil.which("etcd") is None:
        subprocess.run([ROOT / ".ci" / "need", "etcd-server"], check=True)
    found = shutil.which("etcd")
    assert found is not None, "etcd-server installs /usr/bin/etcd"
    return found


class EtcdServer:
    """One etcd process; a context manager that never leaves it running."""

    def __init__(
        self,
        *arguments: str,
        scheme: str = "http",
        address: str = "127.0.0.1",
        inside: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._address = address
        self._inside = inside  # the network that it is in
        self._folder = tempfile.mkdtemp(prefix="seriatim-etcd-")
        self._arguments = arguments
        self._scheme = scheme
        with inside():
            self._keepers = [kept_port(address), kept_port(address)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        port: int = self._keepers[0].getsockname()[1]
        return port

    @property
    def endpoint(self) -> str:
        return f"{self._scheme}://{self._address}:{self.port}"

    def start(self) -> Self:
        """Start it, and return when it answers."""
        assert self._process is None, "already running"
        peer = f"http://{self._address}:{self._keepers[1].getsockname()[1]}"
        command = [
            *(etcd_program(), "--data-dir", f"{self._folder}/data", "--log-level", "error"),
            *("--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"default={peer}"),
            *self._arguments,
        ]
        with open(Path(self._folder, "log"), "ab") as log, self._inside():
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._wait()
        return self

    def kill(self) -> None:
        """End it as `kill -9` does."""
        process, self._process = self._process, None
        assert process is not None, "it runs"
        process.kill()
        process.wait(STOP_S)

    def lose_data(self) -> None:
        """Delete its data, while it does not run."""
        assert self._process is None, "it does not run"
        shutil.rmtree(Path(self._folder, "data"))

    def back_up(self) -> None:
        """Keep a copy of its data, while it does not run."""
        assert self._process is None, "it does not run"
        shutil.copytree(Path(self._folder, "data"), Path(self._folder, "backup"))

    def put_back(self) -> None:
        """Go on with that copy."""
        self.lose_data()
        Path(self._folder, "backup").rename(Path(self._folder, "data"))

    def pause(self) -> None:
        """Stop the process, which then accepts connections and answers nothing."""
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)  # all of its threads

    def go_on(self) -> None:
        """Let a stopped process go on."""
        assert self._process is not None, "it runs"
        self._process.send_signal(signal.SIGCONT)

    def call(self, path: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Ask the gateway for something, as an administrator does."""
        data = json.dumps(fields).encode()
        request = urllib.request.Request(f"{self.endpoint}{path}", data=data)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with self._inside(), opener.open(request, timeout=READY_S) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def _wait(self) -> None:
        """Until it listens: it tells nobody else."""
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            assert self._process is not None
            if self._process.poll() is not None:
                break
            try:
                if self._scheme == "https":
                    socket.create_connection((self._address, self.port), READY_S).close()
                else:
                    self.call("/v3/maintenance/status", {})
                return
            except (OSError, urllib.error.URLError):
                time.sleep(0.02)  # no event to await
        log = Path(self._folder, "log").read_text(errors="replace")
        self.__exit__(None, None, None)
        raise AssertionError(f"etcd did not get ready:\n{log}")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self.kill()
        for keeper in self._keepers:
            keeper.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def kept_port(address: str = "127.0.0.1") -> socket.socket:
    """A free port of the address, bound but not listening: nobody else gets it before a restart."""
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind((address, 0))
    return keeper
