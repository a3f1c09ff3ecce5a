"""The command `seriatim` and the broker as processes, forked where they have been imported already.

Starting an interpreter and importing the command takes 0.3 s of a processor, and the broker 0.15 s;
a fork takes a tenth of it (fork_server.py). The process is one like any other: it has its
arguments, environment, folder, network and streams, is signalled, and ends with a status. What the
interpreter itself does at its start is left out: `can_fork` says where that matters. A library of
LD_PRELOAD has a fork server of its own.
"""

import atexit
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Self

NETWORK = "/proc/thread-self/ns/net"  # of this thread
SERVER = Path(__file__).with_name("fork_server.py")
# Prefixes of variables that are read when a program starts, or typer is imported.
AT_THE_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "TERMINAL_WIDTH", "FORCE_", "PY_COLORS")
PIECE = 1 << 16
COMMAND_S = 60.0
STOPPED = b"stopped"


# Where the tests began. Some make networks of their own, which must not outlive them in a server.
HOME_NETWORK = os.open(NETWORK, os.O_RDONLY | os.O_CLOEXEC)


@dataclass(frozen=True)
class ForkServer:
    """The way to a fork server, which ends with this process; what it has, its forks have."""

    requests: socket.socket
    at_the_start: dict[str, str]


@cache
def fork_server(program: str, preload: str = "") -> ForkServer:
    """That of the program: `command`, `broker` or `whole broker`."""
    from seriatim.cli.serve import MALLOC

    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {**(MALLOC if program != "command" else {}), **os.environ}
    if preload:
        environment["LD_PRELOAD"] = preload
    with its:
        command: list[str] = [sys.executable, "-P", str(SERVER), program, str(HOME_NETWORK)]
        process = subprocess.Popen(
            command, stdin=its.fileno(), env=environment, pass_fds=[HOME_NETWORK]
        )
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ForkServer(ours, at_the_start(environment))


def at_the_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in environment.items() if key.startswith(AT_THE_START)}


def can_fork(program: str, environment: Mapping[str, str]) -> bool:
    """Whether a new interpreter would not start otherwise."""
    server = fork_server(program, environment.get("LD_PRELOAD", ""))
    return server.at_the_start == at_the_start(environment)


class Forked:
    """A process of a program, with as much of subprocess.Popen as tests use."""

    def __init__(
        self,
        command: list[str],
        *,
        env: Mapping[str, str],
        program: str = "command",
        given: str = "",
        cwd: Path | None = None,
        stdin: int = subprocess.PIPE,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
    ) -> None:
        assert can_fork(program, env), "use subprocess"
        folder = str(cwd or Path.cwd())
        request = {"command": command, "environment": dict(env), "folder": folder, "given": given}
        text = json.dumps(request).encode()
        self.args = command
        self.returncode: int | None = None
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        self.stderr: IO[bytes] | None = None
        self._status, status = os.pipe()
        streams = []
        for name, stream in (("stdin", stdin), ("stdout", stdout), ("stderr", stderr)):
            streams.append(self._stream(name, stream))
        network = os.open(NETWORK, os.O_RDONLY | os.O_CLOEXEC)
        passed = [*streams, network, status]
        server = fork_server(program, env.get("LD_PRELOAD", ""))
        socket.send_fds(server.requests, [text], passed)
        for opened in passed:
            os.close(opened)
        self.pid = int(self._heard())

    def _heard(self) -> bytes:
        """A line of the fork server's about the process."""
        line = b""
        while not line.endswith(b"\n"):
            byte = os.read(self._status, 1)
            assert byte, "the fork server has ended"
            line += byte
        return line.strip()

    def _stream(self, name: str, stream: int) -> int:
        """The process's end of a stream; if it is a pipe, ours is kept as an attribute."""
        if stream == subprocess.DEVNULL:
            return os.open(os.devnull, os.O_RDWR)
        if stream != subprocess.PIPE:
            return os.dup(stream)
        readable, writable = os.pipe()
        if name == "stdin":
            self.stdin = os.fdopen(writable, "wb", 0)
            return readable
        setattr(self, name, os.fdopen(readable, "rb"))
        return writable

    def poll(self) -> int | None:
        """The exit status; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, awaited."""
        until = None if timeout is None else time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            if self.returncode is None:
                selector.register(self._status, selectors.EVENT_READ)
            while self.returncode is None:
                if not selector.select(None if until is None else until - time.monotonic()):
                    raise subprocess.TimeoutExpired(self.args, timeout or 0)
                heard = self._heard()
                if heard != STOPPED:
                    self._ended(heard)
        return self.returncode

    def _ended(self, status: bytes) -> None:
        self.returncode = int(status)
        os.close(self._status)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # its end is not reported yet
                os.kill(self.pid, number)

    def stop(self) -> None:
        """Let it stand still, until SIGCONT; it does when this returns."""
        self.send_signal(signal.SIGSTOP)
        heard = self._heard()
        if heard != STOPPED:
            self._ended(heard)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, given: bytes = b"", timeout: float | None = None) -> tuple[bytes, bytes]:
        """Write standard input, read the other streams to their ends, and wait."""
        until = None if timeout is None else time.monotonic() + timeout
        heard: dict[str, bytes] = {"stdout": b"", "stderr": b""}
        with selectors.DefaultSelector() as selector:
            for name in heard:
                stream = getattr(self, name)
                if stream is not None and not stream.closed:
                    selector.register(stream, selectors.EVENT_READ, name)
            if self.stdin is not None and not self.stdin.closed:
                os.set_blocking(self.stdin.fileno(), False)
                selector.register(self.stdin, selectors.EVENT_WRITE)
            while selector.get_map():
                left = None if until is None else max(until - time.monotonic(), 0)
                ready = selector.select(left)
                if not ready:
                    raise subprocess.TimeoutExpired(self.args, timeout or 0)
                for key, _ in ready:
                    stream = key.fileobj
                    if key.data is None:
                        given = self._write(given)
                        finished = not given
                    else:
                        piece = stream.read1(PIECE)
                        heard[key.data] += piece
                        finished = not piece
                    if finished:
                        selector.unregister(stream)
                        stream.close()
        self.wait(None if until is None else max(until - time.monotonic(), 0))
        return heard["stdout"], heard["stderr"]

    def _write(self, given: bytes) -> bytes:
        """What of it is still to be written."""
        assert self.stdin is not None
        try:
            return given[self.stdin.write(given[:PIECE]) :] if given else given
        except BrokenPipeError:
            return b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *of_an_error: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()


def run_command(
    command: list[str], env: Mapping[str, str], given: bytes = b"", cwd: Path | None = None
) -> "subprocess.CompletedProcess[bytes]":
    """Run `seriatim ...` to its end: as a fork, or by an interpreter where that is not the same."""
    if not can_fork("command", env):
        return subprocess.run(
            command, input=given, capture_output=True, env=env, cwd=cwd, timeout=COMMAND_S
        )
    process = Forked(command, env=env, cwd=cwd)
    try:
        out, said = process.communicate(given, COMMAND_S)
    except BaseException:
        process.kill()
        raise
    return subprocess.CompletedProcess(command, process.wait(), out, said)
