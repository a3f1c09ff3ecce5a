"""A store, its keeper and an event loop, as a program of the plane moves them by hand.

`Disk` is the ring with a disk's troubles: no room, and writes that fail. `Watch` is
broker/storage/keeper.py without threads and clocks: a sync begins and ends when it is told to.
"""

import errno
from collections import deque
from collections.abc import Callable
from typing import Any

from broker.dataplane.gate import Gate
from broker.replay.replays import Replays
from sequencer.journal.ring import Ring, RingPiece

STEP = 512  # bytes that are reserved beyond what is needed
TURNS_MAX = 50_000
PROBLEM = "No space left on device"


class Disk(Ring):
    """Keeps everything; `limit` is how many bytes it has made sure of so far."""

    def __init__(self, number: int, checked: bool) -> None:
        super().__init__(1 << 40)
        self.checked = checked
        self.last = number
        self._active = RingPiece(number + 1, bytearray())
        self._pieces = [self._active]
        self.written = self.limit = 0
        self.short = self.broken = False
        self.room = 0

    def reserve(self, need: int) -> None:
        if self.written + need > self.limit:
            if self.short:
                raise OSError(errno.ENOSPC, PROBLEM)
            self.limit = self.written + need + STEP
        self.room = self.limit - self.written

    def write(self, view: memoryview, first: int, last: int, time: int, ids: bool) -> None:
        if self.broken:
            raise OSError(errno.ENOSPC, PROBLEM)
        super().write(view, first, last, time, ids)
        self.written += len(view)
        self.room = self.limit - self.written
        assert self.room >= 0, "nothing is taken that there is no room for"


class Done:
    """A future whose result is there."""

    def __init__(self, loop: "Loop", result: Any) -> None:
        self._loop = loop
        self._result = result

    def exception(self) -> None:
        return None

    def result(self) -> Any:
        return self._result

    def add_done_callback(self, call: Callable[["Done"], None]) -> None:
        self._loop.call_soon(call, self)


class Loop:
    """Of an event loop, what `Replays` uses."""

    def __init__(self) -> None:
        self._calls: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()

    def call_soon(self, call: Callable[..., Any], *args: Any) -> None:
        self._calls.append((call, args))

    def time(self) -> float:
        return 0.0

    def run_in_executor(self, _: None, work: Callable[[], Any]) -> Done:
        return Done(self, work())

    def run(self) -> None:
        """Until nothing is left to do."""
        for _ in range(TURNS_MAX):
            if not self._calls:
                return
            call, args = self._calls.popleft()
            call(*args)
        raise AssertionError("a cursor goes round in circles")


class Watch:
    """The keeper of a `Disk`."""

    def __init__(self, gate: Gate, replays: Replays, disk: Disk, synced_only: bool) -> None:
        self.problem = ""
        self.refused = 0
        self.stuck_at: int | None = None  # the last number taken before a write failed
        self._gate = gate
        self._sequencer = gate.sequencer
        self._replays = replays
        self._disk = disk
        self._synced_only = synced_only
        self._syncing: int | None = None

    def trouble(self, error: OSError) -> None:
        self.problem = str(error.strerror)
        if self._sequencer.stuck and self.stuck_at is None:
            self.stuck_at = self._sequencer.number

    def unsafe(self) -> None:
        """A sync comes when the program says so."""

    def sync(self) -> None:
        """End the sync that is under way, and begin the next."""
        if self._syncing is not None:
            self._let_out(self._syncing)
        if not self._sequencer.stuck:
            self._gate.seal()
        self._syncing = self._disk.last

    def mend(self) -> None:
        """The disk is well again, and has room."""
        self._disk.short = self._disk.broken = False
        self._sequencer.resume()
        self.problem = ""
        self.stuck_at = None
        if not self._synced_only:
            self._gate.seal()
            self._let_out(self._sequencer.written)

    def _let_out(self, number: int) -> None:
        self._sequencer.synced(number)
        self._gate.let_out()
        self._replays.wake_all()
        self._replays.advance()
