"""The publisher on a real broker: once for all producers, again after a break, what is refused."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import nats
import pytest

from cardinal.producer import Producer
from cardinal.transport.application_reader import ApplicationReader
from cardinal.transport.envelope import packed_bytes
from cardinal.transport.errors import BadTopic, BrokerRefused, Unreachable
from cardinal.transport.publisher import Publisher
from tests.cardinal.chains import GENESIS, SCHEMA, branch, messages_of, rows_of
from tests.clients.served import run
from tests.support.processes import SeriatimServer, url
from tests.support.relay import Relay

ANSWER_S = 30.0  # a bound for what hangs
MANY = 512


async def last_number(address: str) -> int:
    client = await nats.connect(address)
    try:
        return int(
            json.loads((await client.request("$SEQ.INFO", b"", timeout=ANSWER_S)).data)["last"]
        )
    finally:
        await client.close()


async def all_of(application: str, address: str, count: int) -> list[tuple[str, bytes, bytes]]:
    """The first messages of an application."""
    found: list[tuple[str, bytes, bytes]] = []
    async with ApplicationReader(application, address) as reader:
        while len(found) < count:
            rows, _ = await reader.read(5.0)
            found += [row[:3] for row in rows]
    return found


def test_given_two_producers_when_they_send_the_same_then_it_has_one_number_each(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        blocks = branch(GENESIS, "p", 5)
        before = await last_number(url(broker))
        async with Publisher("twice", url(broker)) as one, Publisher("twice", url(broker)) as other:
            sent = []
            for publisher in (one, other):
                producer = Producer(SCHEMA)
                for block in blocks:
                    for messages in messages_of(producer, block):
                        sent.append((publisher, messages))
            numbers = await asyncio.gather(*[one.send(messages) for one, messages in sent])
            assert max(numbers) == await last_number(url(broker))
        expected = rows_of([messages for _, messages in sent[: len(sent) // 2]])
        assert await last_number(url(broker)) - before == len(expected)
        found = await all_of("twice", url(broker), len(expected))
        assert sorted(found) == sorted(row[:3] for row in expected)

    run(scenario())


def test_given_one_producer_when_it_sends_then_the_order_is_its_own(broker: SeriatimServer) -> None:
    async def scenario() -> None:
        producer, block = Producer(SCHEMA), branch(GENESIS, "o", 1, size=2 * MANY)[0]
        messages = messages_of(producer, block)[0]
        async with Publisher("order", url(broker)) as publisher:
            number = await publisher.send(messages)
            assert number == await last_number(url(broker))
            assert await publisher.send({}) == 0
        expected = [row[:3] for row in rows_of([messages])]
        assert len(expected) > 2 * MANY
        assert await all_of("order", url(broker), len(expected)) == expected

    run(scenario())


def test_given_what_the_broker_will_never_take_when_sent_then_it_is_refused(
    broker: SeriatimServer,
) -> None:
    async def scenario() -> None:
        async with Publisher("refused", url(broker)) as publisher:
            with pytest.raises(
                BrokerRefused, match="a message of 2000010 bytes; the broker accepts at most"
            ):
                await publisher.send({"t": [(b"k", b"x" * 1_999_997)]})
            with pytest.raises(BadTopic):
                await publisher.send({"a b": [(b"k", b"")]})
            assert await publisher.send({"t": [(b"k", b"")]}) > 0, "and goes on"

    run(scenario())
    with pytest.raises(BadTopic):
        Publisher("a.b", url(broker))


def test_given_one_message_that_is_too_large_when_sent_then_none_is(broker: SeriatimServer) -> None:
    async def scenario() -> None:
        before = await last_number(url(broker))
        async with Publisher("sizes", url(broker)) as publisher:
            most = publisher.payload_max
            assert most is not None
            assert packed_bytes(b"k", bytes(most - 13)) == most
            large = [(b"k", b"")] * 2 * MANY + [(b"k", bytes(most - 12))]
            with pytest.raises(
                BrokerRefused, match=f"{most + 1} bytes; the broker accepts at most {most}"
            ):
                await publisher.send({"t": large})
            assert await last_number(url(broker)) == before
            assert await publisher.send({"t": [(b"k", bytes(most - 13))]}) == before + 1

    run(scenario())


def test_given_no_broker_when_opened_or_sent_to_then_it_is_reported_in_time() -> None:
    async def scenario() -> None:
        with pytest.raises(Unreachable, match="connection refused: no broker listens there"):
            async with Publisher("none", "nats://127.0.0.1:1"):
                pass
        publisher = Publisher("none", "nats://127.0.0.1:1", patience=0.2)
        with pytest.raises(Unreachable, match=r"tried for 0\.2 s"):
            await publisher.send({"t": [(b"k", b"")]})

    run(scenario())


def test_given_a_broker_that_is_killed_when_sending_then_nothing_is_lost_or_twice() -> None:
    async def scenario(server: SeriatimServer, relay: Relay) -> None:
        producer, block = Producer(SCHEMA), branch(GENESIS, "k", 1, size=20_000)[0]
        messages = messages_of(producer, block)[0]
        relay.cut(up=1_000_000)  # a part of it, and then in the midst of a message
        async with Publisher("killed", f"nats://127.0.0.1:{relay.port}") as publisher:
            sending = asyncio.create_task(publisher.send(messages))
            while relay.connections < 2:
                await asyncio.sleep(0.001)  # no event to await: the relay counts
            port = server.port
            server.kill()  # while nothing else runs here
            await asyncio.to_thread(server.start, port)
            number = await sending
        expected = [row[:3] for row in rows_of([messages])]
        assert number == await last_number(url(server)) == len(expected)
        assert await all_of("killed", url(server), len(expected)) == expected

    with SeriatimServer("netstring") as server, Relay(server.port) as relay:
        run(scenario(server, relay))


@asynccontextmanager
async def stub(statuses: list[bytes], answer: bytes) -> AsyncIterator[str]:
    """A server that answers each message with the next status, and then always with this."""

    async def session(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"max_payload":1000,"headers":true}\r\n')
        sids: dict[bytes, bytes] = {}
        while line := await reader.readline():
            words = line.split()
            if line == b"PING\r\n":
                writer.write(b"PONG\r\n")
            elif line.startswith(b"SUB"):
                sids[words[1].removesuffix(b"*")] = words[-1]
            elif line.startswith(b"HPUB $SEQ.PUB."):
                await reader.readexactly(int(words[-1]) + 2)
                reply = words[2]
                to = b"%b %b" % (reply, sids[reply[: reply.rindex(b".") + 1]])
                if statuses:
                    head = b"NATS/1.0 %b\r\n\r\n" % statuses.pop(0)
                    writer.write(b"HMSG %b %d %d\r\n%b\r\n" % (to, len(head), len(head), head))
                else:
                    writer.write(b"MSG %b %d\r\n%b\r\n" % (to, len(answer), answer))
        writer.close()

    server = await asyncio.start_server(session, "127.0.0.1", 0)
    try:
        yield f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


FULL = b"507 Journal Full"
FORBIDDEN = b"403 Permissions Violation"


def test_given_a_server_that_numbers_nothing_when_sent_to_then_it_is_refused() -> None:
    async def scenario() -> None:
        async with stub([], b"hello") as address, Publisher("x", address) as publisher:
            with pytest.raises(BrokerRefused, match="this broker is not Seriatim"):
                await publisher.send({"t": [(b"k", b"")]})

    run(scenario())


def test_given_a_full_journal_when_sent_to_then_it_is_sent_again_until_there_is_room() -> None:
    async def scenario() -> None:
        statuses = [FULL, FULL]
        async with stub(statuses, b"1:7,") as address, Publisher("x", address) as publisher:
            assert await publisher.send({"t": [(b"k", b"")]}) == 7
            assert statuses == []
        async with stub([FULL] * 99, b"1:7,") as address:
            publisher = Publisher("x", address, patience=0.3)
            with pytest.raises(Unreachable, match=r"the journal is full; tried for 0\.3 s"):
                await publisher.send({"t": [(b"k", b"")]})
            await publisher.close()

    run(scenario())


def test_given_a_subject_that_is_forbidden_when_sent_to_then_it_is_refused_at_once() -> None:
    async def scenario() -> None:
        statuses = [FULL, FORBIDDEN]
        async with stub(statuses, b"1:7,") as address, Publisher("x", address) as publisher:
            with pytest.raises(BrokerRefused, match=r"^cardinal\.x\.t: Permissions Violation$"):
                await publisher.send({"t": [(b"k", b""), (b"l", b"")]})

    run(scenario())
