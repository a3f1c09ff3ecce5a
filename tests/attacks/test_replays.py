"""Replays by the hundred thousand: begun, ended early, and left by clients that are gone."""

from pathlib import Path

import pytest

from tests.attacks.beside import beside
from tests.attacks.crowd import crowd, is_answered, send_all, until
from tests.attacks.footprint import MIB
from tests.support.depth import depth
from tests.support.raw import HEADERS, QUIET, RawClient

CLIENTS = 10
EACH = depth(5000, 50_000)
PAST = 5000  # messages that can be replayed
KINDS = (
    b"$SEQ.FROM.1.mallory.>",
    b"$SEQ.RANGE.1.4000.mallory.>",
    b"$SEQ.SINCE.0.>",
    b"$SEQ.FROM.99999999.>",
    b"$SEQ.LAST.mallory.*",
)


def fill(port: int) -> None:
    with RawClient(port, QUIET) as publisher:
        publisher.ask(
            b"".join(b"PUB mallory.%d 200\r\n%b\r\n" % (at % 50, b"p" * 200) for at in range(PAST))
        )


def test_given_replays_that_end_at_once_when_begun_by_the_hundred_thousand_then_nobody_waits(
    tmp_path: Path,
) -> None:
    lines = [b"SUB %b %d\r\nUNSUB %d\r\n" % (KINDS[at % len(KINDS)], at, at) for at in range(EACH)]
    with beside(tmp_path) as broker, crowd(broker.port, CLIENTS) as clients:
        fill(broker.port)
        send_all(clients, QUIET + b"".join(lines) + b"PING\r\n")
        until(clients, is_answered)
        assert broker.varz()["subscriptions"] == 1


@pytest.mark.parametrize("reads", [True, False])
def test_given_replays_of_everything_when_their_clients_are_gone_then_nobody_waits(
    tmp_path: Path, reads: bool
) -> None:
    """As many as one connection may have open, again and again; each leaves with a reset."""
    lines = [b"SUB %b %d\r\n" % (KINDS[at % len(KINDS)], at) for at in range(EACH)]
    with beside(tmp_path) as broker:
        fill(broker.port)
        for _ in range(CLIENTS // 5):
            with crowd(broker.port, 5, receive_buffer=0 if reads else 4096) as clients:
                send_all(clients, QUIET + b"".join(lines), reads)
                broker.until(lambda _: broker.counted() > EACH / 2)
                for one in clients:
                    one.reset()
        broker.until(lambda varz: varz["connections"] == 2 and broker.counted() == 1)


def test_given_requests_for_the_past_when_nobody_reads_the_answers_then_memory_is_bounded(
    tmp_path: Path,
) -> None:
    ask = b"".join(
        b"PUB $SEQ.GET.%d r 0\r\n\r\nPUB $SEQ.LAST.mallory.%d r 0\r\n\r\n" % (at, at % 60)
        for at in range(1, 2000)
    )
    read = b'PUB $SEQ.READ r 10\r\n{"from": 1}\r\n'
    with beside(tmp_path, limits={"max_pending": MIB}) as broker:
        fill(broker.port)
        with crowd(broker.port, CLIENTS, receive_buffer=4096) as clients:
            send_all(clients, HEADERS + b"SUB r 1\r\n" + (ask + read * 20) * 5, reading=False)
            broker.until(lambda varz: varz["in_msgs"] > PAST)
        broker.until(lambda varz: varz["connections"] == 2 and broker.counted() == 1)
