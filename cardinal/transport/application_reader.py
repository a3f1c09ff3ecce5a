"""Reads the messages of an application from a broker, every number once and in order.

    read -> rows (topic, key, value, number), and what happened before them

Past and live messages come as consecutive ranges of the replay (`$SEQ.RANGE`). The next range is
requested when the last one was taken, so a slow reader holds at most `window` messages, and nothing
is dropped. A range may reach beyond the last number; then it also brings what is published from now
on. When a connection breaks, a new one continues after the last number that was taken.

Events, which are always reported:

    Interrupted      the connection broke, or there is none yet; once until there is one
    JournalChanged   the broker has another journal: numbers begin again, and so does the reader
    Rewound          the same journal, but shorter: its last numbers were given to other messages
    NumbersLost      these numbers no longer exist
    Unreadable       the message with this number is not a Cardinal Streams message
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from cardinal.follower import Row
from cardinal.messages import NUMBER_MAX
from cardinal.transport.broker_connection import Broken, BrokerConnection
from cardinal.transport.envelope import number_of, prefix_of, unpack
from cardinal.transport.errors import BadEnvelope, BrokerRefused, NoNumbers, Unreachable
from seriatim.client.errors import ConnectionLost
from seriatim.client.server_address import without_credentials
from seriatim.client.stream_client import Subscription
from seriatim.client.stream_message import Message

WINDOW = 4096  # numbers per range; one round trip for so many costs nothing
WAIT_SECONDS_MIN, WAIT_SECONDS_MAX = 0.05, 2.0  # between attempts to connect, doubled each time
LOST, END = "$SEQ.LOST.", "$SEQ.END."


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The loss or lack of a connection; another attempt follows automatically."""

    why: str


@dataclass(frozen=True, slots=True)
class JournalChanged:
    """Another journal: the numbers of `old` are void; `new` is read from its beginning."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Rewound:
    """A journal that ends at `last`, before the number `wanted`; reading goes on after `last`."""

    wanted: int
    last: int


@dataclass(frozen=True, slots=True)
class NumbersLost:
    """A range of numbers, of all subjects, that no longer exist."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message that is not a message of Cardinal Streams."""

    number: int
    subject: str
    error: BadEnvelope


Happening = Interrupted | JournalChanged | Rewound | NumbersLost | Unreadable


