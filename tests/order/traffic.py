"""Publishers and subscribers on raw sockets, and what a run of them must look like.

A publisher writes its messages in pieces cut at random places, so that reads on the server begin
and end anywhere. A payload is `<publisher> <count>`; with the subject, it determines who must get
what.
"""

import random
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from testkit.model_frame import split_frame
from tests.support.raw import QUIET, Operation, RawClient

PIECE_MAX = 3000
SUBJECTS = [f"t.{a}.{b}" for a in "123" for b in "xyz"] + ["t", "u.1", "u.1.x", "t.1.x.deep"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Heard:
    """One delivery as a subscriber saw it."""

    number: int
    subject: str
    payload: str
    sid: str


def matches(pattern: str, subject: str) -> bool:
    """Whether a subscription to `pattern` wants `subject`, token by token."""
    wanted, given = pattern.split("."), subject.split(".")
    for at, token in enumerate(wanted):
        if token == ">":
            return len(given) > at
        if at >= len(given) or token not in ("*", given[at]):
            return False
    return len(wanted) == len(given)


def heard(operation: Operation) -> Heard:
    assert operation.verb in ("MSG", "HMSG"), operation
    number, payload = split_frame(operation.payload)
    return Heard(number, operation.subject.decode(), payload.decode(), operation.sid.decode())


class Subscriber:
    """A connection that reads from its first moment in a thread of its own."""

    def __init__(self, port: int, pool: ThreadPoolExecutor, subscriptions: tuple[str, ...]) -> None:
        self.patterns = {str(sid): words for sid, words in enumerate(subscriptions)}
        subs = "".join(f"SUB {words} {sid}\r\n" for sid, words in self.patterns.items())
        self.client = RawClient(port, QUIET + subs.encode())
        self._first = self.client.ask(b"")  # it may join in the middle of traffic
        self._reading = pool.submit(self.client.until_pong)

    def finish(self) -> list[Heard]:
        """Everything it heard, after all that was published before has been delivered."""
        return [heard(operation) for operation in self.stop()]

    def stop(self) -> list[Operation]:
        """The same, as it was said."""
        self.client.send(b"PING\r\n")
        return self._first + self._reading.result()

    def leave(self) -> None:
        self.client.half_close()  # wakes the reader, if it still waits
        self.client.close()


class Crew:
    """Threads that publish and subscribers that read, for one broker; nothing is left behind."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._pool = ThreadPoolExecutor(30)
        self._subscribers: list[Subscriber] = []

    def listen(self, *subscriptions: str) -> Subscriber:
        """A subscriber to `PATTERN` or `PATTERN QUEUE` each, sids 0, 1, ..."""
        subscriber = Subscriber(self.port, self._pool, subscriptions)
        self._subscribers.append(subscriber)
        return subscriber

    def start(self, work: Callable[..., T], *arguments: Any) -> Future[T]:
        return self._pool.submit(work, *arguments)

    def publish(self, name: str, count: int, seed: int = 0) -> Future[list[Operation]]:
        return self.start(publish, self.port, name, count, seed)

    def publish_all(self, names: list[str], count: int) -> None:
        """All of them at once, to their end."""
        said = [self.publish(name, count, seed) for seed, name in enumerate(names)]
        assert [done.result() for done in said] == [[]] * len(names)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for subscriber in self._subscribers:
            subscriber.leave()
        self._pool.shutdown()


def stream(name: str, count: int, seed: int) -> bytes:
    """The operations of one publisher, subjects chosen at random."""
    chance = random.Random(seed)
    parts = []
    for at in range(count):
        subject, payload = chance.choice(SUBJECTS).encode(), f"{name} {at}".encode()
        parts.append(b"PUB %s %d\r\n%s\r\n" % (subject, len(payload), payload))
    return b"".join(parts)


def send_in_pieces(client: RawClient, data: bytes, seed: int) -> None:
    chance, at = random.Random(seed), 0
    while at < len(data):
        size = chance.choice((1, 7, chance.randint(1, PIECE_MAX)))
        client.send(data[at : at + size])
        at += size


def publish(port: int, name: str, count: int, seed: int = 0) -> list[Operation]:
    """Publish all and wait until the server has taken it; what else it said."""
    with RawClient(port, QUIET) as client:
        send_in_pieces(client, stream(name, count, seed), seed)
        return client.ask(b"")


def assert_gap_free(run: list[Heard]) -> None:
    """Every number once, none missing, from the first to the last."""
    numbers = [message.number for message in run]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def assert_fifo(run: list[Heard], counts: dict[str, int]) -> None:
    """Of each publisher: all its messages, in its order."""
    found: dict[str, list[int]] = {name: [] for name in counts}
    for message in run:
        name, at = message.payload.split()
        found[name].append(int(at))
    assert found == {name: list(range(count)) for name, count in counts.items()}


def assert_same_story(run: list[Heard], everything: list[Heard], pattern: str) -> None:
    """What one pattern heard is exactly its part of the whole, in the same order."""
    part = [m for m in everything if matches(pattern, m.subject)]
    assert [(m.number, m.subject, m.payload) for m in run] == [
        (m.number, m.subject, m.payload) for m in part
    ]
