"""Fills holes from the broker's journal: `$SEQ.READ` over TCP, in columns.

A chunk contains up to thousands of messages in columns, and only the missing ones become objects.
So one request can cover many small holes, and a late start over a million numbers runs at wire
speed.
`$SEQ.INFO` reports the journal's id and last number. Nothing else is requested on a connection
before that is known, because the address may belong to another broker by now.

TCP loses nothing. No answer therefore means that the broker is gone or busy: the filler is then
away until an answer comes, and missing numbers are not given up.
"""

import asyncio
import json
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sequencer.feed.feed_message import FeedMessage
from seriatim.client.chunk_columns import ChunkError, Columns, Strings
from seriatim.client.client_event import ClientEvent
from seriatim.client.connecting import connect
from seriatim.client.errors import BrokerError, InvalidArgument, NotABroker, describe
from seriatim.client.protocol import read_number
from seriatim.client.server_address import without_credentials
from seriatim.client.stream_client import Client
from seriatim.client.stream_message import Message
from seriatim.receiver.errors import FillError
from seriatim.receiver.filler import Carried, Filler, JournalHead
from seriatim.receiver.order import WantedRange
from seriatim.settings.amounts import read_digits

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 2.0  # without any answer; after that the broker is considered gone
FLIGHTS = 4  # as many as the broker serves at a time for one connection
LATE_MAX = 64  # old requests whose late answers are still used
BUSY = 429
ANSWER_BYTES = 4 << 20


@dataclass(slots=True)
class Flight:
    """A request that is not fully answered."""

    wanted: WantedRange
    at: int  # the first number of the next chunk
    until: float
    late: bool = False


