"""The frame `stamp`: number and time are the same live, in a replay, and after a restart."""

import re
import time

import pytest

from tests.support.processes import SeriatimServer
from tests.support.raw import HEADERS, Operation, RawClient
from tests.support.stamps import BLOCKS, LINES, STAMPS, check_stamps, publish_blocks

COUNT = len(BLOCKS)


def live(broker: SeriatimServer) -> list[Operation]:
    """What a subscriber hears of the blocks when they are published."""
    with RawClient(broker.port, STAMPS) as client:
        client.ask(b"SUB a 1\r\n")
        publish_blocks(broker.port, b"a", 1)
        return client.ask(b"")


def past(broker: SeriatimServer) -> list[Operation]:
    """The same from the journal."""
    with RawClient(broker.port, STAMPS) as client:
        client.send(b"SUB $SEQ.RANGE.1.%d.a 1\r\n" % COUNT)
        return [client.operation() for _ in range(COUNT + 1)][:-1]


@pytest.mark.parametrize("arguments", [[], ["--sync", "always"], ["--no-journal"]], ids=str)
def test_given_messages_then_number_and_time_are_those_of_a_look_up_live_and_later(
    arguments: list[str],
) -> None:
    with SeriatimServer("netstring", arguments=arguments) as broker:
        heard = live(broker)
        check_stamps(broker.port, heard, 1)
        assert past(broker) == heard


def test_given_a_restart_then_a_replay_has_the_bytes_that_came_live() -> None:
    with SeriatimServer("stamp") as broker:
        heard = live(broker)
        broker.restart()
        assert past(broker) == heard
        check_stamps(broker.port, heard, 1)


def test_given_a_broker_that_keeps_nothing_then_messages_have_the_time_all_the_same() -> None:
    before = time.time_ns()
    arguments = ["--no-journal", "--ring_bytes", "0"]
    with SeriatimServer("stamp", arguments=arguments) as broker:
        heard = live(broker)
    for number, one in enumerate(heard, 1):
        lines = LINES.match(one.header)
        assert lines
        assert lines[1] == b"%d" % number
        second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(before // 10**9)).encode()
        later = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()).encode()
        assert second <= lines[2][:19] <= later


def test_given_an_excluded_subject_then_nobody_can_forge_number_or_time() -> None:
    arguments = ["--exclude", "x.>"]
    with (
        SeriatimServer("stamp", arguments=arguments) as broker,
        RawClient(broker.port, STAMPS) as client,
    ):
        client.ask(b"SUB x.> 1\r\n")
        publish_blocks(broker.port, b"x.a", 1)
        heard = client.ask(b"")
    own = re.compile(rb"nats-(sequence|time-stamp)", re.IGNORECASE)
    assert len(heard) == COUNT
    assert not any(own.search(one.header) for one in heard)
    assert [one.payload for one in heard] == [b"%d" % at for at in range(1, COUNT + 1)]
    assert heard[1].header == b"NATS/1.0\r\nNats-Msg-Id: 2\r\n\r\n"


def test_given_answers_of_the_broker_then_they_have_their_own_headers() -> None:
    with SeriatimServer("stamp") as broker, RawClient(broker.port, STAMPS) as client:
        client.ask(b"PUB a 1\r\nx\r\n")
        client.ask(b"SUB r 1\r\n")
        (answer,) = client.ask(b"PUB $SEQ.GET.1 r 0\r\n\r\n")
        head = b"NATS/1.0\r\nNats-Subject: a\r\nNats-Sequence: 1\r\nNats-Time-Stamp: "
        assert (answer.header[: len(head)], answer.payload) == (head, b"x")
        (answer,) = client.ask(b"PUB $SEQ.PUB.a r 1\r\nx\r\n")
        assert (answer.verb, answer.payload) == ("MSG", b"1:2,")


def test_given_a_client_without_headers_then_it_gets_the_payload_alone() -> None:
    quiet = b'CONNECT {"verbose":false,"frame":"stamp"}\r\n'
    with SeriatimServer("netstring") as broker, RawClient(broker.port, quiet) as client:
        client.ask(b"SUB a 1\r\n")
        with RawClient(broker.port, HEADERS) as other:
            other.ask(b"PUB a 005\r\nhello\r\n")
        (heard,) = client.ask(b"")
        assert (heard.verb, heard.sizes, heard.payload) == ("MSG", b"005", b"hello")
