"""Feeds and their interfaces: one that goes down, one that comes back as another, IPv6."""

import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sequencer.feed.codecs import codec_named
from sequencer.feed.feed_codec import DATA
from tests.network.hosts import Host, Network, ip
from tests.support.multicast import WAIT_S, Ear, new_group
from tests.support.places import ROOT
from tests.support.serving import Broker, feed_text, serving


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    with Network() as network:
        yield network.host("near"), network.host("far")


def listen(host: Host, group: tuple[str, int]) -> socket.socket:
    """A socket of the host's that has joined the group by its eth0."""
    six = ":" in group[0]
    with host.inside():
        ear = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
        index = struct.pack("@i", socket.if_nametoindex("eth0"))
    ear.settimeout(WAIT_S)
    ear.bind(group)
    if six:
        member = socket.inet_pton(socket.AF_INET6, group[0]) + index
        ear.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, member)
    else:
        member = socket.inet_aton(group[0]) + socket.inet_aton(host.address())
        ear.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
    return ear


def next_numbers(ear: socket.socket) -> list[int]:
    """The numbers of the next datagram with messages."""
    reader = codec_named("binary")
    while True:
        packet = reader.decode(ear.recv(1 << 16))
        if packet.kind == DATA:
            return [message.number for message in packet.messages]


def lose_one(broker: Broker, number: int) -> None:
    """Publish what the network does not take: it is counted, and everybody else has it."""
    publisher = broker.clients[0]
    lost = broker.outlets[0].feed.sent.errors
    publisher.publish(b"orders", b"x")
    assert broker.outlets[0].feed.sent.errors > lost
    assert broker.server.journal.last == number
    (heard,) = broker.clients[1].ask(b"")
    assert heard.payload == b"8:1:%d,1:x,," % number


def talk(broker: Broker) -> None:
    broker.client()
    broker.client().ask(b"SUB > 1\r\n")


@pytest.mark.parametrize("by", ["eth0", "address"])
def test_given_an_interface_that_goes_down_then_what_is_not_sent_is_counted_and_reported_once(
    hosts: tuple[Host, Host], tmp_path: Path, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    near, far = hosts
    group = new_group()
    interface = "eth0" if by == "eth0" else near.address()
    text = feed_text(group, interface=interface, codec="binary", heartbeat="20ms", name="A")
    with listen(far, group) as ear, near.inside(), serving(tmp_path, text) as broker:
        talk(broker)
        broker.clients[0].publish(b"orders", b"x")
        assert next_numbers(ear) == [1]
        broker.clients[1].ask(b"")
        near.link(False)
        lose_one(broker, 2)
        lose_one(broker, 3)
        lost = broker.outlets[0].feed.sent.errors
        broker.until(lambda: broker.outlets[0].feed.sent.errors > lost + 5)  # heartbeats too
        near.link(True)
        beats, sent = broker.outlets[0].feed.sent, broker.outlets[0].feed.sent.datagrams
        broker.until(lambda: beats.datagrams > sent)
        broker.clients[0].publish(b"orders", b"x")
        assert next_numbers(ear) == [4]
    told = [line for line in caplog.messages if line.startswith("Feed A: ")]
    assert 1 <= len(told) <= 2, "once in a while, and at the end"
    assert "datagrams were not sent: Network is unreachable" in told[0]


def test_given_an_interface_that_comes_back_as_another_then_the_feed_goes_by_it(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    near, far = hosts
    group = new_group()
    text = feed_text(group, interface="eth0", codec="binary", heartbeat="20ms")
    with listen(far, group) as ear, near.inside(), serving(tmp_path, text) as broker:
        talk(broker)
        broker.clients[0].publish(b"orders", b"x")
        assert next_numbers(ear) == [1]
        broker.clients[1].ask(b"")
        index = socket.if_nametoindex("eth0")
        ip("link delete eth0", namespace=near.namespace)
        lose_one(broker, 2)
        near.lay_cable(0)
        assert socket.if_nametoindex("eth0") != index
        sent = broker.outlets[0].feed.sent.datagrams
        broker.until(lambda: broker.outlets[0].feed.sent.datagrams > sent)
        broker.clients[0].publish(b"orders", b"x")
        assert next_numbers(ear) == [3]
        broker.until(lambda: not broker.outlets[0]._stale)


def test_given_a_group_of_ipv6_then_it_is_fed_by_the_interface_of_that_name(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    near, far = hosts
    wide, narrow = new_group("ff15:"), new_group("ff02:")
    texts = [
        feed_text(wide, interface="eth0", codec="binary"),
        feed_text(narrow, interface="eth0", codec="binary", packing="true"),
    ]
    narrow_of_far: Any = (narrow[0], narrow[1], 0, 0)
    with far.inside():
        narrow_of_far = (*narrow, 0, socket.if_nametoindex("eth0"))
    with (
        listen(far, wide) as ear,
        listen(far, narrow_of_far) as other,
        near.inside(),
        serving(tmp_path, *texts) as broker,
    ):
        broker.client().publish(b"orders", b"x" * 700, b"x" * 700, b"x" * 100_000, b"last")
        assert [next_numbers(ear) for _ in range(3)] == [[1], [2], [4]]
        assert [next_numbers(other) for _ in range(3)] == [[1], [2], [4]]
        assert broker.outlets[1].settings.packing_bytes == 1452


def test_given_the_route_that_the_page_names_then_a_group_of_ipv6_is_heard_on_loopback(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    near, _ = hosts
    page = (ROOT / "docs" / "multicast.md").read_text()
    (line,) = re.findall(r"`ip -6 (route add [^`]*)`", page)
    ip(line, namespace=near.namespace)
    group = new_group("ff15:")
    text = feed_text(group, interface="lo")
    with near.inside(), Ear(group) as ear, serving(tmp_path, text) as broker:
        broker.client().publish(b"orders", b"x")
        assert ear.next() == b"8:1:1,1:x,,"


def test_given_an_interface_that_is_down_at_the_start_then_the_broker_says_so(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    near, _ = hosts
    near.link(False)
    with near.inside():
        for text in (
            feed_text(new_group(), interface="eth0"),
            feed_text(new_group(), interface=""),
        ):
            with (
                pytest.raises(OSError, match=r"cannot feed 239\..*: Network is unreachable: "),
                serving(tmp_path, text),
            ):
                pass
