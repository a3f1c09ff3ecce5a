"""Requests for numbers that this member has, and may not show yet: they wait for the watermark.

Who was just told a number by another member finds it here, too: a moment later it is committed as
far as this member knows.
"""

import asyncio
import heapq
from collections.abc import Callable
from itertools import islice
from typing import Final

from broker.cluster.storage.store_log import StoreLog
from sequencer.sequencer import Sequencer

WAIT_SECONDS: Final = 1.0
WAITING_MAX: Final = 4096  # more are answered at once
TURN: Final = 256  # answered in one turn when they have waited long enough


class AwaitedNumbers:
    """One per member, for its one thread. `sequencer` counts what was delivered."""

    def __init__(
        self, journal: StoreLog, sequencer: Sequencer, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._journal = journal
        self._sequencer = sequencer
        self._loop = loop
        self._asked = 0
        self._heap: list[tuple[int, int]] = []  # number, and which request it is; also late ones
        self._waiting: dict[
            int, tuple[float, Callable[[], None]]
        ] = {}  # until when; the oldest first
        self._timer: asyncio.TimerHandle | None = None  # one for all: thousands may end at a time

    def wait(self, number: int, action: Callable[[], None]) -> bool:
        """Run `action` when this number is delivered, or after a second; False: it is not here."""
        if not self._sequencer.number < number <= self._journal.last:
            return False
        if len(self._heap) >= WAITING_MAX:
            return False
        self._asked += 1
        heapq.heappush(self._heap, (number, self._asked))
        self._waiting[self._asked] = self._loop.time() + WAIT_SECONDS, action
        if self._timer is None:
            self._timer = self._loop.call_later(WAIT_SECONDS, self._late)
        return True

    def delivered(self) -> None:
        """More numbers were delivered."""
        while self._heap and self._heap[0][0] <= self._sequencer.number:
            _, asked = heapq.heappop(self._heap)
            _, action = self._waiting.pop(asked)
            action()

    def stop(self) -> None:
        """Answer nobody any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._heap, self._waiting = [], {}

    def _late(self) -> None:
        """Answer some that have waited long enough; the others have their turns."""
        self._timer = None
        now = self._loop.time()
        late = [one for one, (until, _) in islice(self._waiting.items(), TURN) if until <= now]
        actions = [self._waiting.pop(one)[1] for one in late]
        if late:
            gone = set(late)
            self._heap = [one for one in self._heap if one[1] not in gone]
            heapq.heapify(self._heap)
        if self._waiting:
            until, _ = next(iter(self._waiting.values()))
            self._timer = self._loop.call_at(until, self._late)
        for action in actions:
            action()
