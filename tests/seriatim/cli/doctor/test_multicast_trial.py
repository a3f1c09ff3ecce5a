"""Doctor's trial of multicast: it comes back where it can, and receivers of the feed hear none."""

import shutil

import pytest

from tests.seriatim.cli.doctor.doctor_runs import alone, doctor
from tests.support.multicast import Ear, new_group

UP = "ip link set lo up"
ROUTE6 = "ip -6 route add local ff00::/8 dev lo table local"


def test_given_loopback_then_a_datagram_comes_back_and_the_feed_does_not_hear_it() -> None:
    group, port = new_group()
    with Ear((group, port)) as ear:
        found = doctor("--feed", f"{group}:{port},interface=127.0.0.1").only("multicast")
        assert ear.rest() == []
    assert (found.level, found.text) == (
        "ok",
        f"a datagram to {group} by 127.0.0.1, from 127.0.0.1 came back",
    )


def test_given_ipv6_then_it_needs_a_route_on_loopback_and_the_finding_names_it() -> None:
    feed = "[ff15::7]:4000,interface=lo"
    without = doctor("--feed", feed, prefix=alone(UP)).only("multicast")
    assert without.level == "failed"
    assert without.text.startswith("cannot feed [ff15::7]:4000 by lo: Network is unreachable")
    assert ROUTE6 in without.text
    found = doctor("--feed", feed, prefix=alone(UP, ROUTE6)).only("multicast")
    assert (found.level, found.text) == (
        "ok",
        "a datagram to ff15::7 by lo, from ::1 came back",
    )


def test_given_a_namespace_whose_loopback_is_down_then_the_feed_cannot_be_sent() -> None:
    examined = doctor("--feed", "239.255.0.7:4000,interface=127.0.0.1", prefix=alone())
    found = examined.only("multicast")
    assert found.level == "failed"
    assert found.text.startswith("cannot feed 239.255.0.7:4000 by 127.0.0.1: no interface has that")
    assert examined.status == 1


@pytest.mark.skipif(shutil.which("iptables") is None, reason="no packet filter to drop it with")
def test_given_a_packet_filter_that_drops_it_then_it_is_sent_and_not_received() -> None:
    prefix = alone(UP, "iptables -A INPUT -p udp -d 239.0.0.0/8 -j DROP")
    found = doctor("--feed", "239.255.0.7:4000,interface=127.0.0.1", prefix=prefix)
    (one,) = found.about("multicast")
    assert one.level == "failed"
    assert one.text.endswith("from 127.0.0.1 was sent, and not received within 1 s")
    assert "iptables -S" in one.do


def test_given_a_feed_without_an_interface_then_it_is_advised() -> None:
    prefix = alone(UP, "ip route add 239.0.0.0/8 dev lo src 127.0.0.1")
    found = doctor("--feed", "239.255.0.7:4000", prefix=prefix).only("multicast")
    assert found.level == "hint"
    assert found.text.endswith("by the interface that routes choose, from 127.0.0.1 came back")
    assert found.do == "give the interface: --feed 239.255.0.7:4000,interface=NAME"


def test_given_an_interface_that_is_not_there_then_it_names_those_that_are() -> None:
    feed = "239.255.0.7:4000,interface=nosuch0"
    found = doctor("--feed", feed, prefix=alone(UP)).only("multicast")
    assert found.level == "failed"
    assert "there is no such interface; this machine has lo" in found.text


def test_given_no_feeds_then_nothing_is_sent() -> None:
    assert doctor().about("multicast") == []
