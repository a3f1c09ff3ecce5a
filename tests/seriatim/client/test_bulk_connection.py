"""The blocking client: messages, requests and errors without Spark's options.

Broken connections, and servers that are not brokers, are in tests/pyspark_seriatim.
"""

from collections.abc import Iterator

import pytest

from seriatim.client.bulk_connection import BulkConnection, ConnectOptions
from seriatim.client.errors import BrokerError, ConnectionLost, InvalidArgument
from tests.support.processes import SeriatimServer
from tests.support.raw import QUIET, TIMEOUT_S, RawClient
from tests.support.scripted import Peer, Scripted


@pytest.fixture(scope="module")
def broker() -> Iterator[SeriatimServer]:
    with SeriatimServer("none") as server:
        yield server


@pytest.fixture
def client(broker: SeriatimServer) -> Iterator[BulkConnection]:
    with BulkConnection.connect(f"nats://127.0.0.1:{broker.port}") as made:
        yield made


def test_given_messages_when_published_then_subscribers_have_them(
    broker: SeriatimServer, client: BulkConnection
) -> None:
    with RawClient(broker.port, QUIET) as ear:
        ear.ask(b"SUB a 1\r\n")
        client.publish("a", b"one")
        client.publish("a", b"two", {"Key": "value"}, reply="r")
        client.flush()
        assert ear.operation().payload == b"one"
        assert ear.operation().payload == b"two"


def test_given_large_payloads_then_they_come_back_as_they_were(client: BulkConnection) -> None:
    payload = bytes(range(256)) * 3000
    number = bytes(client.request("$SEQ.PUB.large", payload).payload)
    answer = client.request(f"$SEQ.GET.{number.partition(b':')[2].strip(b',').decode()}")
    assert answer.payload == payload


def test_given_a_message_that_cannot_be_sent_then_the_connection_is_still_of_use(
    client: BulkConnection,
) -> None:
    for subject, payload in (("a b", b""), ("a", bytes(client.max_payload + 1))):
        with pytest.raises(InvalidArgument):
            client.publish(subject, payload)
    client.publish("$SEQ.x")
    with pytest.raises(BrokerError, match="Permissions Violation"):
        client.flush()
    client.flush()
    assert client.is_fresh()


def test_given_several_addresses_then_the_first_that_answers_is_used(
    broker: SeriatimServer,
) -> None:
    with BulkConnection.connect(f"127.0.0.1:1,127.0.0.1:{broker.port}") as client:
        assert client.server.port == broker.port
    with pytest.raises(ConnectionLost, match=r"^127.0.0.1:1: connection refused.*; 127.0.0.1:2: "):
        BulkConnection.connect("127.0.0.1:1,127.0.0.1:2", ConnectOptions(connect_timeout=1.0))
    with pytest.raises(InvalidArgument, match="is not the address of a broker"):
        BulkConnection.connect("http://u:hunter2@a")


def test_given_raw_input_when_received_then_it_goes_on_where_the_client_stopped() -> None:
    def talk(peer: Peer) -> None:
        peer.greet()
        peer.expect(b"PING")
        peer.say(b"PONG\r\nMSG a 9 3\r\none\r\n")  # in one piece with the answer
        peer.expect(b"more")
        peer.say(b"MSG a 9 3\r\ntwo\r\n")
        peer.expect(b"never")

    with Scripted(talk) as peer, BulkConnection.connect(f"127.0.0.1:{peer.port}") as client:
        client.flush()
        buffer = memoryview(bytearray(100))
        assert received(client, buffer[:4], 4) == b"MSG "
        assert received(client, buffer, 12) == b"a 9 3\r\none\r\n"
        assert client.receive_into(buffer, 0.01) == 0
        client.send(b"more\r\n")
        assert received(client, buffer, 16) == b"MSG a 9 3\r\ntwo\r\n"
        client.send(b"never\r\n")
        with pytest.raises(ConnectionLost, match="the broker closed the connection"):
            client.receive_into(buffer, TIMEOUT_S)


def received(client: BulkConnection, buffer: memoryview, size: int) -> bytes:
    """So many raw bytes, in however many pieces they come."""
    data = b""
    while len(data) < size:
        count = client.receive_into(buffer, TIMEOUT_S)
        assert count, f"only {data!r} came"
        data += buffer[:count]
    return data


def heed_on(client: BulkConnection) -> None:
    while True:
        client.heed()


def test_given_pings_and_refusals_when_heeded_then_they_are_answered_and_raised(
    client: BulkConnection,
) -> None:
    def talk(peer: Peer) -> None:
        peer.greet()
        peer.say(b"PING\r\n")
        heard.append(peer.expect(b"PONG"))
        peer.say(b"-ERR 'Permissions Violation for Publish to \"a\"'\r\n")
        peer.expect(b"never")

    heard: list[bytes] = []
    with Scripted(talk) as peer, BulkConnection.connect(f"127.0.0.1:{peer.port}") as other:
        with pytest.raises(BrokerError, match='Permissions Violation for Publish to "a"'):
            heed_on(other)
        assert heard == [b"PONG\r\n"]
    client.heed()  # there is nothing: it does not wait
    client.flush()
