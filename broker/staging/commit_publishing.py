"""Publishes the rows of a commit from its stages through the plane, in turns.

A turn takes some milliseconds; then other clients are served. If the journal has no room, the
commit waits until it has. Without a journal, slow subscribers hold it briefly, as they hold any
publisher.
"""

import asyncio
import errno
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from broker.core import Core
from broker.dataplane.staged_rows import Staged
from broker.runtime.clocks import steady_ns
from broker.staging.operations_asked import Asker, CommitRequest
from broker.staging.shares import NOBODY, Owner
from broker.staging.stages import Stage
from parser.machine import Parser
from parser.table import START

READ_BYTES = 1 << 20
RETRY = 0.25  # seconds until the next attempt to get a missing resource
ANY_SIZE = 999_999_999  # rows were checked when they came; other limits do not apply to them now
Result = TypeVar("Result")


class FileRunner(Protocol):
    """Runs `work` in the thread for files: Workspace.run."""

    def __call__(self, work: Callable[[], Result]) -> Awaitable[Result]: ...


class Stopped(Exception):
    """The broker is stopping; the next one continues."""


class Damaged(Exception):
    """Rows that were promised can no longer be read."""


class Commit:
    """One batch on its way. Rows count from 1; those published have numbers `first` to `last`."""

    __slots__ = (
        *("first", "last", "missing", "number", "origin", "promised", "rows", "stages"),
        *("owner", "request", "waiters"),
    )

    def __init__(self, request: CommitRequest, stages: list[Stage], owner: Owner = NOBODY) -> None:
        self.request = request
        self.owner = owner
        self.stages = stages
        self.rows = sum(stage.rows for stage in stages)
        self.origin = int.from_bytes(os.urandom(8), "big")  # no client has the same one
        self.number = 0  # the last number given before its first row
        self.promised = False  # its intent is on the disk
        self.first = self.last = 0
        self.missing: list[tuple[int, int]] = [(1, self.rows)] if self.rows else []
        self.waiters: list[tuple[Asker, bool]] = []  # to be answered; True: for these stages


class Publishing:
    """The publisher of commits' rows, one per broker. Subscribers may hold it like any other."""

    def __init__(self, core: Core, staged: Staged, run: FileRunner) -> None:
        self._core = core
        self._staged = staged
        self._run = run
        self._stop: asyncio.Future[None] = core.loop.create_future()
        self._held: asyncio.Future[None] | None = None
        self.held_by = 0
        self.rows = 0

    def stop(self) -> None:
        """End all waiting here."""
        if not self._stop.done():
            self._stop.set_result(None)

    async def wait(self, event: Awaitable[Result]) -> Result:
        """Wait for something, but not after the stop. Raises `Stopped`."""
        future: asyncio.Future[Result] = asyncio.ensure_future(event)
        both: set[asyncio.Future[Any]] = {future, self._stop}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if self._stop.done():
            if not future.done():
                future.cancel()
            raise Stopped
        return future.result()

    async def called_back(self, ask: Callable[[Callable[[], None]], None]) -> None:
        """Wait until the callback given to `ask` is called."""
        event = self._core.loop.create_future()
        ask(lambda: None if event.done() else event.set_result(None))
        await self.wait(event)

    def resume(self) -> None:
        """Continue: the slow subscribers have drained, or held us long enough."""
        if self._held is not None and not self._held.done():
            self._held.set_result(None)

    async def publish(self, commit: Commit) -> None:
        """Publish the rows that are missing. Raises `OSError`, `Damaged` and `Stopped`."""
        row = 1
        for stage in commit.stages:
            fd = await self._open(stage)
            try:
                row = await self._stage(commit, Rest(fd, stage), row)
            finally:
                os.close(fd)
        if commit.missing:
            raise Damaged(f"it has no row {commit.missing[0][0]}")

    async def _open(self, stage: Stage) -> int:
        """Open the stage; if clients have taken all descriptors, wait: that is not damage."""
        while True:
            try:
                return os.open(stage.file, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
            await self.wait(asyncio.sleep(RETRY))

    async def _stage(self, commit: Commit, rest: "Rest", row: int) -> int:
        """Publish a stage's missing rows; `row` is its first. Return the next stage's first."""
        staged = self._staged
        while commit.missing and await rest.more(self._run):
            ended = False
            while commit.missing and not ended:
                first, last = commit.missing[0]
                if row < first:
                    place = (rest.buffer, rest.at, rest.stop)
                    row += self._judge(staged.pass_over(rest.parser, *place, first - row))
                    rest.at = staged.at
                    ended = row < first
                    continue
                row += self._turn(commit, rest, row, last + 1 - row)
                if row > last:
                    commit.missing.pop(0)
                ended = staged.ended
                if staged.full:
                    await self._room()
                else:
                    await self._others()
        return row

    def _turn(self, commit: Commit, rest: "Rest", row: int, most: int) -> int:
        """Publish rows from `row` on, and release their effects; return how many."""
        plane, staged = self._core.plane, self._staged
        plane.sequencer.tick(time.time_ns(), steady_ns())
        place = (rest.buffer, rest.at, rest.stop)
        rows = staged.publish(rest.parser, *place, commit.origin, row, most)
        plane.release(None)
        self._judge(rows)
        rest.at = staged.at
        if rows:
            commit.last = plane.sequencer.number
            commit.first = commit.first or commit.last - rows + 1
            self.rows += rows
        self._core.advance()
        return rows

    def _judge(self, rows: int) -> int:
        if rows < 0:
            raise Damaged("the stage no longer holds valid operations")
        return rows

    async def _others(self) -> None:
        """Let other clients have a turn; slow subscribers may hold us."""
        core = self._core
        if core.plane.gate.crowded:
            core.hold(self)
            if self.held_by:
                self._held = core.loop.create_future()
                await self.wait(self._held)
        await asyncio.sleep(0)
        if self._stop.done():
            raise Stopped

    async def _room(self) -> None:
        """Wait until the journal takes more."""
        keeper = self._core.keeper
        assert keeper is not None, "only a disk can be full"
        await self.called_back(keeper.when_roomy)


class Rest:
    """The rest of a stage: `buffer[at:stop]`, and the bytes after it in the file."""

    def __init__(self, fd: int, stage: Stage) -> None:
        self.parser = Parser(ANY_SIZE, ANY_SIZE)
        self.buffer = bytearray(min(READ_BYTES, stage.bytes))
        self.at = self.stop = 0
        self._fd = fd
        self._offset = stage.head
        self._end = stage.head + stage.bytes

    async def more(self, run: FileRunner) -> bool:
        """Read on after the rest; False at the end. In a thread, because the disk may be needed."""
        left = self.stop - self.at
        if self._offset == self._end:
            if left or self.parser.state != START:
                raise Damaged("a stage ends in the middle of a row")
            return False
        buffer = self.buffer
        if left == len(buffer):
            self.buffer = bytearray(2 * left)
        self.buffer[:left] = buffer[self.at : self.stop]
        self.at, self.stop = 0, left
        got = await run(self._read)
        if got == 0:
            raise Damaged("a stage has become shorter")
        self.stop += got
        self._offset += got
        return True

    def _read(self) -> int:
        room = min(len(self.buffer) - self.stop, self._end - self._offset)
        with memoryview(self.buffer)[self.stop : self.stop + room] as view:
            return os.preadv(self._fd, [view], self._offset)
