"""A server under test as a process: started for the run, measured from outside, always stopped."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from benchmarks.errors import BenchmarkError
from benchmarks.servers import Server

START_SECONDS = 15
STOP_SECONDS = 5
ROOMS = ("parser", "sublist", "sequencer", "broker")


def free_port(kind: int = socket.SOCK_STREAM) -> int:
    """Return a port that is free right now."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def cpu_seconds(process: int) -> float:
    """Return the user and system time of all its threads so far, including ended ones.

    This is the process's own CPU clock, in nanoseconds: /proc/PID/stat counts in ticks of 10 ms,
    and /proc/PID/task/*/schedstat omits threads that have ended. Raises `OSError` if there is no
    such process.
    """
    return time.clock_gettime_ns(~process << 3 | 2) / 1e9  # what clock_getcpuclockid(3) returns


def peak_bytes(process: int) -> int:
    """Return its peak of physical memory; 0 if it has ended."""
    status = Path(f"/proc/{process}/status").read_text()
    lines = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(lines[0].split()[1]) * 1024 if lines else 0


class ServerProcess:
    """The process of one server, for the duration of a `with` block."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.port = free_port()
        self.feed_port = free_port(socket.SOCK_DGRAM)
        self.directory = tempfile.TemporaryDirectory(prefix="benchmark-")

    def __enter__(self) -> Self:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("SERIATIM_")
        }
        place = Path(self.directory.name)
        if self.server.uncompiled:
            copy_sources(place)
            environment["PYTHONPATH"] = str(place)
        words = self.server.arguments(self.port, self.feed_port, place)
        try:
            with (place / "log").open("wb") as log:
                self.process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=place,
                    env=environment,
                )  # fmt: skip
        except OSError as error:
            self.directory.cleanup()
            raise BenchmarkError(f"{self.server.name} cannot be started: {error}") from None
        try:
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.directory.cleanup()

    def cpu_seconds(self) -> float:
        """Return the user and system time of all threads so far."""
        try:
            return cpu_seconds(self.process.pid)
        except OSError:
            raise BenchmarkError(f"{self.server.name} has ended: {self.last_words()}") from None

    def peak_bytes(self) -> int:
        """Return its peak of physical memory."""
        peak = peak_bytes(self.process.pid)
        if not peak:
            raise BenchmarkError(f"{self.server.name} has ended: {self.last_words()}")
        return peak

    def last_words(self) -> str:
        """Return the end of its log."""
        text = (Path(self.directory.name) / "log").read_text(errors="replace")
        return " / ".join(text.split("\n")[-4:]).strip(" /") or "it logged nothing"

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            if self.process.poll() is not None:
                break
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), START_SECONDS).close()
                return
            time.sleep(0.01)  # nothing to await: it is another program's port
        raise BenchmarkError(f"{self.server.name} did not start: {self.last_words()}")


def copy_sources(place: Path) -> None:
    """Copy our packages to `place` without their compiled modules."""
    root = Path(__file__).parent.parent
    for room in ROOMS:
        shutil.copytree(
            root / room, place / room, ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__")
        )
