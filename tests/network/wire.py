"""Builds and runs wire.c: packets between two interfaces are lost, duplicated and reordered.

    wire = Wire(namespace, seed=7)
    wire.set("right udp loss 0.05 duplicate 0.01 reorder 0.02")     RIGHT is to the host
    wire.stop().udp("right").lost

Where the kernel has netem this could be `tc`; not every kernel has it, and netem has no seed.
`draws` says what wire.c draws for the n-th frame of a kind and direction, so tests can predict it.
"""

import atexit
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

SOURCE = Path(__file__).with_name("wire.c")
COMPILER = shutil.which("gcc") or shutil.which("cc")
MASK = (1 << 64) - 1
WAIT_S = 60.0


@cache
def program() -> Path:
    """The wire, compiled once a run."""
    assert COMPILER is not None, "no C compiler to build tests/network/wire.c with"
    folder = Path(tempfile.mkdtemp(prefix="seriatim-wire-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    built = folder / "wire"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([COMPILER, *flags, "-o", str(built), str(SOURCE)], check=True)
    return built


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one kind and way: frames seen, and what became of some of them."""

    seen: int
    lost: int
    duplicated: int
    reordered: int


class Counters(dict[tuple[str, str], Counts]):
    """What a wire has done so far: counts by way and kind."""

    def __init__(self, line: str) -> None:
        words = line.split()
        for at in range(0, 40, 10):
            way, kind = words[at : at + 2]
            self[way, kind] = Counts(*map(int, words[at + 3 : at + 10 : 2]))
        self.passed, self.failed, self.overrun = map(int, words[41::2])


class Wire:
    """One running wire between the interfaces `left` and `right`, where it is started."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        command = [str(program()), str(seed), "left", "right"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._read()

    def _read(self) -> Counters:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the wire ended: what it says is above"
        return Counters(line.decode())

    def set(self, command: str) -> Counters:
        """Change a rate (wire.c lists them); it holds when this returns."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())
        return self._read()

    def count(self) -> Counters:
        return self.set("count")

    def stop(self) -> Counters:
        """Cut it, and read what it has done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        counters = self._read()
        self._process.stdout.close()
        assert self._process.wait(WAIT_S) == 0
        return counters

    def kill(self) -> None:
        """End it however it stands; it may have ended."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


def draws(seed: int, way: str, kind: str) -> Iterator[tuple[float, ...]]:
    """Frame by frame what wire.c draws for loss, duplicate, reorder and burst, each in 0 .. 1."""
    state = (seed * 4 + ("right", "left").index(way) * 2 + ("udp", "tcp").index(kind)) & MASK
    for _ in count():
        four = []
        for _ in range(4):
            state = (state + 0x9E3779B97F4A7C15) & MASK
            z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
            four.append(((z ^ (z >> 31)) >> 11) / (1 << 53))
        yield tuple(four)
