"""Connecting: the errors, and servers that are not Seriatim."""

import asyncio

import pytest

from cardinal.transport.application_reader import ApplicationReader
from cardinal.transport.broker_connection import Broken, open_client
from cardinal.transport.errors import BrokerRefused, NoNumbers
from cardinal.transport.publisher import Publisher
from tests.clients.served import run
from tests.support.processes import NatsServer

INFO = b'INFO {"server_id":"x","version":"2.10.0","max_payload":1000,"headers":true}\r\n'


def test_given_a_wrong_user_when_opened_then_it_is_refused_and_not_tried_again() -> None:
    async def scenario() -> None:
        async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(INFO)
            await reader.readline()
            writer.write(b"-ERR 'Authorization Violation'\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(session, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BrokerRefused, match="refuses the login"):
            await open_client(f"nats://127.0.0.1:{port}", wait=True)
        server.close()

    run(scenario())


@pytest.mark.parametrize("url", ["", "nats://", "nats://127.0.0.1:abc", "127.0.0.1:99999"])
def test_given_input_that_is_no_address_when_opened_then_it_is_refused_with_the_reason(
    url: str,
) -> None:
    async def scenario() -> None:
        with pytest.raises(BrokerRefused, match="is not the address of a broker"):
            await open_client(url)

    run(scenario())


def test_given_nats_server_when_sent_to_or_read_then_the_error_says_what_it_lacks() -> None:
    async def scenario(url: str) -> None:
        async with Publisher("other", url) as publisher:
            with pytest.raises(NoNumbers, match="it is not Seriatim"):
                await publisher.send({"t": [(b"k", b"")]})
        async with ApplicationReader("other", url) as reader:
            with pytest.raises(NoNumbers, match="it is not Seriatim"):
                await reader.read(5.0)

    with NatsServer() as server:
        run(scenario(f"nats://127.0.0.1:{server.port}"))


def test_given_no_server_then_the_error_shows_no_credentials() -> None:
    async def scene() -> None:
        with pytest.raises(Broken) as told:
            await open_client("nats://u:hunter2@127.0.0.1:1")
        assert "127.0.0.1:1" in str(told.value)
        assert "hunter2" not in str(told.value)

    asyncio.run(scene())
