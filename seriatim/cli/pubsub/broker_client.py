"""The connection of `seriatim pub` and `seriatim sub`, with errors for a person.

A failure ends the command with one line that quotes the broker, or the network.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from seriatim.cli.errors import CliError
from seriatim.client.aio import AsyncClient, ClientCallbacks, connect
from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    NoAnswer,
    NotAuthorized,
    describe,
)
from seriatim.client.server_address import read_address, without_credentials

DEFAULT_URL = "nats://127.0.0.1:4222"
INBOX_PREFIX = "_INBOX.seriatim"
CONNECT_SECONDS_MAX = 10.0
Result = TypeVar("Result")


class BrokerGone(CliError):
    """There is no connection, or it broke; reconnecting may help."""


class CommandConnection:
    """One connection to a broker; `during` waits for something, or for the connection's end."""

    def __init__(self, url: str, client: AsyncClient, refusals: list[BrokerError]) -> None:
        self.shown = without_credentials(url)
        self.client = client
        self._refusals = refusals

    @property
    def frame(self) -> str:
        """The frame the broker announces; empty if it announces none, like nats-server."""
        return str(self.client.info.get("frame", ""))

    async def during(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of `work`; `CliError` if the broker refuses it, `BrokerGone` if it
        disconnects.
        """
        task = asyncio.ensure_future(work)
        closed = asyncio.ensure_future(self.client.closed.wait())
        try:
            await asyncio.wait({task, closed}, return_when=asyncio.FIRST_COMPLETED)
            if task.done() and not self._refusals:
                return task.result()
            raise self._failure(self.client.error or ConnectionLost("the connection is closed"))
        except (OSError, BrokerError) as error:
            raise self._failure(error) from error
        finally:
            task.cancel()
            closed.cancel()
            await asyncio.gather(task, closed, return_exceptions=True)

    def _failure(self, error: Exception) -> CliError:
        """The exception for `error`, or for what the broker refused before."""
        cause = self._refusals[0] if self._refusals else error
        gone = self.client.is_closed or isinstance(cause, OSError | NoAnswer | ConnectionLost)
        return (BrokerGone if gone else CliError)(f"{self.shown}: {_reason(cause)}")

    async def settle(self, timeout: float) -> None:
        """Wait until the broker has processed everything, and reported its refusals."""
        await self.client.flush(timeout)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[CommandConnection]:
    """A connection to the broker at `url`, closed at the end. Raises `BrokerGone`."""
    url = broker_url(url)
    refusals: list[BrokerError] = []
    inbox = f"{INBOX_PREFIX}.{uuid.uuid4().hex}"  # the subject for our replies
    try:
        client = await connect(
            url,
            inbox_prefix=inbox,
            connect_timeout=CONNECT_SECONDS_MAX,
            callbacks=ClientCallbacks(on_error=refusals.append),
        )
    except BrokerError as error:
        raise BrokerGone(f"{without_credentials(url)}: {_reason(error)}") from error
    async with client:
        yield CommandConnection(url, client, refusals)


def broker_url(url: str) -> str:
    """`url` in full: host:port is enough. Raises `CliError`."""
    full = url if "://" in url else f"nats://{url}"
    try:
        right = full.startswith("nats://") and bool(read_address(full))
    except ValueError:
        right = False
    if not right:
        shown = without_credentials(url)
        raise CliError(
            f'"{shown}" is not the address of a broker; give nats://HOST:PORT or HOST:PORT'
        )
    return full


def _reason(error: Exception) -> str:
    """The failure in words for the user."""
    if isinstance(error, NotAuthorized):
        return "the broker requires authentication, or refused it"
    return describe(error)
