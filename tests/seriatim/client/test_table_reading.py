"""Tables from a broker: complete over breaks and restarts, and no way out leaves anything open."""

import asyncio
import json
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

import seriatim
from seriatim.client.aio_wire import Wire, WireOptions, open_wire
from seriatim.client.chunk_columns import ChunkError
from seriatim.client.credentials import NOBODY
from seriatim.client.errors import (
    BrokerError,
    ConnectionLost,
    InvalidArgument,
    JournalChanged,
    NotABroker,
    NotSeriatim,
    Position,
    Refused,
)
from seriatim.client.message_table import Table, TableWish
from seriatim.client.server_address import read_addresses
from seriatim.client.table_reading import TableReading
from seriatim.client.tls import DEFAULT_TLS
from tests.sequencer.stores import WrittenStore
from tests.support.chunks import chunk_of, payloads
from tests.support.processes import SeriatimServer, url
from tests.support.relay import Relay
from tests.support.scripted import Peer, Scripted

COUNT = 20_000
JOURNAL = "00c0ffee00c0ffee"
GREETING = b'INFO {"server_id":"x","headers":true,"max_payload":1048576,"seriatim":"1"}\r\n'


@pytest.fixture(scope="module")
def broker() -> Iterator[SeriatimServer]:
    """A broker with 20 000 messages to orders.0 ... orders.9, and three more with all there is."""
    with SeriatimServer() as made:
        with seriatim.connect(url(made)) as stream:
            for number in range(1, COUNT + 1):
                stream.publish_unconfirmed(f"orders.{number % 10}", b"%d" % number * 10)
            stream.publish("extra.1", b"\x00\xff", headers={"Colour": "red"}, id="yours")
            stream.publish_unconfirmed("extra.2", b"", reply="answers.1")
            stream.publish("grüße", b"three", id="mine")
        yield made


def test_given_messages_when_read_as_a_table_then_it_has_what_a_reader_gets(
    broker: SeriatimServer,
) -> None:
    with seriatim.connect(url(broker)) as stream:
        table = stream.table()
        with stream.read(until="now") as reader:
            read = list(reader)
    assert len(table) == len(read) == COUNT + 3
    assert (table.next, table.lost) == (COUNT + 4, ())
    assert table.column("number").tolist() == list(range(1, COUNT + 4))
    for row, message in zip(table.rows(), read, strict=True):
        assert (row.number, row.time_ns) == (message.number, message.time_ns)
        assert (row.subject, row.payload, row.headers) == (
            *(message.subject, bytes(message.payload), message.headers),
        )
    assert table.column("reply")[COUNT + 1] == "answers.1"
    frame = table.to_pandas()
    assert frame["number"].tolist() == table.column("number").tolist()
    assert frame["headers"][COUNT] == {"Colour": "red", "Nats-Msg-Id": "yours"}
    assert table.to_polars()["subject"].to_list() == list(table.column("subject"))


async def some_of(broker: SeriatimServer) -> Table:
    async with seriatim.connect(url(broker)) as stream:
        return await stream.table(5, 9, columns=["payload"])


def test_given_asyncio_when_read_then_it_is_the_same(broker: SeriatimServer) -> None:
    table = asyncio.run(some_of(broker))
    assert [(row.number, row.payload) for row in table.rows()] == [
        (number, b"%d" % number * 10) for number in range(5, 10)
    ]


@pytest.mark.parametrize(
    ("first", "last", "subject", "numbers", "following"),
    [
        (1, 30, "orders.7", [7, 17, 27], 31),
        (COUNT - 1, None, ">", [COUNT - 1, COUNT, COUNT + 1, COUNT + 2, COUNT + 3], COUNT + 4),
        (None, 2, ">", [1, 2], 3),
        (COUNT + 1, COUNT + 500, "extra.*", [COUNT + 1, COUNT + 2], COUNT + 4),
        (COUNT + 4, None, ">", [], COUNT + 4),
        (COUNT + 90, None, ">", [], COUNT + 90),
        (5, 4, ">", [], 5),
        (1, None, "nothing.>", [], COUNT + 4),
    ],
)
def test_given_a_range_and_a_subject_when_read_then_the_table_has_these_alone(
    broker: SeriatimServer,
    first: int | None,
    last: int | None,
    subject: str,
    numbers: list[int],
    following: int,
) -> None:
    with seriatim.connect(url(broker)) as stream:
        table = stream.table(first, last, subject=subject)
    assert (table.column("number").tolist(), table.next) == (numbers, following)


