"""What the broker tells systemd, at a real datagram socket."""

import os
import signal
from pathlib import Path

import pytest

from broker.runtime.notify import Notifier
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import RawClient
from tests.support.reloaded import Notified

ABSTRACT = f"@seriatim-test-{os.getpid()}"


@pytest.mark.skipif(STAND_IN, reason="of our own process")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_given_a_broker_then_it_tells_when_it_is_ready_reloading_and_stopping(
    tmp_path: Path, loop: str
) -> None:
    address = str(tmp_path / "notify")
    notified = Notified(address)
    broker = SeriatimServer("none", arguments=["--loop", loop])
    broker.env["NOTIFY_SOCKET"] = address
    with broker, notified.socket:
        assert notified.next() == {"READY": "1", "STATUS": "Ready"}
        with RawClient(broker.port) as client:  # it does listen
            assert client.info["port"] == broker.port
        broker.signal(signal.SIGHUP)
        assert list(notified.next()) == ["RELOADING", "MONOTONIC_USEC"]
        assert notified.next()["READY"] == "1"
        broker.stop()
        assert notified.next() == {"STOPPING": "1", "STATUS": "Delivering what was accepted"}


@pytest.mark.skipif(STAND_IN, reason="of our own process")
def test_given_a_lame_duck_then_its_state_says_so_before_it_stops(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    notified = Notified(address)
    broker = SeriatimServer("none", {"lame_duck": "0s"})
    broker.env["NOTIFY_SOCKET"] = address
    with broker, notified.socket:
        notified.until("READY")
        broker.signal(signal.SIGUSR2)
        assert notified.next() == {"STATUS": "Lame duck: clients are sent away"}
        assert notified.next()["STOPPING"] == "1"
        assert broker.wait() == 0


def test_given_an_abstract_address_then_it_is_reported_there() -> None:
    notified = Notified(ABSTRACT.replace("@", "\0"))
    with notified.socket:
        Notifier({"NOTIFY_SOCKET": ABSTRACT}).ready("Ready")
        assert notified.next() == {"READY": "1", "STATUS": "Ready"}


@pytest.mark.parametrize("address", ["", "/nowhere/notify", "x" * 200, "relative\0name"])
def test_given_no_listener_then_nothing_happens(address: str) -> None:
    Notifier({"NOTIFY_SOCKET": address} if address else {}).ready("Ready")


def test_given_a_socket_that_is_full_then_the_broker_does_not_wait(tmp_path: Path) -> None:
    notified = Notified(str(tmp_path / "notify"))
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    with notified.socket:
        for _ in range(10_000):  # far more than it holds
            notifier.status("x" * 1000)
        assert notified.next() == {"STATUS": "x" * 1000}
