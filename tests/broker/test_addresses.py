"""Where the broker listens: IPv4 and IPv6, one port for all, and how addresses are written."""

import errno
import re
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from broker import addresses
from tests.support.descriptors import open_files
from tests.support.processes import STAND_IN, SeriatimServer, ServerProcess
from tests.support.raw import QUIET, RawClient
from tests.support.web import get, http_port

LOOPBACKS = ("127.0.0.1", "::1")
LOOKUP = socket.getaddrinfo
OWN_HOST, OTHER_HOST = "127.0.0.1", "127.0.0.2"


@pytest.fixture
def ipv6() -> None:
    """Only where there is IPv6."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"no IPv6 on this machine: {error}")


def test_given_an_address_then_brackets_are_around_ipv6_alone() -> None:
    assert addresses.shown("::1", 4999) == "[::1]:4999"
    assert addresses.shown("127.0.0.1", 4999) == "127.0.0.1:4999"
    assert addresses.shown("localhost", 4999) == "localhost:4999"
    assert addresses.wanted("::", -1) == "any free port of ::"


@pytest.mark.parametrize(
    ("ip", "shown"),
    [
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("192.0.2.1", "192.0.2.1"),
        ("::1", "::1"),
        ("::ffff:1", "::ffff:1"),
        ("2001:db8::1", "2001:db8::1"),
    ],
)
def test_given_an_ipv4_peer_of_an_ipv6_socket_then_it_has_its_own_address(
    ip: str, shown: str
) -> None:
    assert addresses.peer_ip(ip) == shown


def started(host: str, *arguments: str) -> SeriatimServer:
    broker = SeriatimServer(arguments=["-D", "--no-journal", *arguments])
    broker.host = host
    return broker


def logged(broker: ServerProcess, pattern: str) -> list[str]:
    return [found[1] for line in broker.log if (found := re.search(pattern, line))]


@pytest.mark.skipif(STAND_IN, reason="of our own process")
@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_given_every_interface_then_ipv4_and_ipv6_come_in_by_one_port(
    host: str, ipv6: None
) -> None:
    with started(host, "-m", "-1", "--sequencer_port", "-1") as broker:
        shown = f"[{host}]" if ":" in host else host
        lines = logged(broker, r"Listening for client connections on (.*)")
        assert lines == [f"{shown}:{broker.port}"]
        (own,) = logged(broker, r"Listening for cquencer's clients on .*:(\d+)")
        monitoring = http_port(broker)
        for ip in LOOPBACKS:
            with RawClient(broker.port, QUIET, host=ip) as client:
                assert (client.info["client_ip"], client.info["host"]) == (ip, host)
                assert client.ask(b"") == []
                peer = addresses.shown(ip, client.socket.getsockname()[1])
                assert broker.await_line(f"{peer} - cid:{client.info['client_id']} - ")
                (seen,) = get(monitoring, "/connz").json["connections"]
                assert seen["ip"] == ip
                client.leave()
            with socket.create_connection((ip, int(own)), timeout=30) as caller:
                peer = addresses.shown(ip, caller.getsockname()[1])
                caller.sendall(b"hello")
                assert caller.recv(100).endswith(b",")
                assert broker.await_line(f"{peer} - cid:")
            with socket.create_connection((ip, monitoring), timeout=30) as page:
                page.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                assert page.recv(100).startswith(b"HTTP/1.0 200 OK\r\n")
        varz = get(monitoring, "/varz").json
        assert (varz["host"], varz["port"], varz["http_host"]) == (host, broker.port, host)
        assert varz["cquencer"]["host"] == host


@pytest.mark.skipif(STAND_IN, reason="of our own process")
def test_given_one_address_of_ipv6_then_it_is_written_in_brackets_and_ipv4_stays_out(
    ipv6: None,
) -> None:
    with started("::1", "--listen", "[::1]:-1,frame=none") as broker:
        assert broker.said(f"Listening for client connections on [::1]:{broker.port}")
        assert len(set(broker.ports)) == 2
        for port in broker.ports:
            with RawClient(port, host="::1") as client:
                assert client.info["host"] == "::1"
        assert ports_of_ipv4(broker.pid) == set()
    with started("127.0.0.1") as broker:
        assert broker.port in ports_of_ipv4(broker.pid)


def ports_of_ipv4(pid: int) -> set[int]:
    """The ports on which a process listens by IPv4. A connection may find someone else there."""
    own = set(open_files(pid))
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {
        int(row[1].rpartition(":")[2], 16)
        for row in rows
        if row[3] == "0A" and f"socket:[{row[9]}]" in own  # 0A: it listens
    }


@pytest.mark.skipif(STAND_IN, reason="of our own process")
@pytest.mark.parametrize("host", LOOPBACKS)
def test_given_a_port_that_somebody_has_of_one_family_then_every_interface_is_refused(
    host: str, ipv6: None
) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            addresses.open_sockets("0.0.0.0", port)


def test_given_no_ipv6_then_every_interface_is_that_of_ipv4(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make = socket.socket

    def without(family: int = socket.AF_INET, *how: Any) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return make(family, *how)

    monkeypatch.setattr(socket, "socket", without)
    (bound,) = addresses.open_sockets("0.0.0.0", 0)
    with closing(bound):
        assert bound.family == socket.AF_INET
        assert addresses.bound_to("0.0.0.0", bound) == ("0.0.0.0", bound.getsockname()[1])
    with pytest.raises(OSError, match="Address family not supported"):
        addresses.open_sockets("::", 0)


def two_places(*hosts: str) -> Any:
    return lambda host, port, **how: [one for ip in hosts for one in LOOKUP(ip, port, **how)]


def test_given_a_port_that_is_free_on_one_address_only_then_another_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bind = addresses._bound
    taken: list[socket.socket] = []

    def overtaken(family: int, kind: int, place: tuple[Any, ...]) -> socket.socket:
        made = bind(family, kind, place)
        if not taken:
            taken.append(socket.create_server((OTHER_HOST, made.getsockname()[1])))
        return made

    monkeypatch.setattr(socket, "getaddrinfo", two_places(OWN_HOST, OTHER_HOST))
    monkeypatch.setattr(addresses, "_bound", overtaken)
    bound = addresses.open_sockets("localhost", 0)
    places = [one.getsockname() for one in bound]
    for one in bound:
        one.close()
    with taken[0]:
        assert [host for host, _ in places] == [OWN_HOST, OTHER_HOST]
        assert len({taken[0].getsockname()[1], *(port for _, port in places)}) == 2


def test_given_a_name_with_an_address_that_is_not_here_then_the_others_are_listened_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", two_places("192.0.2.77", OWN_HOST))
    (bound,) = addresses.open_sockets("localhost", 0)
    with closing(bound):
        assert bound.getsockname()[0] == OWN_HOST
    monkeypatch.setattr(socket, "getaddrinfo", two_places("192.0.2.77"))
    with pytest.raises(OSError, match="Cannot assign"):
        addresses.open_sockets("localhost", 0)


@pytest.mark.parametrize(
    ("host", "known"),
    [
        *(("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True)),
        *(("0:0::1", True), ("::1%lo", True), ("::ffff:127.0.0.1", True), ("", False)),
        *(("0.0.0.0", False), ("10.0.0.1", False), ("broker-1", False), ("::", False)),
        *(("127.example.com", False), ("127.0.0.1\0", False), ("\ud800", False)),
    ],
)
def test_given_a_host_when_asked_then_only_those_of_this_machine_are_loopback(
    host: str, known: bool
) -> None:
    assert addresses.is_loopback(host) == known
