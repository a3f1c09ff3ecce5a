"""The benchmark's own programs in C: built when first needed, started, told to begin.

Python would be too slow for their work: clients that wait for each answer, a receiver of multicast,
and the minimal cost of sending multicast. programs/program.h has the protocol between
them and Python.
"""

import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from zlib import crc32

from benchmarks.errors import BenchmarkError
from benchmarks.usage import cpu_seconds, peak_bytes

SOURCES = Path(__file__).parent / "programs"
BUILT = Path(__file__).parent.parent / "build" / "benchmarks"
FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-pthread")
START_SECONDS = 15
RUN_SECONDS = 90  # after that the run has failed
STOP_SECONDS = 5


def built(name: str, folder: Path = BUILT) -> Path:
    """Return the program with this name, compiled from its current source."""
    source = SOURCES / f"{name}.c"
    texts = b"".join(path.read_bytes() for path in (source, *sorted(SOURCES.glob("*.h"))))
    program = folder / f"{name}-{crc32(texts):08x}"
    if program.exists():
        return program
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise BenchmarkError(
            f"a C compiler is needed to build {source.name}: install gcc, or leave out the"
            " scenarios of paced messages, requests, cquencer's port and feeds"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        made = Path(place) / name
        command = [compiler, *FLAGS, "-o", str(made), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchmarkError(f"{source.name} cannot be built: {done.stderr[-500:].strip()}")
        made.replace(program)
    return program


class Process:
    """A process that speaks the programs' protocol, for the duration of a `with` block."""

    def __init__(self, name: str, words: Sequence[str]) -> None:
        self.name = name
        self.words = words

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(self.words, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
        try:
            said = self._line(START_SECONDS)
            if said != "ready":
                raise BenchmarkError(f"{self.name} said {said!r} instead of ready")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def run(self) -> dict[str, float]:
        """Let the program work, and return the figures that it reports."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(b"\n")
        except BrokenPipeError:
            raise self._ended() from None
        words = self._line(RUN_SECONDS).split()
        return {name: float(figure) for name, _, figure in (word.partition("=") for word in words)}

    def cpu_seconds(self) -> float:
        """Return the user and system time so far."""
        return cpu_seconds(self.process.pid)

    def peak_bytes(self) -> int:
        """Return the program's peak of physical memory."""
        return peak_bytes(self.process.pid)

    def _line(self, seconds: float) -> str:
        """Return the next line."""
        assert self.process.stdout is not None
        number = self.process.stdout.fileno()
        said = b""
        while not said.endswith(b"\n"):
            if not select.select([number], [], [], seconds)[0]:
                raise BenchmarkError(f"{self.name} said nothing for {seconds:g} s")
            piece = os.read(number, select.PIPE_BUF)
            if not piece:
                raise self._ended()
            said += piece
        return said.decode().strip()

    def _ended(self) -> BenchmarkError:
        said = self.process.communicate(timeout=STOP_SECONDS)[1].decode(errors="replace")
        return BenchmarkError(said.strip().rpartition("\n")[2] or f"{self.name} ended by itself")


class Program(Process):
    """One of the programs in C."""

    def __init__(self, name: str, *words: object) -> None:
        super().__init__(name, [str(built(name)), *map(str, words)])
