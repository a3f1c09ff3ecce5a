"""Waiting until a block, or a number, was applied: for servers of a consumer's state.

A consumer reports applied updates by `applied`. The last `remember` hashes of the chain are kept,
so that late requests are answered at once.
"""

import asyncio
from enum import Enum

from cardinal.update import ChainUpdate

REMEMBER = 1024


class Outcome(Enum):
    """The outcome of waiting."""

    SUCCESS = "applied"
    TIMEOUT = "not in time"
    NOT_FOUND = "given up, removed by a reorg, or no longer applied"


class AppliedWaiters:
    """The tasks that wait for blocks; for one event loop."""

    def __init__(self, remember: int = REMEMBER) -> None:
        self.number = -1  # of the last block that was applied
        self._remember = remember
        self._applied: dict[bytes, None] = {}
        self._for_hash: dict[bytes, set[asyncio.Future[Outcome]]] = {}
        self._for_number: dict[asyncio.Future[Outcome], int] = {}
        self._closed = False

    def add_applied(self, hash: bytes, number: int | None) -> None:
        """Record a block that was applied before we began, and its number if known."""
        self._applied[hash] = None
        if number is not None:
            self.number = number

    def applied(self, update: ChainUpdate) -> None:
        """Record an applied update, and wake the tasks that waited for it."""
        for block in update.removed:
            self._applied.pop(block.hash, None)
        for block in update.added:
            self._applied[block.hash] = None
            self._release(block.hash, Outcome.SUCCESS)
        while len(self._applied) > self._remember:
            del self._applied[next(iter(self._applied))]
        for block in update.removed:
            if block.hash not in self._applied:
                self._release(block.hash, Outcome.NOT_FOUND)
        if update.added:
            self.number = update.added[-1].number
        for future, number in list(self._for_number.items()):
            if number <= self.number and not future.done():
                future.set_result(Outcome.SUCCESS)

    def given_up(self, hash: bytes) -> None:
        """Wake the tasks that wait for a block that will not come."""
        self._release(hash, Outcome.NOT_FOUND)

    def close(self) -> None:
        """End all waiting: nothing more will be applied."""
        self._closed = True
        for hash in list(self._for_hash):
            self._release(hash, Outcome.NOT_FOUND)
        for future in self._for_number:
            if not future.done():
                future.set_result(Outcome.NOT_FOUND)

    async def for_hash(self, hash: bytes, seconds: float) -> Outcome:
        """Wait until the block with this hash has been applied."""
        if hash in self._applied:
            return Outcome.SUCCESS
        if self._closed:
            return Outcome.NOT_FOUND
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._for_hash.setdefault(hash, set()).add(future)
        try:
            return await _in_time(future, seconds)
        finally:
            waiters = self._for_hash.get(hash, set())
            waiters.discard(future)
            if not waiters:
                self._for_hash.pop(hash, None)

    async def for_number(self, number: int, seconds: float) -> Outcome:
        """Wait until a block with this number, or a higher one, has been applied."""
        if number <= self.number:
            return Outcome.SUCCESS
        if self._closed:
            return Outcome.NOT_FOUND
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._for_number[future] = number
        try:
            return await _in_time(future, seconds)
        finally:
            del self._for_number[future]

    def _release(self, hash: bytes, outcome: Outcome) -> None:
        for future in self._for_hash.pop(hash, ()):
            if not future.done():
                future.set_result(outcome)


async def _in_time(future: asyncio.Future[Outcome], seconds: float) -> Outcome:
    try:
        async with asyncio.timeout(seconds):
            return await future
    except TimeoutError:
        return Outcome.TIMEOUT