def test_given_a_connection_that_breaks_again_and_again_when_read_then_it_goes_on(
    broker: SeriatimServer,
) -> None:
    with Relay(broker.port) as relay, seriatim.connect(f"nats://127.0.0.1:{relay.port}") as stream:
        relay.cut(down=300_000)
        table = stream.table(1, COUNT)
        made = relay.connections
    assert 3 < made < 20
    assert table.column("number").tolist() == list(range(1, COUNT + 1))
    assert table.column("payload")[-1] == b"%d" % COUNT * 10


def test_given_a_client_that_gives_up_when_the_connection_breaks_then_it_is_an_error(
    broker: SeriatimServer,
) -> None:
    with Relay(broker.port) as relay:
        address = f"nats://127.0.0.1:{relay.port}"
        with seriatim.connect(address, reconnect=False) as stream:
            relay.cut(down=300_000)
            with pytest.raises(ConnectionLost):
                stream.table(1, COUNT)
            relay.heal()
            assert len(stream.table(1, 5)) == 5


@pytest.mark.parametrize(
    ("subject", "why"), [("a..b", "subject"), ("orders.>.x", "subject"), ("a b", "not valid")]
)
def test_given_a_subject_that_is_none_when_read_then_it_is_refused(
    broker: SeriatimServer, subject: str, why: str
) -> None:
    with (
        seriatim.connect(url(broker)) as stream,
        pytest.raises((Refused, InvalidArgument), match=why),
    ):
        stream.table(subject=subject)


def test_given_numbers_that_are_gone_when_read_then_the_table_says_which(tmp_path: Path) -> None:
    WrittenStore(tmp_path, (5, 8), (12, 15))
    with (
        SeriatimServer(store=tmp_path) as made,
        seriatim.connect(url(made)) as stream,
    ):
        table = stream.table(1, 15)
        assert [(one.first, one.last) for one in table.lost] == [(1, 4), (9, 11)]
        assert table.column("number").tolist() == [5, 6, 7, 8, 12, 13, 14, 15]
        assert stream.table().column("number")[0] == 5, "it begins with the first there is"


# A peer that is no broker, or a broker in trouble


def info(first: int = 1, last: int = 4, epoch: int = 1, journal: str = JOURNAL) -> bytes:
    said = {
        **{"journal": journal, "epoch": epoch, "first": first, "last": last, "messages": last},
        **{"bytes": 9, "oldest": 0, "newest": 0, "time": 0, "store": "disk", "sync": "never"},
        **{"full": False, "restricted": False, "limits": {}},
    }
    return json.dumps(said).encode()


def greet(peer: Peer) -> None:
    peer.say(GREETING)
    peer.expect(b"PING")
    peer.say(b"PONG\r\n")


def say_info(peer: Peer, said: bytes) -> None:
    reply = peer.asked(b"$SEQ.INFO")
    peer.say(b"MSG %s 1 %d\r\n%s\r\n" % (reply, len(said), said))


def asked_for(peer: Peer) -> tuple[bytes, int]:
    """The next $SEQ.READ: where its answers go, and from which number on it is."""
    reply = peer.asked(b"$SEQ.READ")
    return reply, int(json.loads(peer.file.readline())["from"])


def say_chunk(peer: Peer, reply: bytes, chunk: bytes, *lines: bytes) -> None:
    block = b"NATS/1.0\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"
    sizes = len(block), len(block) + len(chunk)
    peer.say(b"HMSG %s 2 %d %d\r\n%s%s\r\n" % (reply, *sizes, block, chunk))


def opening(port: int) -> Callable[[], Awaitable[Wire]]:
    options = WireOptions("test", NOBODY, DEFAULT_TLS, 5.0, 120.0, 2, {"frame": "stamp"})
    (address,) = read_addresses(f"nats://127.0.0.1:{port}")
    return lambda: open_wire(address, options, True)


def read_from(port: int, patience: float | None = None) -> Table:
    wish = TableWish(None, None, ">", None)
    return asyncio.run(TableReading(wish, opening(port), patience).read())


