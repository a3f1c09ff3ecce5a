"""A publisher of either cluster that asks for an acknowledgement of each message."""

import asyncio
import contextlib
import itertools
import time
from typing import Self

from benchmarks.errors import BenchmarkError

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n'
SUBJECT = b"bench.failover"
_serial = itertools.count()


class Requester:
    """One connection; `times` are those of all acknowledgements that came."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, to: bytes):
        self.reader, self.writer = reader, writer
        self.inbox = b"_INBOX.b%d" % next(_serial)
        self.to = to + SUBJECT
        self.times: list[float] = []
        writer.write(CONNECT + b"SUB %s.* 1\r\n" % self.inbox)

    @classmethod
    async def open(cls, port: int, prefix: bytes = b"") -> Self:
        """Connect; `prefix` is put before the subject, if needed to ask for an answer."""
        return cls(*await asyncio.open_connection("127.0.0.1", port), prefix)

    def close(self) -> None:
        self.writer.transport.abort()

    def send(self, number: int, payload: bytes) -> None:
        words = (self.to, self.inbox, number, len(payload), payload)
        self.writer.write(b"PUB %s %s.%d %d\r\n%s\r\n" % words)

    async def answer(self) -> tuple[int, bytes]:
        """Return the number of the answered message, and the answer; no payload for a refusal."""
        while True:
            try:
                line = await self.reader.readuntil(b"\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                raise BenchmarkError("the connection to a server that lives was closed") from None
            words = line.split()
            if words[0] == b"PING":
                self.writer.write(b"PONG\r\n")
            elif words[0] in (b"MSG", b"HMSG"):
                data = (await self.reader.readexactly(int(words[-1]) + 2))[:-2]
                headers = int(words[-2]) if words[0] == b"HMSG" else 0
                payload = data[headers:]
                taken = not data[:headers].startswith(b"NATS/1.0 ") and b'"error"' not in payload
                return int(words[1].rpartition(b".")[2]), payload if taken else b""

    async def request(self, subject: bytes, payload: bytes = b"", seconds: float = 5.0) -> bytes:
        """Return the answer to a request; empty if none comes in time."""
        self.writer.write(
            b"PUB %s %s.0 %d\r\n%s\r\n" % (subject, self.inbox, len(payload), payload)
        )
        try:
            return (await asyncio.wait_for(self.answer(), seconds))[1]
        except TimeoutError:
            return b""

    async def steadily(self, apart: float, again: float, payload: bytes) -> None:
        """Send a message every `apart` seconds until cancelled; record the times of acceptance."""
        hearing = asyncio.create_task(self._hear())
        waiting: dict[int, float] = {}
        self.waiting = waiting
        try:
            for number in itertools.count():
                now = time.perf_counter()
                waiting[number] = now
                self.send(number, payload)
                oldest = next(iter(waiting), number)
                if now - waiting.get(oldest, now) > again:  # the message may be lost: send it again
                    del waiting[oldest]
                    waiting[oldest] = now
                    self.send(oldest, payload)
                await asyncio.sleep(apart)
                if hearing.done():
                    hearing.result()
        finally:
            hearing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await hearing

    async def _hear(self) -> None:
        while True:
            number, taken = await self.answer()
            if taken:
                self.waiting.pop(number, None)
                self.times.append(time.perf_counter())
