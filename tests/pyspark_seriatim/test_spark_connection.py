"""One connection: large answers in place, refusals, what breaks it, and servers of other kinds."""

import json
from collections.abc import Callable, Iterator
from itertools import count

import pyarrow as pa
import pytest

from pyspark_seriatim.errors import BrokerError, ConnectionLost
from pyspark_seriatim.options import Options
from pyspark_seriatim.spark_connection import SparkConnection
from seriatim.client.bulk_connection import Answer
from seriatim.client.errors import NotABroker, NotAuthorized
from tests.support.processes import NatsServer, SeriatimServer
from tests.support.scripted import Peer, Scripted

Make = Callable[..., Options]


@pytest.fixture
def connection(options: Make) -> Iterator[SparkConnection]:
    made = SparkConnection.open(options())
    yield made
    made.close()


def at(port: int, **given: str) -> Options:
    """Options that lead to a port, and do not wait for long."""
    return Options.parse({"servers": f"127.0.0.1:{port}", **given}, "batch")


def header(said: bytes, reply: bytes, status: bytes = b"") -> bytes:
    """An HMSG with a block of headers and no payload."""
    block = b"NATS/1.0%b\r\n%b\r\n" % (status, said)
    return b"HMSG %b 1 %d %d\r\n%b\r\n" % (reply, len(block), len(block), block)


def test_given_a_broker_when_asked_then_it_answers(connection: SparkConnection) -> None:
    answer = connection.request("$SEQ.INFO")
    assert (answer.status, answer.headers) == (0, {})
    assert json.loads(bytes(answer.payload))["last"] == 0
    assert connection.max_payload == 1 << 20


def test_given_many_questions_when_asked_then_answers_come_in_order_and_few_are_on_their_way(
    connection: SparkConnection,
) -> None:
    taken: list[int] = []

    def questions() -> Iterator[tuple[str, bytes, None]]:
        for number in range(20):
            taken.append(number)
            yield f"$SEQ.PUB.a.{number}", b"x" * 100_000, None

    answered = []
    for answer in connection.ask(questions(), window=3):
        answered.append(bytes(answer.payload))
        assert len(taken) - len(answered) <= 3
    assert answered == [b"%d:%d," % (len(str(n)), n) for n in range(1, 21)]


def test_given_headers_and_a_payload_of_arrow_when_published_then_they_are_kept(
    connection: SparkConnection,
) -> None:
    payload = memoryview(pa.py_buffer(b"p" * 50_000))
    connection.request("$SEQ.PUB.a", payload, {"Colour": "blue"})
    answer = connection.request("$SEQ.GET.1")
    assert answer.headers["Colour"] == "blue"
    assert answer.payload == payload


def test_given_a_wrong_question_when_asked_then_the_answer_has_the_status(
    connection: SparkConnection,
) -> None:
    answer = connection.request("$SEQ.READ", b"{}")
    assert (answer.status, answer.description[:15]) == (400, '"from" is missi')
    with pytest.raises(BrokerError, match=r'^\$SEQ.READ: 400 "from" is missing') as refused:
        answer.check("$SEQ.READ")
    assert refused.value.status == 400


def test_given_a_refused_subject_when_asked_then_the_words_are_shown_and_the_connection_lives(
    connection: SparkConnection,
) -> None:
    with pytest.raises(BrokerError, match=r'Permissions Violation for Publish to "\$SEQ.x"'):
        connection.request("$SEQ.x")
    connection.send(b"PUB $SEQ.y 0\r\n\r\nPUB a 0\r\n\r\n")
    with pytest.raises(BrokerError, match=r'Permissions Violation for Publish to "\$SEQ.y"'):
        connection.flush()
    connection.flush()
    assert connection.request("$SEQ.PUB.a").payload == b"1:1,"


def test_given_a_stream_when_left_before_its_end_then_the_connection_is_closed(
    connection: SparkConnection, publish: Callable[..., None]
) -> None:
    publish(b"a", *[b"x" * 1000] * 100)
    asked = json.dumps({"from": 1, "chunk_bytes": 4096}).encode()
    assert sum(1 for _ in connection.stream("$SEQ.READ", asked)) > 10
    assert connection.is_fresh()
    answers = connection.stream("$SEQ.READ", asked)
    next(answers)
    answers.close()
    assert not connection.is_open
    with pytest.raises(ConnectionLost, match="the connection is closed"):
        connection.request("$SEQ.INFO")


def test_given_a_refused_stream_when_asked_then_it_is_an_error_and_the_connection_lives(
    connection: SparkConnection,
) -> None:
    with pytest.raises(BrokerError, match=r"400 [Tt]he payload is not JSON"):
        list(connection.stream("$SEQ.READ", b"x"))
    assert connection.is_fresh()


def test_given_an_answer_when_received_then_its_memory_is_aligned_and_its_own(
    connection: SparkConnection, publish: Callable[..., None]
) -> None:
    publish(b"a", b"x" * 100_000, b"y" * 100_000)
    first, second = (connection.request(f"$SEQ.GET.{n}").payload for n in (1, 2))
    addresses = [pa.py_buffer(view).address for view in (first, second)]
    assert [address % 64 for address in addresses] == [0, 0]
    assert (bytes(first[:2]), bytes(second[:2])) == (b"xx", b"yy")


