"""The socket of a feed: its interface, its TTL, and the error if it cannot be opened."""

import os
import socket
from dataclasses import replace

import pytest

from broker.feeds.outlet import SO_SNDBUFFORCE, buffer_bytes, open_sender, renew, source
from broker.settings.feed_settings import FeedSettings
from tests.support.multicast import Ear, new_group

IPV4 = socket.IPPROTO_IP
ANY = FeedSettings(group="239.255.1.1", port=4000, interface="127.0.0.1")


def test_given_a_feed_then_its_socket_sends_to_the_group_by_the_interface() -> None:
    group = new_group()
    feed = replace(ANY, group=group[0], port=group[1])
    for one in (feed, replace(feed, interface="lo")):
        with Ear(group) as ear, open_sender(one) as sender:
            assert sender.getpeername() == group
            sender.send(b"hello")
            assert ear.next() == b"hello"
    with open_sender(feed) as sender:
        assert source(sender) == "127.0.0.1"


def test_given_ttl_loop_and_buffer_then_the_system_has_them() -> None:
    with open_sender(replace(ANY, ttl=7, loop=False, send_buffer=64 << 10)) as sender:
        assert sender.getsockopt(IPV4, socket.IP_MULTICAST_TTL) == 7
        assert sender.getsockopt(IPV4, socket.IP_MULTICAST_LOOP) == 0
        assert buffer_bytes(sender) == 64 << 10
    with open_sender(ANY) as sender:
        assert sender.getsockopt(IPV4, socket.IP_MULTICAST_TTL) == 1
        assert sender.getsockopt(IPV4, socket.IP_MULTICAST_LOOP) == 1


def test_given_root_then_a_send_buffer_may_be_beyond_the_systems_limit() -> None:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            one.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 64 << 10)
        with open("/proc/sys/net/core/wmem_max") as file:
            limit = int(file.read())
    except (PermissionError, FileNotFoundError) as error:  # no root, or one of a container
        pytest.skip(f"more than the system's limit is for root: {error}")
    with open_sender(replace(ANY, send_buffer=2 * limit)) as sender:
        assert buffer_bytes(sender) == 2 * limit


@pytest.mark.parametrize(
    ("group", "interface", "told"),
    [
        ("239.255.1.1", "nowhere0", "by nowhere0: there is no such interface; this machine has lo"),
        ("239.255.1.1", "192.0.2.254", "by 192.0.2.254: no interface has that address; `ip ad"),
        ("ff15::1", "nowhere0", "by nowhere0: there is no such interface; this machine has lo"),
    ],
)
def test_given_an_interface_that_is_not_here_then_it_is_reported(
    group: str, interface: str, told: str
) -> None:
    feed = replace(ANY, group=group, interface=interface)
    with pytest.raises(OSError, match="cannot feed") as caught:
        open_sender(feed)
    assert str(caught.value).startswith(f"cannot feed {feed.address} {told}")


def test_given_a_socket_when_renewed_then_its_descriptor_is_another_socket() -> None:
    group = new_group()
    feed = replace(ANY, group=group[0], port=group[1])
    with Ear(group) as ear, open_sender(feed) as sender:
        fd, port = sender.fileno(), sender.getsockname()[1]
        renew(sender, feed)
        assert sender.fileno() == fd
        assert sender.getsockname()[1] != port
        assert not os.get_inheritable(fd)
        sender.send(b"hello")
        assert ear.next() == b"hello"
