"""The blocking client: messages, requests and errors without Spark's options.

Broken connections, and servers that are not brokers, are in tests/pyspark_seriatim.
"""

from collections.abc import Iterator

import pytest

from seriatim.client.bulk_connection import BulkConnection, ConnectOptions
from seriatim.client.errors import BrokerError, ConnectionLost, InvalidArgument
from tests.support.processes import SeriatimServer
from tests.support.raw import QUIET, RawClient


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
