"""Slots for clients: in all and of each address, exactly counted however a client goes."""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.limits.connection_slots import EXCEEDED, ConnectionSlots
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.serving import Broker, serving
from tests.support.web import get, http_port

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

TOLD = b"-ERR 'maximum connections exceeded'\r\n"
ADDRESSES = (
    "127.0.0.1",
    "10.0.0.7",
    "::ffff:10.0.0.7",
    "2001:db8::1",
    "2001:db8::2:1",
    "fe80::1%lo",
)


def test_given_the_limit_of_an_address_then_others_still_find_places() -> None:
    places = ConnectionSlots()
    assert [places.enter("10.0.0.1", 10, 2) for _ in range(2)] == ["", ""]
    assert places.enter("10.0.0.1", 10, 2).startswith(EXCEEDED)
    assert "max_connections_per_address is 2" in places.enter("::ffff:10.0.0.1", 10, 2)
    assert places.enter("10.0.0.2", 10, 2) == ""
    places.release("10.0.0.1")
    assert places.enter("10.0.0.1", 10, 2) == ""
    assert (places.connected, places.refused, places.refused_by_address) == (3, 0, 2)


def test_given_ipv6_then_a_network_of_2_to_the_64_is_one_address() -> None:
    places = ConnectionSlots()
    assert places.enter("2001:db8::1", 10, 1) == ""
    assert places.enter("2001:db8::ffff:1", 10, 1).startswith(EXCEEDED)
    assert places.enter("2001:db8:0:1::1", 10, 1) == ""
    assert (places.networks, places.most_from_one) == (2, 1)


@given(st.lists(st.tuples(st.sampled_from(ADDRESSES), st.booleans())), st.integers(0, 3))
def test_given_any_comings_and_goings_then_the_counts_are_those_who_are_there(
    events: list[tuple[str, bool]], most_per_address: int
) -> None:
    places, here = ConnectionSlots(), list[str]()
    for ip, comes in events:
        if comes and not places.enter(ip, 5, most_per_address):
            here.append(ip)
        elif not comes and ip in here:
            here.remove(ip)
            places.release(ip)
        assert places.connected == len(here) <= 5
        assert not most_per_address or places.most_from_one <= most_per_address
    for ip in here:
        places.release(ip)
    assert (places.connected, places.networks, places.most_from_one) == (0, 0, 0)


@pytest.fixture
def two_each(tmp_path: Path) -> Iterator[Broker]:
    """Two clients of each address; all of 127.0.0.0/8 is this machine's."""
    flags = {"limits.max_connections_per_address": "2", "sequencer.port": "-1"}
    with serving(tmp_path, flags=flags) as broker:
        yield broker


async def _ask(place: tuple[str, int], source: str, says: bytes) -> tuple[bytes, socket.socket]:
    """Connect from this address; what the broker says to that, and the connection."""
    loop = asyncio.get_running_loop()
    made = socket.socket()
    made.setblocking(False)
    made.bind((source, 0))
    await loop.sock_connect(made, place)
    await loop.sock_sendall(made, says)
    heard = b""
    while not heard.endswith((b"PONG\r\n", TOLD, b",")):
        heard += await loop.sock_recv(made, 4096)
    return heard.rpartition(b"} \r\n")[2], made


def greeting(broker: Broker, source: str) -> tuple[bytes, socket.socket]:
    return broker.run(_ask(broker.server.addresses[0], source, b"PING\r\n"))


def half_close(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def speak_rubbish(client: socket.socket) -> None:
    client.send(b"rubbish\r\n")


def begin_and_go(client: socket.socket) -> None:
    client.send(b"CONN")
    client.close()


@pytest.mark.parametrize(
    "end", [socket.socket.close, half_close, reset, speak_rubbish, begin_and_go]
)
def test_given_a_client_that_goes_in_any_way_then_its_place_is_free_again(
    two_each: Broker, end: Callable[[socket.socket], None]
) -> None:
    places = two_each.server.roster.places
    for _ in range(3):
        calls = [greeting(two_each, "127.0.0.9") for _ in range(3)]
        assert [answer for answer, _ in calls] == [b"PONG\r\n", b"PONG\r\n", TOLD]
        calls.append(greeting(two_each, "127.0.0.10"))
        assert calls[3][0] == b"PONG\r\n"
        assert (places.connected, places.networks, places.most_from_one) == (3, 2, 2)
        for _, client in calls:
            with suppress(OSError):  # the broker has closed the one that it refused
                end(client)
        two_each.until(lambda: (places.connected, places.networks) == (0, 0))
        for _, client in calls:
            client.close()


def test_given_cquencers_clients_then_they_have_places_of_their_address_too(
    two_each: Broker,
) -> None:
    port = two_each.server.cquencer
    assert port is not None
    place = port.addresses[0]
    calls = [two_each.run(_ask(place, "127.0.0.1", b"5:hello,")) for _ in range(3)]
    refused = b"%d:%b," % (len(TOLD) - 2, TOLD.rstrip())
    assert [answer for answer, _ in calls] == [b"1:1,", b"1:2,", refused]
    answer, late = greeting(two_each, "127.0.0.1")
    assert answer == TOLD
    for client in (late, *(client for _, client in calls)):
        client.close()
    two_each.until(lambda: two_each.server.roster.places.connected == 0)


def test_given_many_refused_then_the_log_is_bounded_and_monitoring_counts_them_all() -> None:
    limits = {"max_connections_per_address": 1, "closings_logged": 3}
    with (
        SeriatimServer(arguments=["-m", "-1"], limits=limits) as broker,
        RawClient(broker.port, QUIET) as first,
    ):
        assert first.ask(b"") == []
        for _ in range(20):
            with RawClient(broker.port) as refused:
                assert refused.until_closed() == TOLD
        page = get(http_port(broker), "/varz").json["limits"]
        assert page["connections_refused_by_address"] == 20
        assert (page["addresses"], page["most_from_one_address"]) == (1, 1)
        logged = [line for line in broker.log if "max_connections_per_address is 1" in line]
        assert len(logged) == 3
