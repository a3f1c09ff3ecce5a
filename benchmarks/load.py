"""The load generator's threads: publishers that flood, subscribers that count.

They are threads of one process and yet use all cores: each spends its time in send() or recv() of
large pieces, where Python's lock is released. Their cost is measured, too.
"""

import contextlib
import socket
import threading
import time

from benchmarks.connection import Connection
from benchmarks.errors import BenchmarkError
from benchmarks.wire import CONNECT, PING, PONG, Frame, from_next_message, numbers_of

CHECKED_BYTES = 64 * 1024  # at the beginning and at the end of a subscriber's data
STRAY_PINGS_MAX = 4  # servers send a PING 2 s after CONNECT, among the messages


class Loader(threading.Thread):
    """One connection used by one thread. `error` says why it ended early, if it did."""

    def __init__(self, port: int, connect: bytes = CONNECT) -> None:
        super().__init__(daemon=True)
        self.connection = Connection(port, connect)
        self.error = ""
        self.ended_at = 0.0

    def run(self) -> None:
        try:
            self.work()
        except BenchmarkError as error:
            self.error = str(error)

    def work(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """Close the connection, whatever the thread is doing."""
        with contextlib.suppress(OSError):
            self.connection.socket.shutdown(socket.SHUT_RDWR)  # wakes it from send and recv
        if self.is_alive():
            self.join()
        self.connection.close()


class Publisher(Loader):
    """Sends one prebuilt block repeatedly, then waits until the server has read everything."""

    def __init__(self, port: int, block: bytes, repeats: int) -> None:
        super().__init__(port)
        self.block = memoryview(block)
        self.repeats = repeats

    def work(self) -> None:
        for _ in range(self.repeats):
            self.connection.send(self.block)
        self.connection.settle()
        self.ended_at = time.perf_counter()


class Subscriber(Loader):
    """Counts bytes up to the exact length of the whole run; checks the messages at both ends.

    A PING of the server's may arrive among the messages, 6 unpredictable bytes. So the end is not a
    count but the PONG for the PING that `ask_for_end` sends once everything is published: it comes
    after the last message, and then the count must be right.
    """

    def __init__(
        self, port: int, frame: Frame, payload: bytes, messages: int, length: int,
        headers: bytes = b"",
    ) -> None:  # fmt: skip
        super().__init__(port)
        self.headers = headers
        self.frame = frame
        self.payload = payload
        self.messages = messages
        self.expected = length
        self.received = 0
        self.head = self.tail = b""
        self.discarded = False

    def ask_for_end(self) -> None:
        """Mark the end of the messages. Called by the main thread, after the last publisher."""
        self.connection.send(PING)

    def work(self) -> None:
        checked = max(CHECKED_BYTES, 3 * len(self.payload))  # with a whole message in any case
        untailed = max(0, self.expected - checked)
        self.head = self._read(min(untailed, checked))
        self.discarded = self._discard(untailed - self.received)
        self.tail = self._read_to_end()

    def verify(self) -> None:
        """Raise unless exactly the right bytes arrived. Called after the clock was stopped."""
        came = self.received - len(PONG)
        stray, rest = divmod(came - self.expected, len(PING))
        if rest or not 0 <= stray <= STRAY_PINGS_MAX:
            raise BenchmarkError(f"a subscriber got {came} bytes, expected {self.expected}")
        if self.discarded:
            self._check(self.head, first=1)
            self._check(from_next_message(self.tail), last=self.messages)
        else:
            self._check(self.head + self.tail, first=1, last=self.messages)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            data += self.connection.receive(size - len(data))
        self._count(len(data))
        return bytes(data)

    def _discard(self, size: int) -> bool:
        scratch = bytearray(1 << 20)
        left = size
        while left:
            count = self.connection.discard(scratch, left)
            left -= count
            self._count(count)
        return size > 0

    def _read_to_end(self) -> bytes:
        data = b""
        while PONG not in data:
            data += (chunk := self.connection.receive())
            self._count(len(chunk))
        return data

    def _count(self, size: int) -> None:
        self.received += size
        if self.received >= self.expected and not self.ended_at:
            self.ended_at = time.perf_counter()

    def _check(self, data: bytes, first: int = 0, last: int = 0) -> None:
        numbers = numbers_of(self.frame, data, self.payload, self.headers)
        if not numbers:
            raise BenchmarkError("no whole message where messages must be")
        if self.frame == "none":
            return
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise BenchmarkError(f"the numbers from {numbers[0]} to {numbers[-1]} have a gap")
        if (first and numbers[0] != first) or (last and numbers[-1] != last):
            raise BenchmarkError(
                f"the numbers go from {numbers[0]} to {numbers[-1]}, not {first or '?'} to "
                f"{last or '?'}"
            )
