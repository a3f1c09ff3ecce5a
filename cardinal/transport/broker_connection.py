"""One connection to the broker. It ends when it breaks; its user opens another.

The client's own reconnecting is off: it would repeat a replay from its beginning, and lose
published messages that were not acknowledged. The reader and the publisher know their position, and
continue from there.
"""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar

from cardinal.messages import NUMBER_MAX
from cardinal.transport.errors import BrokerRefused
from seriatim.client.client_event import ClientEvent
from seriatim.client.connecting import connect
from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    InvalidArgument,
    NoResponders,
    NotAuthorized,
    describe,
)
from seriatim.client.server_address import without_credentials
from seriatim.client.stream_client import Client

CONNECT_SECONDS_MAX = 10.0
ANSWER_SECONDS_MAX = 10.0
PING_SECONDS = 15.0

Result = TypeVar("Result")


class Broken(Exception):
    """The connection has ended; open another one."""


class BrokerConnection:
    """One connection; `refused` are the refusals that came on it."""

    def __init__(self, client: Client, url: str) -> None:
        self.client = client
        self.url = without_credentials(url)
        self.refused: list[str] = []
        self.place_known = False  # whether its reader has checked which journal it is
        self.changed = asyncio.Event()  # something was refused, or it has ended

    @classmethod
    async def open(cls, url: str, **options: Any) -> "BrokerConnection":
        """Connect; `options` are those of `seriatim.connect`.

        Raises `Broken`; `BrokerRefused` if the address is not valid or the broker rejects us.
        """
        shown = without_credentials(url)
        made: BrokerConnection | None = None

        def note(event: ClientEvent) -> None:
            if made is not None:
                made._note(event)

        settings = {
            "name": "cardinal",
            "connect_timeout": CONNECT_SECONDS_MAX,
            "ping_interval": PING_SECONDS,
            "reconnect": False,
            **options,
            "on_event": note,
        }
        try:
            client = await connect(url, **settings)
        except InvalidArgument as error:
            if error.address:
                raise BrokerRefused(f"{shown}: {error.reason}") from None
            raise BrokerRefused(
                f"{shown!r} is not the address of a broker; give nats://HOST:PORT"
            ) from None
        except NotAuthorized:
            raise BrokerRefused(f"{shown}: the broker rejects us") from None
        except BrokerError as error:
            raise Broken(f"{shown}: {describe(error)}") from None
        made = cls(client, url)
        return made

    @property
    def has_numbers(self) -> bool:
        """True if messages come with their numbers, as those of every Seriatim do."""
        return "seriatim" in self.client.server

    @property
    def is_over(self) -> bool:
        """True if the connection broke, or was closed."""
        return self.client.is_closed

    async def during(self, work: Coroutine[Any, Any, Result], seconds: float) -> Result:
        """Return the result of `work`.

        Raises `Broken` when the connection ends, or after the timeout; `BrokerRefused` if nothing
        answers the subject.
        """
        try:
            async with asyncio.timeout(seconds):
                return await work
        except NoResponders:
            raise BrokerRefused(f"{self.url}: this broker is not Seriatim: no responders") from None
        except TimeoutError:
            raise Broken(f"{self.url}: no answer") from None
        except (OSError, BrokerError) as error:
            raise Broken(f"{self.url}: {describe(error)}") from None

    def why(self) -> str:
        """Why the connection ended, as far as known."""
        return describe(self.client.error or ConnectionLost("the broker closed the connection"))

    async def request(self, subject: str, payload: bytes) -> bytes:
        """The answer to a request. Raises `Broken`, and `BrokerRefused` if it is a status."""
        request = self.client.request(subject, payload, timeout=ANSWER_SECONDS_MAX)
        answer = await self.during(request, ANSWER_SECONDS_MAX + 1)
        if answer.status:
            raise BrokerRefused(f"{subject}: {answer.status} {answer.description}".rstrip())
        return bytes(answer.payload)

    async def info(self) -> dict[str, Any]:
        """Return the broker's journal and last number. Raises `Broken`, `BrokerRefused`."""
        try:
            found = json.loads(await self.request("$SEQ.INFO", b""))
            last = found["last"]
            if type(last) is not int or not 0 <= last <= NUMBER_MAX:
                raise ValueError(f"the last number is {last!r:.40}")
            return {"journal": str(found["journal"]), "last": last}
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, BrokerRefused):
                raise
            raise BrokerRefused(f"{self.url}: this broker is not Seriatim: {error!r}") from None

    async def close(self) -> None:
        """Close the connection, in any state."""
        await self.client.close()
        self.changed.set()

    def _note(self, event: ClientEvent) -> None:
        if event.kind == "refused" and event.error is not None:
            self.refused.append(event.error.reason)
        self.changed.set()
