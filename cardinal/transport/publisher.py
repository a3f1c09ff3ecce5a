"""Sends a producer's messages to the broker: each has its number when `send` returns.

The client repeats what has no answer when a connection breaks; the broker recognises known messages
by the `Nats-Msg-Id`, also those of another producer. If the journal is full, the publisher waits; a
message that the broker will never accept raises `BrokerRefused`.
"""

import asyncio
from typing import Any, Self

from cardinal.producer import Messages
from cardinal.transport.broker_connection import Broken, open_client, refusal
from cardinal.transport.envelope import ID_BYTES, message_id, pack, subject_of
from cardinal.transport.errors import BrokerRefused, Unreachable
from seriatim.client.errors import NotAllPublished
from seriatim.client.stream_client import Client

PATIENCE_SECONDS = 60.0
WAIT_SECONDS_MIN, WAIT_SECONDS_MAX = 0.05, 2.0  # between attempts, doubled each time
FULL = 507  # the status of a message for which the journal has no room
ID_HEADER = "Nats-Msg-Id"
HEADER_BYTES = len(f"NATS/1.0\r\n{ID_HEADER}: \r\n\r\n") + 2 * ID_BYTES  # of max_payload

Item = tuple[str, bytes, dict[str, str]]  # subject, payload, headers


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
        """`patience`: how many seconds to try; `options` are those of `seriatim.connect`."""
        subject_of(application, "any")
        self.application = application
        self.url = url
        self.patience = patience
        self.payload_max: int | None = None  # the broker's limit, once connected
        self._options = options
        self._client: Client | None = None
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
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def send(self, messages: Messages) -> int:
        """Publish messages by topic, in order; return the last number that the broker assigned.

        Raises `BrokerRefused`, `BadTopic`, and `Unreachable` when the patience is exhausted; then
        the messages may have arrived or not, and may be sent again. If one is too large, none is
        sent.
        """
        items = [
            _item(subject_of(self.application, topic), pack(key, value))
            for topic, rows in messages.items()
            for key, value in rows
        ]
        self._check_sizes(items)
        async with self._turn:
            return await self._send(items) if items else 0

    async def _send(self, items: list[Item]) -> int:
        """Publish messages until all are accepted; return the highest number."""
        clock = asyncio.get_running_loop().time
        number, end, wait = 0, clock() + self.patience, WAIT_SECONDS_MIN
        while True:
            try:
                client = await self._connected(max(end - clock(), 0))
                self._check_sizes(items)
                numbers = await client.publish_all(items, timeout=self.patience)
                return max(number, *numbers)
            except Broken as error:
                raise Unreachable(f"{error}; tried for {self.patience:g} s") from None
            except NotAllPublished as error:
                for one in error.errors.values():
                    if one.status != FULL:
                        raise refusal(self.url, one) from None
                has = error.numbers
                if any(has):
                    number, end = max(number, *has), clock() + self.patience
                refused = [item for item, one in zip(items, has, strict=False) if not one]
                items = refused + items[len(has) :]
            if clock() + wait > end:
                raise Unreachable(f"the journal is full; tried for {self.patience:g} s")
            await asyncio.sleep(wait)
            wait = min(2 * wait, WAIT_SECONDS_MAX)

    async def _connected(self, seconds: float = 0.0) -> Client:
        """Return the client, which reconnects; the first time may take so long."""
        if self._client is None or self._client.is_closed:
            self._client = await open_client(self.url, **{"wait": seconds, **self._options})
        self.payload_max = self._client.max_payload - HEADER_BYTES
        return self._client

    def _check_sizes(self, items: list[Item]) -> None:
        """Raise for a message that is too large, before any is sent."""
        largest = max((len(payload) for _, payload, _ in items), default=0)
        if self.payload_max is not None and largest > self.payload_max:
            raise BrokerRefused(
                f"a message of {largest} bytes; the broker accepts at most {self.payload_max}"
            )


def _item(subject: str, payload: bytes) -> Item:
    return subject, payload, {ID_HEADER: message_id(subject, payload)}
