"""One connection to the broker by nats-py, which is over when it breaks: who uses it opens another.

nats-py's own reconnecting is off: it would subscribe to a replay again from its beginning, and
forget what was published and not taken. Here the reader and the publisher each know what they
have, and go on from there.
"""

import asyncio
import json
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from nats.aio.client import Client
from nats.errors import Error, NoRespondersError

from cardinal.messages import NUMBER_MAX
from cardinal.transport.errors import Refused

CONNECT_SECONDS_MAX = 5
ANSWER_SECONDS_MAX = 10.0
LOOK_SECONDS = 1.0  # some versions of nats-py forget to say that they have closed: look, too
PING_SECONDS = 15
PERMISSIONS = "permissions violation"
PINGS_MAX = 2

Result = TypeVar("Result")


class Broken(Exception):
    """The connection is over; open another one."""


class Connection:
    """One connection; `refused` is what the broker said against what was sent on it."""

    def __init__(self, client: Client, url: str) -> None:
        self.client = client
        self.url = without_credentials(url)
        self.refused: list[str] = []
        self._said: Exception | None = None
        self.place_known = False  # whether its reader has looked which journal it is
        self.changed = asyncio.Event()  # something was said, or it is over
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(cls, url: str, **options: Any) -> "Connection":
        """Connect; `options` are nats-py's. Raises `Broken`, and `Refused` for who we are."""
        made = cls(Client(), url)
        try:
            async with asyncio.timeout(2 * CONNECT_SECONDS_MAX):
                await made.client.connect(
                    url,
                    **{
                        "name": "cardinal",
                        "connect_timeout": CONNECT_SECONDS_MAX,
                        "ping_interval": PING_SECONDS,
                        "max_outstanding_pings": PINGS_MAX,
                        **options,
                        "error_cb": made._on_error,
                        "disconnected_cb": made._on_over,
                        "closed_cb": made._on_over,
                        "allow_reconnect": False,
                        "max_reconnect_attempts": 1,  # 0 would mean for ever
                        "reconnect_time_wait": 0,
                    },
                )
        except (OSError, Error, TimeoutError) as caught:
            await made.close()
            error = made._said or caught  # nats-py tells a callback what was the matter
            if "connect url" in str(error):  # that it is none
                raise Refused(
                    f"{made.url!r} is no address of a broker; give nats://HOST:PORT"
                ) from None
            if "authorization" in str(error).lower():
                raise Refused(f"{made.url}: the broker does not let us in") from None
            raise Broken(f"{made.url}: {_words(error)}") from None
        except asyncio.CancelledError:
            await made.close()
            raise
        return made

    @property
    def frame(self) -> str:
        """How the broker puts numbers on messages, as it announces."""
        # nats-py keeps what INFO says to itself, apart from what it uses.
        info: dict[str, Any] = getattr(self.client, "_server_info", {})
        return str(info.get("frame", ""))

    @property
    def is_over(self) -> bool:
        """Whether it broke, or was closed."""
        return self._end.done() or self.client.is_closed

    async def during(self, work: Coroutine[Any, Any, Result], seconds: float) -> Result:
        """The result of `work`.

        Raises `Broken` when the connection ends, or the time is up; `Refused` if nobody answers.
        """
        loop = asyncio.get_running_loop()
        task, end = loop.create_task(work), loop.time() + seconds
        either: set[asyncio.Future[Any]] = {task, self._end}
        try:
            while not task.done():
                left = end - loop.time()
                if self.is_over or left <= 0:
                    raise Broken(f"{self.url}: {'no answer' if left <= 0 else self.why()}")
                await asyncio.wait(
                    either,
                    timeout=min(LOOK_SECONDS, left),
                    return_when=asyncio.FIRST_COMPLETED,
                )
            return task.result()
        except NoRespondersError:
            raise Refused(f"{self.url}: this broker is no Seriatim: nobody answers") from None
        except (OSError, Error, TimeoutError) as error:
            raise Broken(f"{self.url}: {_words(error)}") from None
        finally:
            task.add_done_callback(_forget)
            task.cancel()

    def why(self) -> str:
        """Why it is over, as far as it was said."""
        return _words(self.client.last_error or ConnectionError("the broker closed the connection"))

    async def ask(self, subject: str, payload: bytes) -> bytes:
        """The answer to a request. Raises `Broken`, and `Refused` if it is a status."""
        request = self.client.request(subject, payload, timeout=ANSWER_SECONDS_MAX)
        answer = await self.during(request, ANSWER_SECONDS_MAX + 1)
        if answer.headers and "Status" in answer.headers:
            why = answer.headers.get("Description", "")
            raise Refused(f"{subject}: {answer.headers['Status']} {why}".rstrip())
        return answer.data

    async def info(self) -> dict[str, Any]:
        """What the broker keeps. Raises `Broken`, `Refused`."""
        try:
            found = json.loads(await self.ask("$SEQ.INFO", b""))
            last = found["last"]
            if type(last) is not int or not 0 <= last <= NUMBER_MAX:
                raise ValueError(f"the last number is {last!r:.40}")
            return {"journal": str(found["journal"]), "last": last}
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, Refused):
                raise
            raise Refused(f"{self.url}: this broker is no Seriatim: {error!r}") from None

    async def close(self) -> None:
        """Close it, whatever its state."""
        await self._on_over()
        # nats-py asserts that it has begun to connect; with a wrong address it has not. It lets go
        # of its socket some turns of the loop later, which `wait_for` takes and `timeout` does not.
        with suppress(OSError, Error, TimeoutError, AssertionError):
            await asyncio.wait_for(self.client.close(), CONNECT_SECONDS_MAX)

    async def _on_error(self, error: Exception) -> None:
        self._said = error
        if PERMISSIONS in str(error).lower():  # all else ends the connection
            self.refused.append(str(error).removeprefix("nats: ").strip("'"))
        self.changed.set()

    async def _on_over(self) -> None:
        if not self._end.done():
            self._end.set_result(None)
        self.changed.set()


def _forget(task: "asyncio.Task[Any]") -> None:
    """What nobody waits for any more may fail in silence."""
    if not task.cancelled():
        task.exception()


def _words(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: no broker listens there"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error).removeprefix("nats: ") or type(error).__name__


def without_credentials(url: str) -> str:
    """The address as it may be shown: without the user and the password before its last @."""
    scheme, mark, rest = url.rpartition("://")
    return scheme + mark + rest.rpartition("@")[2]
