"""Memory of all outboxes together: bounded, reported, and released."""

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

MIB = 1 << 20
LIMIT = 32 * MIB
READERS = 24  # they could hold 64 MiB each
PUB = b"PUB a 65536\r\n%b\r\n" % bytes(65536)


def resident(broker: SeriatimServer) -> int:
    """The memory (bytes) that the process holds now, without what it has mapped of files."""
    status = Path(f"/proc/{broker.pid}/status").read_text()
    found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def dead_readers(broker: SeriatimServer, stack: ExitStack, count: int = READERS) -> list[RawClient]:
    readers = []
    for _ in range(count):
        reader = stack.enter_context(RawClient(broker.port, QUIET, receive_buffer=4096))
        reader.ask(b"SUB a 1\r\n")
        readers.append(reader)
    return readers


def test_given_dead_readers_then_all_outboxes_together_stay_bounded_and_are_given_back() -> None:
    limits = {"max_pending_total": str(LIMIT), "write_deadline": "1h", "hold_ms": 0}
    broker = SeriatimServer(arguments=["--no-journal"], limits=limits)
    with broker, RawClient(broker.port, QUIET) as publisher, ExitStack() as stack:
        before = resident(broker)
        with ExitStack() as dead:
            dead_readers(broker, dead)
            for _ in range(512):  # the kernel's own buffers take some 4 MiB for each
                assert publisher.ask(PUB) == []
            assert broker.await_line("MaxPendingTotal of 33554432 Exceeded")
            # What is not counted: a store that waits with each transport, and one that is lent.
            assert broker.peak_memory() < before + LIMIT + READERS * MIB + 40 * MIB
            (other,) = dead_readers(broker, stack)[:1]
        while resident(broker) > before + 24 * MIB:
            assert publisher.ask(b"") == []  # until it knows that they have gone
        assert other.ask(b"") == []


def test_given_a_journal_then_nobody_is_cut_off_and_the_memory_stays_bounded() -> None:
    limits = {"max_pending_total": str(4 * MIB), "catchup_pending": str(16 * MIB)}
    with (
        SeriatimServer(limits=limits) as broker,
        RawClient(broker.port, QUIET) as publisher,
        ExitStack() as stack,
    ):
        before = resident(broker)
        readers = dead_readers(broker, stack)
        count = 64
        for _ in range(count):
            assert publisher.ask(PUB) == []
        assert resident(broker) < before + 4 * MIB + READERS * MIB + 40 * MIB
        for reader in readers:
            got = 0
            while got < count:
                got += reader.operation().verb == "MSG"
        assert not broker.said("Slow Consumer")
