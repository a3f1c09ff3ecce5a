"""`$SEQ.GET`: one message with its headers, or the reason why there is none."""

from typing import Any

import pytest

from broker.replay.lookup import Lookup
from tests.support.asked import Kept, NotedPlane, OnePiece, Turns, asker, serve

TOLD = (
    b"Nats-Subject: orders\r\nNats-Sequence: %d\r\n"
    b"Nats-Time-Stamp: 2026-01-01T00:00:00.000000005Z\r\n"
)


class Asked:
    """Questions, and what was answered to them."""

    def __init__(self, store: OnePiece, connection: Any = None) -> None:
        self.plane = NotedPlane(store.last)
        self.turns = Turns(self.plane, store)
        self.lookup = Lookup(self.turns, connection or asker())  # type: ignore[arg-type]

    def answers(self, *numbers: int) -> list[tuple[bytes, bytes, bytes]]:
        for at, number in enumerate(numbers):
            self.lookup.want(number, b"$SEQ.GET.%d" % number, b"r.%d" % at)
        serve(self.lookup, self.turns, 200)
        return self.plane.answers


def test_given_a_number_when_asked_for_then_the_message_comes_in_its_frame() -> None:
    store = OnePiece([Kept(number) for number in range(1, 30)])
    assert Asked(store).answers(7) == [
        (b"r.0", b"12:1:7,5:hello,,", b"NATS/1.0\r\n" + TOLD % 7 + b"\r\n")
    ]


@pytest.mark.parametrize("frame", ["header", "stamp", "none"])
def test_given_an_asker_without_frames_when_answered_then_the_payload_is_undisturbed(
    frame: str,
) -> None:
    store = OnePiece([Kept(number) for number in range(1, 30)])
    ((_, payload, headers),) = Asked(store, asker(frame=frame)).answers(7)
    assert payload == b"hello"
    assert b"Nats-Sequence: 7\r\n" in headers


@pytest.mark.parametrize(
    ("own", "answered"),
    [
        (b"NATS/1.0\r\nA: b\r\n\r\n", b"NATS/1.0\r\n%bA: b\r\n\r\n"),
        (b"NATS/1.0 503\r\n\r\n", b"NATS/1.0 503\r\n%b\r\n"),
        (b"no headers at all", b"NATS/1.0\r\n%bSeriatim-Left-Out: 17\r\n\r\n"),
        (b"junk\r\nnats-subject: x\r\n", b"NATS/1.0\r\n%bSeriatim-Left-Out: 23\r\n\r\n"),
        (
            b"NATS/1.0\r\nnats-subject: forged\r\nNats-Sequence: 9\r\nA: b\r\n"
            b"NATS-TIME-STAMP: never\r\n\r\n",
            b"NATS/1.0\r\n%bA: b\r\n\r\n",
        ),
    ],
)
def test_given_a_message_with_headers_when_answered_then_they_are_after_ours(
    own: bytes, answered: bytes
) -> None:
    ((_, _, headers),) = Asked(OnePiece([Kept(1, headers=own)])).answers(1)
    assert headers == answered % (TOLD % 1)


def test_given_many_questions_when_served_then_each_has_its_answer_in_order() -> None:
    store = OnePiece([Kept(number, payload=b"%d" % number) for number in range(1, 30)])
    numbers = [7, 29, 1, 1, 15, 2]
    answers = Asked(store, asker(frame="none")).answers(*numbers)
    assert [payload for _, payload, _ in answers] == [b"%d" % number for number in numbers]
    assert [reply for reply, _, _ in answers] == [b"r.%d" % at for at in range(6)]


def test_given_a_question_when_all_before_it_are_answered_then_it_is_answered_too() -> None:
    asked = Asked(OnePiece([Kept(number) for number in range(1, 30)]), asker(frame="none"))
    for number in (20, 3, 29, 1):
        asked.answers(number)
    heads = [headers.split(b"\r\n")[2] for _, _, headers in asked.plane.answers]
    assert heads == [b"Nats-Sequence: %d" % number for number in (20, 3, 29, 1)]


def test_given_numbers_that_are_gone_or_lost_when_asked_for_then_404_says_which() -> None:
    store = OnePiece([Kept(number) for number in (5, 6, 9, 10)])
    asked = Asked(store, asker(frame="none"))
    assert [(payload, headers[:60]) for _, payload, headers in asked.answers(3, 8, 9, 4)] == [
        (b"", b"NATS/1.0 404 Message 3 is not retained\r\n\r\n"),
        (b"", b"NATS/1.0 404 Message 8 is lost\r\n\r\n"),
        (b"hello", (b"NATS/1.0\r\n" + TOLD % 9)[:60]),
        (b"", b"NATS/1.0 404 Message 4 is not retained\r\n\r\n"),
    ]


def test_given_an_asker_without_headers_when_there_is_no_message_then_it_hears_an_error() -> None:
    asked = Asked(OnePiece([Kept(5)]), asker(headers=False))
    assert asked.answers(3) == []
    assert asked.plane.said == [
        b"-ERR 'Permissions Violation for Publish to \"$SEQ.GET.3\": message 3 is not retained'\r\n"
    ]


def test_given_a_damaged_record_when_asked_for_then_it_is_lost_and_the_others_are_not() -> None:
    store = OnePiece([Kept(number) for number in range(1, 11)])
    store.data[len(store.data) // 2 + 65] ^= 1  # in the payload of number 6
    asked = Asked(store, asker(frame="none"))
    heads = [headers.split(b"\r\n")[0] for _, _, headers in asked.answers(5, 6, 7, 2)]
    assert heads == [b"NATS/1.0", b"NATS/1.0 404 Message 6 is lost", b"NATS/1.0", b"NATS/1.0"]
