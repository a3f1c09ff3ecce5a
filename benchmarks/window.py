"""Publishers that wait: each has at most a window of unacknowledged publications.

One thread serves all of them, without work per message: it sends slices of one prebuilt block, and
only counts the acknowledgements in the received bytes.
"""

import select
import time
from collections.abc import Sequence

from benchmarks.connection import WAIT_SECONDS, Connection
from benchmarks.errors import BenchmarkError
from benchmarks.keepers import INBOX, Keeper

CHUNK = 256 * 1024


class Waiting:
    """One publisher: counts of unsent and unacknowledged messages, and the time of each window."""

    def __init__(
        self, connection: Connection, keeper: Keeper, payload: bytes, share: int, window: int
    ) -> None:
        inbox = INBOX + b"%d" % connection.socket.fileno()  # a different one for each connection
        one = keeper.asking(payload, inbox)
        connection.settle(b"SUB %b 1\r\n" % inbox)
        self.connection = connection
        self.keeper = keeper
        self.size = len(one)
        self.block = memoryview(one * window)
        self.unsent = self.unacknowledged = share
        self.window = window
        self.carried = b""
        self.sent_at = 0
        self.waits: list[int] = []  # nanoseconds, if the window is one

    def publish(self, count: int) -> None:
        """Send `count` messages, or the rest if there are fewer."""
        count = min(count, self.unsent)
        if not count:
            return
        self.unsent -= count
        if self.window == 1:
            self.sent_at = time.perf_counter_ns()
        self.connection.send(self.block[: count * self.size])

    def hear(self) -> None:
        """Count the acknowledgements that arrived, and publish as many more."""
        data = self.carried + self.connection.receive(CHUNK)
        if b"-ERR" in data or self.keeper.refused in data:
            raise BenchmarkError(f"a publication was refused: {data[-200:]!r}")
        count = data.count(self.keeper.acknowledged)
        if not count:
            self.carried = data
            return
        self.carried = data[data.rindex(self.keeper.acknowledged) + 1 :]
        self.unacknowledged -= count
        if self.window == 1:
            self.waits.append(time.perf_counter_ns() - self.sent_at)
        self.publish(count)


def publish_all(publishers: Sequence[Waiting]) -> None:
    """Publish and wait until everything is acknowledged."""
    poll = select.epoll()
    waiting = {one.connection.socket.fileno(): one for one in publishers}
    for number, one in waiting.items():
        poll.register(number, select.EPOLLIN)
        one.publish(one.window)
    while waiting:
        ready = poll.poll(WAIT_SECONDS)
        if not ready:
            raise BenchmarkError(f"no acknowledgement for {WAIT_SECONDS} s")
        for number, _ in ready:
            one = waiting[number]
            one.hear()
            if one.unacknowledged <= 0:
                poll.unregister(number)
                del waiting[number]
    poll.close()
    if any(one.unacknowledged for one in publishers):
        raise BenchmarkError("more acknowledgements than publications")
