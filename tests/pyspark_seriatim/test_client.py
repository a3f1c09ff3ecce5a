"""Requests to a broker: ranges, filters, times; over restarts, at the exact number."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyspark_seriatim.client import Chunk, Client
from pyspark_seriatim.errors import BrokerError, ConnectionLost, DataLost
from pyspark_seriatim.options import Options
from pyspark_seriatim.spark_connection import SparkConnection
from sequencer.journal.columns import Collector
from tests.support.processes import NatsServer, SeriatimServer
from tests.support.scripted import Peer, Scripted

Make = Callable[..., Options]
Publish = Callable[..., None]
KIB = 1 << 10


def numbers(chunks: Iterator[Chunk]) -> list[int]:
    return [number for chunk in chunks for number in chunk.columns.numbers]


def test_given_messages_when_read_then_they_are_there_in_order(
    client: Client, publish: Publish
) -> None:
    publish(b"a", b"one", b"two")
    publish(b"b", b"three")
    (chunk,) = client.read(1, 3)
    rows = [(row.number, row.subject, bytes(row.payload)) for row in chunk.columns]
    assert rows == [(1, b"a", b"one"), (2, b"a", b"two"), (3, b"b", b"three")]
    assert (chunk.next, chunk.lost, chunk.size > 96) == (4, (), True)


def test_given_a_journal_when_asked_then_it_says_what_there_is(
    client: Client, publish: Publish
) -> None:
    before = client.info()
    assert (before.first, before.last, before.messages, before.store) == (1, 0, 0, "disk")
    publish(b"a", b"one", b"two")
    assert client.info(max_age_s=3600) is before, "what is young enough is not asked again"
    now = client.info()
    assert (now.first, now.last, now.journal) == (1, 2, before.journal)
    assert before.max_payload == 1 << 20


@pytest.mark.parametrize(
    ("first", "last", "found", "following"),
    [(1, 10, 10, 11), (4, 6, 3, 7), (9, 12, 2, 11), (11, 20, 0, 11), (500, 600, 0, 500)],
)
def test_given_a_range_when_read_then_it_ends_at_its_end_or_at_the_head(
    client: Client, publish: Publish, first: int, last: int, found: int, following: int
) -> None:
    publish(b"a", *[b"x"] * 10)
    chunks = list(client.read(first, last))
    assert numbers(iter(chunks)) == list(range(first, first + found))
    assert chunks[-1].next == following


def test_given_columns_when_read_then_only_they_and_the_numbers_are_sent(
    client: Client, publish: Publish
) -> None:
    publish(b"a", *[b"x" * 1000] * 100)
    (whole,) = client.read(1, 100)
    (lean,) = client.read(1, 100, columns=("time",))
    assert lean.columns.names == ("number", "time")
    assert list(lean.columns.times) == list(whole.columns.times)
    assert numbers(iter([lean])) == list(range(1, 101))
    assert (whole.size > 100_000, lean.size < 2000) == (True, True)


def test_given_filters_when_read_then_the_broker_filters(client: Client, publish: Publish) -> None:
    for subject in (b"a.x", b"b", b"a.y", b"c.x.y"):
        publish(subject, b"p")
    assert numbers(client.read(1, 4, ("a.*",))) == [1, 3]
    assert numbers(client.read(1, 4, ("c.>", "b", "a.y"))) == [2, 3, 4]
    assert numbers(client.read(1, 4, ("d",))) == []


def test_given_a_filter_when_its_first_match_is_looked_for_then_it_is_found_or_not(
    client: Client, publish: Publish
) -> None:
    publish(b"a", *[b"x" * 1000] * 50)
    publish(b"b", b"x")
    publish(b"a", b"x")
    assert client.first_match(1, 52, ("b",)) == (51, 51)
    assert client.first_match(1, 50, ("b",)) == (0, 51)
    assert client.first_match(52, 52, ("b", "c")) == (0, 53)
    assert client.first_match(53, 60, ("b",)) == (0, 53)


def test_given_times_when_looked_for_then_it_is_the_first_number_at_or_after(
    client: Client, publish: Publish
) -> None:
    for _ in range(20):
        publish(b"a", b"x", b"y")
    times = [time_ns for chunk in client.read(1, 40) for time_ns in chunk.columns.times]
    for wanted in {*times, times[0] - 1, times[0] + 1, times[-1] + 1}:
        expected = next((at for at, had in enumerate(times, 1) if had >= wanted), 41)
        assert client.number_at(wanted, 1, 40) == expected
    assert client.number_at(0, 41, 40) == 41, "of an empty journal"


def test_given_a_broker_that_restarts_when_reading_then_it_goes_on_at_the_exact_number(
    broker: SeriatimServer, options: Make, publish: Publish
) -> None:
    publish(b"a", *[b"x" * 1000] * 20_000)
    client = Client(options(**{"fetchOffset.numRetries": 1}))
    seen: list[int] = []
    for chunk in client.read(1, 20_000, chunk_bytes=4 * KIB):
        seen += chunk.columns.numbers
        if len(seen) in range(5_000, 5_004) or len(seen) in range(15_000, 15_004):
            broker.kill()
            broker.start(broker.port)
    assert seen == list(range(1, 20_001))
    client.close()


def test_given_no_broker_when_asked_then_it_is_asked_again_and_given_up(
    broker: SeriatimServer, options: Make
) -> None:
    client = Client(options(**{"fetchOffset.numRetries": 2}))
    client.info()
    broker.stop()
    with pytest.raises(
        ConnectionLost,
        match=r"connection refused.*given up after 2 retries \(fetchOffset.numRetries\)",
    ):
        client.info()
    with pytest.raises(ConnectionLost, match=r"connection refused: no broker listens there$"):
        next(Client(options(**{"fetchOffset.numRetries": 0})).read(1, 5))
    broker.start(broker.port)
    assert client.info().last == 0
    client.close()


def test_given_another_journal_when_reading_then_the_numbers_are_not_taken_for_the_same(
    broker: SeriatimServer, client: Client, publish: Publish, tmp_path: Path
) -> None:
    publish(b"a", *[b"x" * 10_000] * 3000)  # more than sockets hold
    journal = client.info().journal
    chunks = client.read(1, 3000, journal=journal)
    next(chunks)
    broker.kill()
    (tmp_path / "journal").rename(tmp_path / "old")
    broker.start(broker.port)
    publish(b"a", *[b"y"] * 3000)
    with pytest.raises(DataLost, match=f"the journal is .*, but the numbers belong to {journal}"):
        list(chunks)


def test_given_a_broker_in_memory_when_read_then_what_it_has_left_is_there() -> None:
    with SeriatimServer("none", arguments=["--no-journal"]) as server:
        client = Client(Options.parse({"servers": f"127.0.0.1:{server.port}"}, "batch"))
        with client.connection() as connection:
            connection.send(b"PUB a 3\r\none\r\n" * 3)
            connection.flush()
        info = client.info()
        assert (info.store, info.last, info.trims) == ("memory", 3, True)
        assert numbers(client.read(2, 3, journal=info.journal)) == [2, 3]
        client.close()


def test_given_a_broker_that_keeps_nothing_when_asked_then_it_says_so() -> None:
    arguments = ["--no-journal", "--ring_bytes", "0"]
    with SeriatimServer("none", arguments=arguments) as server:
        client = Client(Options.parse({"servers": f"127.0.0.1:{server.port}"}, "batch"))
        with pytest.raises(BrokerError, match="keeps no messages, so there is nothing to read"):
            client.info()
        with pytest.raises(BrokerError, match="404 This broker keeps no messages"):
            next(client.read(1, 5))
        client.close()


def test_given_a_plain_nats_server_when_asked_then_it_is_reported_and_not_asked_again() -> None:
    with NatsServer() as server:
        given = {"servers": f"127.0.0.1:{server.port}", "fetchOffset.retryIntervalMs": "90000"}
        client = Client(Options.parse(given, "batch"))
        begun = time.monotonic()
        with pytest.raises(BrokerError, match="no responders; this broker is not Seriatim"):
            client.info()
        assert time.monotonic() - begun < 90, "the pause before asking again is longer"
        client.close()


NO_ROWS = Collector(1, 16, 4096).chunk()


@pytest.mark.parametrize(
    ("headers", "body", "why"),
    [
        (b"Seriatim-Last: 1\r\n", b"", "the answer is not a chunk of columns"),
        (b"Seriatim-Last: 1\r\nSeriatim-Next: 5\r\n", b"x" * 200, "the answer is not a chunk"),
        (b"Seriatim-Next: 1_0\r\n", NO_ROWS, "the answer is not a chunk of columns"),
        (
            b"Seriatim-Next: " + b"9" * 5000 + b"\r\n",
            NO_ROWS,
            "the answer is not a chunk of columns",
        ),
        (b"Seriatim-Next: 7\r\n", NO_ROWS, "the answer has other numbers than 1 to 5"),
        (b"Seriatim-Next: 6\r\nSeriatim-Lost: 4-3\r\n", NO_ROWS, "the answer has other numbers"),
        (b"Seriatim-Next: 6\r\nSeriatim-Lost: 0-3\r\n", NO_ROWS, "the answer has other numbers"),
        (b"Seriatim-Next: 6\r\nSeriatim-Lost: 1-6\r\n", NO_ROWS, "the answer has other numbers"),
        (
            b"Seriatim-Next: 6\r\nSeriatim-Lost: a-b\r\n",
            NO_ROWS,
            "the answer is not a chunk of columns",
        ),
        ("Seriatim-Next: \u00b2\r\n".encode(), NO_ROWS, "the answer is not a chunk of columns"),
    ],
)
def test_given_input_that_is_no_chunk_when_read_then_it_is_reported(
    headers: bytes, body: bytes, why: str
) -> None:
    def talk(peer: Peer) -> None:
        peer.greet()
        block = b"NATS/1.0\r\n%b\r\n" % headers
        reply = peer.asked(b"$SEQ.READ")
        peer.say(b"HMSG %b 1 %d %d\r\n" % (reply, len(block), len(block) + len(body)))
        peer.say(block + body + b"\r\n")
        peer.expect(b"never")

    with Scripted(talk) as peer:
        client = Client(Options.parse({"servers": f"127.0.0.1:{peer.port}"}, "batch"))
        with pytest.raises(BrokerError, match=why):
            next(client.read(1, 5))
        client.close()


def test_given_work_on_a_connection_when_it_breaks_then_it_is_started_again(
    broker: SeriatimServer, client: Client
) -> None:
    tried: list[SparkConnection] = []

    def work(connection: SparkConnection) -> Any:
        tried.append(connection)
        if len(tried) == 1:
            broker.kill()
            broker.start(broker.port)
        return bytes(connection.request("$SEQ.INFO").payload)

    assert b'"journal"' in client.call(work)
    assert len(tried) == 2
    with client.connection() as again:
        assert again is tried[1], "what is still good is used again"


def test_given_the_same_options_when_shared_then_the_client_is_the_same(options: Make) -> None:
    shared = Client.shared(options())
    assert Client.shared(options(subscribe="a.>")) is shared, "the connection is the same"
    assert Client.shared(options(requestTimeoutMs=7)) is not shared
    for port in range(1, 65):
        Client.shared(Options.parse({"servers": f"127.0.0.1:{port}"}, "batch"))
    assert Client.shared(options()) is not shared, "the oldest is forgotten"
    assert len(Client._shared) == 64
