"""The processes of a benchmark: each publisher and subscriber is one, forked from the command.

    its pipe    "ready" goes out, the time of the go comes in, a `WorkerReport` goes out
    its cell    in memory that all share: how many messages it has handled so far

A worker ends when its parent does, however that ends. SIGTERM interrupts it once, whatever it waits
for; it then reports what it has done. SIGINT, which a terminal sends to all, is the parent's alone:
workers have it blocked from the fork on.
"""

import ctypes
import mmap
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Final

from seriatim.bench.arrival_tally import ArrivalTally
from seriatim.cli.bench.latencies import Pairs
from seriatim.cli.errors import CliError

PR_SET_PDEATHSIG: Final = 1
PR_SET_TIMERSLACK: Final = 29
SLACK_NS: Final = 1000  # what a sleep may last longer; the default of 50 us would be latency
CELL: Final = 8  # bytes

# Cells that belong to all; those of the workers follow.
TOTAL: Final = 0  # messages that each subscriber is to receive; 0: not known yet
PUBLISHED: Final = 1  # 1 if the publishers have ended
OWN: Final = 2


@dataclass(slots=True)
class WorkerReport:
    """The work that one process has done; times by the monotonic clock, in ns."""

    messages: int = 0
    payload_bytes: int = 0
    cpu_seconds: float = 0.0
    begin_ns: int = 0
    end_ns: int = 0
    latencies: list[tuple[int, int]] = field(default_factory=list)  # microseconds, how many
    is_complete: bool = False  # it was not interrupted
    missing: int = 0
    repeated: int = 0
    foreign: int = 0
    disordered: int = 0
    lost: int = 0  # deleted messages that a replay was told of
    first: int = 0  # numbers
    last: int = 0
    failure: str = ""

    def count_sent(
        self, messages: int, size: int, cpu_seconds: float, latencies: Pairs = ()
    ) -> None:
        """Count what a publisher has sent until now, in messages of this size."""
        self.end_ns = time.monotonic_ns()
        self.messages, self.payload_bytes = messages, messages * size
        self.cpu_seconds = cpu_seconds
        self.latencies = list(latencies)

    def count_received(
        self, tally: ArrivalTally, lost: int, cpu_seconds: float, latencies: Pairs = ()
    ) -> None:
        """Count what a subscriber has received."""
        self.messages, self.payload_bytes = tally.messages, tally.payload_bytes
        self.repeated, self.foreign = tally.repeated, tally.foreign
        self.disordered, self.lost = tally.disordered, lost
        self.first, self.last = tally.first, tally.last
        self.cpu_seconds = cpu_seconds
        self.latencies = list(latencies)

    def count_missing(self, sent: int) -> None:
        """Count what did not come of so many messages."""
        self.missing = max(0, sent - (self.messages - self.repeated))


class SharedCells:
    """Counters in memory that the processes share, each written by one of them."""

    def __init__(self, workers: int) -> None:
        memory = mmap.mmap(-1, CELL * (OWN + workers))  # anonymous: it goes with the processes
        self.cells = memoryview(memory).cast("q")


class WorkerPost:
    """A worker's own things: its pipe, its cell, and the shared ones."""

    def __init__(self, pipe: Connection, cells: memoryview, own: int) -> None:
        self.pipe = pipe
        self.cells = cells
        self._own = own
        self._cpu = 0.0

    def await_go(self) -> int:
        """Say that this worker is ready; return when to begin, by the monotonic clock."""
        self.pipe.send("ready")
        return self.begin_at()

    def begin_at(self) -> int:
        """Wait for the go and the moment it names, and begin to count processor time."""
        begin: int = self.pipe.recv()
        time.sleep(max(0, begin - time.monotonic_ns()) / 1e9)  # at most `LEAD_NS` of crew.py
        self._cpu = time.process_time()
        return begin

    def note(self, messages: int) -> None:
        """Show how far this worker is."""
        self.cells[self._own] = messages

    def cpu_seconds(self) -> float:
        """Return the processor time since the go."""
        return time.process_time() - self._cpu


Work = Callable[[WorkerPost, WorkerReport], None]


class Worker:
    """A process, as its parent sees it."""

    def __init__(self, name: str, work: Work, shared: SharedCells, index: int) -> None:
        self.name = name
        self.cell = OWN + index
        self.is_ready = False
        self.report: WorkerReport | None = None
        context = get_context("fork")  # it has everything: the plan, and the way to log in
        self.pipe, other = context.Pipe()
        post = WorkerPost(other, shared.cells, self.cell)
        self.process: ForkProcess = context.Process(
            target=_be_worker, args=(work, post, os.getpid()), daemon=True
        )
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        other.close()  # only the worker has it now: its end is the end of the pipe

    def take(self) -> None:
        """Take what the worker says. Raises `CliError` if it has failed or died."""
        try:
            said = self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            said = WorkerReport(failure=f"{self.name} ended unexpectedly: {self._status()}")
        if not isinstance(said, WorkerReport):
            self.is_ready = True
            return
        self.report = said
        if said.failure:
            raise CliError(said.failure)

    def interrupt(self) -> None:
        """Make it stop, and report what it has done."""
        self.process.terminate()

    def end(self) -> None:
        """Kill the process, if it is still there, and free what belongs to it."""
        self.process.kill()
        self.process.join()
        self.process.close()
        self.pipe.close()

    def _status(self) -> str:
        code = self.process.exitcode or 0
        return signal.strsignal(-code) or str(code) if code < 0 else f"exit status {code}"


def _be_worker(work: Work, post: WorkerPost, parent: int) -> None:
    """Do the work of a worker's process, and report it."""
    is_working = True

    def interrupt(*_: object) -> None:
        nonlocal is_working
        if is_working:
            is_working = False
            raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    control = ctypes.CDLL(None).prctl
    control(PR_SET_PDEATHSIG, signal.SIGKILL)
    control(PR_SET_TIMERSLACK, SLACK_NS)
    if os.getppid() != parent:
        return  # it has ended before it could be watched
    report = WorkerReport()
    try:
        work(post, report)
        is_working = False
    except KeyboardInterrupt:
        pass
    except Exception as error:
        report.failure = str(error) or type(error).__name__
    is_working = False
    with suppress(OSError):  # the parent has gone
        post.pipe.send(report)