@pytest.mark.parametrize("epoch", [1, 2])
def test_given_a_break_when_read_then_it_goes_on_and_after_a_restart_it_begins_again(
    epoch: int,
) -> None:
    begins: list[int] = []

    def talk(peer: Peer) -> None:
        greet(peer)
        say_info(peer, info(epoch=epoch if begins else 1))
        reply, begin = asked_for(peer)
        begins.append(begin)
        if len(begins) == 1:
            say_chunk(peer, reply, chunk_of(payloads(b"a", b"b")), b"Seriatim-Next: 3")
            return
        texts = (b"A", b"B", b"c", b"d")[begin - 1 :]
        say_chunk(
            *(peer, reply, chunk_of(payloads(*texts), begin)),
            *(b"Seriatim-Next: 5", b"Seriatim-Last: 1"),
        )
        peer.expect(b"never")

    with Scripted(talk) as port_of:
        table = read_from(port_of.port)
    goes_on = epoch == 1
    assert begins == [1, 3 if goes_on else 1]
    assert table.column("number").tolist() == [1, 2, 3, 4]
    assert list(table.column("payload")) == [
        *((b"a", b"b") if goes_on else (b"A", b"B")),
        b"c",
        b"d",
    ]


def test_given_another_journal_after_a_break_when_read_then_it_is_an_error() -> None:
    journals = [JOURNAL, "ff" * 8]

    def talk(peer: Peer) -> None:
        greet(peer)
        say_info(peer, info(journal=journals.pop(0)))
        reply, _ = asked_for(peer)
        say_chunk(peer, reply, chunk_of(payloads(b"a", b"b")), b"Seriatim-Next: 3")

    with Scripted(talk) as port_of, pytest.raises(JournalChanged) as caught:
        read_from(port_of.port)
    assert caught.value.before == Position(JOURNAL, 4)
    assert caught.value.now == Position("ff" * 8, 4)


def test_given_a_damaged_answer_when_read_then_it_is_an_error_and_not_asked_for_again() -> None:
    asked: list[int] = []

    def talk(peer: Peer) -> None:
        greet(peer)
        say_info(peer, info())
        reply, begin = asked_for(peer)
        asked.append(begin)
        say_chunk(peer, reply, b"SQC1" + os.urandom(200), b"Seriatim-Next: 5")
        peer.expect(b"never")

    with Scripted(talk) as port_of, pytest.raises(ChunkError, match="the answer is damaged"):
        read_from(port_of.port)
    assert asked == [1]


def test_given_bytes_that_are_no_message_when_read_then_it_is_an_error_at_once() -> None:
    def talk(peer: Peer) -> None:
        greet(peer)
        say_info(peer, info())
        reply, _ = asked_for(peer)
        peer.say(b"HMSG %s 2 99999999999 99999999999\r\n" % reply)
        peer.expect(b"never")

    with Scripted(talk) as port_of, pytest.raises(NotABroker):
        read_from(port_of.port)


@pytest.mark.parametrize(
    ("status", "error"),
    [(b"400 No Such Column", Refused), (b"429 Too Many Requests", Refused), (b"503", NotSeriatim)],
)
def test_given_a_refusal_when_read_then_it_is_an_error(
    status: bytes, error: type[BrokerError]
) -> None:
    def talk(peer: Peer) -> None:
        greet(peer)
        say_info(peer, info())
        reply, _ = asked_for(peer)
        block = b"NATS/1.0 %s\r\n\r\n" % status
        peer.say(b"HMSG %s 2 %d %d\r\n%s\r\n" % (reply, len(block), len(block), block))
        peer.expect(b"never")

    with Scripted(talk) as port_of, pytest.raises(error):
        read_from(port_of.port)


@pytest.mark.parametrize("way", ["cancel", "close"])
def test_given_a_broker_that_does_not_answer_when_left_then_the_connection_is_closed(
    way: str,
) -> None:
    is_asked, is_over = threading.Event(), threading.Event()

    def talk(peer: Peer) -> None:
        greet(peer)
        say_info(peer, info())
        asked_for(peer)
        is_asked.set()
        try:
            peer.expect(b"never")
        finally:
            is_over.set()

    async def leave(port: int) -> None:
        reading = TableReading(TableWish(None, None, ">", None), opening(port), None)
        task = asyncio.get_running_loop().create_task(reading.read())
        await asyncio.to_thread(is_asked.wait)
        if way == "cancel":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            reading.close()
            with pytest.raises(ConnectionLost, match="the client was closed"):
                await task
        assert reading.is_closed
        assert await asyncio.to_thread(is_over.wait, 30)

    with Scripted(talk) as port_of:
        asyncio.run(leave(port_of.port))
