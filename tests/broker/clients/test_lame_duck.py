"""SIGUSR2, as for nats-server: clients are told to leave, and closed one after the other."""

import json
import signal
import time
from contextlib import ExitStack

import pytest

from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, Operation, RawClient, operations
from tests.support.stopped_at_work import stopped_at_work

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

MODERN = b'CONNECT {"verbose":false,"protocol":1}\r\n'
CLIENTS = 150  # more than are told in one turn
LAME = "Entering lame duck mode"
LONG = {"lame_duck": "300s"}


def greet(client: RawClient) -> None:
    """Until it has got the INFO that follows the first PONG."""
    client.send(b"PING\r\n")
    assert [client.operation().verb for _ in range(2)] == ["PONG", "INFO"]


def test_given_many_clients_when_asked_to_retire_then_all_are_informed_and_closed_in_turn() -> None:
    limits = {"lame_duck": "2s", "lame_duck_grace": "200ms"}
    with SeriatimServer("none", limits) as broker, ExitStack() as stack:
        old = stack.enter_context(RawClient(broker.port, QUIET))
        old.ask(b"")
        clients = [stack.enter_context(RawClient(broker.port, MODERN)) for _ in range(CLIENTS)]
        for client in clients:
            greet(client)
        begun = time.monotonic()
        broker.signal(signal.SIGUSR2)
        assert broker.await_line(LAME)
        with pytest.raises(ConnectionRefusedError):
            RawClient(broker.port)
        assert old.until_closed() == b""  # it would not know what that INFO means
        for client in clients:
            (info,) = operations(client.until_closed())
            assert (info.verb, json.loads(info.text)["ldm"]) == ("INFO", True)
        assert time.monotonic() - begun > 1
        assert broker.wait() == 0


def test_given_a_grace_when_asked_to_retire_then_nobody_is_closed_before_it_is_over() -> None:
    limits = {"lame_duck": "1200ms", "lame_duck_grace": "600ms"}
    with SeriatimServer("none", limits) as broker, RawClient(broker.port, MODERN) as client:
        greet(client)
        begun = time.monotonic()
        broker.signal(signal.SIGUSR2)
        assert json.loads(client.operation().text)["ldm"]
        assert client.until_closed() == b""
        assert time.monotonic() - begun > 0.5
        assert broker.wait() == 0


@pytest.mark.parametrize("again", [signal.SIGTERM, signal.SIGUSR2])
def test_given_a_lame_duck_when_signalled_again_then_it_carries_on_until_it_is_interrupted(
    again: signal.Signals,
) -> None:
    """Kubernetes sends SIGUSR2 before the stop (preStop), and then SIGTERM."""
    limits = LONG | {"lame_duck_grace": "300s"}
    with SeriatimServer("none", limits) as broker, RawClient(broker.port, MODERN) as client:
        greet(client)
        broker.signal(signal.SIGUSR2)
        assert json.loads(client.operation().text)["ldm"]
        broker.signal(again)
        broker.signal(signal.SIGHUP)  # its lines in the log come with the effect of the other
        assert broker.await_line("Reloaded server configuration")
        assert client.ask(b"SUB a 1\r\nPUB a 2\r\nhi\r\n") == [
            Operation("MSG", subject=b"a", sid=b"1", sizes=b"2", payload=b"hi")
        ]
        broker.signal(signal.SIGINT)
        assert client.until_closed() == b""
        assert broker.wait() == 0


def test_given_three_clients_and_a_long_time_when_asked_to_retire_then_none_waits_for_long() -> (
    None
):
    limits = LONG | {"lame_duck_grace": "0s"}
    with SeriatimServer("none", limits) as broker, ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker.port, QUIET)) for _ in range(3)]
        for client in clients:
            client.ask(b"")
        begun = time.monotonic()
        broker.signal(signal.SIGUSR2)
        for client in clients:
            assert client.until_closed() == b""
        assert 1.5 < time.monotonic() - begun < 60, "a second between two of them, not 100"
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
    with SeriatimServer("netstring", {"lame_duck": "0s", "drain_timeout": "300s"}) as broker:
        stopped_at_work(broker, signal.SIGUSR2, LAME)
