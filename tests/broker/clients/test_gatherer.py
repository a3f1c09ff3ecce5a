"""What several clients send in one turn of the event loop: one release, in order, for all."""

import asyncio
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from broker.clients import roster
from testkit.model_frame import split_frame
from tests.support.raw import QUIET, Operation, operations
from tests.support.serving import Broker, serving

KIB = 1 << 10
VERBOSE = QUIET.replace(b'"verbose":false', b'"verbose":true')
DATA_SEGS_IN = 152  # where `tcp_info` has it
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with serving(tmp_path) as made:
        yield made


class Peer:
    """A blocking connection. The broker runs only when it is told to, so its turns are known."""

    def __init__(self, broker: Broker, *sends: bytes) -> None:
        self.broker = broker
        self.socket = socket.create_connection(broker.server.addresses[0])
        host, port = self.socket.getsockname()
        self.place = f"{host}:{port}"  # as the log says it
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.inbox = b""
        self.send(QUIET, *sends, b"PING\r\n")
        broker.until(lambda: b"PONG" in self.hear())
        self.inbox = b""

    def send(self, *data: bytes) -> None:
        """What the broker finds in its next turn."""
        self.socket.sendall(b"".join(data))

    def hear(self) -> bytes:
        """What has come by now."""
        while data := self._receive():
            self.inbox += data
        return self.inbox

    def take(self) -> list[Operation]:
        """The operations that have come since the last call."""
        data, self.inbox = self.hear(), b""
        return operations(data)

    def segments(self) -> int:
        """With how many segments data came: a short send is one."""
        told = self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, DATA_SEGS_IN + 4)
        return int.from_bytes(told[DATA_SEGS_IN:], sys.byteorder)

    def is_closed(self) -> bool:
        """Whether the broker has closed the connection."""
        try:
            return not self.socket.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
        except BlockingIOError:
            return False

    def _receive(self) -> bytes:
        try:
            return self.socket.recv(1 << 18, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self.socket.close()


@contextmanager
def peers(broker: Broker, count: int, *sends: bytes) -> Iterator[list[Peer]]:
    made: list[Peer] = []
    try:
        made += [Peer(broker, *sends) for _ in range(count)]
        yield made
    finally:
        for one in made:
            one.close()


def payloads(heard: list[Operation]) -> list[tuple[int, bytes]]:
    return [split_frame(one.payload) for one in heard if one.verb == "MSG"]


def publish(payload: bytes, subject: bytes = b"turn") -> bytes:
    return b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)


