"""Out of file descriptors: clients wait, and the journal, monitoring and the log keep working."""

import os
import time
from contextlib import ExitStack, closing
from socket import create_connection, socket

import pytest

from broker.clients.acceptor import RETRY_SECONDS
from tests.support.processes import STAND_IN, SeriatimServer
from tests.support.raw import QUIET, RawClient
from tests.support.web import get, http_port

pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")

FILES = 80
KEPT = FILES // 2
LOUD = b'CONNECT {"verbose":true,"pedantic":false}\r\n'


def short_of_files(*arguments: str) -> SeriatimServer:
    """A broker that may have few files open; not started yet."""
    broker = SeriatimServer(arguments=["-m", "-1", *arguments])
    broker.command[:0] = ["sh", "-c", f'ulimit -n {FILES}; exec "$0" "$@"']
    return broker


def fill(
    broker: SeriatimServer, port: int, says: bytes, stack: ExitStack
) -> tuple[list[socket], socket]:
    """Connect until a client has to wait; return those that are served, and the one that waits."""
    served: list[socket] = []
    while True:
        client = stack.enter_context(closing(create_connection(("127.0.0.1", port))))
        client.send(says)
        if not is_served(client, broker):
            return served, client
        served.append(client)


def is_served(client: socket, broker: SeriatimServer) -> bool:
    """Whether the broker has accepted the client, and did not have it wait."""
    client.settimeout(0.1)
    while True:
        try:
            return bool(client.recv(1000))
        except TimeoutError:  # the log tells that one waits
            if broker.said("clients wait until others have left"):
                return False


def crowd(broker: SeriatimServer, port: int, says: bytes, stack: ExitStack) -> None:
    """Connect until clients have to wait, and then some more."""
    fill(broker, port, says, stack)
    for _ in range(5):
        stack.enter_context(closing(create_connection(("127.0.0.1", port))))


def test_given_all_descriptors_of_clients_taken_then_the_journal_and_monitoring_go_on() -> None:
    with (
        short_of_files("--segment_bytes", "65536", "--sync_interval", "1m") as broker,
        RawClient(broker.port, LOUD) as publisher,
        ExitStack() as stack,
    ):
        assert publisher.line() == b"+OK\r\n"
        crowd(broker, broker.port, QUIET, stack)
        for _ in range(120):  # some sixty segments, where each could have one to itself
            publisher.send(b"PUB a 32768\r\n%b\r\n" % bytes(32768))
            assert publisher.line() == b"+OK\r\n"
        free = FILES - len(os.listdir(f"/proc/{broker.pid}/fd"))
        assert free > 10, "what the disk does not have yet takes a part of the reserve only"
        assert get(http_port(broker), "/varz").json["journal"]["segments"] > 10
        assert get(http_port(broker), "/healthz").json["status"] == "ok"


def test_given_clients_that_wait_then_they_are_informed_once_and_served_when_others_go() -> None:
    with short_of_files() as broker, ExitStack() as all_of_them:
        with ExitStack() as stack:
            # So few wait that they cannot fill the places again that have made it calm.
            fill(broker, broker.port, QUIET, stack)
            for _ in range(2):  # one goes, one comes: that is no new episode
                waiting = create_connection(("127.0.0.1", broker.port))
                all_of_them.enter_context(closing(waiting))
        waiting.settimeout(60)
        assert waiting.recv(4) == b"INFO"
        assert broker.await_line("New clients are accepted again")
        told = [line for line in broker.log if "clients wait until" in line]
        assert len(told) == 1
        assert f"the last {KEPT} are kept" in told[0]


def test_given_cquencers_port_then_its_clients_leave_the_reserve_alone_too() -> None:
    with short_of_files("--sequencer_port", "-1") as broker, ExitStack() as stack:
        (line,) = (line for line in broker.log if "for cquencer's clients on" in line)
        port = int(line.rpartition(":")[2])
        crowd(broker, port, b"hello", stack)
        assert get(http_port(broker), "/healthz").json["status"] == "ok"
        assert get(http_port(broker), "/varz").json["journal"]["last"] > 5


def test_given_no_descriptor_left_when_one_goes_then_one_that_waits_is_served_at_once() -> None:
    with (
        short_of_files() as broker,
        RawClient(broker.port, LOUD) as publisher,
        ExitStack() as stack,
    ):
        assert publisher.line() == b"+OK\r\n"
        served, waiting = fill(broker, broker.port, QUIET, stack)
        waiting.settimeout(60)
        waits = []
        for client in served[:9]:
            client.close()
            begun = time.monotonic()
            assert waiting.recv(4) == b"INFO"
            waits.append(time.monotonic() - begun)
            publisher.send(b"PUB a 1\r\nx\r\n")
            assert publisher.line() == b"+OK\r\n"
            assert get(http_port(broker), "/healthz").json["status"] == "ok"
            waiting = stack.enter_context(closing(create_connection(("127.0.0.1", broker.port))))
            waiting.settimeout(60)
        # A busy machine may keep two waiting. Without it every other one waits for the timer.
        assert sorted(waits)[-3] < RETRY_SECONDS / 2, "it need not wait for the next look"
