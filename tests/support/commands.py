"""The command `seriatim` as a process of its own, forked where it has been imported already.

Starting an interpreter and importing the command takes 0.3 s of a processor, a fork of the imported
command a twentieth of it (fork_server.py). The process is one like any other: it has its arguments,
environment, folder and streams, is signalled, and ends with a status. What the interpreter itself
does at its start is left out: variables for it (`PYTHON...`, the locale) are refused here.
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
from functools import cache
from pathlib import Path
from typing import IO, Self

SERVER = Path(__file__).with_name("fork_server.py")
FOR_THE_INTERPRETER = ("PYTHON", "LC_", "LANG", "TERMINAL_WIDTH", "FORCE_COLOR", "PY_COLORS")
PIECE = 1 << 16
STOPPED = b"stopped"


@cache
def fork_server() -> socket.socket:
    """The way to this process's fork server, which ends with it."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        process = subprocess.Popen([sys.executable, "-P", SERVER], stdin=its)
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def of_the_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in environment.items() if key.startswith(FOR_THE_INTERPRETER)}


class Command:
    """A run of the command, with as much of subprocess.Popen as tests use."""

    def __init__(
        self,
        command: list[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        stdin: int = subprocess.PIPE,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
    ) -> None:
        assert of_the_interpreter(env) == of_the_interpreter(os.environ), "use subprocess"
        request = {"command": command, "environment": dict(env), "folder": str(cwd or Path.cwd())}
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
        socket.send_fds(fork_server(), [text], [*streams, status])
        for opened in (*streams, status):
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
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self._ended(self._heard())
        assert self.returncode is not None
        return self.returncode

    def _ended(self, status: bytes) -> None:
        self.returncode = int(status)
        os.close(self._status)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
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
                        piece = stream.read1(PIECE)  # type: ignore[union-attr]
                        heard[key.data] += piece
                        finished = not piece
                    if finished:
                        selector.unregister(stream)
                        stream.close()  # type: ignore[union-attr]
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
