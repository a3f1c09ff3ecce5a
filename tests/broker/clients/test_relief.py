"""Memory of all outboxes together: bounded, reported, and released."""

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from broker.clients.session import Session
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.serving import Broker, Client, serving

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
    limits: dict[str, Any] = {"max_pending_total": str(LIMIT), "write_deadline": "1h", "hold_ms": 0}
    broker = SeriatimServer(arguments=["--no-journal"], limits=limits)
    with broker, RawClient(broker.port, QUIET) as publisher, ExitStack() as stack:
        before = resident(broker)
        with ExitStack() as dead:
            dead_readers(broker, dead)
            for _ in range(512):  # the kernel's own buffers take some 4 MiB for each
                assert publisher.ask(PUB) == []
            assert broker.await_line("MaxPendingTotal of 33554432 Exceeded")
            assert broker.peak_memory() < before + LIMIT + 40 * MIB
            (other,) = dead_readers(broker, stack)[:1]
        while resident(broker) > before + 24 * MIB:
            assert publisher.ask(b"") == []  # until it knows that they have gone
        assert other.ask(b"") == []


def test_given_a_journal_then_nobody_is_cut_off_and_the_memory_stays_bounded() -> None:
    limits: dict[str, Any] = {"max_pending_total": str(4 * MIB), "catchup_pending": str(16 * MIB)}
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
        assert resident(broker) < before + 4 * MIB + 40 * MIB
        for reader in readers:
            got = 0
            while got < count:
                got += reader.operation().verb == "MSG"
        assert not broker.said("Slow Consumer")


ALONE = {
    "journal.enabled": False,
    "limits.max_pending_total": "16MiB",
    "limits.hold_ms": "0",
    "limits.write_deadline": "1h",
}


def slow_reader(broker: Broker, publisher: Client, subject: bytes, unsent: int) -> Client:
    """A client that reads nothing, with so many bytes that its socket has not taken."""
    reader, budget = broker.client(), broker.server.plane.gate.budget
    reader.ask(b"SUB %b 1\r\n" % subject)
    before = budget.bytes
    while budget.bytes < before + unsent:
        publisher.publish(subject, bytes(65536))
    return reader


def test_given_clients_that_are_being_closed_then_what_waits_for_them_goes_before_any_other(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, flags=ALONE) as broker:
        budget, publisher = broker.server.plane.gate.budget, broker.client()
        closing = [slow_reader(broker, publisher, b"a.%d" % at, 3 * MIB) for at in range(3)]
        for client in closing:
            client.send(b"rubbish\r\n")
        broker.until(lambda: sum(one.connection.closed for one in sessions(broker)) == 3)
        assert budget.bytes > 8 * MIB, "they have an hour to take it"
        alive = slow_reader(broker, publisher, b"b", 6 * MIB)
        while len(sessions(broker)) == 5:
            publisher.publish(b"b", bytes(65536))
        assert alive.ask(b"")[-1].subject == b"b"
        assert broker.server.roster.slow_consumers == 0


def sessions(broker: Broker) -> list[Session]:
    return list(broker.server.sessions.values())


@pytest.mark.parametrize("ending", ["reads it all", "is closed", "goes", "is cut off"])
def test_given_a_slow_reader_that_ends_in_any_way_then_nothing_counts_any_more(
    tmp_path: Path, ending: str
) -> None:
    with serving(tmp_path, flags=ALONE) as broker:
        budget, publisher = broker.server.plane.gate.budget, broker.client()
        reader = slow_reader(broker, publisher, b"a", 2 * MIB)
        if ending == "reads it all":
            assert {one.verb for one in reader.ask(b"")} == {"MSG"}
        elif ending == "is closed":
            reader.send(b"rubbish\r\n")
            broker.until(lambda: any(one.connection.closed for one in sessions(broker)))
            for session in sessions(broker):
                session.close()
        elif ending == "goes":
            reader.close()
            while len(sessions(broker)) > 1:  # until a write to it fails
                publisher.publish(b"a", bytes(65536))
        else:
            while not broker.server.roster.slow_consumers:
                publisher.publish(b"a", bytes(65536))
            reader.close()
        broker.until(lambda: budget.bytes == 0)
