"""Memory that a flood's outboxes left in the middle of the heap is returned to the system."""

import time
from contextlib import ExitStack

import pytest

from tests.broker.clients.test_relief import MIB, dead_readers, resident
from tests.support.depth import depth
from tests.support.processes import STAND_IN, Limit, SeriatimServer
from tests.support.raw import QUIET, RawClient

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

READERS = 200
LIMITS: dict[str, Limit] = {"write_deadline": "1h", "max_pending_total": depth(64, 256) * MIB}
PUB = b"PUB a 1024\r\n%b\r\n" % bytes(1024)
PATIENCE = 120.0  # seconds, on a machine that stands still now and then


def test_given_a_flood_to_dead_readers_when_they_have_gone_then_its_memory_is_given_back() -> None:
    broker = SeriatimServer(arguments=["--no-journal"], limits=LIMITS)
    with broker, RawClient(broker.port, QUIET) as publisher:
        before = resident(broker)
        with ExitStack() as dead:
            dead_readers(broker, dead, READERS)
            while not broker.said("MaxPendingTotal"):
                assert publisher.ask(PUB) == []
        deadline = time.monotonic() + PATIENCE
        while resident(broker) > before + 24 * MIB and time.monotonic() < deadline:
            assert publisher.ask(b"") == []
        assert resident(broker) <= before + 24 * MIB
