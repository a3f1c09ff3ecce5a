"""Holes filled by the broker's journal: `$SEQ.READ` over TCP, in columns.

A chunk of columns has up to thousands of messages, and only those that miss are made objects of;
so one question may take in many small holes, and a late start over a million numbers is as fast
as the wire. `$SEQ.INFO` tells what was given last, and of which journal: nothing else is asked of
a connection before that is known, for behind the same address may be another broker by now.

TCP loses nothing. So no answer means that nobody is there, or that all are busy: then the filler
is away until one comes, and what misses is not given up.
"""

import asyncio
import json
import os
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from sequencer.feed.feed_message import FeedMessage
from sequencer.journal.chunk import ChunkError, Columns, Strings
from seriatim.receiver.errors import FillError
from seriatim.receiver.filler import Carried, Filler, Head
from seriatim.receiver.order import Wanted
from seriatim.receiver.shown_addresses import without_credentials

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 2.0  # without an answer to any question: then nobody is there
FLIGHTS = 4  # as many as the broker reads for one connection at a time
LATE_MAX = 64  # questions of which an answer that comes yet is used
BUSY = "429"
AGAIN_SECONDS = 0.25  # between two tries to connect
PENDING_BYTES = 64 << 20  # more than the answers to FLIGHTS questions
ANSWER_BYTES = 4 << 20
DIGITS_MAX = 19  # of the largest number
LINE_BYTES = 64 << 10  # INFO is shorter


@dataclass(slots=True)
class Flight:
    """A question that is not fully answered."""

    wanted: Wanted
    at: int  # the number that the next chunk begins with
    until: float
    late: bool = False


