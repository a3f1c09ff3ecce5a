"""The rows of one promised batch, while they get their numbers.

A turn publishes the rows in memory. A thread reads the next ones, and then `wake` is called.
"""

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

from broker.dataplane.staged_rows import Staged
from broker.staging.stages import ANY_SIZE, Stage
from parser.machine import Parser
from parser.table import START

READ_BYTES: Final = 1 << 20
RETRY: Final = 0.25  # seconds until the next attempt to get a descriptor
NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE)
Result = TypeVar("Result")


class FileRunner(Protocol):
    """Runs `work` in the thread for files."""

    def __call__(self, work: Callable[[], Result]) -> Awaitable[Result]: ...


class Damaged(Exception):
    """Rows that were promised can no longer be read."""


class StageRows:
    """The rows of a promised batch, counted from 1. For one thread."""

    def __init__(
        self,
        origin: int,
        stages: Sequence[Stage],
        staged: Staged,
        run: FileRunner,
        wake: Callable[[], None],
    ) -> None:
        self.damage = ""  # why the rest of it cannot be published
        self._origin = origin
        self._stages = stages
        self._staged = staged
        self._run = run
        self._wake = wake
        self._row = 1  # the next one in the stages
        self._at = 0  # in which stage
        self._fd = -1
        self._rest: UnreadRows | None = None
        self._reading: asyncio.Task[None] | None = None
        self._is_empty = True  # all whole rows in memory are passed

    def publish(self, row: int, most: int) -> int:
        """Publish rows from `row` on, as many as this turn allows; return how many."""
        if row < self._row and self._reading is None:
            self._rewind()  # rows that had a number could not be written
        done = 0
        while done < most and self._is_ready():
            if self._row < row:
                self._pass_over(row - self._row)
                continue
            rows = self._publish(most - done)
            done += rows
            row += rows
            if not self._is_empty:
                break  # no room, or others should get their turn
        if not done and self._reading is None and self._at == len(self._stages):
            self.damage = self.damage or f"it has no row {row}"
        return done

    def close(self) -> None:
        """Close the files: the batch is published, or another member publishes it."""
        if self._reading is None:
            self._close_file()
        else:
            self._reading.add_done_callback(lambda _: self._close_file())

    def _is_ready(self) -> bool:
        """True if there may be a row in memory; if not, a thread reads on."""
        if self.damage or self._reading is not None or self._at == len(self._stages):
            return False
        if self._is_empty:
            self._reading = asyncio.get_running_loop().create_task(self._read())
            return False
        return True

    async def _read(self) -> None:
        """Read on, in this stage or in the next one."""
        try:
            while self._at < len(self._stages):
                if self._rest is None:
                    stage = self._stages[self._at]
                    self._fd = await _open(stage)
                    self._rest = UnreadRows(self._fd, stage)
                if await self._rest.more(self._run):
                    self._is_empty = False
                    break
                self._close_file()
                self._at += 1
        except OSError as error:
            self.damage = f"{error.filename}: {error.strerror}"
        except Damaged as error:
            self.damage = str(error)
        finally:
            self._reading = None
        self._wake()

    def _publish(self, most: int) -> int:
        rest, staged = self._rest, self._staged
        assert rest is not None, "something is in memory"
        place = (rest.buffer, rest.at, rest.stop)
        rows = staged.publish(rest.parser, *place, self._origin, self._row, most)
        if rows < 0:
            self.damage = "a stage no longer holds valid operations"
            return 0
        rest.at = staged.at
        self._is_empty = staged.ended
        self._row += rows
        return rows

    def _pass_over(self, rows: int) -> None:
        rest, staged = self._rest, self._staged
        assert rest is not None, "something is in memory"
        passed = staged.pass_over(rest.parser, rest.buffer, rest.at, rest.stop, rows)
        if passed < 0:
            self.damage = "a stage no longer holds valid operations"
            return
        rest.at = staged.at
        self._is_empty = passed < rows
        self._row += passed

    def _rewind(self) -> None:
        self._close_file()
        self._row, self._at, self._is_empty = 1, 0, True

    def _close_file(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        self._rest = None


async def _open(stage: Stage) -> int:
    """Open a stage; wait for a descriptor if clients have taken all: that is no damage."""
    while True:
        try:
            return os.open(stage.file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                raise
        await asyncio.sleep(RETRY)


class UnreadRows:
    """The unpublished part of a stage: `buffer[at:stop]`, and what follows in the file."""

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
