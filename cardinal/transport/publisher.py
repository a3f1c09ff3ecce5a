"""Sends a producer's messages to the broker: each has its number when `send` returns.

Messages go out in pieces, each followed by a request for the last number. The answer comes after
everything before it was accepted, and is as durable as the broker's `journal.sync` makes it; so is
a refusal. When the connection breaks, or no answer comes, the piece is sent again on a new
connection; the broker recognises known messages by the `Nats-Msg-Id`. If the journal is full, the
publisher waits; a message that the broker will never accept raises `BrokerRefused`.
"""

import asyncio
from typing import Any, Self

from cardinal.producer import Messages
from cardinal.transport.broker_connection import Broken, BrokerConnection
from cardinal.transport.envelope import ID_BYTES, message_id, netstring, number_of, pack, subject_of
from cardinal.transport.errors import BadEnvelope, BrokerRefused, Unreachable
from seriatim.client.errors import InvalidArgument
from seriatim.client.server_address import without_credentials

PIECE_MESSAGES, PIECE_BYTES = 512, 1 << 20  # sent again when a connection breaks
PATIENCE_SECONDS = 60.0
WAIT_SECONDS_MIN, WAIT_SECONDS_MAX = 0.05, 2.0  # between attempts, doubled each time
FULL = "the journal is full"
ID_HEADER = "Nats-Msg-Id"
HEADER_BYTES = len(f"NATS/1.0\r\n{ID_HEADER}: \r\n\r\n") + 2 * ID_BYTES  # of max_payload

Item = tuple[str, bytes]  # subject, payload


class Publisher:
    """The publisher of one application; concurrent `send`s wait for each other."""

    def __init__(
        self,
        application: str,
        url: str = "nats://127.0.0.1:4222",
        *,
        patience: float = PATIENCE_SECONDS,
        **options: Any,
    ) -> None:
        """`patience`: how many seconds to try; `options` are those of
        `seriatim.connect`.
        """
        subject_of(application, "any")
        self.application = application
        self.url = url
        self._shown = without_credentials(url)
        self.patience = patience
        self.sent = self.repeated = 0  # messages; sent again because a connection broke
        self.payload_max: int | None = None  # the broker's limit, once connected
        self._options = options
        self._connection: BrokerConnection | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Connect, so that a wrong address is reported at once.

        Raises `Unreachable`, `BrokerRefused`.
        """
        try:
            await self._connected()
        except Broken as error:
            raise Unreachable(str(error)) from None
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def send(self, messages: Messages) -> int:
        """Publish messages by topic, in order; return the last number that the broker assigned.

        Raises `BrokerRefused`, `BadTopic`, and `Unreachable` when the patience is exhausted; then
        the messages may have arrived or not, and may be sent again. If one is too large, none is
        sent.
        """
        items = [
            (subject_of(self.application, topic), pack(key, value))
            for topic, rows in messages.items()
            for key, value in rows
        ]
        self._check_sizes(items)
        async with self._turn:
            number, at = 0, 0
            while at < len(items):
                end, size = at, 0
                while end < len(items) and end - at < PIECE_MESSAGES and size < PIECE_BYTES:
                    size += len(items[end][1])
                    end += 1
                number = await self._send(items[at:end])
                at = end
            return number

    async def _send(self, piece: list[Item]) -> int:
        """Publish a piece until all of it is accepted."""
        clock = asyncio.get_running_loop().time
        end, wait = clock() + self.patience, WAIT_SECONDS_MIN
        while True:
            try:
                connection = await self._connected()
                number = await self._publish(connection, piece)
                if number is not None:
                    self.sent += len(piece)
                    return number
                why = FULL
            except Broken as error:
                await self.close()
                why = str(error)
            if clock() + wait > end:
                raise Unreachable(f"{why}; tried for {self.patience:g} s")
            await asyncio.sleep(wait)
            wait = min(2 * wait, WAIT_SECONDS_MAX)
            self.repeated += len(piece)

    async def _connected(self) -> BrokerConnection:
        if self._connection is not None and self._connection.is_over:
            await self.close()
        if self._connection is None:
            self._connection = await BrokerConnection.open(self.url, **self._options)
            self.payload_max = self._connection.client.max_payload - HEADER_BYTES
        return self._connection

    def _check_sizes(self, items: list[Item]) -> None:
        """Raise for a message that is too large; the broker would end the connection."""
        largest = max((len(payload) for _, payload in items), default=0)
        if self.payload_max is not None and largest > self.payload_max:
            raise BrokerRefused(
                f"a message of {largest} bytes; the broker accepts at most {self.payload_max}"
            )

    async def _publish(self, connection: BrokerConnection, piece: list[Item]) -> int | None:
        """Publish once; return the last number, or None if the journal was full."""
        connection.refused.clear()
        self._check_sizes(piece)
        await connection.during(self._write(connection, piece), self.patience)
        answer = await connection.request(f"$SEQ.PUB.{piece[0][0]}", b"")
        if connection.refused:
            for_good = dict.fromkeys(one for one in connection.refused if FULL not in one)
            if not for_good:
                return None
            raise BrokerRefused("; ".join(for_good))
        try:
            digits, _ = netstring(answer, 0)
            return number_of(digits)
        except (BadEnvelope, ValueError):
            raise BrokerRefused(
                f"{self._shown}: this broker is not Seriatim: {answer!r:.60}"
            ) from None

    async def _write(self, connection: BrokerConnection, piece: list[Item]) -> None:
        for subject, payload in piece:
            headers = {ID_HEADER: message_id(subject, payload)}
            try:
                await connection.client.publish_unconfirmed(subject, payload, headers=headers)
            except InvalidArgument as error:
                raise BrokerRefused(error.reason) from None
