"""What a broker measures of its own work: how long turns, writes, syncs and replays take."""

import socket

import pytest

from tests.support.cquencer_clients import answer, port_of
from tests.support.processes import STAND_IN
from tests.support.raw import QUIET, RawClient
from tests.support.web import get, http_port, metrics, monitored

NAMES = ("loop_turn", "publish_write", "journal_sync", "replay_wait")
pytestmark = pytest.mark.skipif(STAND_IN, reason="of our own process")


def buckets(found: dict[str, float], name: str) -> list[float]:
    """The samples of one histogram's buckets, in the page's order."""
    head = f'seriatim_{name}_seconds_bucket{{le="'
    return [value for sample, value in found.items() if sample.startswith(head)]


def count(found: dict[str, float], name: str) -> float:
    return found[f"seriatim_{name}_seconds_count"]


def test_given_a_broker_at_work_then_each_histogram_counts_what_was_done() -> None:
    with monitored("netstring", "--sync", "always") as broker:
        with RawClient(broker.port, QUIET) as client:
            for _ in range(10):
                client.ask(b"PUB a 1\r\nx\r\n" * 50)
            client.send(b"SUB $SEQ.RANGE.2.4.> 1\r\n")
            while client.operation().subject != b"$SEQ.END.4":
                pass
            client.ask(b"SUB $SEQ.FROM.1.nothing 2\r\n")
            client.ask(b"SUB $SEQ.LAST.> 3\r\nSUB b 4\r\n")
            while client.operation().subject != b"a":
                pass
        found = metrics(http_port(broker))
        journal = get(http_port(broker), "/varz").json["journal"]
    for name in NAMES:
        listed = buckets(found, name)
        assert listed == sorted(listed), "each holds those before it"
        assert listed[-1] == count(found, name)
        assert 0 < found[f"seriatim_{name}_seconds_sum"] < 60
    assert count(found, "publish_write") == 500
    assert count(found, "loop_turn") > 10
    assert 1 <= count(found, "journal_sync") <= journal["syncs"]
    assert count(found, "replay_wait") == 3, "also of the one that has found nothing"


def test_given_no_journal_then_nothing_is_written_and_turns_are_measured() -> None:
    with monitored("none", "--no-journal", "--ring_bytes", "0") as broker:
        with RawClient(broker.port, QUIET) as client:
            client.ask(b"PUB a 1\r\nx\r\n" * 50)
        found = metrics(http_port(broker))
    assert [count(found, name) > 0 for name in NAMES] == [True, False, False, False]


def test_given_the_cquencer_port_then_its_messages_are_counted_too() -> None:
    arguments = ("--sequencer_port", "-1", "--sequencer_framing", "netstring")
    with monitored("netstring", *arguments) as broker:
        with socket.create_connection(("127.0.0.1", port_of(broker))) as client:
            assert answer(client, b"5:hello,") == b"1:1,"
            assert answer(client, b"2:hi,") == b"1:2,"
        assert count(metrics(http_port(broker)), "publish_write") == 2
