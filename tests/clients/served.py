"""A running broker as a client's test sees it: its address, and how to read its payloads."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from testkit.model_frame import split_frame, unframe
from tests.support.processes import ServerProcess

TEST_S = 120.0
CONNECT_S = 30
FLUSH_S = 60


@dataclass(frozen=True)
class Served:
    process: ServerProcess
    frame: str

    @property
    def port(self) -> int:
        return self.process.port

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def payload(self, message: Msg) -> bytes:
        """What the publisher sent."""
        is_answer = message.subject.startswith("_INBOX.")  # which has no frame
        return message.data if is_answer else self.repeated(message)

    def repeated(self, message: Msg) -> bytes:
        """What the publisher sent, of an answer that is what a subscriber gets, with its frame."""
        return unframe(message.data, self.frame)

    def number(self, message: Msg) -> int:
        assert self.frame == "netstring"
        return split_frame(message.data)[0]

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncIterator[Client]:
        """A connected nats-py client, closed at the end."""
        usual = {"error_cb": silent, "connect_timeout": CONNECT_S}
        connection = await nats.connect(self.url, **{**usual, **options})
        try:
            yield connection
        finally:
            await connection.close()


async def settle(client: Client) -> None:
    """Return when the server has taken everything, and what it said before has arrived.

    Twice, for nats-py's PING overtakes what waits in the client; while it waits for the first
    PONG the rest is written.
    """
    await client.flush(timeout=FLUSH_S)
    await client.flush(timeout=FLUSH_S)


async def silent(error: Exception) -> None:
    """nats-py prints errors nobody asked for."""


class Noted:
    """Callbacks for a client that set events and remember what they were told."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.failed, self.disconnected = asyncio.Event(), asyncio.Event()
        self.reconnected, self.closed = asyncio.Event(), asyncio.Event()

    async def note_error(self, error: Exception) -> None:
        self.errors.append(error)
        self.failed.set()

    async def note_disconnected(self) -> None:
        self.disconnected.set()

    async def note_reconnected(self) -> None:
        self.reconnected.set()

    async def note_closed(self) -> None:
        self.closed.set()

    def options(self) -> dict[str, Callable[..., Awaitable[None]]]:
        return {
            "error_cb": self.note_error,
            "disconnected_cb": self.note_disconnected,
            "reconnected_cb": self.note_reconnected,
            "closed_cb": self.note_closed,
        }


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run an asynchronous test to its end, within a bounded time."""

    async def bounded() -> None:
        async with asyncio.timeout(TEST_S):
            await test

    asyncio.run(bounded())
