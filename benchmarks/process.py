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
from benchmarks.programs import built
from benchmarks.servers import PROGRAM, Server
from benchmarks.usage import cpu_seconds, peak_bytes

START_SECONDS = 60  # recovery of gigabytes included
STOP_SECONDS = 5
ROOMS = ("parser", "sublist", "sequencer", "broker", "seriatim")


def free_port(kind: int = socket.SOCK_STREAM) -> int:
    """Return a port that is free right now."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


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
        self.environment = environment
        self.words = self.server.arguments(self.port, self.feed_port, place)
        if self.words[0].startswith(PROGRAM):
            self.words[0] = str(built(self.words[0].removeprefix(PROGRAM)))
        try:
            self.start()
        except BaseException:
            self.directory.cleanup()
            raise
        return self

    def start(self) -> None:
        """Start the process, and return when it accepts connections.

        `started_seconds` and `started_cpu_seconds` say what that took.
        """
        place = Path(self.directory.name)
        began_at = time.perf_counter()
        try:
            with (place / "log").open("wb") as log:
                self.process = subprocess.Popen(
                    self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=place,
                    env=self.environment,
                )  # fmt: skip
        except OSError as error:
            raise BenchmarkError(f"{self.server.name} cannot be started: {error}") from None
        try:
            self._wait_until_ready()
            self.started_seconds = time.perf_counter() - began_at
            self.started_cpu_seconds = self.cpu_seconds()
        except BaseException:
            self.stop()
            raise

    def kill(self) -> None:
        """Kill the process (SIGKILL)."""
        self.process.kill()
        self.process.wait()

    def stop(self, seconds: float = STOP_SECONDS) -> bool:
        """Stop the process (SIGTERM), or kill it after `seconds`; say whether it stopped."""
        self.process.terminate()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.directory.cleanup()

    def cpu_seconds(self) -> float:
        """Return the user and system time of all threads so far."""
        try:
            return cpu_seconds(self.process.pid)
        except OSError:
            raise BenchmarkError(f"{self.server.name} has ended: {self.last_words()}") from None

    def peak_bytes(self) -> int:
        """Return the process's peak of physical memory."""
        peak = peak_bytes(self.process.pid)
        if not peak:
            raise BenchmarkError(f"{self.server.name} has ended: {self.last_words()}")
        return peak

    def last_words(self) -> str:
        """Return the end of the process's log."""
        text = (Path(self.directory.name) / "log").read_text(errors="replace")
        return " / ".join(text.split("\n")[-4:]).strip(" /") or "it logged nothing"

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            if self.process.poll() is not None:
                break
            with contextlib.suppress(OSError):
                place = ("127.0.0.1", self.port)
                with socket.create_connection(place, START_SECONDS) as connection:
                    if self.server.takes == "nats":
                        connection.recv(1)  # of INFO: the server itself has accepted it
                    return
            time.sleep(0.001)  # another program's port: there is no event to await
        raise BenchmarkError(f"{self.server.name} did not start: {self.last_words()}")


def copy_sources(place: Path) -> None:
    """Copy our packages to `place` without their compiled modules."""
    root = Path(__file__).parent.parent
    for room in ROOMS:
        shutil.copytree(
            root / room, place / room, ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__")
        )
