"""Answers to reply subjects: the number of what `$SEQ.PUB` published, the same by both ways."""

import pytest

from tests.support.plane import HEADS, QUIET, Stage

PUB = b"$SEQ.PUB.orders"


def publish(reply: bytes, payload: bytes = b"x", headers: bytes = b"") -> bytes:
    if headers:
        sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
        return b"HPUB %b %b %b\r\n%b%b\r\n" % (PUB, reply, sizes, headers, payload)
    return b"PUB %b %b %d\r\n%b\r\n" % (PUB, reply, len(payload), payload)


def netstring(number: int) -> bytes:
    text = b"%d" % number
    return b"%d:%b," % (len(text), text)


def msg(subject: bytes, sid: bytes, payload: bytes) -> bytes:
    return b"MSG %b %b %d\r\n%b\r\n" % (subject, sid, len(payload), payload)


@pytest.mark.parametrize("digits", range(1, 20))
def test_given_a_number_of_any_width_when_answered_then_it_is_its_netstring(digits: int) -> None:
    number = min(10**digits - 1, (1 << 63) - 1)
    peer = Stage(number=number - 1).join(QUIET)
    assert peer.ask(b"SUB r 7\r\n", publish(b"r")) == msg(b"r", b"7", netstring(number))


def test_given_replies_that_are_all_different_when_answered_then_none_takes_a_route() -> None:
    stage = Stage()
    peer = stage.join(QUIET)
    peer.send(b"SUB _INBOX.a.* 1\r\n")
    peer.ask(publish(b"_INBOX.a.0"))
    routes = stage.sublist.statistics()["routes"]
    for turn in range(1, 1000):
        reply = b"_INBOX.a.%d" % turn
        assert peer.ask(publish(reply)) == msg(reply, b"1", netstring(turn + 1))
    assert stage.sublist.statistics()["routes"] == routes


def test_given_subscriptions_come_and_go_when_answered_then_those_of_the_moment_hear() -> None:
    stage = Stage()
    asker, first, second = (stage.join(QUIET) for _ in range(3))
    asker.ask(publish(b"r.x"))  # nobody: the reply's place is known now
    first.send(b"SUB r.x 1\r\n")
    asker.ask(publish(b"r.x"))
    assert first.take() == msg(b"r.x", b"1", b"1:2,")
    second.send(b"SUB r.* 2\r\n")
    asker.ask(publish(b"r.x"))
    assert (first.take(), second.take()) == (msg(b"r.x", b"1", b"1:3,"), msg(b"r.x", b"2", b"1:3,"))
    first.send(b"UNSUB 1\r\n")
    second.send(b"UNSUB 2 2\r\n")
    asker.ask(publish(b"r.x"), publish(b"r.x"))
    assert (first.take(), second.take()) == (b"", msg(b"r.x", b"2", b"1:4,"))


def test_given_a_queue_group_when_answered_then_one_member_that_reads_hears() -> None:
    stage = Stage()
    stalled, able, asker = (stage.join(QUIET) for _ in range(3))
    stalled.send(b"SUB r q 1\r\n")
    able.send(b"SUB r q 2\r\n")
    stalled.stall()
    for number in range(1, 20):
        asker.send(publish(b"r"))
        assert able.take() == msg(b"r", b"2", netstring(number))


@pytest.mark.parametrize("reply", [b"_R_.x", b"_GR_.x", b"$GR.x", b"$JS.ACK.x"])
def test_given_a_reserved_reply_then_it_is_refused_and_nothing_has_a_number(reply: bytes) -> None:
    stage = Stage()
    said = stage.join(QUIET).ask(publish(reply))
    assert said.startswith(b"-ERR 'Permissions Violation for Publish with Reply of ")
    assert stage.number == 0


@pytest.mark.parametrize("reply", [b"$", b"_", b"_I", b"$x", b"__", b"r"])
def test_given_an_unusual_reply_when_it_is_not_reserved_then_it_is_answered(reply: bytes) -> None:
    peer = Stage().join(QUIET)
    assert peer.ask(b"SUB > 1\r\n", publish(reply)).endswith(msg(reply, b"1", b"1:1,"))


def test_given_clients_of_all_kinds_when_they_publish_then_all_are_answered_alike() -> None:
    headers = b"NATS/1.0\r\nA: b\r\n\r\n"
    for connect, wire in (
        (QUIET, publish(b"r")),
        (HEADS, publish(b"r", headers=headers)),
        (b"CONNECT {}\r\n", publish(b"r")),
        (b'CONNECT {"headers":true}\r\n', publish(b"r", headers=headers)),
    ):
        stage = Stage(number=98)
        listener = stage.join(HEADS)
        listener.send(b"SUB orders 1\r\nSUB r 2\r\n")
        stage.join(connect).send(wire)
        heard = listener.take()
        assert heard.endswith(msg(b"r", b"2", b"2:99,"))
        assert b"MSG orders 1 " in heard


def test_given_no_reply_then_it_is_sequenced_all_the_same() -> None:
    stage = Stage()
    peer = stage.join(QUIET)
    assert peer.ask(b"PUB %b 2\r\nhi\r\n" % PUB) == b""
    assert stage.number == 1
