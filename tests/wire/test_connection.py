"""What a connection is told about itself: INFO, stale connections, too many connections."""

from collections.abc import Iterator

import pytest

from tests.support.processes import STAND_IN, Limit, NatsServer, ServerProcess, server
from tests.support.raw import QUIET, RawClient
from tests.wire.conftest import Choose

# one real client or another breaks when one of these is missing
NEEDED = {
    "server_id": str,
    "server_name": str,
    "version": str,
    "go": str,
    "host": str,
    "port": int,
    "headers": bool,
    "max_payload": int,
    "proto": int,
    "client_id": int,
    "client_ip": str,
}
PINGS: dict[str, Limit] = {"ping_interval": "300ms", "ping_max": 2}
# Who answers may stand still for some seconds, as a busy machine makes it, and is no stale one.
MANY = 20
PATIENT: dict[str, Limit] = {"ping_interval": "200ms", "ping_max": MANY}


def info(port: int) -> dict[str, object]:
    with RawClient(port) as client:
        return client.info


def test_given_a_new_connection_then_info_has_every_field_that_clients_read(tested: Choose) -> None:
    found = info(tested("default").port)
    assert {key: type(found.get(key)) for key in NEEDED} == NEEDED


def test_given_both_servers_then_info_agrees_where_it_can(oracle: Choose, tested: Choose) -> None:
    theirs, ours = info(oracle("default").port), info(tested("default").port)
    for key in ("version", "proto", "headers", "max_payload", "host", "client_ip"):
        assert ours[key] == theirs[key], key
    assert ours["port"] == tested("default").port


def test_given_limits_then_info_says_them(tested: Choose) -> None:
    assert info(tested("small").port)["max_payload"] == 10


@pytest.mark.skipif(STAND_IN, reason="nats-server gives ids to its own parts in between")
def test_given_connections_then_ids_rise_from_one() -> None:
    with server("none") as fresh:
        assert [info(fresh.port)["client_id"] for _ in range(3)] == [1, 2, 3]


def test_given_the_info_line_then_it_ends_as_clients_split_it(tested: Choose) -> None:
    port = tested("default").port
    with RawClient(port) as client:
        client.send(b'CONNECT {"verbose":false,"protocol":1}\r\nPING\r\n')
        assert client.line() == b"PONG\r\n"
        again = client.line()
    assert again.startswith(b"INFO {")
    assert again.endswith(b"} \r\n")


def test_given_a_full_server_when_one_more_comes_then_it_gets_the_reason_and_is_closed() -> None:
    with (
        server("none", {"max_connections": 2}) as full,
        RawClient(full.port) as first,
        RawClient(full.port) as second,
    ):
        assert first.ask(b"") == second.ask(b"") == []  # both have their places for sure
        for sends in ([], [QUIET + b"PING\r\n"]):
            with RawClient(full.port, *sends) as late:
                assert late.until_closed() == b"-ERR 'maximum connections exceeded'\r\n"
        assert first.ask(b"SUB a 1\r\n")[-1].verb == "+OK"
        second.close()
        assert first.ask(b"") == []
        wait_until_served(full.port)


def wait_until_served(port: int) -> None:
    """A place that has just been left is free as soon as the server has seen it."""
    for _ in range(1000):
        with RawClient(port) as client:
            said, closed = client.answer(QUIET + b"PING\r\n", 1)
            if not closed:
                assert said == b"PONG\r\n"
                return
    pytest.fail("the place of a closed connection never got free")


@pytest.fixture(scope="module")
def impatient() -> Iterator[ServerProcess]:
    with server("none", PINGS) as running:
        yield running


@pytest.fixture(scope="module")
def patient() -> Iterator[ServerProcess]:
    with server("none", PATIENT) as running:
        yield running


@pytest.mark.parametrize("sends", [b"", QUIET + b"SUB a 1\r\n"], ids=["before CONNECT", "after"])
def test_given_a_silent_client_then_it_is_pinged_twice_and_closed_as_stale(
    impatient: ServerProcess, sends: bytes
) -> None:
    with RawClient(impatient.port, sends, pings=True) as client:
        data, closed = client.answer(b"", 1 << 30)
    assert closed
    assert data == b"PING\r\n" * 2 + b"-ERR 'Stale Connection'\r\n"


def test_given_a_client_that_answers_then_it_stays(patient: ServerProcess) -> None:
    with RawClient(patient.port, QUIET + b"SUB a 1\r\n", pings=True) as client:
        for _ in range(MANY + 2):
            assert client.line() == b"PING\r\n"
            client.send(b"PONG\r\n")
        assert client.ask(b"PUB a 1\r\nx\r\n")[0].payload == b"x"


def test_given_a_stale_peer_then_others_are_served(patient: ServerProcess) -> None:
    with (
        RawClient(patient.port) as silent,
        RawClient(patient.port, QUIET, pings=True) as other,
    ):
        stale = False
        while not stale:
            assert other.line() == b"PING\r\n"
            other.send(b"PONG\r\n")
            silent.socket.settimeout(0.01)
            try:
                stale = silent.socket.recv(1000) == b""
            except TimeoutError:
                continue
        assert other.ask(b"") == []


def test_given_the_oracle_then_it_is_the_version_these_tests_were_written_for() -> None:
    with NatsServer() as oracle:
        assert info(oracle.port)["version"] == "2.15.1"