def test_given_a_broker_that_stops_when_asked_then_it_is_unreachable(
    broker: SeriatimServer, connection: SparkConnection, options: Make
) -> None:
    broker.stop()
    assert not connection.is_fresh()
    with pytest.raises(ConnectionLost, match=r"127.0.0.1:\d+: "):
        connection.request("$SEQ.INFO")
    with pytest.raises(ConnectionLost, match="connection refused: no broker listens there"):
        SparkConnection.open(options())


def test_given_several_servers_when_one_is_away_then_the_next_is_asked(
    broker: SeriatimServer,
) -> None:
    opened = SparkConnection.open(
        Options.parse({"servers": f"127.0.0.1:1,127.0.0.1:{broker.port}"}, "batch")
    )
    assert opened.server.port == broker.port
    opened.close()


def test_given_a_plain_nats_server_when_asked_then_nobody_answers() -> None:
    with NatsServer() as server:
        opened = SparkConnection.open(at(server.port))
        answer = opened.request("$SEQ.INFO")
        with pytest.raises(BrokerError, match="no responders; this broker is not Seriatim"):
            answer.check("$SEQ.INFO")
        opened.close()


def test_given_pings_and_old_answers_when_waiting_then_they_are_passed_over() -> None:
    pongs: list[bytes] = []

    def talk(peer: Peer) -> None:
        peer.greet()
        reply = peer.asked(b"a")
        peer.say(b"PING\r\nMSG %b 1 3\r\nold\r\n+OK\r\n" % (reply[:-1] + b"0"))
        pongs.append(peer.expect(b"PONG"))
        for byte in b"INFO {}\r\n" + header(b"Name :a:b\r\nEmpty:\r\n", reply, b" 201 Fine  "):
            peer.say(bytes([byte]))
        peer.expect(b"-")

    with Scripted(talk) as peer:
        opened = SparkConnection.open(at(peer.port))
        answer = opened.request("a")
        assert answer == Answer(201, "Fine", {"Name": "a:b", "Empty": ""}, memoryview(b""))
        assert pongs == [b"PONG\r\n"]
        opened.close()


def test_given_a_ping_while_nobody_waits_then_the_connection_is_fresh_and_answers_it() -> None:
    def talk(peer: Peer) -> None:
        peer.greet()
        peer.say(b"PING\r\n")
        peer.expect(b"PONG")
        peer.say(b"MSG x 1 3\r\nabc\r\n")
        peer.expect(b"-")

    with Scripted(talk) as peer:
        opened = SparkConnection.open(at(peer.port))
        assert any(not opened.is_fresh() for _ in count()), "what is left over is seen at last"
        opened.close()


@pytest.mark.parametrize(
    ("said", "error", "why"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", NotABroker, "this is not a NATS broker: it says"),
        (b"INFO [1]\r\n", NotABroker, "this is not a NATS broker: it says INFO"),
        (b"INFO {\r\n", NotABroker, "this is not a NATS broker: it says INFO"),
        (b"x" * (1 << 20), NotABroker, "this is not a NATS broker: its line has no end"),
        (b"", NotABroker, "the broker closed the connection"),
        (b"-ERR 'Authorization Violation'\r\n", NotAuthorized, "refuses the login: Authorization"),
        (
            b"-ERR 'maximum connections exceeded'\r\n",
            ConnectionLost,
            "maximum connections exceeded",
        ),
        (b"MSG a 1 -5\r\n", NotABroker, "this is not a NATS broker"),
        (b"HMSG a 1 9 5\r\n", NotABroker, "this is not a NATS broker"),
        (b"MSG a 1 99999999999999\r\n", NotABroker, "this is not a NATS broker"),
    ],
)
def test_given_a_peer_that_is_no_broker_when_connecting_then_it_is_reported(
    said: bytes, error: type[BrokerError], why: str
) -> None:
    with Scripted(lambda peer: peer.say(said)) as peer, pytest.raises(error, match=why) as caught:
        SparkConnection.open(at(peer.port))
    assert type(caught.value) is error


def test_given_a_peer_that_says_nothing_when_connecting_then_the_time_is_up() -> None:
    with (
        Scripted(lambda peer: peer.expect(b"never") and None) as peer,
        pytest.raises(ConnectionLost, match="nothing was received in time"),
    ):
        SparkConnection.open(at(peer.port, connectTimeoutMs="50"))


def test_given_an_answer_that_stops_in_the_middle_when_waiting_then_the_time_is_up() -> None:
    def talk(peer: Peer) -> None:
        peer.greet()
        reply = peer.asked(b"a")
        peer.say(b"MSG %b 1 100\r\nabc" % reply)
        peer.expect(b"never")

    with Scripted(talk) as peer:
        opened = SparkConnection.open(at(peer.port, requestTimeoutMs="50"))
        with pytest.raises(ConnectionLost, match="nothing was received in time"):
            opened.request("a")
        assert not opened.is_open


def test_given_pings_and_no_answer_when_waiting_then_the_time_is_up() -> None:
    def talk(peer: Peer) -> None:
        peer.greet()
        while True:
            peer.say(b"PING\r\n")
            peer.expect(b"PONG")

    with Scripted(talk) as peer:
        opened = SparkConnection.open(at(peer.port))
        with pytest.raises(ConnectionLost, match="nothing was received in time"):
            opened.request("a", timeout=0.05)
