"""Hosts of a network: their own interfaces, plugs to pull, and complete cleanup afterwards."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.network.hosts import NAMES, OURS, Host, Network, sweep
from tests.support.places import ROOT

GROUP, GROUP6, PORT = "239.77.0.1", "ff05::77:1", 5000
KILLED = """
import os, signal
from tests.network.hosts import Network
with Network() as network:
    network.host("far", wired=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def network() -> Iterator[Network]:
    with Network(lans=2) as made:
        yield made


def namespaces(of: int) -> list[str]:
    return [path.name for path in NAMES.glob(f"{OURS}{of}-*")]


def member(host: Host, lan: int, family: int = socket.AF_INET) -> socket.socket:
    """A socket that has joined the group by an interface of the host."""
    with host.inside():
        made = socket.socket(family, socket.SOCK_DGRAM)
        index = socket.if_nametoindex(f"eth{lan}")
    made.bind(("", PORT))
    if family == socket.AF_INET:
        group = socket.inet_aton(GROUP) + socket.inet_aton(host.address(lan))
        made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
    else:
        group = socket.inet_pton(family, GROUP6) + index.to_bytes(4, sys.byteorder)
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group)
    made.settimeout(30)
    return made


def sender(host: Host, lan: int, family: int = socket.AF_INET) -> socket.socket:
    with host.inside():
        made = socket.socket(family, socket.SOCK_DGRAM)
        index = socket.if_nametoindex(f"eth{lan}")
        if family == socket.AF_INET:
            address = socket.inet_aton(host.address(lan))
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, address)
        else:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        made.connect((GROUP if family == socket.AF_INET else GROUP6, PORT))
    return made


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def test_given_two_lans_when_a_group_is_sent_to_then_only_members_of_the_lan_hear_it(
    network: Network, family: int
) -> None:
    near, far = network.host("near"), network.host("far", wired=True)
    with (
        closing(member(far, 0, family)) as first,
        closing(sender(near, 1, family)) as other,
        closing(sender(near, 0, family)) as own,
    ):
        other.send(b"of the other lan")
        own.send(b"of its own")
        assert first.recv(100) == b"of its own"


@pytest.mark.parametrize("how", ["plug", "link"])
def test_given_a_host_without_its_cable_when_it_is_back_then_it_hears_again(
    network: Network, how: str
) -> None:
    near, far = network.host("near"), network.host("far", wired=True)
    with closing(member(far, 0)) as receiver, closing(sender(near, 0)) as source:
        getattr(far, how)(False)
        source.send(b"unheard")
        while how == "link" and not far.wires[0].count()["right", "udp"].seen:
            pass  # the wire still has it, and would give it to a link that is back
        getattr(far, how)(True)
        source.send(b"heard")
        assert receiver.recv(100) == b"heard"


def test_given_a_test_that_fails_then_its_hosts_are_gone() -> None:
    def fail() -> None:
        with Network() as network:
            network.host("far", wired=True)
            assert len(namespaces(pid)) == 3
            raise KeyError

    pid = int(Path("/proc/self").readlink().name)
    with pytest.raises(KeyError):
        fail()
    assert namespaces(pid) == []


def test_given_a_run_that_was_killed_when_the_next_begins_then_its_hosts_are_gone() -> None:
    killed = subprocess.Popen([sys.executable, "-c", KILLED], cwd=ROOT)
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)  # once waited for, all may sweep
    assert len(namespaces(killed.pid)) == 3
    assert killed.wait() == -9
    sweep()
    assert namespaces(killed.pid) == []
