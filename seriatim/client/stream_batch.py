"""A batch of messages, published as a whole or not at all (docs/staging.md).

    async with stream.batch() as batch:
        await batch.publish("orders.eu", b"first")
        await batch.publish("orders.us", b"second")
    print(batch.first, batch.last)

The messages are staged by the broker, piece by piece, out of sight. One commit publishes
them; it may be repeated, and is, until it is answered.
"""

import asyncio
import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self
from zlib import crc32

from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    NoAnswer,
    NotABroker,
    Refused,
    Unconfirmed,
)
from seriatim.client.protocol import publish_head, size_of
from seriatim.client.stream_publishing import Data

if TYPE_CHECKING:
    from seriatim.client.stream_client import Client

PIECE_BYTES: Final = 1 << 19
HEADERS_BYTES: Final = 4096  # more than the headers of a piece
STAGE: Final = "all"
ANSWER_SECONDS: Final = 10.0
ABORT_SECONDS: Final = 1.0  # after an error: the broker drops in the end what it was not told of
PAUSE_SECONDS: Final = 0.1
NOT_NOW: Final = (429, 503, 504)  # busy, or a cluster without a quorum: try again


class StreamBatch:
    """The messages of one batch; `first`, `last` and `rows` are there when it is published.

    `application` and `number` name a batch that a restarted program may publish again: its
    messages are then published once. Without them a batch has a name of its own.
    """

    def __init__(
        self, client: "Client", application: str = "", number: int = 0, timeout: float = 60.0
    ) -> None:
        self.application = application or f"seriatim-{secrets.token_hex(12)}"
        self.number = number
        self.rows = 0
        self.first = self.last = 0  # numbers; others' messages may be between them
        self.is_repeated = False  # it was published before
        self._client = client
        self._is_named = bool(application)
        self._timeout = timeout
        self._pieces: list[bytes] = []
        self._held = 0
        self._staged = 0  # bytes
        self._crc = 0
        self._state = "new"
        self._staging = asyncio.Lock()

    async def __aenter__(self) -> Self:
        if self._is_named:
            await self._ask("ABORT", self._identity())  # what an earlier attempt has left
        self._state = "open"
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is None:
            await self._commit()
        elif self._staged:
            with suppress(BrokerError):  # the broker drops it when it expires
                await self._ask("ABORT", self._identity(), timeout=ABORT_SECONDS)
        self._state = "closed"

    async def publish(
        self,
        subject: str,
        payload: Data = b"",
        *,
        headers: Mapping[str, str] | None = None,
        reply: str = "",
    ) -> None:
        """Add a message. Raises `Refused` if the broker refuses what was added before."""
        if self._state != "open":
            raise Refused("a batch takes messages within its `async with`", subject=subject)
        size = size_of(payload)
        head = publish_head(subject, size, reply, headers, self._client.max_payload)
        self._pieces += (head, bytes(payload), b"\r\n")
        self._held += len(head) + size + 2
        self.rows += 1
        if self._held >= PIECE_BYTES:
            async with self._staging:  # tasks may fill one batch together
                await self._stage()

    async def _stage(self) -> None:
        """Send what has gathered, in pieces that the broker accepts."""
        data, self._pieces, self._held = b"".join(self._pieces), [], 0
        most = max(min(PIECE_BYTES, self._client.max_payload - HEADERS_BYTES), 1)
        for at in range(0, len(data), most):
            piece = data[at : at + most]
            headers = {
                "Seriatim-Application": self.application,
                "Seriatim-Batch": str(self.number),
                "Seriatim-Stage": STAGE,
                "Seriatim-Offset": str(self._staged),
            }
            await self._ask("STAGE", piece, headers)
            self._staged += len(piece)
            self._crc = crc32(piece, self._crc)

    async def _commit(self) -> None:
        async with self._staging:
            await self._stage()
        if not self._staged:
            return
        stage = {"stage": STAGE, "bytes": self._staged, "crc32": self._crc}
        wish = self._identity() | {"stages": [stage], "remember": self._is_named}
        said = await self._ask("COMMIT", wish)
        try:
            self.first, self.last = int(said["first"]), int(said["last"])
            self.is_repeated = bool(said["repeated"])
        except (KeyError, TypeError, ValueError):
            raise NotABroker("the answer to a batch is not one of a Seriatim broker") from None

    def _identity(self) -> dict[str, Any]:
        return {"application": self.application, "batch": self.number}

    async def _ask(
        self,
        word: str,
        body: bytes | dict[str, Any],
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Ask until there is an answer: each of these requests may be repeated."""
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        loop = asyncio.get_running_loop()
        end = loop.time() + (self._timeout if timeout is None else timeout)
        while True:
            left = min(end - loop.time(), ANSWER_SECONDS)
            try:
                answer = await self._client.request(
                    f"$SEQ.{word}", payload, headers=headers, timeout=max(left, 0.001)
                )
            except (ConnectionLost, NoAnswer) as error:
                if self._client.is_closed or loop.time() >= end:
                    why = f"{error.reason}; the batch may have been published, or not"
                    raise Unconfirmed(why, self.application, str(self.number)) from None
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if answer.status in NOT_NOW and loop.time() < end:
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if answer.status:
                raise Refused(answer.description, answer.status, subject=f"$SEQ.{word}")
            try:
                return answer.json()
            except ValueError:
                raise NotABroker("the answer is not one of a Seriatim broker") from None
