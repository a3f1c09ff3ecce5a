"""Patterns that make one message visit, or match, as much as possible."""

import time
from itertools import product
from pathlib import Path

import pytest

from tests.attacks.beside import beside
from tests.attacks.crowd import crowd, is_answered, send_all, until
from tests.attacks.footprint import MIB
from tests.support.depth import depth
from tests.support.raw import QUIET, RawClient
from tests.support.readable import readable

TOKENS = depth(13, 15)
ALIKE = 16_384  # as many as one message may match of a connection
CLIENTS = depth(8, 16)
MESSAGES = 20
READING_S, READ_MAX = 3.0, 2000


def test_given_all_combinations_of_a_token_and_a_wildcard_when_published_to_then_nobody_waits(
    tmp_path: Path,
) -> None:
    patterns = [b".".join(one) for one in product((b"a", b"*"), repeat=TOKENS)]
    bombs = [b"SUB %b %d\r\n" % (one, at) for at, one in enumerate(patterns)]
    subject = b".".join([b"a"] * TOKENS)
    with beside(tmp_path, memory=48 * MIB) as broker, crowd(broker.port, CLIENTS) as clients:
        send_all(clients, QUIET + b"".join(bombs) + b"PING\r\n")
        until(clients, is_answered)
        assert any(b"-ERR 'Permissions Violation for Subscription" in one.heard for one in clients)
        send_all(clients[:1], (b"PUB %b 1\r\nx\r\n" % subject) * MESSAGES + b"PING\r\n")
        until(clients[:1], is_answered)


@pytest.mark.parametrize("greedy", [1, pytest.param(16, marks=pytest.mark.slow)])
def test_given_as_many_equal_subscriptions_as_are_allowed_when_all_are_read_then_nobody_waits(
    tmp_path: Path, greedy: int
) -> None:
    """Each message of the pair is delivered 16 384 times to each of the greedy."""
    alike = b"".join(b"SUB > %d\r\n" % at for at in range(ALIKE + 10))
    with (
        beside(tmp_path, peak=400 * MIB, memory=64 * MIB) as broker,
        crowd(broker.port, greedy) as clients,
    ):
        send_all(clients, QUIET + alike)
        end = time.monotonic() + READING_S
        read = 0
        while time.monotonic() < end and read < READ_MAX:
            readable(clients, 1)
            for one in clients:
                read += one.read()
        assert broker.varz()["subscriptions"] <= ALIKE + greedy + 1  # one more is the pair's


def test_given_a_subject_of_thousands_of_tokens_when_published_to_then_nobody_waits(
    tmp_path: Path,
) -> None:
    deep = b".".join([b"a"] * 2000)
    patterns = b"".join(
        b"SUB %b.> %d\r\n" % (b".".join([b"a", b"*"][at % 2 : at % 2 + 1] * at), at)
        for at in range(1, 1900, 20)
    )
    with beside(tmp_path) as broker, crowd(broker.port, CLIENTS) as clients:
        send_all(clients, QUIET + patterns + b"PING\r\n")
        with RawClient(broker.port, QUIET) as publisher:
            # One by one: to clients that are not read for long, the kernel tries again less and
            # less often, and what is left may come minutes later.
            for _ in range(MESSAGES):
                # The pair's messages match `*.>`, too, so the PONG may not be the last to come.
                until(clients, lambda one: b"PONG\r\n" in one.heard)
                publisher.ask(b"PUB %b 1\r\nx\r\n" % deep)
                for one in clients:
                    one.heard.clear()
                    one.send(b"PING\r\n")
            until(clients, lambda one: b"PONG\r\n" in one.heard)
