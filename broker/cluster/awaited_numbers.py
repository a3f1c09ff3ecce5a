"""Requests for numbers that this member has, and may not show yet: they wait for the watermark.

Who was just told a number by another member finds it here, too: a moment later it is committed as
far as this member knows.
"""

import asyncio
import heapq
from collections.abc import Callable
from typing import Final

from broker.cluster.store_log import StoreLog
from sequencer.sequencer import Sequencer

WAIT_SECONDS: Final = 1.0
WAITING_MAX: Final = 4096  # more are answered at once


class AwaitedNumbers:
    """One per member, for its one thread. `sequencer` counts what was delivered."""

    def __init__(
        self, journal: StoreLog, sequencer: Sequencer, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._journal = journal
        self._sequencer = sequencer
        self._loop = loop
        self._asked = 0
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []  # a heap, by number
        self._ends: dict[int, asyncio.TimerHandle] = {}  # by which request it is

    def wait(self, number: int, action: Callable[[], None]) -> bool:
        """Run `action` when this number is delivered, or after a second; False: it is not here."""
        if not self._sequencer.number < number <= self._journal.last:
            return False
        if len(self._waiting) >= WAITING_MAX:
            return False
        self._asked += 1
        heapq.heappush(self._waiting, (number, self._asked, action))
        self._ends[self._asked] = self._loop.call_later(WAIT_SECONDS, self._late, self._asked)
        return True

    def delivered(self) -> None:
        """More numbers were delivered."""
        while self._waiting and self._waiting[0][0] <= self._sequencer.number:
            _, asked, action = heapq.heappop(self._waiting)
            self._ends.pop(asked).cancel()
            action()

    def stop(self) -> None:
        """Answer nobody any more."""
        for timer in self._ends.values():
            timer.cancel()
        self._waiting, self._ends = [], {}

    def _late(self, asked: int) -> None:
        del self._ends[asked]
        at = next(at for at, one in enumerate(self._waiting) if one[1] == asked)
        action = self._waiting.pop(at)[2]
        heapq.heapify(self._waiting)
        action()
