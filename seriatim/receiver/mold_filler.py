"""Fills holes from MoldUDP64's re-request server: one datagram asks, one datagram answers.

A request has 20 bytes: the session, the first number wanted, and how many. The answer is a packet
like those of the feed, with as many messages as fit; the rest is requested again. It begins at the
requested number, or after it: then the numbers before it are lost. Only that number shows which
request an answer belongs to. If it was not requested lately, the answer is assigned to the
nearest request below it. Since that may be wrong, a loss must be reported twice.

The server limits its answers per second, per client and in total, and drops what exceeds that. So
the number of requests in flight shrinks when more than a fifth are unanswered, and grows when
nearly all are answered. When more than a tenth are unanswered although the server is alive, the
filler is `pressed`: a request that was dropped a few times does not mean that its message is lost.

If the system reports that nothing listens there, or that there is no route, the filler is away.
Silence alone proves nothing: then tries count.
"""

import asyncio
import errno
import os
import socket
from math import inf
from urllib.parse import urlsplit

from sequencer.feed.moldudp64 import MoldUDP64Codec, request
from seriatim.receiver.errors import FillError
from seriatim.receiver.filler import Filler
from seriatim.receiver.order import WantedRange

ANSWER_SECONDS = 0.25  # after that a request no longer counts as in flight
LATELY_SECONDS = 10.0  # an answer may be this late, or come twice
LATELY_MAX = 1 << 16
FLIGHTS_MIN, FLIGHTS = 16, 256  # a request whose answer is lost keeps its place for ANSWER_SECONDS
JUDGED = 64  # requests to judge by before the number in flight changes
HEARD_SECONDS = 5.0  # after an answer the server counts as alive, and silence as its limit
DENIED_MAX = 1024
AWAY_SECONDS = 5.0  # after the last such error; requests are some two seconds apart
AWAY = {
    errno.ECONNREFUSED,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.ENETDOWN,
    errno.EHOSTDOWN,
}
READS_MAX = 256  # answers read in one turn
BUFFER_BYTES = 1 << 20


class MoldFiller(Filler):
    """A filler that asks a re-request server.

    `url` is mold://HOST:PORT; `filtered`: the feed has a filter.
    """

    piece = 256
    bridge = 8  # an answer has room for some more messages than were lost

    def __init__(self, url: str, filtered: bool = False) -> None:
        super().__init__()
        self.url = url
        self._codec = MoldUDP64Codec(filtered)
        self._flights: dict[int, tuple[WantedRange, float]] = {}  # by first number: until when
        # first numbers that were requested lately, and until when
        self._lately: dict[int, float] = {}
        self._denied: dict[int, int] = {}  # where the answer began, by requested number
        self._flights_max = FLIGHTS // 2
        self._answered = self._unanswered = 0  # since the last judgement
        self._heard = -inf  # when the last answer came
        self._refused: float | None = None  # since when the system reports it as away
        self._refused_last = 0.0
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
                f'"{self.url}" is not the address of a re-request server; give mold://HOST:PORT'
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
        while self._flights:
            first, (_, until) = next(iter(self._flights.items()))
            if until >= now:
                break
            del self._flights[first]
            self._judge(answered=False)
        while self._lately:
            first, until = next(iter(self._lately.items()))
            if until >= now and len(self._lately) <= LATELY_MAX:
                break
            del self._lately[first]
        return self._flights_max - len(self._flights)

    def away(self) -> float:
        now = asyncio.get_running_loop().time()
        if self._refused is not None and now - self._refused_last > AWAY_SECONDS:
            self._return(now)
        return 0.0 if self._refused is None else now - self._refused

    def _return(self, now: float) -> None:
        """Consider the server reachable again."""
        if self._refused is not None:
            self._refused = None
            self.order.retry(now)

    def _fail(self, error: OSError) -> None:
        self.trouble = f"{self.url}: {os.strerror(error.errno or 0).lower()}"
        if error.errno in AWAY:
            self._refused_last = asyncio.get_running_loop().time()
            self._refused = self._refused or self._refused_last

    def _judge(self, answered: bool) -> None:
        """Adapt the number of requests in flight to what the server and the network can take."""
        self._answered += answered
        self._unanswered += not answered
        if self._answered + self._unanswered < JUDGED:
            return
        heard = asyncio.get_running_loop().time() - self._heard < HEARD_SECONDS
        self.pressed = heard and self._unanswered * 10 > JUDGED
        if self._unanswered * 5 > JUDGED:
            self._flights_max = max(FLIGHTS_MIN, self._flights_max // 2)
        else:
            self._flights_max = min(FLIGHTS, self._flights_max + FLIGHTS_MIN)
        self._answered = self._unanswered = 0

    def send_request(self, wanted: WantedRange) -> None:
        session = self.order.session
        if self._socket is None or len(session) != 10:
            return
        count = wanted.last - wanted.first + 1
        try:
            self._socket.send(request(session, wanted.first, count))
        except OSError as error:  # a full buffer, or a refusal: the same as a lost datagram
            self._fail(error)
            return
        now = asyncio.get_running_loop().time()
        if self._flights.pop(wanted.first, None) is not None:  # so that it becomes the last again
            self._judge(answered=False)
        self._lately.pop(wanted.first, None)
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
                self._fail(error)
                break
            self._take(datagram)
        self.wake()

    def _take(self, datagram: bytes) -> None:
        try:
            packet = self._codec.decode(datagram)
        except ValueError as error:
            self.trouble = f"{self.url}: an invalid answer: {error}"
            return
        self._return(asyncio.get_running_loop().time())
        first = packet.previous + 1
        asked = first
        if first not in self._lately:
            asked = max((key for key in self._flights if key < first), default=0)
        flight = self._flights.pop(asked, None)
        if flight is None:
            return
        wanted, now = flight[0], asyncio.get_running_loop().time()
        self._heard = now
        self._judge(answered=True)
        if asked < first:
            if self._denied.pop(asked, 0) == first:
                self.order.lose(wanted.stream, asked, min(wanted.last, first - 1))
            else:
                if len(self._denied) == DENIED_MAX:
                    self._denied.clear()
                self._denied[asked] = first
        last = packet.after - 1
        self.order.filled(wanted.stream, first, last, packet.messages, now)
        self.order.answered(wanted.stream, wanted.first, wanted.last, now)
