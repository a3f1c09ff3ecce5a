"""cquencer's port and the journal: a number is answered only when it is safe."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testkit.model_frame import split_frame
from tests.support.cquencer_clients import Talker, calling, cquencer_of, netstring
from tests.support.serving import Broker

FULL = b"-ERR 'Permissions Violation for Publish to \"cq\": the journal is full (no room)'"


@contextmanager
def slow_disk(broker: Broker) -> Iterator[None]:
    """The thread that syncs is busy meanwhile, as with a disk that takes its time."""
    keeper = broker.server.keeper
    assert keeper is not None
    done = threading.Event()
    keeper._thread.submit(done.wait)
    try:
        yield
    finally:
        done.set()


@pytest.fixture(params=["recv", "netstring"])
def framing(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def broker(tmp_path: Path, framing: str) -> Iterator[Broker]:
    flags = {"journal__sync": "always", "limits__drain_timeout": "60s"}
    with calling(tmp_path, framing=framing, journal=True, **flags) as made:
        yield made


def until_last(broker: Broker, number: int) -> None:
    """Run the loop until this is the last number given: what was sent by now has been read."""
    broker.until(lambda: broker.server.last_number == number)


def said(framing: str, payload: bytes) -> bytes:
    return netstring(payload) if framing == "netstring" else payload or b"\n"


def test_given_sync_always_then_no_number_is_answered_before_the_disk_has_it(
    broker: Broker, framing: str
) -> None:
    with Talker(broker) as one, Talker(broker) as other:
        with slow_disk(broker):
            one.send(said(framing, b"hello"))
            until_last(broker, 1)
            other.send(said(framing, b""))  # how many there are is told when that is safe
            assert one.is_silent()
            assert other.is_silent()
            assert broker.server.last_number == 1
        assert one.hear() == [b"1"]
        assert other.hear() == [b"1"]
        assert broker.server.keeper is not None
        assert broker.server.keeper.synced == 1


def test_given_a_client_that_waits_then_it_is_not_read_until_it_has_its_answer(
    broker: Broker, framing: str
) -> None:
    with Talker(broker) as talker:
        with slow_disk(broker):
            for number in range(1, 4):
                talker.send(said(framing, b"message %d" % number))
                until_last(broker, 1)
            assert talker.is_silent()
            assert broker.server.last_number == 1
        if framing == "recv":  # what came meanwhile is one recv
            assert talker.hear(2) == [b"1", b"2"]
        else:
            assert talker.hear(3) == [b"1", b"2", b"3"]


def test_given_clients_of_both_kinds_then_one_sync_lets_out_all_that_waited(
    broker: Broker, framing: str
) -> None:
    ear = broker.client()
    ear.ask(b"SUB cq 1\r\n")
    talkers = [Talker(broker) for _ in range(5)]
    with slow_disk(broker):
        for number, talker in enumerate(talkers, 1):
            talker.send(said(framing, b"hello"))
            until_last(broker, number)
    assert [talker.hear() for talker in talkers] == [[b"%d" % n] for n in range(1, 6)]
    heard = ear.ask(b"")
    while len(heard) < 5:
        heard += ear.ask(b"")
    assert [split_frame(one.payload)[0] for one in heard] == [1, 2, 3, 4, 5]
    for talker in talkers:
        talker.close()


def test_given_a_reset_while_an_answer_is_due_then_the_message_is_kept_and_others_go_on(
    broker: Broker, framing: str
) -> None:
    with Talker(broker) as gone, Talker(broker) as other:
        with slow_disk(broker):
            gone.send(said(framing, b"and away"))
            until_last(broker, 1)
            other.send(said(framing, b"hello"))
            until_last(broker, 2)
            gone.reset()
            broker.until(lambda: len(cquencer_of(broker).clients) == 1)
        assert other.hear() == [b"2"]
        assert broker.server.last_number == 2


def test_given_an_end_while_an_answer_is_due_then_it_comes_before_the_end(
    broker: Broker, framing: str
) -> None:
    with Talker(broker) as talker:
        with slow_disk(broker):
            talker.send(said(framing, b"last words"))
            talker.end()
            assert talker.is_silent()
        assert talker.rest() == [b"1"]


def test_given_a_stop_while_an_answer_is_due_then_it_is_given_first(
    broker: Broker, framing: str
) -> None:
    with Talker(broker) as talker:
        with slow_disk(broker):
            talker.send(said(framing, b"hello"))
            until_last(broker, 1)
            server = broker.server
            stopping = server.loop.create_task(server.stop())
            talker.send(said(framing, b"too late"))
            assert talker.is_silent()
        assert talker.rest() == [b"1"]
        broker.run(stopping)
        assert broker.server.last_number == 1
        broker.stopped = True


def test_given_a_journal_that_takes_nothing_then_clients_are_informed_and_queries_answered(
    tmp_path: Path, framing: str
) -> None:
    with calling(tmp_path, framing=framing, journal=True) as broker, Talker(broker) as talker:
        assert talker.ask(said(framing, b"hello")) == b"1"
        broker.server.plane.sequencer.hold_back()
        assert talker.ask(said(framing, b"hello")) == FULL
        assert talker.ask(said(framing, b"")) == b"1"
        port, keeper = cquencer_of(broker).port, broker.server.keeper
        assert keeper is not None
        assert (port.messages, port.errors, keeper.refused) == (1, 1, 1)
        broker.server.plane.sequencer.resume()
        assert talker.ask(said(framing, b"hello")) == b"2"


def test_given_netstrings_when_some_are_refused_then_answers_stay_in_their_places(
    tmp_path: Path,
) -> None:
    with calling(tmp_path, framing="netstring", journal=True) as broker, Talker(broker) as talker:
        talker.send(b"3:one,3:two,")
        until_last(broker, 2)
        broker.server.plane.sequencer.hold_back()
        talker.send(b"5:three,0:,4:four,")
        broker.until(lambda: cquencer_of(broker).port.errors == 2)
        broker.server.plane.sequencer.resume()
        talker.send(b"4:five,")
        assert talker.hear(6) == [b"1", b"2", FULL, b"2", FULL, b"3"]
