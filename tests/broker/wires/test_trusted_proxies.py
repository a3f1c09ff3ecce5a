"""Clients of proxies: whose address counts, and that nobody else can make one up."""

import base64
import json
import socket
from contextlib import ExitStack

import pytest

from broker.wires.trusted_proxies import TrustedProxies
from tests.seriatim.cli.command import refusal
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw_secured import web_port
from tests.support.web import get, http_port, monitored

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

PROXIES = TrustedProxies("X-Forwarded-For", ("10.0.0.0/8", "fd00::/8"))


@pytest.mark.parametrize(
    ("peer", "values", "client"),
    [
        ("10.0.0.1", ["1.2.3.4"], "1.2.3.4"),
        ("::ffff:10.0.0.1", ["1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1", ["6.6.6.6, 1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1", ["6.6.6.6, 1.2.3.4, 10.9.9.9"], "1.2.3.4"),
        ("10.0.0.1", ["6.6.6.6", "1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["1.2.3.4:5555"], "1.2.3.4"),
        ("fd00::1", ["[2001:db8::7]:443"], "2001:db8::7"),
        ("fd00::1", ["2001:db8::7"], "2001:db8::7"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", [""], "10.0.0.1"),
        ("10.0.0.1", ["unknown"], "10.0.0.1"),
        ("10.0.0.1", ["1.2.3.4, nonsense\x1b[31m"], "10.0.0.1"),
        ("10.0.0.1", ["nonsense, 10.0.0.2"], "10.0.0.2"),
        ("1.1.1.1", ["1.2.3.4"], "1.1.1.1"),
        ("", ["1.2.3.4"], ""),
        ("10.0.0.1", ["9.9.9.9," + "10.0.0.2," * 10_000 + "10.0.0.3"], "10.0.0.2"),
    ],
)
def test_given_a_header_then_the_last_address_that_is_no_trusted_proxy_counts(
    peer: str, values: list[str], client: str
) -> None:
    assert PROXIES.client(peer, values) == client


FLAGS = ("--proxy_header", "X-Forwarded-For", "--trusted_proxies")


def websocket(stack: ExitStack, broker: SeriatimServer, forwarded: str) -> bytes:
    """What the broker says to a WebSocket client that a proxy brings."""
    head = (
        "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        f"X-Forwarded-For: {forwarded}\r\n\r\n"
    )
    client = stack.enter_context(socket.create_connection(("127.0.0.1", web_port(broker)), 60))
    client.sendall(head.encode())
    said = b""
    while b"} \r\n" not in said:
        more = client.recv(1 << 16)
        assert more, said
        said += more
    return said


def test_given_a_websocket_client_of_a_proxy_then_its_own_address_counts_and_is_shown() -> None:
    flags = [*FLAGS, "127.0.0.0/8", "--websocket_port", "-1", "-m", "-1"]
    limits = {"max_connections_per_address": 2}
    with SeriatimServer("none", limits, flags) as broker, ExitStack() as stack:
        for _ in range(2):
            said = websocket(stack, broker, "6.6.6.6, 1.2.3.4")
            assert b'"client_ip":"1.2.3.4"' in said
        shown = json.loads(get(http_port(broker), "/connz").body)["connections"]
        assert [one["ip"] for one in shown] == ["1.2.3.4"] * 2
        websocket(stack, broker, "1.2.3.5")  # there is room for another address
        websocket(stack, broker, "1.2.3.4")  # and no more for this one
        assert broker.await_line("limits.max_connections_per_address is 2")
        shown = json.loads(get(http_port(broker), "/connz").body)["connections"]
        assert sorted(one["ip"] for one in shown) == ["1.2.3.4", "1.2.3.4", "1.2.3.5"]


def test_given_a_peer_that_is_not_trusted_then_its_header_is_not_believed() -> None:
    flags = [*FLAGS, "10.0.0.1", "--websocket_port", "-1"]
    with SeriatimServer("none", arguments=flags) as broker, ExitStack() as stack:
        assert b'"client_ip":"127.0.0.1"' in websocket(stack, broker, "1.2.3.4")


def test_given_a_scraper_behind_a_proxy_then_a_guesser_there_does_not_keep_it_out() -> None:
    def ask(client: str, password: str) -> int:
        given = base64.b64encode(f"ops:{password}".encode()).decode()
        headers = {"Authorization": f"Basic {given}", "X-Forwarded-For": client}
        return get(port, "/varz", headers=headers).status

    login = ("--http_user", "ops", "--http_pass", "sesame", "--auth_attempts", "3")
    with monitored("none", *login, *FLAGS, "127.0.0.1") as broker:
        port = http_port(broker)
        guesses = [ask("6.6.6.6", f"x{at}") for at in range(20)]
        assert guesses.count(429) > 10
        assert ask("1.2.3.4", "sesame") == 200


def test_given_a_header_that_nobody_is_trusted_for_then_the_broker_does_not_start() -> None:
    assert "--proxy_header: anybody can send it" in refusal("serve", *FLAGS[:2])
    assert "--trusted_proxies: does nothing" in refusal("serve", FLAGS[2], "10.0.0.1")
    assert '"10.0.0.1/8" is not a network' in refusal("serve", *FLAGS, "10.0.0.1/8")
