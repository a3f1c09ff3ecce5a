"""Many subscriptions on other subjects, among which the flood's own must be found."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from benchmarks.connection import Connection

CONNECTIONS = 10
BATCH = 10_000  # SUBs per send: about 300 kB


@contextmanager
def subscribe_many(port: int, count: int) -> Iterator[None]:
    """Hold `count` subscriptions, `burden.0.0`, `burden.0.1` ..., over 10 connections."""
    with ExitStack() as stack:
        connections = [
            stack.enter_context(Connection(port)) for _ in range(min(count, CONNECTIONS))
        ]
        for first in range(0, count, BATCH):
            batch = range(first, min(first + BATCH, count))
            lines = [b"SUB burden.%d.%d %d\r\n" % (*divmod(at, 1000), at) for at in batch]
            connections[first // BATCH % CONNECTIONS].settle(b"".join(lines))
        yield
