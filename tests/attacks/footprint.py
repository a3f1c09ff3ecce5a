"""What a process holds: memory, descriptors, threads; sampled while something happens to it."""

import os
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

MIB = 1 << 20
EVERY_S = 0.05
# Until it is back where it was. The broker returns freed memory to the system every ten seconds.
BACK_S = 45.0


@dataclass(frozen=True)
class Footprint:
    """What a process holds at one moment."""

    memory: int  # bytes, resident, of its own: without pages of files, such as the journal's
    descriptors: int
    threads: int

    def __str__(self) -> str:
        return f"{self.memory / MIB:.0f} MiB, {self.descriptors} files, {self.threads} threads"


def footprint(pid: int) -> Footprint:
    """What the process holds now."""
    place = Path(f"/proc/{pid}")
    found = re.search(r"^RssAnon:\s+(\d+) kB", (place / "status").read_text(), re.MULTILINE)
    assert found is not None
    tasks, files = os.listdir(place / "task"), os.listdir(place / "fd")
    return Footprint(int(found[1]) * 1024, len(files), len(tasks))


def most(one: Footprint, other: Footprint) -> Footprint:
    return Footprint(
        max(one.memory, other.memory),
        max(one.descriptors, other.descriptors),
        max(one.threads, other.threads),
    )


class Watched:
    """Samples a process until it is stopped; `peak` is the most of each."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.before = self.peak = footprint(pid)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def _sample(self) -> None:
        while not self._over.wait(EVERY_S):
            self.peak = most(self.peak, footprint(self.pid))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def back(self, memory: int, descriptors: int, threads: int) -> Footprint:
        """Wait until it holds no more than this beyond what it held before; what it holds then."""
        end = time.monotonic() + BACK_S
        while True:
            now = footprint(self.pid)
            self.peak = most(self.peak, now)
            if (
                now.memory <= self.before.memory + memory
                and now.descriptors <= self.before.descriptors + descriptors
                and now.threads <= self.before.threads + threads
            ):
                return now
            if time.monotonic() > end:
                raise AssertionError(f"not back: before {self.before}; now {now}")
            self._over.wait(EVERY_S)
