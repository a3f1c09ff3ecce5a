"""Reads the messages of an application from a broker, every number once and in order.

    read -> rows (topic, key, value, number), and what happened before them

The past and the present come as ranges of the replay (`$SEQ.RANGE`), one behind the other: the
next is asked for when the last was taken, so that a reader that is slow holds at most `window`
messages, and nothing is dropped. A range may reach beyond the last number there is; then it brings
what is published. When a connection breaks another is opened, and goes on behind the last number
that was taken.

What is told, and never passed over in silence:

    Interrupted      the connection broke, or there is none yet; said once until there is one
    JournalChanged   the broker's journal is another one: its numbers begin anew, and so do we
    Rewound          the journal is the same but shorter: numbers were taken back, and given anew
    NumbersLost      these numbers are not there any more
    Unreadable       the message with this number is no message of ours
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from cardinal.follower import Row
from cardinal.messages import NUMBER_MAX
from cardinal.transport.broker_connection import Broken, BrokerConnection
from cardinal.transport.envelope import netstring, number_of, prefix_of, unpack
from cardinal.transport.errors import BadEnvelope, BrokerRefused, NoNumbers, Unreachable
from seriatim.client.aio import AsyncSubscription
from seriatim.client.errors import ConnectionLost
from seriatim.client.protocol import MessageReceived
from seriatim.client.server_address import without_credentials

WINDOW = 4096  # numbers of a range; a round trip for so many costs nothing
WAIT_SECONDS_MIN, WAIT_SECONDS_MAX = 0.05, 2.0  # between attempts to connect, doubled each time
LOST, END = "$SEQ.LOST.", "$SEQ.END."
NUMBER_HEADER = "Nats-Sequence"


@dataclass(frozen=True, slots=True)
class Interrupted:
    """There is no connection; another attempt follows by itself."""

    why: str


@dataclass(frozen=True, slots=True)
class JournalChanged:
    """The numbers of `old` mean nothing any more; `new` is read from its beginning."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Rewound:
    """We were to go on at `wanted`; the journal ends with `last`, and we go on behind it."""

    wanted: int
    last: int


@dataclass(frozen=True, slots=True)
class NumbersLost:
    """These numbers, of all subjects, are not there any more."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message that is no message of Cardinal Streams."""

    number: int
    subject: str
    error: BadEnvelope


Happening = Interrupted | JournalChanged | Rewound | NumbersLost | Unreadable


class ApplicationReader:
    """Reads one application's messages; one task."""

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

        `last` is the last number to be read: then `ended`. `options` are those of
        `seriatim.client.aio.connect`.
        """
        self.prefix = prefix_of(application)
        self.url = url
        self._shown = without_credentials(url)
        self.stream = ""  # the journal's id, once connected
        self.next = first  # the number to go on with
        self.end = 0  # the last number that the broker had given when we connected
        self.last = last
        self.window = window
        # With a token it is known only at the broker where we begin.
        self.ended = last is not None and last < first and not streams
        self.repeated = 0  # messages that came again, and were passed by
        self._streams = dict(streams or {})
        self._options = options
        self._connection: BrokerConnection | None = None
        self._range: AsyncSubscription | None = None
        self._asked = False  # whether the range is not at its end
        self._upto = 0  # the last number of the range
        self._arrived: list[MessageReceived] = []
        self._wait = 0.0
        self._told = False  # that there is no connection

    async def __aenter__(self) -> Self:
        """Connect, so that a wrong address is told at once. Raises `TransportError`."""
        try:
            self._connection = await BrokerConnection.open(self.url, **self._options)
        except Broken as error:
            raise Unreachable(str(error)) from None
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; what arrived and was not read comes again to the next reader."""
        connection, self._connection = self._connection, None
        self._range, self._asked, self._arrived = None, False, []
        if connection is not None:
            await connection.close()

    async def read(self, seconds: float) -> tuple[list[Row], list[Happening]]:
        """What has come, waiting for it for so long; both are empty if nothing did.

        Raises `BrokerRefused` and `NoNumbers`: what will be no better the next time.
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
            await self.close()  # who reads on all the same misses nothing
            raise
        return rows, happened

    async def _interrupt(self, happened: list[Happening], why: str) -> None:
        await self.close()
        if not self._told:
            self._told = True
            happened.append(Interrupted(why))
        self._wait = min(max(2 * self._wait, WAIT_SECONDS_MIN), WAIT_SECONDS_MAX)

    async def _connected(
        self, happened: list[Happening], seconds: float
    ) -> BrokerConnection | None:
        """The connection, on which it is known where to go on; None if the time was up."""
        if self._connection is None:
            await asyncio.sleep(min(self._wait, seconds))
            if self._wait > seconds:
                self._wait -= seconds
                return None
            self._connection = await BrokerConnection.open(self.url, **self._options)
        await self._find_place(self._connection, happened)
        self._wait, self._told = 0.0, False
        return self._connection

    async def _find_place(self, connection: BrokerConnection, happened: list[Happening]) -> None:
        """Look which journal it is, once for each connection."""
        if connection.place_known:
            return
        if connection.frame not in ("netstring", "header"):
            raise NoNumbers(
                f"{self._shown}: this listener gives messages without their numbers (frame "
                f"{connection.frame or 'unknown'!r}); use one with netstring or header"
            )
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

        def take(message: MessageReceived) -> None:
            arrived.append(message)
            changed.set()

        try:
            if self._range is not None:
                await self._range.unsubscribe()
            self._range = await connection.client.subscribe(subject, on_message=take)
        except ConnectionLost as error:
            raise Broken(f"{self._shown}: {error.reason}") from None
        self._asked, self._upto = True, last

    def _take(self, connection: BrokerConnection, happened: list[Happening]) -> list[Row]:
        """The rows that have arrived; what else did is dealt with."""
        arrived = self._arrived[:]
        self._arrived.clear()
        connection.changed.clear()
        rows: list[Row] = []
        framed, start, following = connection.frame == "netstring", len(self.prefix), self.next
        for message in arrived:
            subject, payload = message.subject, message.data
            if not subject.startswith(self.prefix):
                following = self._event(subject, following, happened)
                continue
            try:
                if framed:
                    inner, _ = netstring(payload, 0)
                    digits, at = netstring(inner, 0)
                    number = number_of(digits)
                    payload, _ = netstring(inner, at)
                else:
                    number = number_of(message.headers[NUMBER_HEADER])
                if number > self._upto:
                    raise ValueError(f"{number} is beyond the range, which ends at {self._upto}")
            except (BadEnvelope, ValueError, KeyError) as error:
                raise NoNumbers(f"{self._shown}: a message without its number: {error!r}") from None
            if number < following:
                self.repeated += 1
                continue
            following = number + 1
            try:
                key, value = unpack(payload)
            except BadEnvelope as error:
                happened.append(Unreadable(number, subject, error))
            else:
                rows.append((subject[start:], key, value, number))
        self.next = following
        return rows

    def _event(self, subject: str, following: int, happened: list[Happening]) -> int:
        """What the broker itself says; the number to go on with. Raises `BrokerRefused`."""
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
                f"{self._shown}: the broker says {subject[:80]!r}: {error}"
            ) from None
        return following


async def _changed(connection: BrokerConnection, seconds: float) -> None:
    """Return when something has come, or the connection is over, or the time is up."""
    # Not `wait_for`: before Python 3.12 it forgets a Ctrl-C that comes together with a message.
    with suppress(TimeoutError):
        async with asyncio.timeout(max(seconds, 0.0)):
            await connection.changed.wait()
