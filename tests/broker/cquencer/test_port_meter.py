"""Clients of cquencer's port above their rate: they are read later, and get all their answers."""

import time
from pathlib import Path
from typing import Any

from broker.clients.metering import Metering
from tests.support.cquencer_clients import Talker, calling


def test_given_cquencers_port_then_its_clients_are_paused_too(tmp_path: Path) -> None:
    flags: dict[str, Any] = {"limits__publish_rate": "200"}
    with calling(tmp_path, framing="netstring", **flags) as broker, Talker(broker) as talker:
        begun = time.monotonic()
        talker.send(b"1:x," * 500)
        assert talker.hear(500) == [b"%d" % number for number in range(1, 501)]
        assert time.monotonic() - begun > 0.9, "two hundred are free, and one read on credit"


def test_given_a_client_that_goes_while_it_is_paused_then_others_and_the_counts_go_on(
    tmp_path: Path,
) -> None:
    flags: dict[str, Any] = {"limits__publish_rate": "100"}
    with calling(tmp_path, framing="netstring", **flags) as broker:
        metering: Metering = broker.server.roster.metering
        with Talker(broker) as paused, Talker(broker) as other:
            paused.send(b"1:x," * 1000)
            broker.until(lambda: metering.pauses.now == 1)
            other.send(b"1:x,")
            assert len(other.hear()) == 1, "each client has its own allowance"
            paused.socket.close()
            broker.until(lambda: metering.pauses.now == 0)
        broker.until(lambda: broker.server.roster.places.connected == 0)


def test_given_no_limit_then_no_client_has_a_meter(tmp_path: Path) -> None:
    with calling(tmp_path) as broker, Talker(broker) as talker:
        talker.send(b"hello")
        assert talker.hear() == [b"1"]
        cquencer = broker.server.cquencer
        assert cquencer is not None
        assert [client.meter for client in cquencer.clients.values()] == [None]
