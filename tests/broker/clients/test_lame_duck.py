"""SIGUSR2, as for nats-server: clients are told to leave, and closed one after the other."""

import json
import signal
import threading
import time
from contextlib import ExitStack

import pytest

from testkit.model_frame import split_frame
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, Operation, RawClient, operations

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

MODERN = b'CONNECT {"verbose":false,"protocol":1}\r\n'
LOUD = b'CONNECT {"verbose":true,"pedantic":false}\r\n'
CLIENTS = 150  # more than are told in one turn
LAME = "Entering lame duck mode"
LONG = {"lame_duck": "300s"}


def greet(client: RawClient) -> None:
    """Until it has got the INFO that follows the first PONG."""
    client.send(b"PING\r\n")
    assert [client.operation().verb for _ in range(2)] == ["PONG", "INFO"]


def test_given_many_clients_when_asked_to_retire_then_all_are_told_and_closed_in_turn() -> None:
    with SeriatimServer("none", {"lame_duck": "2s"}) as broker, ExitStack() as stack:
        old = stack.enter_context(RawClient(broker.port, QUIET))
        old.ask(b"")
        clients = [stack.enter_context(RawClient(broker.port, MODERN)) for _ in range(CLIENTS)]
        for client in clients:
            greet(client)
        broker.signal(signal.SIGUSR2)
        assert broker.await_line(LAME)
        with pytest.raises(ConnectionRefusedError):
            RawClient(broker.port)
        assert old.until_closed() == b""  # it would not know what that INFO means
        begun = time.monotonic()
        for client in clients:
            (info,) = operations(client.until_closed())
            assert (info.verb, json.loads(info.text)["ldm"]) == ("INFO", True)
        assert time.monotonic() - begun > 1
        assert broker.wait() == 0


def test_given_a_lame_duck_when_signalled_again_then_it_stops_now() -> None:
    with SeriatimServer("none", LONG) as broker, RawClient(broker.port, MODERN) as client:
        greet(client)
        broker.signal(signal.SIGUSR2)
        assert json.loads(client.operation().text)["ldm"]
        broker.signal(signal.SIGTERM)
        assert client.until_closed() == b""
        assert broker.wait() == 0


def test_given_a_lame_duck_when_its_clients_have_left_then_it_stops() -> None:
    with SeriatimServer("none", LONG) as broker:
        with RawClient(broker.port, MODERN) as client:
            greet(client)
            broker.signal(signal.SIGUSR2)
            assert json.loads(client.operation().text)["ldm"]
            assert client.ask(b"SUB a 1\r\nPUB a 2\r\nhi\r\n") == [
                Operation("MSG", subject=b"a", sid=b"1", sizes=b"2", payload=b"hi")
            ]
        assert broker.wait() == 0


def test_given_a_stop_when_terminated_then_nobody_waits_for_lame_clients() -> None:
    with SeriatimServer("none", LONG) as broker, RawClient(broker.port, MODERN) as client:
        greet(client)
        broker.signal(signal.SIGTERM)
        assert client.until_closed() == b""
        assert broker.wait() == 0
        assert not broker.said(LAME)


def test_given_a_publisher_at_work_when_it_is_closed_then_what_was_accepted_is_delivered() -> None:
    oks: list[bytes] = []
    with SeriatimServer("netstring", {"lame_duck": "0s", "drain_timeout": "300s"}) as broker:
        with (
            RawClient(broker.port, QUIET, receive_buffer=4096) as ear,
            RawClient(broker.port, LOUD) as publisher,
        ):
            ear.ask(b"SUB a 1\r\n")
            assert publisher.line() == b"+OK\r\n"
            wire = b"PUB a 20000\r\n%b\r\n" % (b"x" * 20_000)
            pouring = threading.Thread(target=publisher.send_split, args=(wire * 1000, []))
            reading = threading.Thread(target=lambda: oks.append(publisher.until_closed()))
            pouring.start()
            reading.start()
            first = ear.operation()  # traffic flows, and the reader is far behind
            broker.signal(signal.SIGUSR2)
            assert broker.await_line(LAME)
            heard = [first, *operations(ear.until_closed())]
            pouring.join()
            reading.join()
        assert broker.wait() == 0
    assert [split_frame(one.payload)[0] for one in heard] == list(range(1, len(heard) + 1))
    assert oks[0].count(b"+OK\r\n") == len(heard)
