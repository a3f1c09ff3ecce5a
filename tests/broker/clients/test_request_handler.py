"""Requests to the broker: who may ask what, how many at a time, and the answers."""

import json
from typing import Any

import pytest

from broker.clients import request_handler
from broker.clients.request_handler import RequestHandler
from broker.settings.journal_settings import JournalSettings
from broker.settings.limits_settings import Limits
from broker.settings.settings import Settings
from tests.support.asked import Kept, NotedPlane, OnePiece, Turns, asker, question


def no_staging() -> Any:
    raise AssertionError("nothing is staged here")


class Broker:
    """A broker that keeps these messages, and is asked."""

    def __init__(self, *records: Kept, kept: bool = True, number: int = 0) -> None:
        self.journal = OnePiece(list(records)) if kept else None
        self.plane = NotedPlane(number or (self.journal.last if self.journal else 0))
        self.replays = Turns(self.plane, self.journal) if self.journal else None
        self.keeper = None
        self.cluster_facts = self.await_number = None
        journal = JournalSettings(retain_bytes=1 << 30, dedupe_window=5.0)
        self.settings = Settings(journal=journal, limits=Limits(max_payload=1000))
        self.request_handler = RequestHandler(self, no_staging)  # type: ignore[arg-type]

    def ask(self, subject: bytes, reply: bytes = b"r", payload: bytes = b"", **who: Any) -> Any:
        """Ask as a new connection; what it hears."""
        return self.ask_as(asker(**who), subject, reply, payload)

    def ask_as(
        self, connection: Any, subject: bytes, reply: bytes = b"r", payload: bytes = b""
    ) -> Any:
        self.plane.said.clear()
        self.plane.answers.clear()
        assert self.request_handler.takes(subject)
        self.request_handler.answer(connection, question(payload), subject, reply)
        return [
            *self.plane.said,
            *(headers or body for _, body, headers in self.plane.answers),
        ]


def three() -> Broker:
    return Broker(Kept(5, time=1_000_999_999), Kept(6), Kept(7, time=9_000_000_000))


@pytest.mark.parametrize("subject", [b"$SEQ.PUB.a", b"$SEQ.FROM.5.>", b"$SEQ.", b"orders"])
def test_given_another_subject_when_looked_at_then_it_is_no_question(subject: bytes) -> None:
    assert not three().request_handler.takes(subject)


def test_given_the_question_what_there_is_when_asked_then_json_tells() -> None:
    (text,) = three().ask(b"$SEQ.INFO", headers=False)
    facts = json.loads(text)
    assert facts.pop("time") > 1_700_000_000_000
    assert facts == {
        "journal": "00c0ffee00c0ffee",
        "epoch": 1,
        "first": 5,
        "last": 7,
        "messages": 3,
        "bytes": 216,
        "oldest": 1000,
        "newest": 9000,
        "store": "disk",
        "sync": "never",
        "full": False,
        "restricted": False,
        "limits": {
            "retain_bytes": 1 << 30,
            "retain_age": 0.0,
            "retain_count": 0,
            "segment_bytes": 1 << 28,
            "max_payload": 1000,
            "catchup_pending": 1 << 20,
            "dedupe_window": 5.0,
            "dedupe_ids": 1_000_000,
        },
    }


def test_given_a_broker_that_keeps_nothing_when_asked_then_it_says_so() -> None:
    broker = Broker(kept=False, number=12)
    facts = json.loads(broker.ask(b"$SEQ.INFO")[0])
    assert (facts["store"], facts["journal"], facts["epoch"]) == ("none", "", 0)
    assert (facts["first"], facts["last"], facts["messages"]) == (13, 12, 0)
    assert broker.ask(b"$SEQ.GET.12") == [b"NATS/1.0 404 Message 12 is not retained\r\n\r\n"]
    assert broker.ask(b"$SEQ.READ", payload=b'{"from":1}') == [
        b"NATS/1.0 404 This broker keeps no messages\r\n\r\n"
    ]


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        (b"$SEQ.GET.8", b"404 Message 8 has not been sequenced"),
        (b"$SEQ.GET.4", b"404 Message 4 is not retained"),
        (b"$SEQ.GET.x", b'400 "x" is not a valid message number'),
        (b"$SEQ.GET", b"400 Write $SEQ.GET.<number>, such as $SEQ.GET.88485"),
        (b"$SEQ.READ", b'400 The payload is not JSON; write {"from": 1}'),
    ],
)
def test_given_a_question_that_has_no_answer_when_asked_then_a_status_says_why(
    subject: bytes, why: bytes
) -> None:
    assert three().ask(subject) == [b"NATS/1.0 %b\r\n\r\n" % why]


