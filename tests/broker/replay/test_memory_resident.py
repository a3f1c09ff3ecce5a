"""How much of a real broker's memory reads and surveys take if their clients do not read."""

from contextlib import ExitStack
from typing import cast

import pytest

from tests.support.churn import LIMITS, Churned
from tests.support.processes import STAND_IN, Limit, SeriatimServer
from tests.support.raw import HEADERS, RawClient

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

MIB = 1 << 20
BOUND = 32 * MIB
SLACK = 32 * MIB  # outboxes of replays, what the allocator keeps, the connections themselves
SUBJECTS = 5000
PATIENCE_S = 120.0  # of one who comes last: a busy machine works long for those before it
READ = b'PUB $SEQ.READ in 11\r\n{"from": 1}\r\n'


@pytest.mark.parametrize(
    ("asked", "clients", "enough"),
    [
        (b"".join(b"SUB $SEQ.LAST.> %d\r\n" % at for at in range(4)), 16, SUBJECTS),
        (READ * 4, 150, 0),
    ],
    ids=["LAST", "READ"],
)
def test_given_clients_that_read_nothing_then_memory_is_bounded_and_one_that_reads_is_served(
    asked: bytes, clients: int, enough: int
) -> None:
    limits = {**LIMITS, "answers_pending": BOUND, "max_pending": 64 * MIB}
    with (
        SeriatimServer("none", limits, ["-m", "-1"]) as process,
        Churned(process) as broker,
        ExitStack() as stack,
    ):
        subjects = range(SUBJECTS)
        broker.publisher.ask(b"".join(b"PUB s.%d 0\r\n\r\n" % at for at in subjects))
        before = process.peak_memory()
        silent = []
        for _ in range(clients):
            client = stack.enter_context(RawClient(process.port, HEADERS, receive_buffer=4096))
            client.ask(b"SUB in in\r\n")
            client.send(asked)
            silent.append(client)
        with RawClient(process.port, HEADERS, timeout=PATIENCE_S) as reader:
            reader.send(b"SUB in in\r\n" + asked)
            heard = 0
            while True:
                operation = reader.operation()
                heard += operation.verb == "MSG"
                if b"Seriatim-Last" in operation.header or (enough and heard >= enough):
                    break
        assert process.peak_memory() - before <= BOUND + SLACK
        for client in silent:
            client.reset()
        broker.rest()


TOTAL = 16 * MIB
SLOW = 150
PAYLOAD = 65536


def publish(publisher: RawClient, count: int) -> None:
    publisher.ask(b"PUB a %d\r\n%b\r\n" % (PAYLOAD, bytes(PAYLOAD)) * count)


@pytest.mark.parametrize("store", ["disk", "memory"])
def test_given_replays_whose_clients_read_nothing_then_what_they_hold_is_bounded(
    store: str,
) -> None:
    limits = {"max_pending_total": TOTAL, "write_deadline": "1h"}
    arguments = [] if store == "disk" else ["--no-journal", "--ring_bytes", str(8 * MIB)]
    with (
        SeriatimServer("none", cast(dict[str, Limit], limits), arguments) as process,
        RawClient(process.port, HEADERS) as publisher,
        ExitStack() as stack,
    ):
        for _ in range(16):
            publish(publisher, 16)  # what the ring holds, and the kernel takes of each
        before = process.peak_memory()
        for _ in range(SLOW):
            client = stack.enter_context(RawClient(process.port, HEADERS, receive_buffer=4096))
            client.ask(b"SUB $SEQ.FROM.1.> 1\r\n")
            publish(publisher, 5)  # so that each is at another piece of the ring
        grown = process.peak_memory() - before
        assert grown < TOTAL + 24 * MIB, "and a quarter of a megabyte for each would be 38 MiB"
        with RawClient(process.port, HEADERS) as reader:
            reader.send(b"SUB $SEQ.FROM.1.> 1\r\n")
            while reader.operation().subject != b"a":
                pass
