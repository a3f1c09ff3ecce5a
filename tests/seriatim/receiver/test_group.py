"""Joining a group: on which interface, together with whom, and the errors."""

import socket
from pathlib import Path

import pytest

from seriatim.receiver.arrivals import Arrivals
from seriatim.receiver.errors import GroupError
from seriatim.receiver.group import Group, join
from tests.support.multicast import mouth, new_group


def hear(made: socket.socket) -> list[bytes]:
    return Arrivals(made).datagrams()


@pytest.mark.parametrize("interface", ["127.0.0.1", "lo"])
def test_given_a_group_and_an_interface_then_what_is_sent_there_is_heard(interface: str) -> None:
    group = new_group()
    with join(Group(*group, interface=interface)) as made, mouth(group) as speaker:
        speaker.send(b"hello")
        assert hear(made) == [b"hello"]


@pytest.mark.parametrize("interface", ["::1", "lo", ""])
def test_given_a_group_of_ipv6_then_it_is_joined_by_the_interface(interface: str) -> None:
    group = new_group("ff15:")
    with join(Group(*group, interface=interface)) as made:
        assert made.getsockname()[:2] == group
        address = socket.inet_pton(socket.AF_INET6, group[0]).hex()
        lines = [line.split() for line in Path("/proc/net/igmp6").read_text().splitlines()]
        joined = {line[1] for line in lines if line[2] == address}
        assert joined == {"lo"} if interface else len(joined) == 1


def test_given_several_who_listen_then_each_hears_and_only_its_own_group() -> None:
    group = new_group()
    other = (new_group()[0], group[1])  # the same port
    with (
        join(Group(*group, interface="lo")) as first,
        join(Group(*group, interface="127.0.0.1")) as second,
        join(Group(*other, interface="lo")) as third,
        mouth(group) as speaker,
        mouth(other) as stranger,
    ):
        speaker.send(b"hello")
        stranger.send(b"others")
        assert (hear(first), hear(second), hear(third)) == ([b"hello"], [b"hello"], [b"others"])


@pytest.mark.parametrize("option", [socket.SO_REUSEADDR, socket.SO_REUSEPORT], ids=["addr", "port"])
def test_given_a_program_that_shares_its_port_in_one_way_then_both_hear(option: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.setsockopt(socket.SOL_SOCKET, option, 1)
        # As cquencer's destn; but at a port that no test beside this one has, in whatever group.
        other.bind(("", 0))
        group = (new_group()[0], other.getsockname()[1])
        with join(Group(*group, interface="127.0.0.1")) as made, mouth(group) as speaker:
            speaker.send(b"hello")
            assert hear(made) == [b"hello"]


@pytest.mark.parametrize(
    ("group", "port", "why"),
    [
        ("10.0.0.1", 1, "10.0.0.1 is not a multicast group; these are 224.0.0.0 to"),
        ("::1", 1, "::1 is not a multicast group"),
        ("everyone", 1, '"everyone" is not an address; groups are 224.0.0.0 to'),
        ("239.0.0.1", 0, "0 is not a port; give 1 to 65535"),
        ("239.0.0.1", 65536, "65536 is not a port"),
    ],
)
def test_given_input_that_is_no_group_then_it_says_so(group: str, port: int, why: str) -> None:
    with pytest.raises(GroupError, match=why):
        Group(group, port)


@pytest.mark.parametrize(
    ("group", "interface", "why"),
    [
        ("239.1.2.3", "eth99", r'there is no interface "eth99"; there are lo'),
        (
            "239.1.2.3",
            "10.255.255.7",
            "10.255.255.7 is not an address of this machine, or cannot do",
        ),
        ("239.1.2.3", "::1", "::1 has another address family than the group; give an IPv4 address"),
        (
            "ff15::1",
            "127.0.0.1",
            "127.0.0.1 has another address family than the group; give an IPv6 address",
        ),
        ("ff15::1", "fe80::77", "fe80::77 is not an address of this machine; there are lo"),
    ],
)
def test_given_an_interface_that_is_not_here_then_it_says_which_there_are(
    group: str, interface: str, why: str
) -> None:
    with pytest.raises(GroupError, match=why):
        join(Group(group, 5000, interface))


def test_given_a_port_that_is_not_shared_then_it_says_so() -> None:
    group = new_group()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(group)
        with pytest.raises(GroupError, match="the port is taken by a program that does not share"):
            join(Group(*group, interface="127.0.0.1"))


def test_given_as_many_groups_as_the_system_allows_then_each_has_a_socket_of_its_own() -> None:
    made = [join(Group(*new_group(), interface="127.0.0.1")) for _ in range(25)]
    assert len({one.fileno() for one in made}) == 25
    for one in made:
        one.close()
