"""The rows of one promised batch, while the coordinator numbers them.

A turn publishes the rows in memory. A thread reads the next ones, and then `wake` is called.
"""

import asyncio
import os
from collections.abc import Callable, Sequence

from broker.dataplane.staged_rows import Staged
from broker.staging.commit_publishing import Damaged, FileRunner, Rest
from broker.staging.stages import Stage


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
        self._rest: Rest | None = None
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
                    self._fd = os.open(stage.file, os.O_RDONLY | os.O_CLOEXEC)
                    self._rest = Rest(self._fd, stage)
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
