"""A connection that ends when it breaks: its errors, and servers that are not Seriatim."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cardinal.transport.application_reader import ApplicationReader
from cardinal.transport.broker_connection import Broken, BrokerConnection
from cardinal.transport.errors import BrokerRefused, NoNumbers
from cardinal.transport.publisher import Publisher
from tests.clients.served import run
from tests.support.processes import NatsServer, SeriatimServer

INFO = (
    b'INFO {"server_id":"x","version":"2.10.0","max_payload":1000,"headers":true,"frame":"%b"}\r\n'
)


@asynccontextmanager
async def stub(answer: bytes, frame: bytes = b"netstring") -> AsyncIterator[str]:
    """A server that answers every request with this, or hangs up if it is empty."""

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(INFO % frame)
        sid = b"1"
        while line := await reader.readline():
            if line == b"PING\r\n":
                writer.write(b"PONG\r\n")
            elif line.startswith(b"SUB"):
                sid = line.split()[-1]
            elif line.startswith(b"PUB $SEQ"):
                if not answer:
                    break
                reply = line.split()[2]
                writer.write(b"MSG %b %b %d\r\n%b\r\n" % (reply, sid, len(answer), answer))
        writer.close()

    server = await asyncio.start_server(session, "127.0.0.1", 0)
    try:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def test_given_a_connection_when_asked_then_the_answer_or_the_status_is_there() -> None:
    async def scenario(url: str) -> None:
        connection = await BrokerConnection.open(url)
        assert connection.has_numbers
        info = await connection.info()
        assert set(info) == {"journal", "last"}
        assert not connection.is_over
        with pytest.raises(BrokerRefused, match="404"):
            await connection.request("$SEQ.GET.7", b"")
        await connection.close()
        assert connection.is_over
        with pytest.raises(Broken):
            await connection.request("$SEQ.INFO", b"")

    with SeriatimServer("netstring") as server:
        run(scenario(f"nats://127.0.0.1:{server.port}"))


def test_given_a_broker_that_hangs_up_when_asked_then_the_connection_is_over_at_once() -> None:
    async def scenario() -> None:
        async with stub(b"") as url:
            connection = await BrokerConnection.open(url)
            with pytest.raises(Broken):
                await connection.request("$SEQ.INFO", b"")
            assert connection.is_over
            await connection.close()

    run(scenario())


@pytest.mark.parametrize("answer", [b"x", b"[]", b'{"journal":"a"}', b'{"journal":"a","last":"x"}'])
def test_given_an_invalid_answer_about_what_there_is_then_it_is_refused(
    answer: bytes,
) -> None:
    async def scenario() -> None:
        async with stub(answer) as url:
            connection = await BrokerConnection.open(url)
            with pytest.raises(BrokerRefused, match="this broker is not Seriatim"):
                await connection.info()
            await connection.close()

    run(scenario())


def test_given_a_wrong_user_when_opened_then_it_is_refused_and_not_tried_again() -> None:
    async def scenario() -> None:
        async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(INFO % b"netstring")
            await reader.readline()
            writer.write(b"-ERR 'Authorization Violation'\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(session, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BrokerRefused, match="rejects us"):
            await BrokerConnection.open(f"nats://127.0.0.1:{port}")
        server.close()

    run(scenario())


@pytest.mark.parametrize("url", ["", "nats://", "nats://127.0.0.1:abc", "127.0.0.1:99999"])
def test_given_input_that_is_no_address_when_opened_then_it_is_refused_with_the_reason(
    url: str,
) -> None:
    async def scenario() -> None:
        with pytest.raises(BrokerRefused, match="is not the address of a broker"):
            await BrokerConnection.open(url)

    run(scenario())


def test_given_nats_server_when_sent_to_or_read_then_the_error_says_what_it_lacks() -> None:
    async def scenario(url: str) -> None:
        async with Publisher("other", url) as publisher:
            with pytest.raises(BrokerRefused, match="this broker is not Seriatim: no responders"):
                await publisher.send({"t": [(b"k", b"")]})
        async with ApplicationReader("other", url) as reader:
            with pytest.raises(NoNumbers, match="it is not Seriatim"):
                await reader.read(5.0)

    with NatsServer() as server:
        run(scenario(f"nats://127.0.0.1:{server.port}"))


def test_given_no_server_then_the_error_shows_no_credentials() -> None:
    async def scene() -> None:
        with pytest.raises(Broken) as told:
            await BrokerConnection.open("nats://u:hunter2@127.0.0.1:1")
        assert "127.0.0.1:1" in str(told.value)
        assert "hunter2" not in str(told.value)

    asyncio.run(scene())
