"""The connection of `seriatim pub` and `seriatim sub`, with errors for a person.

A failure ends the command with one line that quotes the broker, or the network.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from seriatim.cli.broker_access import BrokerAccess
from seriatim.cli.errors import CliError
from seriatim.client.client_event import ClientEvent, OnEvent
from seriatim.client.connecting import connect
from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    NoAnswer,
    NotAuthorized,
    Refused,
    Unconfirmed,
    describe,
)
from seriatim.client.stream_client import Client

CONNECT_SECONDS_MAX = 10.0
VIOLATION = "Permissions Violation"  # without more words, in an answer to a request
Result = TypeVar("Result")


class BrokerGone(CliError):
    """No connection, or a broken one; reconnecting may help."""


class CommandConnection:
    """One connection to a broker; `during` waits for something, or for the connection's end."""

    client: Client

    def __init__(self, access: BrokerAccess) -> None:
        self.shown = access.shown
        self._access = access
        self._refusals: list[BrokerError] = []
        self._refused = asyncio.Event()
        self._broken: BrokerError | None = None  # why the connection broke last

    @property
    def is_refused(self) -> bool:
        """True if the broker has refused something that no call waits for."""
        return bool(self._refusals)

    async def during(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of `work`; `CliError` if the broker refuses something, `BrokerGone` if the
        connection ends.
        """
        task = asyncio.ensure_future(work)
        ends = [asyncio.ensure_future(one.wait()) for one in (self.client.closed, self._refused)]
        try:
            await asyncio.wait({task, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if task.done() and not self._refusals:
                return task.result()
            raise self.failure(self.client.error or ConnectionLost("the connection is closed"))
        except BrokerError as error:
            raise self.failure(error) from error
        finally:
            for one in (task, *ends):
                one.cancel()
            await asyncio.gather(task, *ends, return_exceptions=True)

    def note(self, event: ClientEvent) -> None:
        """Note what the broker refuses, and why the connection broke."""
        if event.kind == "disconnected":
            self._broken = event.error
        if event.kind == "refused" and event.error is not None:
            self._refusals.append(event.error)
            self._refused.set()

    def failure(self, error: Exception) -> CliError:
        """The exception for `error`, or for an earlier refusal of the broker."""
        cause = self._refusals[0] if self._refusals else error
        gone = self.client.is_closed or isinstance(cause, NoAnswer | ConnectionLost)
        text = f"{self.shown}: {reason(cause, self._access)}"
        if isinstance(cause, Unconfirmed) and self._broken is not None:
            text += f"; the connection broke: {describe(self._broken)}"
        if re.search(rf"{re.escape(self._access.inbox_prefix)}\.[0-9a-f]{{22}}\b", text):
            text += "; give --inbox-prefix with a subject that this user may subscribe to"
        return (BrokerGone if gone else CliError)(_one_line(text))

    async def settle(self, timeout: float) -> None:
        """Wait until the broker has processed everything, and reported its refusals."""
        await self.client.flush(timeout)


@asynccontextmanager
async def connected(
    access: BrokerAccess,
    reconnect: bool | float = False,
    on_event: OnEvent | None = None,
) -> AsyncIterator[CommandConnection]:
    """A connection to the broker, closed at the end. Raises `BrokerGone`, and `CliError`."""
    link = CommandConnection(access)

    def note(event: ClientEvent) -> None:
        link.note(event)
        if on_event is not None:
            on_event(event)

    try:
        link.client = await connect(
            access.full_url,
            name="seriatim",
            reconnect=reconnect,
            connect_timeout=CONNECT_SECONDS_MAX,
            on_event=note,
            **access.connect_options(),
        )
    except BrokerError as error:
        raise BrokerGone(_one_line(f"{access.shown}: {reason(error, access)}")) from error
    try:
        yield link
    finally:
        await link.client.close()


def _one_line(text: str) -> str:
    """Put a broker's text on one line."""
    return text.replace("\n", "\\n")


def reason(error: Exception, access: BrokerAccess) -> str:
    """Describe a failure for the user."""
    if isinstance(error, NotAuthorized) and access.is_anonymous:
        return (
            "the broker requires authentication; give --user and --password, --token, --nkey"
            " or --creds"
        )
    if isinstance(error, Refused) and error.subject and error.reason == VIOLATION:
        return f'{VIOLATION} for Publish to "{error.subject}"'
    return describe(error)