class JournalFiller(Filler):
    """`url` is nats://HOST:PORT or HOST:PORT; `subject` the filter that the feed has."""

    piece = 16384
    bridge = 128  # messages not needed cost less than one more question

    def __init__(self, url: str, subject: str = ">") -> None:
        super().__init__()
        self.url = url if "://" in url else f"nats://{url}"
        self.shown = without_credentials(self.url)
        self.subject = subject
        self._carried = Carried()
        self._flights: dict[int, Flight] = {}
        self._serial = 0
        self._client: Any = None
        self._inbox = ""
        self._known = False  # what there is at the other end of this connection
        self._gone: float | None = None  # since when nobody is known to be there
        self._silent: float | None = None  # since when a question has had no answer
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        from nats.aio.client import Client
        from nats.errors import Error

        await self._look()
        self._gone = asyncio.get_running_loop().time()
        self._client = Client()
        try:
            async with asyncio.timeout(2 * CONNECT_SECONDS):
                await self._client.connect(
                    self.url,
                    name="seriatim receiver",
                    error_cb=self._on_error,
                    disconnected_cb=self._on_disconnected,
                    reconnected_cb=self._on_reconnected,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=AGAIN_SECONDS,
                )
            self._inbox = self._client.new_inbox()
            await self._client.subscribe(
                f"{self._inbox}.*", cb=self._on_answer, pending_bytes_limit=PENDING_BYTES
            )
        except (OSError, Error, TimeoutError) as error:
            raise FillError(f"{self.shown}: {_words(error)}") from error

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._client is not None:
            # Of its own: what nats-py cancels when the broker goes away may be just this.
            closing = asyncio.ensure_future(self._client.close())
            await asyncio.wait({closing}, timeout=CONNECT_SECONDS)
            if not closing.cancelled() and closing.done() and closing.exception() is not None:
                self.trouble = f"{self.shown}: {_words(closing.exception())}"

    def use(self, carried: Carried) -> None:
        self._carried = carried

    async def head(self) -> Head | None:
        from nats.errors import Error

        try:
            answer = await self._client.request("$SEQ.INFO", timeout=ANSWER_SECONDS)
            said = json.loads(answer.data)
            head = Head(str(said["journal"]), _whole(said["epoch"]), _whole(said["last"]))
        except (OSError, Error, TimeoutError, ValueError, KeyError, TypeError) as error:
            self.trouble = f"{self.shown}: {_words(error)}"
            return None
        if self._client.is_connected and not self._known:
            self._known, self._gone = True, None
            self.order.retry(asyncio.get_running_loop().time())
        return head

    def away(self) -> float:
        since = self._silent if self._gone is None else self._gone
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    def room(self) -> int:
        if not self._client.is_connected:
            return 0  # nats-py would keep it, and the broker be asked for what came meanwhile
        if not self._known:
            self.ask_head()
            return 0
        now = asyncio.get_running_loop().time()
        room = FLIGHTS
        for flight in self._flights.values():
            if not flight.late and flight.until < now:
                flight.late = True
                self._silent = self._silent or now
                self.trouble = f"{self.shown}: no answer in time"
            room -= not flight.late
        while len(self._flights) > LATE_MAX:
            del self._flights[next(iter(self._flights))]
        return room

    def ask(self, wanted: Wanted) -> None:
        self._serial += 1
        until = asyncio.get_running_loop().time() + ANSWER_SECONDS
        self._flights[self._serial] = Flight(wanted, wanted.first, until)
        question = {
            "from": wanted.first,
            "to": wanted.last,
            "subject": self.subject,
            "max_bytes": ANSWER_BYTES,
        }
        reply = f"{self._inbox}.{self._serial}"
        self._start(self._client.publish("$SEQ.READ", json.dumps(question).encode(), reply))

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.trouble = f"{self.shown}: {_words(error)}"

    async def _on_answer(self, answer: Any) -> None:
        """A chunk, or a refusal."""
        now = asyncio.get_running_loop().time()
        headers = answer.headers or {}
        self._hear(headers.get("Status") == BUSY, now)
        word = answer.subject.rpartition(".")[2]
        serial = int(word) if word.isascii() and word.isdigit() and len(word) < DIGITS_MAX else 0
        flight = self._flights.get(serial)
        if flight is None:
            return  # of another connection, or from long ago: the order has asked again
        try:
            following = _number(headers["Seriatim-Next"])
            self._take(flight, Columns(answer.data), following, headers.get("Seriatim-Lost", ""))
        except (ChunkError, KeyError, ValueError):
            said = headers.get("Description") or headers.get("Status") or "no answer of a broker"
            self.trouble = f"{self.shown}: $SEQ.READ: {said}"
            del self._flights[serial]
            return
        if following == flight.at:
            self.ask_head()  # nothing is there: was it ever given?
        flight.at = following
        if "Seriatim-Last" in headers:
            del self._flights[serial]
            wanted = flight.wanted
            self.order.answered(wanted.stream, wanted.first, wanted.last, now)
        self.wake()

    def _hear(self, busy: bool, now: float) -> None:
        """Somebody is there; whoever answers one question will come to the others."""
        for flight in self._flights.values():
            flight.until = now + ANSWER_SECONDS
        if busy:
            self._silent = self._silent or now
        elif self._silent is not None:
            self._silent = None
            self.order.retry(now)

    def _take(self, flight: Flight, columns: Columns, following: int, lost: str) -> None:
        """Use a chunk: all there is of the numbers from `flight.at` to `following` - 1."""
        order, stream, wanted = self.order, flight.wanted.stream, flight.wanted
        now = asyncio.get_running_loop().time()
        numbers = columns.numbers
        if not flight.at <= following <= wanted.last + 1:
            raise ValueError("it continues outside the range that was asked for")
        if len(numbers) and not flight.at <= numbers[0] <= numbers[-1] < following:
            raise ValueError("it has numbers that were not asked for")
        spans = [span.partition("-") for span in (lost.split(",") if lost else ())]
        losses = [(_number(begin), _number(end)) for begin, _, end in spans]
        if not all(flight.at <= begin <= end <= wanted.last for begin, end in losses):
            raise ValueError("it reports a loss outside the range that was asked for")
        for begin, end in losses:
            order.lose(stream, begin, end)
        for first, last in order.missing(flight.at, following - 1):
            low, high = bisect_left(numbers, first), bisect_right(numbers, last)
            order.filled(stream, first, last, self._messages(columns, low, high), now)

    def _messages(self, columns: Columns, low: int, high: int) -> list[FeedMessage]:
        """Rows `low` to `high` - 1, as the codec would have brought them."""
        carried, count = self._carried, high - low
        if count == 0:
            return []
        nothing = [b""] * count
        return list(
            map(
                FeedMessage,
                columns.numbers[low:high].tolist(),
                _texts(columns.payloads, low, high),
                _texts(columns.subjects, low, high) if carried.subject else nothing,
                _texts(columns.headers, low, high) if carried.headers else nothing,
                columns.times[low:high].tolist() if carried.time else [0] * count,
            )
        )

    async def _look(self) -> None:
        """See who is there, before a client that would try for ever. Raises `FillError`."""
        try:
            parts = urlsplit(self.url)
            host, port = parts.hostname, parts.port or 4222
            if parts.scheme != "nats" or not host:
                raise ValueError
        except ValueError as error:
            raise FillError(
                f'"{self.shown}" is no address of a broker; give nats://HOST:PORT'
            ) from error
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(host, port, limit=LINE_BYTES)
                try:
                    line = await reader.readline()
                finally:
                    writer.close()
            said = json.loads(line.removeprefix(b"INFO "))
        except ValueError as error:
            raise FillError(f"{self.shown}: what listens there is not a broker") from error
        except (OSError, TimeoutError) as error:
            raise FillError(f"{self.shown}: {_words(error)}") from error
        if "frame" not in said:
            raise FillError(f"{self.shown}: the server there keeps no messages")

    async def _on_error(self, error: Exception) -> None:
        self.trouble = f"{self.shown}: {_words(error)}"

    async def _on_disconnected(self) -> None:
        self._flights.clear()
        self._known, self._silent = False, None
        self._gone = self._gone or asyncio.get_running_loop().time()

    async def _on_reconnected(self) -> None:
        self.ask_head()


def _number(digits: str) -> int:
    """A number as a header has it. Raises `ValueError`."""
    if not (digits.isascii() and digits.isdigit()) or len(digits) > DIGITS_MAX:
        raise ValueError(f"{digits[:40]!r} is not a number")
    return int(digits)


def _whole(value: object) -> int:
    """A number as JSON has it. Raises `ValueError`."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r:.40} is not a number")
    return value


def _texts(strings: Strings, low: int, high: int) -> list[bytes]:
    """Rows `low` to `high` - 1 of a column, as bytes of their own."""
    offsets = strings.offsets[low : high + 1].tolist()
    begin = offsets[0]
    data = bytes(strings.data[begin : offsets[-1]])
    return [data[start - begin : stop - begin] for start, stop in pairwise(offsets)]


def _words(error: BaseException | None) -> str:
    """What went wrong, in words for a person."""
    match error:
        case ConnectionRefusedError():
            return "connection refused: no broker listens there"
        case TimeoutError():
            return "no answer in time"
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number).lower()
        case OSError(strerror=str(text)) if text:
            return text.lower()
    return str(error).removeprefix("nats: ") or type(error).__name__
