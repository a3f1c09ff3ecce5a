"""Requests for numbers that this member has but may not show yet: they wait for the watermark.

A client may have learned a number from another member, a moment before this member knows that it is
committed. Its request waits here instead of failing.
"""

import asyncio
import heapq
from collections.abc import Callable
from itertools import islice
from typing import Final

from broker.cluster.storage.store_log import StoreLog
from sequencer.sequencer import Sequencer

WAIT_SECONDS: Final = 1.0
WAITING_MAX: Final = 4096  # further requests are answered at once
TURN: Final = 256  # timed-out requests answered in one turn


class AwaitedNumbers:
    """The requests that wait for a number. One per member, for its one thread.

    `sequencer` counts the delivered numbers.
    """

    def __init__(
        self, journal: StoreLog, sequencer: Sequencer, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._journal = journal
        self._sequencer = sequencer
        self._loop = loop
        self._asked = 0
        self._heap: list[tuple[int, int]] = []  # number and request, also of late ones
        self._waiting: dict[
            int, tuple[float, Callable[[], None]]
        ] = {}  # deadline, action; the oldest first
        self._timer: asyncio.TimerHandle | None = None  # for all: thousands may time out at once

    def wait(self, number: int, action: Callable[[], None]) -> bool:
        """Run `action` when this number is delivered, or after a second.

        False, without a wait: it is delivered, is not in the journal, or too many requests wait.
        """
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
        """Run the actions whose numbers have been delivered."""
        while self._heap and self._heap[0][0] <= self._sequencer.number:
            _, asked = heapq.heappop(self._heap)
            _, action = self._waiting.pop(asked)
            action()

    def stop(self) -> None:
        """Drop all waiting requests."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._heap, self._waiting = [], {}

    def _late(self) -> None:
        """Answer up to `TURN` requests that have timed out; the others follow in later turns."""
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
