"""The connection of `seriatim pub` and `seriatim sub`, with errors for a person.

A failure ends the command with one line that quotes the broker, or the network.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from seriatim.cli.broker_access import BrokerAccess
from seriatim.cli.errors import CliError
from seriatim.client.aio import AsyncClient, ClientCallbacks, connect
from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    NoAnswer,
    NotAuthorized,
    describe,
)

CONNECT_SECONDS_MAX = 10.0
Result = TypeVar("Result")


class BrokerGone(CliError):
    """No connection, or a broken one; reconnecting may help."""


class CommandConnection:
    """One connection to a broker; `during` waits for something, or for the connection's end."""

    def __init__(
        self, access: BrokerAccess, client: AsyncClient, refusals: list[BrokerError]
    ) -> None:
        self.shown = access.shown
        self.client = client
        self._access = access
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
        """The exception for `error`, or for an earlier refusal of the broker."""
        cause = self._refusals[0] if self._refusals else error
        gone = self.client.is_closed or isinstance(cause, OSError | NoAnswer | ConnectionLost)
        text = f"{self.shown}: {_reason(cause, self._access)}"
        if self.client.inbox in text:
            text += "; give --inbox-prefix with a subject that this user may subscribe to"
        return (BrokerGone if gone else CliError)(_one_line(text))

    async def settle(self, timeout: float) -> None:
        """Wait until the broker has processed everything, and reported its refusals."""
        await self.client.flush(timeout)


@asynccontextmanager
async def connected(access: BrokerAccess) -> AsyncIterator[CommandConnection]:
    """A connection to the broker, closed at the end. Raises `BrokerGone`, and `CliError`."""
    refusals: list[BrokerError] = []
    try:
        client = await connect(
            access.full_url,
            connect_timeout=CONNECT_SECONDS_MAX,
            callbacks=ClientCallbacks(on_error=refusals.append),
            **access.connect_options(),
        )
    except BrokerError as error:
        raise BrokerGone(_one_line(f"{access.shown}: {_reason(error, access)}")) from error
    async with client:
        yield CommandConnection(access, client, refusals)


def _one_line(text: str) -> str:
    """Put a broker's text on one line."""
    return text.replace("\n", "\\n")


def _reason(error: Exception, access: BrokerAccess) -> str:
    """The failure in words for the user."""
    if isinstance(error, NotAuthorized) and access.is_anonymous:
        return (
            "the broker requires authentication; give --user and --password, --token, --nkey"
            " or --creds"
        )
    return describe(error)
