"""The client's connection behind `seriatim pub` and `seriatim sub`: nats-py, with clear errors.

nats-py tells most troubles to callbacks and goes on waiting; here a trouble ends the command
with one line that says what the broker, or the network, said.
"""

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from nats.aio.client import Client
from nats.errors import AuthorizationError, BadSubjectError, Error, MaxPayloadError, UnexpectedEOF

from seriatim.cli.errors import CliError
from seriatim.receiver.shown_addresses import without_credentials

DEFAULT_URL = "nats://127.0.0.1:4222"
INBOX_PREFIX = "_INBOX.seriatim"
CONNECT_SECONDS_MAX = 5
LOOK_SECONDS = 1.0
CANCEL_AGAIN_SECONDS = 0.1
Result = TypeVar("Result")


class LinkLost(CliError):
    """There is no connection, or it broke; connecting again may help."""


class Worded(Client):
    """A client that keeps the broker's words as they came: nats-py makes them lower case."""

    words = ""

    async def _process_err(self, err_msg: str) -> None:
        line = bytes(self._ps.buf).partition(b"\r\n")[0]  # what nats-py's parser is at
        words = line.removeprefix(b"-ERR").decode("utf-8", "replace").strip().strip("'")
        if words.lower() == err_msg.strip("'"):
            self.words = words
        await super()._process_err(err_msg)


class Link:
    """One connection to a broker; `during` waits for something, or for the connection's end."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.shown = without_credentials(url)
        self.client = Worded()
        self.inbox = f"{INBOX_PREFIX}.{uuid.uuid4().hex}"  # where answers to us alone come
        self._closed = asyncio.Event()
        self._said: Exception | None = None

    @property
    def frame(self) -> str:
        """The frame the broker announces; empty when it says nothing, as nats-server."""
        # nats-py keeps what INFO says to itself, apart from what it uses.
        info: dict[str, Any] = getattr(self.client, "_server_info", {})
        return str(info.get("frame", ""))

    async def open(self) -> None:
        """Connect, or raise `LinkLost`."""
        try:
            async with asyncio.timeout(2 * CONNECT_SECONDS_MAX):
                await self.client.connect(
                    self.url,
                    name="seriatim",
                    inbox_prefix=self.inbox,
                    error_cb=self._on_error,
                    closed_cb=self._on_closed,
                    allow_reconnect=False,
                    max_reconnect_attempts=1,  # 0 would mean for ever
                    reconnect_time_wait=0,
                    connect_timeout=CONNECT_SECONDS_MAX,
                )
        except (OSError, Error, ValueError, TimeoutError) as error:
            raise LinkLost(f"{self.shown}: {self._describe(self._said or error)}") from error

    async def during(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of `work`; `CliError` when the broker refuses it, `LinkLost` without one."""
        task = asyncio.ensure_future(work)
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            while not (task.done() or self.client.is_closed):
                # Some versions of nats-py forget to say that they have closed: look, too.
                await asyncio.wait(
                    {task, closed}, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
            if task.done() and not task.cancelled() and self._said is None:
                return task.result()
            raise self._failure(self.client.last_error or UnexpectedEOF())
        except (OSError, Error, TimeoutError) as error:
            raise self._failure(error) from error
        finally:
            await _end({task, closed})

    def _failure(self, error: Exception) -> CliError:
        """What to raise for `error`, or for what the broker has said before."""
        cause = self._said or error
        gone = self.client.is_closed or isinstance(cause, OSError | TimeoutError)
        return (LinkLost if gone else CliError)(f"{self.shown}: {self._describe(cause)}")

    def _describe(self, error: Exception) -> str:
        text = describe(error)
        return self.client.words if self.client.words.lower() == text else text

    async def settle(self, timeout: float) -> None:
        """Wait until the broker has taken everything, and has said what it has against it.

        Twice, for nats-py's PING overtakes what still waits in the client; while the first
        PONG is awaited the rest is written.
        """
        for _ in range(2):
            await self.client.flush(timeout=timeout)  # type: ignore[arg-type]

    async def _on_error(self, error: Exception) -> None:
        self._said = error

    async def _on_closed(self) -> None:
        self._said = self._said or self.client.last_error
        self._closed.set()


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Link]:
    """A link to the broker at `url`, closed at the end."""
    link = Link(broker_url(url))
    await link.open()
    try:
        yield link
    finally:
        await link.client.close()


async def _end(tasks: set[asyncio.Task[Any]]) -> None:
    """End tasks for good; what they fail with by now is nobody's business.

    nats-py swallows a cancellation that meets it while it writes, so one may not be enough.
    """
    running = tasks
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=CANCEL_AGAIN_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)


def broker_url(url: str) -> str:
    """`url` in full: host:port is enough. Raises `CliError`."""
    full = url if "://" in url else f"nats://{url}"
    parts = urlsplit(full)
    try:
        right = parts.scheme == "nats" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number, or too large for one
        right = False
    if not right:
        shown = without_credentials(url)
        raise CliError(f'"{shown}" is no address of a broker; give nats://HOST:PORT or HOST:PORT')
    return full


def describe(error: Exception) -> str:
    """What went wrong, in words for a person."""
    match error:
        case ConnectionRefusedError():
            return "connection refused: no broker listens there"
        case UnexpectedEOF():
            return "the broker closed the connection"
        case AuthorizationError():
            return "the broker wants to know who you are, or does not know you"
        case BadSubjectError():
            return "this is no subject"
        case MaxPayloadError():
            return "the message is larger than the broker accepts"
        case TimeoutError():
            return "no answer in time"
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number).lower()
        case OSError(strerror=str(text)) if text:
            return text.lower()
    text = str(error).removeprefix("nats: ")
    return text or type(error).__name__
