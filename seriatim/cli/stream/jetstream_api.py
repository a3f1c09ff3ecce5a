"""Requests to JetStream's API, for a command: its pages as a whole, its errors in clear words."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from seriatim.cli.broker_access import BrokerAccess
from seriatim.cli.errors import CliError, UsageError
from seriatim.cli.pubsub.broker_client import CommandConnection, connected
from seriatim.client.errors import NoResponders
from seriatim.client.peer_json import read_object

API: Final = "$JS.API."
ANSWER_SECONDS_MAX: Final = 10.0  # after a start the broker reads its journal first
OFF: Final = "there are no streams: the broker runs without -js (streams.enabled)"
NOT_ENABLED: Final = (503, 10039), (503, 10076)
STREAM_NOT_FOUND: Final = 10059
CONSUMER_NOT_FOUND: Final = 10014


class JetStreamApi:
    """The requests of one command, over one connection."""

    def __init__(self, link: CommandConnection) -> None:
        self._link = link

    async def streams(self) -> list[dict[str, Any]]:
        """Return a StreamInfo of each stream, by name."""
        return await self._all("STREAM.LIST", "streams")

    async def consumers(self, stream: str) -> list[dict[str, Any]]:
        """Return a ConsumerInfo of each consumer of a stream, by name."""
        return await self._all(f"CONSUMER.LIST.{stream}", "consumers", stream)

    async def stream(self, stream: str) -> dict[str, Any]:
        """Return a StreamInfo."""
        return await self._ask(f"STREAM.INFO.{stream}", stream=stream)

    async def consumer(self, stream: str, consumer: str) -> dict[str, Any]:
        """Return a ConsumerInfo."""
        await self.stream(stream)  # nats-server names only the consumer if the stream is missing
        subject = f"CONSUMER.INFO.{stream}.{consumer}"
        return await self._ask(subject, stream=stream, consumer=consumer)

    async def delete_stream(self, stream: str) -> None:
        """Delete a stream, with its consumers."""
        await self._ask(f"STREAM.DELETE.{stream}", stream=stream)

    async def delete_consumer(self, stream: str, consumer: str) -> None:
        """Delete a consumer."""
        subject = f"CONSUMER.DELETE.{stream}.{consumer}"
        await self._ask(subject, stream=stream, consumer=consumer)

    async def _all(self, subject: str, name: str, stream: str = "") -> list[dict[str, Any]]:
        """Ask for page after page."""
        found: list[dict[str, Any]] = []
        while True:
            body = json.dumps({"offset": len(found)}).encode()
            answer = await self._ask(subject, body, stream)
            page = answer.get(name) or []
            found += page
            if not page or len(found) >= answer["total"]:
                return found

    async def _ask(
        self, subject: str, body: bytes = b"", stream: str = "", consumer: str = ""
    ) -> dict[str, Any]:
        """Return an answer. Raises `CliError` with what it says if it is an error."""
        link = self._link
        try:
            data = await link.during(self._answer_to(subject, body))
        except CliError as error:
            if API not in str(error):
                raise
            raise CliError(f"{error}; give this user the right to publish to {API}>") from error
        try:
            answer = read_object(data)
        except ValueError as error:
            raise CliError(f"{link.shown}: the answer to {API}{subject} is invalid") from error
        if error_found := answer.get("error"):
            raise CliError(f"{link.shown}: {_words(error_found, stream, consumer)}")
        return answer

    async def _answer_to(self, subject: str, body: bytes) -> bytes:
        link = self._link
        try:
            answer = await link.client.request(API + subject, body, timeout=ANSWER_SECONDS_MAX)
        except NoResponders as error:
            raise CliError(f"{link.shown}: {OFF}") from error
        return bytes(answer.payload)


def _words(error: dict[str, Any], stream: str, consumer: str) -> str:
    """Say what an error of the API means."""
    number, text = error.get("err_code"), str(error.get("description", "an error"))
    if (error.get("code"), number) in NOT_ENABLED:
        return f"there are no streams: {text}"
    if number == STREAM_NOT_FOUND and stream:
        return f"there is no stream {stream}; `seriatim stream ls` lists them"
    if number == CONSUMER_NOT_FOUND and consumer:
        return (
            f"there is no consumer {consumer} of {stream}; `seriatim stream consumers {stream}`"
            " lists them"
        )
    return f"{text} ({number})"


def checked_name(name: str, of: str) -> str:
    """Return the name of a stream or a consumer, which is a token of a subject."""
    if not name or any(one in ".*>/\\" or one.isspace() or not one.isprintable() for one in name):
        raise UsageError(f'"{name}" cannot be the name of a {of}')
    return name


async def with_api(access: BrokerAccess, use: Callable[[JetStreamApi], Awaitable[Any]]) -> Any:
    """Connect, and return what `use` makes of the requests. Raises `CliError`."""
    async with connected(access) as link:
        return await use(JetStreamApi(link))
