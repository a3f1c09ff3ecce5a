"""The demo's traffic: publishers, and a subscriber at each member that checks every number.

Each publisher sends its messages one after the other, and the client repeats each until it is
answered, at another member if necessary. So each message must get exactly one number. A subscriber
stays at its member, and resumes where its connection was lost. It must see no gap and no duplicate,
and the same messages as the others.
"""

import asyncio
import contextlib
import itertools
import time
import zlib
from collections.abc import Callable
from typing import Final

import seriatim

PUBLISHERS: Final = 12
PAUSE_S: Final = 0.02  # of a publisher after each answer: some hundred messages a second suffice
ANSWER_MAX_S: Final = 3600.0  # a demo may leave its members dead for a while
RETRY_S: Final = 0.1


class DemoLedger:
    """The record of what subscribers got: each number's checksum, until all have seen it."""

    def __init__(self, readers: int) -> None:
        self.wrong: list[str] = []
        self._readers = readers
        self._seen: dict[int, list[int]] = {}  # number: its checksum, and how many have seen it
        self._next: dict[bytes, int] = {}  # a publisher's next message
        self.last = 0

    def saw(self, reader: str, expected: int, number: int, payload: bytes) -> None:
        """Record a number that a subscriber got, and what is wrong with it."""
        if number > expected:
            self.wrong.append(f"{reader}: numbers {expected} to {number - 1} are missing")
        elif number < expected:
            self.wrong.append(f"{reader}: number {number} came twice")
        checksum = zlib.crc32(payload)
        known = self._seen.setdefault(number, [checksum, 0])
        if known[0] != checksum:
            self.wrong.append(f"{reader}: number {number} is another message than elsewhere")
        if number > self.last:
            self._first_time(number, payload)
        known[1] += 1
        if known[1] == self._readers:
            del self._seen[number]

    def _first_time(self, number: int, payload: bytes) -> None:
        self.last = number
        publisher, _, count = payload.partition(b" ")
        expected = self._next.get(publisher, 0)
        if int(count) != expected:
            text = (
                f"publisher {publisher.decode()}: message {int(count)} came instead of {expected}"
            )
            self.wrong.append(f"number {number}: {text}")
        self._next[publisher] = int(count) + 1


class DemoTraffic:
    """All publishers and subscribers. `urls` are the members' addresses, by name.

    `changed` is called at each answer.
    """

    def __init__(self, urls: dict[str, str], changed: Callable[[], None]) -> None:
        self.ledger = DemoLedger(len(urls))
        self.answered = 0
        self.answered_at = time.monotonic()
        self.stood = 0.0  # the longest time without an answer since `begin_measuring`
        self.seen = dict.fromkeys(urls, 0)  # the last number that each subscriber got
        self._changed = changed
        self._urls = urls
        self._tasks: list[asyncio.Task[None]] = []
        self._readers: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to publish and to subscribe."""
        for number in range(PUBLISHERS):
            self._tasks.append(asyncio.ensure_future(self._publish(number)))
        for name, url in self._urls.items():
            self._readers.append(asyncio.ensure_future(self._subscribe(name, url)))

    def begin_measuring(self) -> None:
        """Reset the longest pause of publishing."""
        self.stood, self.answered_at = 0.0, time.monotonic()

    async def end(self, seconds: float) -> list[str]:
        """Stop publishing, let all subscribers get everything; return what was wrong."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while min(self.seen.values()) < self.answered or len(set(self.seen.values())) > 1:
                    await asyncio.sleep(RETRY_S)
        for task in self._readers:
            task.cancel()
        await asyncio.wait(self._readers)
        last = max(self.seen.values())
        late = [name for name, number in self.seen.items() if number < last]
        wrong = [f"{name} has seen {self.seen[name]} of {last} numbers" for name in late]
        if last < self.answered:
            wrong.append(f"{self.answered} messages were answered, and {last} numbers exist")
        failed = [str(task.exception()) for task in self._readers if _failed(task)]
        return self.ledger.wrong + wrong + failed

    # A publisher

    async def _publish(self, number: int) -> None:
        order = list(self._urls.values())
        servers = order[number % len(order) :] + order[: number % len(order)]
        async with seriatim.connect(servers, name=f"publisher {number}", wait=True) as stream:
            for count in itertools.count():
                payload = b"%d %d" % (number, count)
                await stream.publish(f"demo.{number}", payload, timeout=ANSWER_MAX_S)
                now = time.monotonic()
                self.stood = max(self.stood, now - self.answered_at)
                self.answered_at = now
                self.answered += 1
                self._changed()
                await asyncio.sleep(PAUSE_S)

    # A subscriber

    async def _subscribe(self, name: str, url: str) -> None:
        connecting = seriatim.connect(url, name=f"subscriber at {name}", wait=True, discover=False)
        async with connecting as stream:
            async for message in stream.read("demo.>", start=1):
                self.ledger.saw(name, self.seen[name] + 1, message.number, message.payload)
                self.seen[name] = message.number


def _failed(task: "asyncio.Task[None]") -> bool:
    return not task.cancelled() and task.exception() is not None
