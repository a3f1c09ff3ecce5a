"""Holes filled by MoldUDP64's re-request server: a datagram asks, one datagram answers.

A question has 20 bytes: the session, the first number wanted, how many. The answer is a packet
as the feed sends it, of as many messages as fit; the rest is asked for again. It begins with
the number that was asked for, or behind it: then what is before is lost. Which question an
answer belongs to, only that number tells: one that nobody asked for lately belongs to the
nearest question below it.
"""

import asyncio
import os
import socket
from urllib.parse import urlsplit

from sequencer.feed.moldudp64 import MoldUDP64Codec, request
from sequencer.receiver.errors import FillError
from sequencer.receiver.filler import Filler
from sequencer.receiver.order import Wanted

ANSWER_SECONDS = 0.25  # then a question is not counted as under way any more
LATELY_SECONDS = 1.0  # an answer may be so late, or come twice
FLIGHTS = 256  # one of which the answer is lost keeps its place for ANSWER_SECONDS
READS_MAX = 256  # answers in one turn
BUFFER_BYTES = 1 << 20


class MoldFiller(Filler):
    """`url` is mold://HOST:PORT; `filtered`: the feed has a filter."""

    piece = 256
    bridge = 8  # an answer has room for some more messages than were lost

    def __init__(self, url: str, filtered: bool = False) -> None:
        super().__init__()
        self.url = url
        self._codec = MoldUDP64Codec(filtered)
        self._flights: dict[int, tuple[Wanted, float]] = {}  # by the first number, and until when
        self._lately: dict[int, float] = {}  # first numbers that were asked for, and until when
        self._socket: socket.socket | None = None

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            parts = urlsplit(self.url)
            host, port = parts.hostname, parts.port
            if parts.scheme != "mold" or not host or not port:
                raise ValueError
        except ValueError as error:
            raise FillError(
                f'"{self.url}" is no re-request server; give mold://HOST:PORT'
            ) from error
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
            family, _, _, _, address = found[0]
            self._socket = made = socket.socket(family, socket.SOCK_DGRAM)
            made.setblocking(False)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
            made.connect(address)
        except OSError as error:
            await self.close()
            raise FillError(f"{self.url}: {(error.strerror or str(error)).lower()}") from error
        loop.add_reader(made, self._on_answers)

    async def close(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    def room(self) -> int:
        now = asyncio.get_running_loop().time()
        for first in [key for key, (_, until) in self._flights.items() if until < now]:
            del self._flights[first]
        for first in [key for key, until in self._lately.items() if until < now]:
            del self._lately[first]
        return FLIGHTS - len(self._flights)

    def ask(self, wanted: Wanted) -> None:
        session = self.order.session
        if self._socket is None or len(session) != 10:
            return
        count = wanted.last - wanted.first + 1
        try:
            self._socket.send(request(session, wanted.first, count))
        except OSError as error:  # as full, or as refused, as a lost datagram
            self.trouble = f"{self.url}: {os.strerror(error.errno or 0).lower()}"
            return
        now = asyncio.get_running_loop().time()
        self._flights[wanted.first] = wanted, now + ANSWER_SECONDS
        self._lately[wanted.first] = now + LATELY_SECONDS

    def _on_answers(self) -> None:
        assert self._socket is not None, "it is read while it is open"
        for _ in range(READS_MAX):
            try:
                datagram = self._socket.recv(1 << 16)
            except BlockingIOError:
                break
            except OSError as error:
                self.trouble = f"{self.url}: {os.strerror(error.errno or 0).lower()}"
                break
            self._take(datagram)
        self.wake()

    def _take(self, datagram: bytes) -> None:
        try:
            packet = self._codec.decode(datagram)
        except ValueError as error:
            self.trouble = f"{self.url}: an answer that is none: {error}"
            return
        first = packet.previous + 1
        asked = first
        if first not in self._lately:
            asked = max((key for key in self._flights if key < first), default=0)
        flight = self._flights.pop(asked, None)
        if flight is None:
            return
        wanted, now = flight[0], asyncio.get_running_loop().time()
        if asked < first:
            self.order.lose(wanted.stream, asked, min(wanted.last, first - 1))
        last = packet.after - 1
        self.order.filled(wanted.stream, first, last, packet.messages, now)
        self.order.answered(wanted.stream, wanted.first, wanted.last, now)