def releases(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The last number of each write to the journal, from now on."""
    journal: Any = broker.server.journal
    commit, found = journal.commit, []

    def record(*given: Any) -> None:
        commit(*given)
        found.append(journal.last)

    monkeypatch.setattr(journal, "commit", record)
    return found


def test_given_many_publishers_in_one_turn_then_it_is_one_write_to_journal_and_subscriber(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = releases(broker, monkeypatch)
    with peers(broker, 40) as publishers, peers(broker, 2, b"SUB turn 1\r\n") as subscribers:
        before = [one.segments() for one in subscribers]
        for nth, one in enumerate(publishers):
            one.send(publish(b"%d" % nth))
        broker.server.roster.gatherer.turn()
        assert written == [40]
        assert [one.segments() for one in subscribers] == [count + 1 for count in before]
        for one in subscribers:
            assert payloads(one.take()) == [(n + 1, b"%d" % n) for n in range(40)]


def test_given_a_lone_message_then_it_is_out_when_its_turn_ends(broker: Broker) -> None:
    with closing(Peer(broker)) as publisher, closing(Peer(broker, b"SUB turn 1\r\n")) as other:
        publisher.send(publish(b"alone"))
        broker.server.roster.gatherer.turn()  # and no event loop runs
        assert payloads(other.take()) == [(1, b"alone")]


def test_given_verbose_publishers_that_subscribe_then_each_has_its_ok_before_its_message(
    broker: Broker,
) -> None:
    with peers(broker, 3, VERBOSE, b"SUB turn 1\r\n") as both:
        for one in both:
            one.take()
            one.send(publish(b"x"))
        broker.server.roster.gatherer.turn()
        for nth, one in enumerate(both):
            verbs = [operation.verb for operation in one.take()]
            assert verbs == ["MSG"] * nth + ["+OK", "MSG"] + ["MSG"] * (2 - nth)


def test_given_sub_pub_and_ping_in_one_turn_then_each_has_the_answers_of_their_order(
    broker: Broker,
) -> None:
    with peers(broker, 4) as clients:
        clients[0].send(publish(b"early"), b"PING\r\n")
        clients[1].send(b"SUB turn 1\r\nPING\r\n")
        clients[2].send(publish(b"heard"), b"PING\r\n", publish(b"too"))
        clients[3].send(b"SUB turn 1\r\nPING\r\n", publish(b"own"), b"UNSUB 1\r\nPING\r\n")
        clients[0].send(publish(b"late"))  # it is in the socket before the turn, and read first
        broker.server.roster.gatherer.turn()
        heard = [client.take() for client in clients]
        verbs = [[one.verb for one in said] for said in heard]
        assert verbs == [["PONG"], ["PONG", *["MSG"] * 3], ["PONG"], ["PONG", "MSG", "PONG"]]
        assert payloads(heard[1]) == [(3, b"heard"), (4, b"too"), (5, b"own")]
        assert payloads(heard[3]) == [(5, b"own")]
        assert broker.server.last_number == 5


def test_given_a_client_that_breaks_the_protocol_then_the_others_have_what_they_brought(
    broker: Broker,
) -> None:
    with peers(broker, 3) as clients, closing(Peer(broker, b"SUB turn 1\r\n")) as subscriber:
        clients[0].send(publish(b"before"))
        clients[1].send(publish(b"own"), b"NONSENSE\r\n", publish(b"never"))
        clients[2].send(publish(b"after"))
        broker.server.roster.gatherer.turn()
        assert payloads(subscriber.take()) == [(1, b"before"), (2, b"own"), (3, b"after")]
        assert clients[1].hear() == b"-ERR 'Unknown Protocol Operation'\r\n"
        broker.until(clients[1].is_closed)
        assert not clients[0].is_closed()


def test_given_a_reset_and_a_half_close_in_a_turn_then_all_that_was_read_is_out(
    broker: Broker,
) -> None:
    with peers(broker, 4) as clients, closing(Peer(broker, b"SUB turn 1\r\n")) as subscriber:
        clients[0].send(publish(b"one"))
        clients[1].socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        clients[1].close()
        clients[2].send(publish(b"two"), b"PING\r\n")
        clients[2].socket.shutdown(socket.SHUT_WR)
        clients[3].send(publish(b"three"))
        broker.server.roster.gatherer.turn()
        assert payloads(subscriber.take()) == [(1, b"one"), (2, b"two"), (3, b"three")]
        broker.until(lambda: len(broker.server.sessions) == 3)
        assert clients[2].hear() == b"PONG\r\n"
        assert clients[2].is_closed()


def test_given_an_error_in_the_broker_then_it_costs_that_connection_only(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []

    def fail(connection: Any, op: int) -> None:
        raise RuntimeError("planted")

    with peers(broker, 3) as clients, closing(Peer(broker, b"SUB turn 1\r\n")) as subscriber:
        broker.server.loop.set_exception_handler(lambda loop, context: told.append(context))
        clients[0].send(publish(b"one"))
        clients[1].send(publish(b"two"), b"PING\r\n")
        clients[2].send(publish(b"three"))
        monkeypatch.setattr(
            type(broker.server.control), "handle", lambda self, *given: fail(*given)
        )
        broker.server.roster.gatherer.turn()
        monkeypatch.undo()
        assert payloads(subscriber.take()) == [(1, b"one"), (2, b"two"), (3, b"three")]
        assert [str(one["exception"]) for one in told] == ["planted"]
        broker.until(lambda: len(broker.server.sessions) == 3)


def test_given_more_than_one_turn_may_read_then_the_next_begins_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roster, "RECEIVE_BYTES", 64 * KIB)
    with serving(tmp_path) as broker, peers(broker, 4) as clients:
        for one in clients:
            one.send(publish(bytes(512)) * 400)  # more than three buffers
        sessions = list(broker.server.sessions.values())
        broker.server.roster.gatherer.turn()
        assert min(one.connection.in_msgs for one in sessions) == 0, "it has read enough"
        for _ in range(3):
            broker.server.roster.gatherer.turn()
        assert min(one.connection.in_msgs for one in sessions) > 0, "each had a turn"
        broker.until(lambda: broker.server.last_number == 1600)


def test_given_a_crowded_subscriber_then_only_those_who_publish_to_it_are_held(
    tmp_path: Path,
) -> None:
    flags = {"journal.enabled": False, "limits.hold_ms": "5000"}
    with (
        serving(tmp_path, flags=flags) as broker,
        peers(broker, 2) as (flooding, calm),
        closing(Peer(broker, b"SUB flood 1\r\n")) as subscriber,
    ):
        sessions = {s.label.split(" ")[0]: s for s in broker.server.sessions.values()}
        slow = sessions[subscriber.place].connection

        async def flood() -> None:
            flooding.socket.setblocking(False)
            rest = b""
            while not sessions[flooding.place].held_by:
                rest = rest or publish(bytes(8 * KIB), b"flood")
                with suppress(BlockingIOError):
                    rest = rest[flooding.socket.send(rest) :]
                calm.send(publish(b"x", b"calm"))
                await asyncio.sleep(0)

        broker.run(flood())
        assert not slow.writable
        assert sessions[calm.place].held_by == 0
        before = broker.server.last_number
        calm.send(publish(b"x", b"calm"))
        broker.until(lambda: broker.server.last_number > before)
        broker.until(lambda: subscriber.hear() and not sessions[flooding.place].held_by)


@pytest.mark.parametrize(
    ("ready", "gather_s", "expected"), [(2, 60.0, [2]), (2, 0.0, [1]), (1, 60.0, [])]
)
def test_given_who_sends_during_a_turn_then_it_joins_several_but_a_lone_client_does_not_wait(
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
    ready: int,
    gather_s: float,
    expected: list[int],
) -> None:
    written = releases(broker, monkeypatch)
    with peers(broker, 3) as clients:
        control = type(broker.server.control)
        monkeypatch.setattr(
            control, "handle", lambda self, *given: clients[2].send(publish(b"meanwhile"))
        )
        broker.server.roster.gatherer.gather_s = gather_s
        clients[0].send(b"PING\r\n")
        if ready == 2:
            clients[1].send(publish(b"first"))
        broker.server.roster.gatherer.turn()
        assert written == expected
        broker.until(lambda: broker.server.last_number == ready)


@pytest.mark.parametrize(("dense", "expected"), [(16, [2]), (0, [1])])
def test_given_a_dense_stream_of_small_turns_then_the_next_waits_for_more_but_a_lone_one_does_not(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, dense: int, expected: list[int]
) -> None:
    written = releases(broker, monkeypatch)
    gatherer = broker.server.roster.gatherer
    with peers(broker, 2) as clients:
        clients[0].send(publish(b"first"))
        pace = gatherer.pace
        for _ in range(64):  # dense turns, and what they read grows with the gap before them
            pace.begun, pace.dense = time.monotonic(), dense
            slept = pace.delay(pace.begun)
            pace.end(pace.begun, pace.begun, pace.begun + 20e-6, 10 + int(slept * 1e8))
        pace.gap, pace.begun, pace.dense = 0.5, time.monotonic(), dense
        meanwhile = threading.Timer(0.05, clients[1].send, [publish(b"meanwhile")])
        meanwhile.start()
        gatherer.turn()
        assert written == expected
        meanwhile.join()
        broker.until(lambda: broker.server.last_number == 2)


def test_given_a_limit_of_zero_then_no_turn_waits(tmp_path: Path) -> None:
    with serving(tmp_path, flags={"limits.gather_us": "0"}) as broker, peers(broker, 1) as clients:
        gatherer = broker.server.roster.gatherer
        for number in range(1, 20):
            clients[0].send(publish(b"x"))
            gatherer.turn()
            assert (broker.server.last_number, gatherer.pace.gap) == (number, 0)


def test_given_always_and_a_subscriber_that_hangs_up_in_the_turn_then_it_gets_what_is_synced_only(
    tmp_path: Path,
) -> None:
    with (
        serving(tmp_path, flags={"journal.sync": "always"}) as broker,
        closing(Peer(broker)) as publisher,
        closing(Peer(broker, b"SUB turn 1\r\n")) as subscriber,
    ):
        publisher.send(publish(b"x"))
        subscriber.socket.shutdown(socket.SHUT_WR)
        broker.server.roster.gatherer.turn()
        assert broker.server.last_number == 1
        assert subscriber.hear() == b"", "no event loop has run, so nothing is synced"
        broker.until(lambda: b"MSG" in subscriber.hear())
        assert payloads(subscriber.take()) == [(1, b"x")]


def accept_all(broker: Broker) -> None:
    """Take turns until new clients are accepted, also if the event loop has something to do.

    They wait for it then, for four turns: it may be about to let others go.
    """
    for _ in range(5):
        broker.server.roster.gatherer.turn()


def test_given_a_client_that_comes_and_goes_then_it_needs_no_turn_of_the_loop(
    broker: Broker,
) -> None:
    turn = broker.server.roster.gatherer.turn
    with socket.create_connection(broker.server.addresses[0]) as client:
        accept_all(broker)
        assert client.recv(KIB).startswith(b"INFO ")
        client.sendall(QUIET + b"PING\r\n")
        turn()
        assert client.recv(KIB) == b"PONG\r\n"
        client.shutdown(socket.SHUT_WR)
        turn()
        assert broker.server.sessions == {}
        assert client.recv(KIB) == b""


def test_given_an_error_at_the_end_of_a_client_then_it_is_reported_and_others_are_accepted(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def fail(*_: object) -> None:
        raise RuntimeError("planted")

    broker.server.loop.set_exception_handler(lambda _, found: told.append(str(found["exception"])))
    gatherer = broker.server.roster.gatherer
    with closing(Peer(broker)) as leaving, closing(Peer(broker)) as other:
        with monkeypatch.context() as patched:
            patched.setattr(roster.Roster, "session_ended", fail)
            leaving.socket.shutdown(socket.SHUT_WR)
            with socket.create_connection(broker.server.addresses[0]) as new:
                accept_all(broker)
                assert new.recv(KIB).startswith(b"INFO ")
        assert told == ["planted"]
        assert leaving.is_closed()
        other.send(b"PING\r\n")
        gatherer.turn()
        assert other.take() == operations(b"PONG\r\n")
