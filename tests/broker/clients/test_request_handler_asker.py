"""Answers go to the connection that asked, on its own subscriptions, and to nobody else."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.raw import HEADERS, Operation
from tests.support.serving import Broker, Client, serving

READ = b'{"from":1,"chunk_bytes":4096,"max_bytes":1099511627776}'
QUESTIONS = (
    (b"$SEQ.INFO", b""),
    (b"$SEQ.GET.2", b""),
    (b"$SEQ.GET.99", b""),
    (b"$SEQ.GET.0", b""),
    (b"$SEQ.READ", READ),
    (b"$SEQ.READ", b"no JSON"),
    (b"$SEQ.PUB.a..b", b"x"),
    (b"$SEQ.PUB.a", b""),
    (b"$SEQ.BATCH", b'{"application":"app"}'),
    (b"$SEQ.BATCH", b"{}"),
    (b"$SEQ.ABORT", b'{"application":"app","batch":1}'),
    (b"$SEQ.COMMIT", b'{"application":"app","batch":1,"stages":[]}'),
    (b"$SEQ.STAGE", b"x"),
)


def question(subject: bytes, reply: bytes, payload: bytes = b"") -> bytes:
    return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(payload), payload)


def heard(client: Client) -> list[Operation]:
    return client.ask(b"")


def until_answered(broker: Broker, client: Client) -> Operation:
    """The one answer to what a client has asked."""
    while not (found := heard(client)):
        broker.run(asyncio.sleep(0))
    (answer,) = found
    return answer


@pytest.mark.parametrize(("subject", "payload"), QUESTIONS)
def test_given_any_question_when_answered_then_the_asker_alone_hears(
    tmp_path: Path, subject: bytes, payload: bytes
) -> None:
    with serving(tmp_path) as broker:
        others = [broker.client(HEADERS) for _ in range(3)]
        asker, deaf = broker.client(HEADERS), broker.client(HEADERS)
        asker.publish(b"other", b"secret", b"another")
        for other, what in zip(others, (b">", b"orders.*", b"orders.eu q"), strict=True):
            other.ask(b"SUB %b 1\r\n" % what)
        assert asker.ask(b"SUB orders.> 7\r\n") == []
        asker.send(question(subject, b"orders.eu", payload))
        answer = until_answered(broker, asker)
        assert (answer.subject, answer.sid) == (b"orders.eu", b"7")
        deaf.ask(question(subject, b"orders.eu", payload))
        asker.send(question(subject, b"orders.us", payload))  # comes behind the deaf one's
        until_answered(broker, asker)
        assert [heard(other) for other in (*others, deaf)] == [[]] * 4


def test_given_messages_that_are_not_yet_written_when_asked_then_their_bytes_count(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as broker:
        asker = broker.client(HEADERS)
        asker.ask(b"SUB answers 1\r\n")
        ask = question(b"$SEQ.INFO", b"answers")
        asker.send(b"PUB orders.eu 5\r\nhello\r\n" * 16 + ask)
        at_once = json.loads(until_answered(broker, asker).payload)
        asker.send(ask)
        later = json.loads(until_answered(broker, asker).payload)
        assert at_once["messages"] == later["messages"] == 16
        assert at_once["bytes"] == later["bytes"] >= 16 * 64


@pytest.mark.parametrize("reply", [b"x.y", b"x.z"])
def test_given_a_read_without_a_listener_of_its_own_then_it_is_not_begun(
    tmp_path: Path, reply: bytes
) -> None:
    with serving(tmp_path) as broker:
        asker, other = broker.client(HEADERS), broker.client(HEADERS)
        asker.publish(b"fill", *[b"x" * 10_000] * 100)
        other.ask(b"SUB > 1\r\nSUB x.y q 2\r\n")
        asker.ask(b"SUB x 1\r\n" + question(b"$SEQ.READ", reply, READ) * 4)
        assert broker.server.replays is not None
        assert broker.server.replays.started == 0
        assert heard(other) == []
        assert asker.ask(b"UNSUB 1\r\n") == []


def test_given_a_reader_that_listens_no_more_then_its_read_ends(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        asker = broker.client(HEADERS)
        asker.publish(b"fill", *[b"x" * 1000] * 100)
        asker.ask(b"SUB x.y 1\r\nUNSUB 1 2\r\n" + question(b"$SEQ.READ", b"x.y", READ))
        replays = broker.server.replays
        assert replays is not None
        broker.until(lambda: replays.active == 0)
        assert (replays.started, broker.server.plane.sublist.trie.subscriptions) == (1, 0)


@pytest.mark.parametrize("reply", [b"$SEQ.END.5", b"$SEQ.LOST.1.2", b"$SEQ.LOST.a.b", b"$SEQ.x"])
@pytest.mark.parametrize(("subject", "payload"), QUESTIONS)
def test_given_a_reply_that_only_the_broker_may_speak_on_then_the_question_is_refused(
    tmp_path: Path, subject: bytes, payload: bytes, reply: bytes
) -> None:
    with serving(tmp_path) as broker:
        asker, other = broker.client(HEADERS), broker.client(HEADERS)
        other.ask(b"SUB > 1\r\n")
        asker.ask(b"SUB > 1\r\n")
        (said,) = asker.ask(question(subject, reply, payload))
        assert said.verb == "-ERR"
        assert b"Publish with Reply of" in said.text
        assert heard(other) == []