PUBLISH = b"-ERR 'Permissions Violation for Publish to \"%b\"%b'\r\n"


@pytest.mark.parametrize(
    ("subject", "reply", "error"),
    [
        (b"$SEQ.INFO", b"", PUBLISH % (b"$SEQ.INFO", b": a reply subject is needed")),
        (b"$SEQ.GET.5", b"", PUBLISH % (b"$SEQ.GET.5", b": a reply subject is needed")),
        (b"$SEQ.READ", b"", PUBLISH % (b"$SEQ.READ", b": a reply subject is needed")),
        (
            b"$SEQ.GET.0",
            b"",
            PUBLISH % (b"$SEQ.GET.0", b": 0 is not a valid message number; the fi"),
        ),
        (b"$SEQ.GETS", b"r", PUBLISH % (b"$SEQ.GETS", b"")),
        (b"$SEQ.INFO.x", b"r", PUBLISH % (b"$SEQ.INFO.x", b"")),
        (b"$SEQ.INFO", b"$JS.ACK.x", b"-ERR 'Permissions Violation for Publish with Reply of"),
    ],
)
def test_given_an_invalid_question_when_asked_then_an_error_says_why(
    subject: bytes, reply: bytes, error: bytes
) -> None:
    (said,) = three().ask(subject, reply)
    assert said.startswith(error.removesuffix(b"'\r\n"))
    assert said.count(b"\n") == 1


def test_given_an_asker_without_headers_when_refused_then_an_error_says_why() -> None:
    said = three().ask(b"$SEQ.READ", payload=b'{"from": 1}', headers=False)
    assert said == [
        PUBLISH % (b"$SEQ.READ", b": the answers have headers: send headers:true in CONNECT")
    ]


def test_given_a_verbose_asker_when_the_question_is_right_then_it_hears_ok_first() -> None:
    broker = three()
    assert broker.ask(b"$SEQ.INFO", verbose=True)[0] == b"+OK\r\n"
    assert broker.ask(b"$SEQ.GET.5", verbose=True) == [b"+OK\r\n"]
    assert broker.ask(b"$SEQ.READ", payload=b'{"from":5}', verbose=True) == [b"+OK\r\n"]
    assert broker.ask(b"$SEQ.GET.x", verbose=True)[0].startswith(b"NATS/1.0 400")


def test_given_questions_of_one_connection_when_served_then_one_cursor_serves_them() -> None:
    broker, connection = three(), asker()
    for number in (5, 6, 7):
        assert broker.ask_as(connection, b"$SEQ.GET.%d" % number) == []
    assert broker.replays is not None
    (lookup,) = broker.replays.begun
    assert [number for number, _, _ in lookup.wanted] == [5, 6, 7]  # type: ignore[attr-defined]
    lookup.wanted.clear()  # type: ignore[attr-defined]
    assert broker.ask_as(connection, b"$SEQ.GET.5") == []
    assert broker.replays.begun == [lookup], "answered, and not ended yet: it goes on"
    lookup.ended = True
    broker.ask_as(connection, b"$SEQ.GET.5")
    assert len(broker.replays.begun) == 2


def test_given_too_many_questions_at_once_when_asked_then_429(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_handler, "LOOKUPS_MAX", 2)
    broker, connection = three(), asker()
    for _ in range(2):
        assert broker.ask_as(connection, b"$SEQ.GET.5") == []
    assert broker.ask_as(connection, b"$SEQ.GET.5")[0].startswith(b"NATS/1.0 429 Too many messages")
    assert broker.ask(b"$SEQ.GET.5") == [], "another connection is free to ask"


def test_given_reads_that_run_when_one_more_is_asked_for_then_429_until_one_has_ended() -> None:
    broker, connection = three(), asker()
    for _ in range(4):
        assert broker.ask_as(connection, b"$SEQ.READ", payload=b'{"from":5}') == []
    said = broker.ask_as(connection, b"$SEQ.READ", payload=b'{"from":5}')
    assert said == [b"NATS/1.0 429 4 reads are running already, the maximum\r\n\r\n"]
    assert broker.replays is not None
    broker.replays.begun[0].ended = True
    assert broker.ask_as(connection, b"$SEQ.READ", payload=b'{"from":5}') == []