class ApplicationReader:
    """The reader of one application's messages, for one task."""

    def __init__(
        self,
        application: str,
        url: str = "nats://127.0.0.1:4222",
        *,
        streams: Mapping[str, int] | None = None,
        first: int = 1,
        last: int | None = None,
        window: int = WINDOW,
        **options: Any,
    ) -> None:
        """Begin at the number that `streams` has for the broker's journal, or else at `first`.

        `last` is the last number to be read; after it, `ended`. `options` are those of
        `seriatim.connect`.
        """
        self.prefix = prefix_of(application)
        self.url = url
        self._shown = without_credentials(url)
        self.stream = ""  # the journal's id, once connected
        self.next = first  # the next number to read
        self.end = 0  # the broker's last number when we connected
        self.last = last
        self.window = window
        # With a token, the beginning is unknown until the broker's journal is known.
        self.ended = last is not None and last < first and not streams
        self.repeated = 0  # messages that came again, and were skipped
        self._streams = dict(streams or {})
        self._options = options
        self._connection: BrokerConnection | None = None
        self._range: Subscription | None = None
        self._asked = False  # whether a range is being read
        self._upto = 0  # the last number of the range
        self._arrived: list[Message] = []
        self._wait = 0.0
        self._reported = False  # the lack of a connection

    async def __aenter__(self) -> Self:
        """Connect, so that a wrong address is reported at once. Raises `TransportError`."""
        try:
            self._connection = await BrokerConnection.open(self.url, **self._options)
        except Broken as error:
            raise Unreachable(str(error)) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; messages that were not read come again to the next reader."""
        connection, self._connection = self._connection, None
        self._range, self._asked, self._arrived = None, False, []
        if connection is not None:
            await connection.close()

    async def read(self, seconds: float) -> tuple[list[Row], list[Happening]]:
        """Wait up to `seconds` for rows and events; both are empty if nothing came.

        Raises `BrokerRefused` and `NoNumbers`, which a retry does not help.
        """
        happened: list[Happening] = []
        end = asyncio.get_running_loop().time() + seconds
        try:
            connection = await self._connected(happened, seconds)
            if connection is None:
                return [], happened
            if not (self._asked or self.ended):
                await self._ask(connection)
            left = end - asyncio.get_running_loop().time()
            if not (self._arrived or happened or self.ended or connection.is_over):
                await _changed(connection, left)
            if connection.refused:
                raise BrokerRefused("; ".join(dict.fromkeys(connection.refused)))
            rows = self._take(connection, happened)
            if connection.is_over and not (rows or self.ended):
                raise Broken(f"{self._shown}: {connection.why()}")
        except Broken as error:
            await self._interrupt(happened, str(error))
            return [], happened
        except (BrokerRefused, NoNumbers):
            await self.close()  # a caller that reads on anyway loses no message
            raise
        return rows, happened

    async def _interrupt(self, happened: list[Happening], why: str) -> None:
        await self.close()
        if not self._reported:
            self._reported = True
            happened.append(Interrupted(why))
        self._wait = min(max(2 * self._wait, WAIT_SECONDS_MIN), WAIT_SECONDS_MAX)

    async def _connected(
        self, happened: list[Happening], seconds: float
    ) -> BrokerConnection | None:
        """Return the connection once the place to continue is known; None after the timeout."""
        if self._connection is None:
            await asyncio.sleep(min(self._wait, seconds))
            if self._wait > seconds:
                self._wait -= seconds
                return None
            self._connection = await BrokerConnection.open(self.url, **self._options)
        await self._find_place(self._connection, happened)
        self._wait, self._reported = 0.0, False
        return self._connection

    async def _find_place(self, connection: BrokerConnection, happened: list[Happening]) -> None:
        """Check which journal it is, once per connection."""
        if connection.place_known:
            return
        if not connection.has_numbers:
            raise NoNumbers(f"{self._shown}: this broker gives no numbers: it is not Seriatim")
        info = await connection.info()
        journal, self.end = info["journal"], info["last"]
        if not journal:
            raise BrokerRefused(f"{self._shown}: this broker keeps no messages")
        known = self.stream or ",".join(self._streams)
        if journal != self.stream:
            if journal in self._streams:
                self.next = self._streams[journal]
            elif known:
                happened.append(JournalChanged(known, journal))
                self.next = 1
            self.stream = journal
            known = journal if journal in self._streams else ""
        if known and self.next > self.end + 1:
            happened.append(Rewound(self.next, self.end))
            self.next = self.end + 1
        self.next = max(self.next, 1)
        self.ended = self.ended or (self.last is not None and self.next > self.last)
        connection.place_known = True

    async def _ask(self, connection: BrokerConnection) -> None:
        """Subscribe to the next range."""
        last = min(self.next + self.window - 1, NUMBER_MAX, self.last or NUMBER_MAX)
        subject = f"$SEQ.RANGE.{self.next}.{last}.{self.prefix}>"
        arrived, changed = self._arrived, connection.changed

        def keep(message: Message) -> None:
            arrived.append(message)
            changed.set()

        try:
            if self._range is not None:
                await self._range.unsubscribe()
            self._range = await connection.client.subscribe(subject, keep, confirm=False)
        except ConnectionLost as error:
            raise Broken(f"{self._shown}: {error.reason}") from None
        self._asked, self._upto = True, last

    def _take(self, connection: BrokerConnection, happened: list[Happening]) -> list[Row]:
        """The rows that have arrived; handles everything else that arrived."""
        arrived = self._arrived[:]
        self._arrived.clear()
        connection.changed.clear()
        rows: list[Row] = []
        start, following = len(self.prefix), self.next
        for message in arrived:
            subject, number = message.subject, message.number
            if not subject.startswith(self.prefix):
                following = self._event(subject, following, happened)
                continue
            if not 0 < number <= self._upto:
                raise NoNumbers(
                    f"{self._shown}: a message with the number {number or 'none'}; the range ends"
                    f" at {self._upto}"
                )
            if number < following:
                self.repeated += 1
                continue
            following = number + 1
            try:
                key, value = unpack(message.payload)
            except BadEnvelope as error:
                happened.append(Unreadable(number, subject, error))
            else:
                rows.append((subject[start:], key, value, number))
        self.next = following
        return rows

    def _event(self, subject: str, following: int, happened: list[Happening]) -> int:
        """Handle a broker's event; return the number to continue with. Raises `BrokerRefused`."""
        try:
            if subject.startswith(LOST):
                first, last = map(number_of, subject.removeprefix(LOST).split("."))
                if not first <= last <= self._upto:
                    raise ValueError(f"the range ends at {self._upto}")
                happened.append(NumbersLost(first, last))
                return max(following, last + 1)
            if subject.startswith(END):
                last = number_of(subject.removeprefix(END))
                if last != self._upto:
                    raise ValueError(f"the range ends at {self._upto}")
                self._asked = False
                self.ended = self.last is not None and last >= self.last
                return max(following, last + 1)
        except ValueError as error:
            raise BrokerRefused(
                f"{self._shown}: the broker sent {subject[:80]!r}: {error}"
            ) from None
        return following


async def _changed(connection: BrokerConnection, seconds: float) -> None:
    """Return when something has come, the connection has ended, or the time is up."""
    # Not `wait_for`: before Python 3.12 it loses a Ctrl-C that arrives together with a message.
    with suppress(TimeoutError):
        async with asyncio.timeout(max(seconds, 0.0)):
            await connection.changed.wait()
