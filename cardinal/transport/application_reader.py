"""Reads the messages of an application from a broker, every number once and in order.

    read -> rows (topic, key, value, number), and what happened before them

The client's `read` does the work: it reads ahead a bounded number of bytes, connects again after a
break, and goes on with the next number. Here its messages become rows, and its losses events,
which are always reported:

    Interrupted      the connection broke, or there is none yet; once until there is one
    JournalChanged   the broker has another journal: numbers begin again, and so does the reader
    Rewound          the same journal, but shorter: its last numbers were given to other messages
    NumbersLost      these numbers no longer exist
    Unreadable       the message with this number is not a Cardinal Streams message
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from cardinal.follower import Row
from cardinal.transport.broker_connection import Broken, open_client, refusal
from cardinal.transport.envelope import prefix_of, unpack
from cardinal.transport.errors import BadEnvelope, BrokerRefused, TransportError, Unreachable
from seriatim.client.client_event import ClientEvent
from seriatim.client.errors import BrokerError, Lost, NoAnswer, Position
from seriatim.client.errors import JournalChanged as Changed
from seriatim.client.server_address import without_credentials
from seriatim.client.stream_client import Client
from seriatim.client.stream_message import Message

Item = Message | Lost | Changed


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
        **options: Any,
    ) -> None:
        """Begin at the number that `streams` has for the broker's journal, or else at `first`.

        `last` is the last number to be read; after it, `ended`. `options` are those of
        `seriatim.connect`.
        """
        self.prefix = prefix_of(application)
        self.url = url
        self.stream = ""  # the journal's id, once connected
        self.next = first  # the next number to read
        self.last = last
        # With a token, the beginning is unknown until the broker's journal is known.
        self.ended = last is not None and last < first and not streams
        self._streams = dict(streams or {})
        self._options = {**options, "on_event": self._note}
        self._client: Client | None = None
        self._batches: AsyncIterator[list[Item]] | None = None
        self._taking: asyncio.Task[list[Item] | None] | None = None
        self._changed = asyncio.Event()  # something was taken, or has happened
        self._happened: list[Happening] = []
        self._reported = False  # the lack of a connection

    async def __aenter__(self) -> Self:
        """Connect, so that a wrong address is reported at once. Raises `TransportError`."""
        try:
            self._client = await open_client(self.url, **self._options)
        except Broken as error:
            raise Unreachable(str(error)) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; messages that were not read come again to the next reader."""
        taking, self._taking = self._taking, None
        if taking is not None:
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
        client, self._client, self._batches = self._client, None, None
        if client is not None:
            await client.close()

    async def read(self, seconds: float) -> tuple[list[Row], list[Happening]]:
        """Wait up to `seconds` for rows and events; both are empty if nothing came.

        Raises `BrokerRefused` and `NoNumbers`, which a retry does not help.
        """
        rows: list[Row] = []
        if self._taking is None and not self.ended:
            self._taking = asyncio.create_task(self._take())
            self._taking.add_done_callback(lambda _: self._changed.set())
        if not (self._happened or self.ended):
            await _changed(self._changed, seconds)
        self._changed.clear()
        if self._taking is not None and self._taking.done():
            taking, self._taking = self._taking, None
            try:
                rows = self._rows_of(taking.result())
            except TransportError:
                await self.close()  # a caller that reads on anyway loses no message
                raise
        happened, self._happened = self._happened, []
        return rows, happened

    async def _take(self) -> list[Item] | None:
        """Return what is next; None at the end. Raises `TransportError`."""
        while True:
            try:
                if self._client is None:
                    wait = True if self._reported else 0
                    self._client = await open_client(self.url, **{**self._options, "wait": wait})
                if self._batches is None:
                    await self._begin(self._client)
                return None if self._batches is None else await anext(self._batches, None)
            except (Broken, NoAnswer) as error:
                self._interrupt(str(error))
            except BrokerError as error:
                raise refusal(self.url, error) from None

    async def _begin(self, client: Client) -> None:
        """Find the place to go on in the broker's journal, and begin to read there."""
        info = await client.info()
        journal, known = info.journal, self.stream or ",".join(self._streams)
        if not journal:
            raise BrokerRefused(f"{without_credentials(self.url)}: this broker keeps no messages")
        if journal != self.stream:
            if journal in self._streams:
                self.next = self._streams[journal]
            elif known:
                self._tell(JournalChanged(known, journal))
                self.next = 1
            self.stream = journal
            known = journal if journal in self._streams else ""
        if known and self.next > info.last + 1:
            self._tell(Rewound(self.next, info.last))
            self.next = info.last + 1
        self.next = max(self.next, 1)
        if self.last is None or self.next <= self.last:
            place = Position(journal, self.next - 1) if known else self.next
            reader = client.read(f"{self.prefix}>", start=place, until=self.last, losses="yield")
            self._batches = reader.batches()

    def _rows_of(self, items: list[Item] | None) -> list[Row]:
        """Return the rows; all else that was taken has happened."""
        rows: list[Row] = []
        start = len(self.prefix)
        for item in items or ():
            if isinstance(item, Changed):
                self._batches = None  # another one begins where this journal demands it
            elif isinstance(item, Lost):
                self._happened.append(NumbersLost(item.first, item.last))
                self.next = item.last + 1
            else:
                self.next = item.number + 1
                try:
                    key, value = unpack(item.payload)
                except BadEnvelope as error:
                    self._happened.append(Unreadable(item.number, item.subject, error))
                else:
                    rows.append((item.subject[start:], key, value, item.number))
        self.ended = items is None
        return rows

    def _note(self, event: ClientEvent) -> None:
        """Note what the client tells of its connections."""
        if event.kind == "interrupted":
            self._interrupt(str(event.error))
        elif event.kind == "reading":
            self._reported = False

    def _interrupt(self, why: str) -> None:
        if not self._reported:
            self._reported = True
            self._tell(Interrupted(why))

    def _tell(self, happening: Happening) -> None:
        """Have `read` return this at once: rows may not come for long."""
        self._happened.append(happening)
        self._changed.set()


async def _changed(changed: asyncio.Event, seconds: float) -> None:
    """Return when something was taken or has happened, or the time is up."""
    # Not `wait_for`: before Python 3.12 it loses a Ctrl-C that arrives together with a message.
    with suppress(TimeoutError):
        async with asyncio.timeout(max(seconds, 0.0)):
            await changed.wait()
