"""Clients that send one byte at a time, and clients that read one, or none."""

from pathlib import Path

import pytest

from tests.attacks.beside import beside
from tests.attacks.crowd import crowd, is_answered, until
from tests.attacks.footprint import MIB
from tests.support.depth import depth
from tests.support.raw import QUIET, RawClient

WRITERS = depth(300, 1000)
READERS = depth(100, 400)
PIECES = 512
LONG = b"x" * 1024
BLOCK = b"PUB mallory.flood 1024\r\n%b\r\n" % LONG
FLOOD = depth(24, 96)  # MiB
SMALL = {"max_pending": MIB, "max_pending_total": 32 * MIB, "catchup_pending": 256 << 10}


def test_given_writers_of_single_bytes_when_all_have_sent_then_each_was_served(
    tmp_path: Path,
) -> None:
    text = b"CONNECT {}\r\nPUB mallory.slow 5\r\nhello\r\nPING\r\n"
    with beside(tmp_path) as broker, crowd(broker.port, WRITERS) as clients:
        for at in range(len(text)):
            for one in clients:
                one.send(text[at : at + 1])
        until(clients, is_answered)
        assert all(one.heard.endswith(b"+OK\r\n+OK\r\nPONG\r\n") for one in clients)


@pytest.mark.parametrize("journal", ["true", "false"])
def test_given_readers_that_do_not_read_when_flooded_then_only_they_wait(
    tmp_path: Path, journal: str
) -> None:
    """With a journal it serves them later; without one they are cut off, one after the other."""
    with (
        beside(tmp_path, f"journal.enabled = {journal}", limits=SMALL, peak=128 * MIB) as broker,
        crowd(broker.port, READERS, receive_buffer=4096) as readers,
        RawClient(broker.port, QUIET) as publisher,
    ):
        for one in readers:
            one.send(QUIET + b"SUB mallory.> 1\r\nPING\r\n")
        until(readers, is_answered)
        for _ in range(FLOOD):
            publisher.ask(BLOCK * 1024)
            for one in readers[: READERS // 2]:  # the others read nothing at all
                one.socket.setblocking(False)
                one.heard = one.heard[-64:]
                one.read()
        slow = broker.varz()["slow_consumers"]
        assert slow == 0 if journal == "true" else slow >= READERS // 2
