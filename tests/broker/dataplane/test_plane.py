"""The data plane: who receives what in which order, which numbers are assigned, what is counted."""

import pytest

from testkit.messages import Message, message
from testkit.model_frame import netstring_frame
from testkit.peer import Peer
from testkit.stage import HEADS, QUIET, Stage
from tests.support.raw import operations

DEAF = b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\n'
LOUD = b'CONNECT {"verbose":true,"pedantic":false}\r\n'
FRAMES = ("netstring", "header", "stamp", "none")
STRICT = b'CONNECT {"verbose":false,"pedantic":true}\r\n'


def numbers(heard: bytes) -> list[int]:
    """The numbers of the messages in what a peer with netstring frames heard."""
    return [int(one.payload.split(b":")[2].split(b",")[0]) for one in operations(heard)]


def publish(subject: bytes, count: int = 1) -> bytes:
    return Message(subject, b"x").wire * count


def test_given_subscribers_of_overlapping_patterns_then_all_hear_one_order_without_a_gap() -> None:
    stage = Stage()
    wide, narrow, literal = (stage.join(QUIET) for _ in range(3))
    wide.send(b"SUB > 1\r\n")
    narrow.send(b"SUB a.* 1\r\n")
    literal.send(b"SUB a.b 1\r\n")
    publishers = [stage.join(QUIET) for _ in range(3)]
    for turn in range(60):
        publishers[turn % 3].send(publish((b"a.b", b"a.c", b"d")[turn // 3 % 3]))
    everything = numbers(wide.take())
    assert everything == list(range(1, 61))
    some = numbers(narrow.take())
    assert some == sorted(some)
    assert len(some) == 42
    assert set(numbers(literal.take())) <= set(some)


def test_given_one_read_event_then_subscribers_are_flushed_before_the_publisher() -> None:
    stage = Stage()
    ears = [stage.join(QUIET + b"SUB a 1\r\n") for _ in range(2)]
    publisher = stage.join(LOUD)
    stage.flushed.clear()
    publisher.send(publish(b"a", 3))
    assert set(stage.flushed[:2]) == set(ears)
    assert stage.flushed[2:] == [publisher], "each once, the publisher last"


def test_given_a_verbose_publisher_that_hears_itself_then_ok_comes_before_the_message() -> None:
    peer = Stage().join(LOUD)
    heard = peer.ask(b"SUB a 1\r\n" + publish(b"a", 2) + b"PING\r\n")
    msg = b"MSG a 1 11\r\n8:1:%d,1:x,,\r\n"
    assert heard == b"+OK\r\n" + (b"+OK\r\n" + msg % 1) + (b"+OK\r\n" + msg % 2) + b"PONG\r\n"


def test_given_a_pedantic_publisher_then_a_bad_subject_is_reported_and_the_message_goes_on() -> (
    None
):
    stage = Stage()
    ear = stage.join(QUIET + b"SUB *.* 1\r\n", frame="none")
    peer = stage.join(STRICT)
    told = b"-ERR 'Invalid Publish Subject'\r\n"
    assert peer.ask(publish(b"a.*")) == told
    assert ear.take() == b"MSG a.* 1 1\r\nx\r\n"
    assert peer.ask(publish(b"a..b")) == told
    assert peer.ask(publish(b"a.b")) == b""
    assert stage.number == 2, "what nothing can match has none"


def test_given_no_echo_then_own_subscriptions_hear_others_only() -> None:
    stage = Stage()
    deaf, other = stage.join(DEAF), stage.join(QUIET)
    for peer in (deaf, other):
        peer.send(b"SUB a 1\r\n")
    deaf.send(publish(b"a"))
    assert deaf.take() == b""
    assert numbers(other.take()) == [1]
    other.send(publish(b"a"))
    assert numbers(deaf.take()) == numbers(other.take()) == [2]


def test_given_no_echo_agreed_within_one_read_then_it_holds_from_there_on() -> None:
    peer = Stage().join(QUIET)
    back = b'CONNECT {"echo":true}\r\n'
    sub = b"SUB a 1\r\n"  # each CONNECT drops the one before
    heard = peer.ask(sub + publish(b"a") + DEAF + sub + publish(b"a") + back + sub + publish(b"a"))
    assert numbers(heard) == [1, 3]


@pytest.mark.parametrize("most", [1, 2, 5])
def test_given_unsub_with_a_max_then_that_many_are_delivered_counted_from_the_sub_on(
    most: int,
) -> None:
    stage = Stage()
    ear = stage.join(QUIET + b"SUB a 1\r\nSUB a 2\r\n")
    stage.join(QUIET).send(publish(b"a"))
    ear.send(b"UNSUB 1 %d\r\n" % most)
    stage.join(QUIET).send(publish(b"a", 10))
    got = [one.sid for one in operations(ear.take())]
    assert got.count(b"1") == most
    assert got.count(b"2") == 11
    assert set(ear.connection.subs) == {b"2"}


def test_given_a_subscription_that_has_ended_then_its_sid_may_be_used_again() -> None:
    stage = Stage()
    ear = stage.join(QUIET + b"SUB a 1\r\nUNSUB 1 1\r\n")
    publisher = stage.join(QUIET)
    publisher.send(publish(b"a", 2))
    ear.send(b"SUB b 1\r\n")
    publisher.send(publish(b"a") + publish(b"b", 3))
    assert numbers(ear.take()) == [1, 4, 5, 6]


def test_given_the_same_sid_twice_then_the_first_subject_stays() -> None:
    stage = Stage()
    ear = stage.join(QUIET + b"SUB a 1\r\nSUB b 1\r\n")
    stage.join(QUIET).send(publish(b"a") + publish(b"b"))
    assert numbers(ear.take()) == [1]


def test_given_a_peer_that_has_left_then_nothing_is_delivered_to_it() -> None:
    stage = Stage()
    gone, stays = (stage.join(QUIET + b"SUB a.* 1\r\nSUB a.b q 2\r\n") for _ in range(2))
    publisher = stage.join(QUIET)
    publisher.send(publish(b"a.b"))
    gone.take()
    stays.take()
    gone.leave()
    publisher.send(publish(b"a.b"))
    assert gone.take() == b""
    assert numbers(stays.take()) == [2, 2]
    assert gone.connection.session is None, "a link that has parted holds on to nothing"
    assert stage.sublist.statistics()["subscriptions"] == 2


REFUSED = [
    Message(b"_GR_.x", b"x").wire,
    Message(b"$NRG.", b"x").wire,
    Message(b"$SEQ.x", b"x").wire,
    Message(b"a", b"x", reply=b"_R_.x").wire,
    Message(b"$SEQ.PUB.a..b", b"x").wire,
    Message(b"$SEQ.PUB.a", b"").wire,
    b"SUB a..b 9\r\n",
    b"SUB $SEQ.> 9\r\n",
]


@pytest.mark.parametrize("refused", REFUSED)
def test_given_a_refused_message_then_it_has_no_number(refused: bytes) -> None:
    stage = Stage()
    ear = stage.join(QUIET + b"SUB > 1\r\n")
    publisher = stage.join(QUIET)
    publisher.send(publish(b"a") + refused + publish(b"a"))
    assert numbers(ear.take()) == [1, 2]
    assert not publisher.finished


@pytest.mark.parametrize(
    "broken", [b"PUB a x\r\n", b"PUB a 1\r\nxx", b"PUB a 2000000\r\n", b"HPUB a 0 0\r\n", b"NO\r\n"]
)
def test_given_a_broken_message_then_it_has_no_number_and_what_stood_before_has(
    broken: bytes,
) -> None:
    stage = Stage()
    ear = stage.join(QUIET + b"SUB > 1\r\n")
    publisher = stage.join(QUIET)
    publisher.send(publish(b"a", 2) + broken + publish(b"a", 2))
    assert publisher.finished
    assert numbers(ear.take()) == [1, 2]
    stage.join(QUIET).send(publish(b"a"))
    assert numbers(ear.take()) == [3]


def test_given_nobody_listens_then_numbers_go_on_all_the_same() -> None:
    stage = Stage()
    stage.join(QUIET).send(publish(b"a", 10) + Message(b"b", b"x", reply=b"r").wire)
    assert stage.number == 11


def test_given_one_message_for_every_frame_at_once_then_each_connection_gets_its_own() -> None:
    stage = Stage(number=41)
    modes = [(c, f) for c in (QUIET, HEADS) for f in FRAMES]
    ears = [stage.join(connect + b"SUB a 1\r\n", frame=frame) for connect, frame in modes]
    sent = [
        Message(b"a", b"hi"),
        Message(b"a", b"hi", b"NATS/1.0\r\n\r\n", reply=b"r"),
        Message(b"a", b"hi", reply=b"r"),
        Message(b"a", b"ho"),
    ]
    stage.join(HEADS).send(b"".join(one.wire for one in sent))
    for ear, (connect, frame) in zip(ears, modes, strict=True):
        wanted = [message(s, b"1", n, frame, connect is HEADS) for n, s in enumerate(sent, 42)]
        assert ear.take() == b"".join(wanted)


def test_given_a_reply_then_the_next_message_to_the_same_subject_has_its_own_line() -> None:
    peer = Stage().join(QUIET + b"SUB a 1\r\n", frame="none")
    heard = peer.ask(b"PUB a 1\r\nx\r\nPUB a b 1\r\nx\r\nPUB a c 1\r\nx\r\nPUB a 1\r\nx\r\n")
    lines = heard.split(b"\r\n")[::2]
    assert lines == [b"MSG a 1 1", b"MSG a 1 b 1", b"MSG a 1 c 1", b"MSG a 1 1", b""]


def test_given_two_subjects_in_turn_then_each_message_has_its_own_subject() -> None:
    peer = Stage().join(QUIET + b"SUB * 1\r\nSUB a 2\r\n", frame="none")
    heard = peer.ask((publish(b"a") + publish(b"b")) * 2)
    found = [(one.subject, one.sid) for one in operations(heard)]
    assert found == [(b"a", b"2"), (b"a", b"1"), (b"b", b"1")] * 2


def test_given_traffic_then_links_count_messages_and_payloads_not_frames() -> None:
    stage = Stage()
    ear = stage.join(HEADS + b"SUB a 1\r\n")
    plain = stage.join(QUIET + b"SUB a 1\r\n", frame="none")
    publisher = stage.join(HEADS)
    publisher.send(Message(b"a", b"hello").wire)
    publisher.send(Message(b"a", b"hello", b"NATS/1.0\r\n\r\n").wire)
    publisher.send(Message(b"nobody", b"hello").wire)

    def figures(peer: Peer) -> tuple[int, int, int, int]:
        connection = peer.connection
        return connection.in_msgs, connection.in_bytes, connection.out_msgs, connection.out_bytes

    assert figures(publisher) == (3, 27, 0, 0)
    assert figures(ear) == (0, 0, 2, 22)
    assert figures(plain) == (0, 0, 2, 10)


def test_given_an_excluded_subject_then_it_passes_bare_and_unnumbered_in_every_mode() -> None:
    stage = Stage(exclude=[b"_INBOX.>", b"tick.*"])
    modes = [(c, f) for c in (QUIET, HEADS) for f in FRAMES]
    ears = [stage.join(connect + b"SUB > 1\r\n", frame=frame) for connect, frame in modes]
    sent = [
        Message(b"_INBOX.x", b"1"),
        Message(b"a", b"1"),
        Message(b"tick.1", b"2"),
        Message(b"tick.1", b"3"),
        Message(b"tick.1", b"4", b"NATS/1.0\r\n\r\n"),
        Message(b"tick.1", b"5", b"NATS/1.0\r\n\r\n"),
        Message(b"tick.1", b"5", b"NATS/1.0\r\nA: b\r\nNats-Sequence: 9\r\n\r\n"),
        Message(b"tick.1", b"5", b"NATS/1.0\r\nnats-time-stamp: 9\r\nNats-Sequence: 9\r\n\r\n"),
        Message(b"tick.1", b"5", b"junk\r\nNats-Sequence: 9\r\n\r\n"),
        Message(b"tick.1", b"5", b"NATS/1.0\r\n Nats-Sequence: 9\r\n\r\n", sizes=b"031 0032"),
        Message(b"tick.1", b"5", b"NATS/1.0 503\r\n\r\n", sizes=b"016 0017"),
        Message(b"tick.1", b"5", b"NATS/1.0\r\n\r\n", sizes=b"012 0013"),
        Message(b"tick.1.2", b"6"),
        Message(b"_INBOX.x", b"7", reply=b"r"),
    ]
    given = {b"a": 1, b"tick.1.2": 2}
    stage.join(HEADS).send(b"".join(one.wire for one in sent))
    assert stage.number == 2
    for ear, (connect, frame) in zip(ears, modes, strict=True):
        takes = connect is HEADS
        wanted = [message(s, b"1", given.get(s.subject, 0), frame, takes) for s in sent]
        assert ear.take() == b"".join(wanted)


def test_given_a_second_connect_then_the_frame_changes_with_the_next_message() -> None:
    peer = Stage().join(QUIET)
    one = b"SUB a 1\r\nPUB a 1\r\nx\r\n"  # each CONNECT drops the subscription
    choose = b'CONNECT {"frame":"%b"}\r\n'
    heads = b'CONNECT {"headers":true}\r\n'
    heard = peer.ask(
        one
        + choose % b"none"
        + one
        + choose % b"header"
        + one
        + heads
        + one
        + choose % b"netstring"
        + one
    )
    sent, sid = Message(b"a", b"x"), b"1"
    assert heard == (
        message(sent, sid, 1, "netstring", False)
        + message(sent, sid, 2, "none", False)
        + message(sent, sid, 3, "header", False)
        + message(sent, sid, 4, "header", True)
        + message(sent, sid, 5, "netstring", True)
    )
    assert netstring_frame(5, b"x") in heard
