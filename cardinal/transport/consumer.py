"""A consumer: the steps of a chain from a broker, each with the token to resume from.

    async with Consumer("evm", url, follower=ChainFollower(start=hash), token=token) as consumer:
        async for event in consumer:
            if isinstance(event, Step):
                ...                     apply event.update and store event.token, atomically
                consumer.done(event)    wakes the tasks that wait for these blocks

With update and token stored together, a consumer that is killed and restarted with the token, and
with the hash of its last block as the follower's start, applies every block once. Events of the
reader and the follower are passed on, too.
"""

import asyncio
from collections import deque
from typing import Any, Self

from cardinal.assembler import Evicted
from cardinal.chain import NO_PARENT
from cardinal.follower import ChainFollower, Step
from cardinal.follower import Event as Followed
from cardinal.transport.application_reader import (
    ApplicationReader,
    Happening,
    JournalChanged,
    Rewound,
)
from cardinal.transport.waiting import AppliedWaiters, Outcome
from cardinal.update import Unlinked

LOOK_SECONDS = 1.0  # how often, without messages, blocks that will not complete are given up

Event = Followed | Happening


class Consumer:
    """The consumer of one application: an iterator of events, for one task."""

    def __init__(
        self,
        application: str,
        url: str = "nats://127.0.0.1:4222",
        *,
        follower: ChainFollower | None = None,
        token: str = "",
        rollback: int = 0,
        first: int = 1,
        **options: Any,
    ) -> None:
        """Begin where `token` says, less `rollback` numbers; without one at number `first`.

        Tokens of a `ChainFollower` need no rollback. `options` are the reader's and the client's;
        with `last` the events come to an end. Raises `BadToken`, `BadTopic`.
        """
        self.follower = follower or ChainFollower()
        places = self.follower.resume(token)
        streams = {name: max(1, at - rollback) for name, at in places.items()}
        self.reader = ApplicationReader(application, url, streams=streams, first=first, **options)
        self.waiting = AppliedWaiters()
        chain = self.follower.chain
        if chain.head != NO_PARENT:  # a start was given: it has been applied
            self.waiting.add_applied(chain.head, chain.number)
        self._events: deque[Event] = deque()

    async def __aenter__(self) -> Self:
        """Connect. Raises `TransportError`."""
        await self.reader.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop reading; end all waiting."""
        self.waiting.close()
        await self.reader.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """The next event. Raises `Refused`, `NoNumbers`."""
        while not self._events:
            if self.reader.ended:
                self._events.extend(self.follower.flush())
                if not self._events:
                    raise StopAsyncIteration
                break
            rows, happened = await self.reader.read(LOOK_SECONDS)
            self._events.extend(happened)
            for one in happened:
                if isinstance(one, Rewound):
                    self.follower.rewind(self.reader.stream, one.last + 1)
                elif isinstance(one, JournalChanged):
                    for name in one.old.split(","):
                        self.follower.forget(name)
            now = asyncio.get_running_loop().time()
            self._events.extend(self.follower.take(rows, self.reader.stream, now))
        event = self._events.popleft()
        if isinstance(event, Evicted | Unlinked):
            self.waiting.given_up(event.hash)
        return event

    def done(self, step: Step) -> None:
        """Record that the application has applied a step; wake those who wait for it."""
        self.waiting.applied(step.update)

    async def wait_for_hash(self, hash: bytes, seconds: float) -> Outcome:
        """Wait until the block with this hash is `done`."""
        return await self.waiting.for_hash(hash, seconds)

    async def wait_for_number(self, number: int, seconds: float) -> Outcome:
        """Wait until a block with this number, or a higher one, is `done`."""
        return await self.waiting.for_number(number, seconds)
