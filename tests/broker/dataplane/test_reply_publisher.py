"""Answers to reply subjects: the number of a `$SEQ.PUB`, the same for live and staged messages."""

import pytest

from broker.dataplane.reply_publisher import ReplyPublisher
from testkit.stage import HEADS, QUIET, Stage

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
    asker = Stage().join(QUIET)
    assert asker.ask(publish(b"r.x")) == b"", "the reply's place is known now"
    assert asker.ask(b"SUB r.x 1\r\n", publish(b"r.x")) == msg(b"r.x", b"1", b"1:2,")
    first, second = msg(b"r.x", b"1", b"1:3,"), msg(b"r.x", b"2", b"1:3,")
    assert asker.ask(b"SUB r.* 2\r\n", publish(b"r.x")) == first + second
    asker.send(b"UNSUB 1\r\nUNSUB 2 2\r\n")
    assert asker.ask(publish(b"r.x"), publish(b"r.x")) == msg(b"r.x", b"2", b"1:4,")


# Nobody else hears

CONNECTS = (QUIET, HEADS, b"CONNECT {}\r\n", b'CONNECT {"headers":true}\r\n')


@pytest.mark.parametrize("connect", CONNECTS)
@pytest.mark.parametrize("theirs", [b"> 1", b"r.* 1", b"r.x 1", b"> q 1", b"r.x q 1"])
@pytest.mark.parametrize("others", [1, 40])
def test_given_others_who_listen_when_answered_then_the_asker_alone_hears(
    others: int, theirs: bytes, connect: bytes
) -> None:
    stage = Stage()
    asker = stage.join(connect)
    listeners = [stage.join(QUIET) for _ in range(others)]
    for listener in listeners:
        listener.send(b"SUB %b\r\n" % theirs)
    wire = publish(b"r.x")
    assert b"r.x" not in asker.ask(wire)
    assert asker.ask(b"SUB r.* 9\r\n", wire).endswith(msg(b"r.x", b"9", b"1:2,"))
    assert all(b"MSG r.x" not in listener.take() for listener in listeners)


@pytest.mark.parametrize("others", [0, 3, 40])
def test_given_subscriptions_of_all_kinds_when_answered_then_of_a_queue_group_one_hears(
    others: int,
) -> None:
    stage = Stage()
    for _ in range(others):
        stage.join(QUIET).send(b"SUB r.* 1\r\nSUB r.* q 2\r\nSUB r.x p 3\r\n")
    asker = stage.join(QUIET)
    asker.send(b"SUB r.* 1\r\nSUB r.x q 2\r\nSUB r.* q 3\r\nSUB r.> p 4\r\nSUB s 5\r\n")
    asker.send(b"SUB $SEQ.RANGE.8.9.> 6\r\n")
    heard = asker.ask(publish(b"r.x"))
    sids = sorted(line.split()[2] for line in heard.split(b"\r\n") if line.startswith(b"MSG r.x"))
    assert sids in ([b"1", b"2", b"4"], [b"1", b"3", b"4"])


def test_given_many_others_when_answered_then_the_work_is_bounded_by_what_the_asker_has() -> None:
    stage = Stage()
    for number in range(2000):
        stage.join(QUIET).send(b"SUB r.x %b1\r\n" % (b"", b"q%d " % number)[number % 2])
    asker = stage.join(QUIET)
    asker.send(b"SUB r.x 1\r\nSUB r.* q 2\r\n")
    reply_publisher = ReplyPublisher(stage.sublist, stage.plane.gate)
    assert reply_publisher.listens(asker.connection, b"r.x")
    assert reply_publisher.looked < 100
    assert not reply_publisher.listens(stage.join(QUIET).connection, b"r.x")
    assert reply_publisher.looked == 0


@pytest.mark.parametrize("reply", [b"$SEQ.END.5", b"$SEQ.LOST.1.2", b"$SEQ.x", b"$SEQ.PUB.orders"])
@pytest.mark.parametrize("connect", CONNECTS)
def test_given_a_reply_below_the_brokers_own_then_it_is_refused_and_nothing_has_a_number(
    connect: bytes, reply: bytes
) -> None:
    stage = Stage()
    asker, listener = stage.join(connect), stage.join(QUIET)
    listener.send(b"SUB > 1\r\n")
    asker.send(b"SUB > 1\r\n")
    said = asker.ask(publish(reply))
    assert b"-ERR 'Permissions Violation for Publish with Reply of \"%b\"'" % reply in said
    assert (stage.number, listener.take()) == (0, b"")
    assert b"MSG" not in said


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
        listener, asker = stage.join(HEADS), stage.join(connect)
        listener.send(b"SUB orders 1\r\nSUB r 2\r\n")
        assert asker.ask(b"SUB r 2\r\n", wire).endswith(msg(b"r", b"2", b"2:99,"))
        heard = listener.take()
        assert heard.startswith((b"MSG orders 1 ", b"HMSG orders 1 "))
        assert heard.count(b"MSG") == 1


def test_given_no_reply_then_it_is_sequenced_all_the_same() -> None:
    stage = Stage()
    peer = stage.join(QUIET)
    assert peer.ask(b"PUB %b 2\r\nhi\r\n" % PUB) == b""
    assert stage.number == 1
