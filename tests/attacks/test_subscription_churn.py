"""Subscriptions that come and go faster than anybody publishes."""

from pathlib import Path

from tests.attacks.beside import beside
from tests.attacks.crowd import crowd, is_answered, send_all, until
from tests.attacks.footprint import MIB
from tests.support.depth import depth
from tests.support.raw import QUIET

CLIENTS = 4
TIMES = depth(15_000, 300_000)
HELD = depth(15_000, 250_000)  # subscriptions of each that stay until it leaves
SHAPES = (b"churn.%d", b"churn.%d.*", b"churn.*.%d.>", b"churn.%d workers")


def test_given_subscriptions_that_come_and_go_when_by_the_hundred_thousand_then_nobody_waits(
    tmp_path: Path,
) -> None:
    lines = [
        b"SUB %b %d\r\nUNSUB %d\r\nPUB churn.%d 0\r\n\r\n"
        % (SHAPES[at % len(SHAPES)] % at, at, at, at)
        for at in range(TIMES)
    ]
    with beside(tmp_path, memory=48 * MIB) as broker, crowd(broker.port, CLIENTS) as clients:
        send_all(clients, QUIET + b"".join(lines) + b"PING\r\n")
        until(clients, is_answered)
        assert broker.varz()["subscriptions"] == 1


def test_given_many_subscriptions_when_their_clients_are_gone_at_once_then_nobody_waits(
    tmp_path: Path,
) -> None:
    lines = [b"SUB %b %d\r\n" % (SHAPES[at % len(SHAPES)] % at, at) for at in range(HELD)]
    with beside(tmp_path, peak=512 * MIB, memory=64 * MIB) as broker:
        with crowd(broker.port, CLIENTS) as clients:
            send_all(clients, QUIET + b"".join(lines) + b"PING\r\n")
            until(clients, is_answered)
            assert broker.varz()["subscriptions"] == HELD * CLIENTS + 1
            for one in clients:
                one.reset()
        broker.until(lambda varz: varz["subscriptions"] == 1)