class JournalFiller(Filler):
    """A filler that asks a broker.

    `url` is nats://HOST:PORT or HOST:PORT; `subject` is the feed's filter.
    """

    piece = 16384
    bridge = 128  # unneeded messages cost less than one more request

    def __init__(self, url: str, subject: str = ">") -> None:
        super().__init__()
        self.url = url if "://" in url else f"nats://{url}"
        self.shown = without_credentials(self.url)
        self.subject = subject
        self._carried = Carried()
        self._flights: dict[int, Flight] = {}
        self._serial = 0
        self._client: Client | None = None
        self._inbox = ""
        self._known = False  # this connection's journal is known
        self._gone: float | None = None  # since when the broker is considered gone
        self._silent: float | None = None  # since when a request is unanswered
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._gone = asyncio.get_running_loop().time()
        try:
            if not self.url.startswith("nats://"):
                raise InvalidArgument(self.shown)
            client = await connect(
                self.url,
                name="seriatim receiver",
                connect_timeout=CONNECT_SECONDS,
                frame=None,
                on_event=self._note,
            )
        except InvalidArgument as error:
            raise FillError(
                f'"{self.shown}" is not the address of a broker; give nats://HOST:PORT'
            ) from error
        except NotABroker as error:
            raise FillError(f"{self.shown}: what listens there is not a broker") from error
        except BrokerError as error:
            raise FillError(f"{self.shown}: {describe(error)}") from error
        if "frame" not in client.server:
            await client.close()
            raise FillError(f"{self.shown}: the server there keeps no messages")
        self._client = client
        self._inbox = client.new_inbox()
        await client.subscribe(f"{self._inbox}.*", self._on_answer, confirm=False)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._client is not None:
            await self._client.close()

    def use(self, carried: Carried) -> None:
        self._carried = carried

    async def head(self) -> JournalHead | None:
        try:
            answer = await self._connected().request("$SEQ.INFO", timeout=ANSWER_SECONDS)
            said = json.loads(answer.payload)
            head = JournalHead(str(said["journal"]), _whole(said["epoch"]), _whole(said["last"]))
        except (OSError, BrokerError, ValueError, KeyError, TypeError) as error:
            self.trouble = f"{self.shown}: {describe(error)}"
            return None
        if self._connected().is_connected and not self._known:
            self._known, self._gone = True, None
            self.order.retry(asyncio.get_running_loop().time())
        return head

    def away(self) -> float:
        since = self._silent if self._gone is None else self._gone
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    def room(self) -> int:
        if not self._connected().is_connected:
            return 0
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

    def send_request(self, wanted: WantedRange) -> None:
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
        self._start(
            self._connected().publish_unconfirmed(
                "$SEQ.READ", json.dumps(question).encode(), reply=reply
            )
        )

    def _connected(self) -> Client:
        assert self._client is not None, "it was opened"
        return self._client

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.trouble = f"{self.shown}: {describe(error)}"

    def _on_answer(self, answer: Message) -> None:
        """Handle a chunk, or a refusal."""
        now = asyncio.get_running_loop().time()
        headers = answer.headers
        self._hear(answer.status == BUSY, now)
        word = answer.subject.rpartition(".")[2]
        serial = read_digits(word, 10**18) or 0
        flight = self._flights.get(serial)
        if flight is None:
            return  # of another connection, or very old: the order has asked again
        try:
            following = read_number(headers["Seriatim-Next"])
            self._take(flight, Columns(answer.payload), following, headers.get("Seriatim-Lost", ""))
        except (ChunkError, KeyError, ValueError):
            said = answer.description or answer.status or "not a broker's answer"
            self.trouble = f"{self.shown}: $SEQ.READ: {said}"
            del self._flights[serial]
            return
        if following == flight.at:
            self.ask_head()  # no such number: was it ever assigned?
        flight.at = following
        if "Seriatim-Last" in headers:
            del self._flights[serial]
            wanted = flight.wanted
            self.order.answered(wanted.stream, wanted.first, wanted.last, now)
        self.wake()

    def _hear(self, busy: bool, now: float) -> None:
        """Note that the broker is alive: it answered one request, and will answer the others."""
        for flight in self._flights.values():
            flight.until = now + ANSWER_SECONDS
        if busy:
            self._silent = self._silent or now
        elif self._silent is not None:
            self._silent = None
            self.order.retry(now)

    def _take(self, flight: Flight, columns: Columns, following: int, lost: str) -> None:
        """Use a chunk: all the messages there are from `flight.at` to `following` - 1."""
        order, stream, wanted = self.order, flight.wanted.stream, flight.wanted
        now = asyncio.get_running_loop().time()
        numbers = columns.numbers
        if not flight.at <= following <= wanted.last + 1:
            raise ValueError("it continues outside the range that was asked for")
        if len(numbers) and not flight.at <= numbers[0] <= numbers[-1] < following:
            raise ValueError("it has numbers that were not asked for")
        spans = [span.partition("-") for span in (lost.split(",") if lost else ())]
        losses = [(read_number(begin), read_number(end)) for begin, _, end in spans]
        if not all(flight.at <= begin <= end <= wanted.last for begin, end in losses):
            raise ValueError("it reports a loss outside the range that was asked for")
        for begin, end in losses:
            order.lose(stream, begin, end)
        for first, last in order.missing(flight.at, following - 1):
            low, high = bisect_left(numbers, first), bisect_right(numbers, last)
            order.filled(stream, first, last, self._messages(columns, low, high), now)

    def _messages(self, columns: Columns, low: int, high: int) -> list[FeedMessage]:
        """Return rows `low` to `high` - 1, as the codec would have delivered them."""
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

    def _note(self, event: ClientEvent) -> None:
        if event.error is not None:
            self.trouble = f"{self.shown}: {describe(event.error)}"
        if event.kind == "connected" and self._client is not None:
            self.ask_head()
        elif event.kind == "disconnected":
            self._on_disconnected()

    def _on_disconnected(self) -> None:
        self._flights.clear()
        self._known, self._silent = False, None
        self._gone = self._gone or asyncio.get_running_loop().time()


def _whole(value: object) -> int:
    """Check a number from JSON. Raises `ValueError`."""
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{value!r:.40} is not a number")
    return value


def _texts(strings: Strings, low: int, high: int) -> list[bytes]:
    """Return rows `low` to `high` - 1 of a column, each copied to bytes."""
    offsets = strings.offsets[low : high + 1].tolist()
    begin = offsets[0]
    data = bytes(strings.data[begin : offsets[-1]])
    return [data[start - begin : stop - begin] for start, stop in pairwise(offsets)]
