"""Messages with special rules: `$SEQ.PUB`, requests nobody answers, what is refused."""

import pytest

from testkit.messages import Message
from testkit.model_frame import netstring_frame
from testkit.stage import ASKER, HEADS, QUIET, Stage
from tests.support.raw import operations

LOUD = b'CONNECT {"verbose":true,"pedantic":false,"headers":true}\r\n'


def ask(subject: bytes, payload: bytes, reply: bytes = b"r") -> bytes:
    return Message(b"$SEQ.PUB." + subject, payload, reply=reply).wire


def test_given_a_publish_that_asks_for_its_number_then_it_is_answered_bare_as_a_netstring() -> None:
    stage = Stage(number=88_484)
    ear = stage.join(QUIET + b"SUB orders.* 1\r\n")
    asker = stage.join(QUIET + b"SUB r 7\r\n")
    assert asker.ask(ask(b"orders.eu", b"hello world")) == b"MSG r 7 8\r\n5:88485,\r\n"
    frame = netstring_frame(88_485, b"hello world")
    assert ear.take() == b"MSG orders.eu 1 %d\r\n%b\r\n" % (len(frame), frame)


@pytest.mark.parametrize(("number", "answer"), [(0, b"1:0,"), (99, b"2:99,"), (1 << 40, None)])
def test_given_an_empty_payload_then_the_current_number_is_answered_and_none_is_given(
    number: int, answer: bytes | None
) -> None:
    stage = Stage(number=number)
    ear = stage.join(QUIET + b"SUB > 1\r\n")
    asker = stage.join(QUIET + b"SUB r 7\r\n")
    answer = answer or b"%d:%d," % (len(str(number)), number)
    assert asker.ask(ask(b"orders", b"")) == b"MSG r 7 %d\r\n%b\r\n" % (len(answer), answer)
    assert stage.number == number
    assert ear.take() == b"", "no message, and the answer is the asker's own"


def test_given_headers_without_a_payload_then_it_is_a_message() -> None:
    stage = Stage(number=5)
    ear = stage.join(HEADS + b"SUB a 1\r\n", frame="none")
    asker = stage.join(HEADS + b"SUB r 7\r\n")
    sent = Message(b"$SEQ.PUB.a", b"", b"NATS/1.0\r\n\r\n", b"r")
    assert asker.ask(sent.wire) == b"MSG r 7 4\r\n1:6,\r\n"
    assert ear.take() == b"HMSG a 1 12 12\r\nNATS/1.0\r\n\r\n\r\n"


def test_given_headers_and_a_payload_then_both_go_on_under_the_subject_without_the_reply() -> None:
    stage = Stage()
    ear = stage.join(HEADS + b"SUB a 1\r\n", frame="none")
    sent = Message(b"$SEQ.PUB.a", b"body", b"NATS/1.0\r\n\r\n", b"r")
    stage.join(HEADS).send(sent.wire)
    assert ear.take() == b"HMSG a 1 12 16\r\nNATS/1.0\r\n\r\nbody\r\n"


def test_given_no_reply_then_it_is_published_and_nobody_is_informed() -> None:
    stage = Stage()
    ear = stage.join(QUIET + b"SUB a 1\r\n", frame="none")
    publisher = stage.join(QUIET)
    assert publisher.ask(ask(b"a", b"x", reply=b"")) == b""
    assert ear.take() == b"MSG a 1 1\r\nx\r\n"
    assert stage.number == 1


def test_given_a_verbose_publisher_then_ok_comes_first_then_the_message_then_the_answer() -> None:
    peer = Stage().join(LOUD + b"SUB a 1\r\nSUB r 7\r\n", frame="none")
    assert peer.ask(ask(b"a", b"x")) == b"+OK\r\nMSG a 1 1\r\nx\r\nMSG r 7 4\r\n1:1,\r\n"


def test_given_no_echo_then_the_message_is_not_heard_and_the_answer_is() -> None:
    connect = b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\n'
    peer = Stage().join(connect + b"SUB a 1\r\nSUB r 7\r\n", frame="none")
    assert peer.ask(ask(b"a", b"x")) == b"MSG r 7 4\r\n1:1,\r\n"


def test_given_asked_and_plain_publishes_in_turn_then_no_line_of_one_is_used_for_the_other() -> (
    None
):
    stage = Stage()
    ear = stage.join(QUIET + b"SUB a 1\r\nSUB *.* 2\r\n", frame="none")
    publisher = stage.join(QUIET)
    publisher.send((ask(b"a", b"1") + b"PUB a 1\r\n2\r\n" + ask(b"b.c", b"3", b"")) * 2)
    found = [(one.subject, one.payload, one.reply) for one in operations(ear.take())]
    assert found == [(b"a", b"1", b""), (b"a", b"2", b""), (b"b.c", b"3", b"")] * 2


def test_given_own_wildcards_and_queues_on_the_reply_then_each_hears_as_of_any_message() -> None:
    stage = Stage()
    asker, other = stage.join(QUIET), stage.join(QUIET)
    other.send(b"SUB box.1 1\r\nSUB box.* q 2\r\nSUB > 3\r\n")
    asker.send(b"SUB box.1 1\r\nSUB box.> 2\r\nUNSUB 2 1\r\n")
    asker.send(b"SUB box.* q 3\r\nSUB box.1 q 4\r\n")
    heard = operations(asker.ask(ask(b"a", b"x", b"box.1") + ask(b"a", b"x", b"box.1")))
    sids = [one.sid for one in heard]
    assert (sids.count(b"1"), sids.count(b"2"), sids.count(b"3") + sids.count(b"4")) == (2, 1, 2)
    assert (asker.connection.out_msgs, asker.connection.out_bytes) == (5, 20)
    assert [one.subject for one in operations(other.take())] == [b"a", b"a"]


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        (b"a..b", b"Invalid Publish Subject"),
        (b"", b"Invalid Publish Subject"),
        (b"a.*", b"Invalid Publish Subject"),
        (b">", b"Invalid Publish Subject"),
        (b"_GR_.x", b"Permissions Violation"),
        (b"$SEQ.PUB.a", b"Permissions Violation"),
        (b"$SEQ.x", b"Permissions Violation"),
        (b"tick.1", b"Subject Is Excluded From Sequencing"),
    ],
)
@pytest.mark.parametrize("payload", [b"", b"x"])
def test_given_a_subject_that_may_not_be_asked_for_then_the_publisher_learns_why(
    subject: bytes, why: bytes, payload: bytes
) -> None:
    stage = Stage(exclude=[b"tick.*"])
    ear = stage.join(QUIET + b"SUB tick.* 1\r\nSUB a.> 1\r\n")
    asker = stage.join(HEADS + b"SUB r 7\r\n")
    headers = b"NATS/1.0 400 %b\r\n\r\n" % why
    size = len(headers)
    answer = b"HMSG r 7 %d %d\r\n%b\r\n" % (size, size, headers)
    assert asker.ask(ask(subject, payload)) == answer
    told = b"-ERR 'Permissions Violation for Publish to \"$SEQ.PUB.%b\"'\r\n" % subject
    plain = stage.join(QUIET + b"SUB r 7\r\n")
    asker.take()
    assert plain.ask(ask(subject, payload)) == told
    assert asker.ask(ask(subject, payload, reply=b"")) == told
    assert ear.take() == b""
    assert stage.number == 0


def test_given_a_refusal_then_the_asker_gets_and_counts_its_headers_and_nobody_else_does() -> None:
    stage = Stage()
    asker = stage.join(HEADS + b"SUB r 1\r\n")
    others = [stage.join(QUIET + b"SUB r 1\r\n"), stage.join(HEADS + b"SUB r 1\r\n")]
    heard = operations(asker.ask(ask(b"$SEQ.x", b"")))
    assert heard[0].header == b"NATS/1.0 400 Permissions Violation\r\n\r\n"
    assert (asker.connection.out_msgs, asker.connection.out_bytes) == (1, 38)
    assert [(other.take(), other.connection.out_msgs) for other in others] == [(b"", 0)] * 2


@pytest.mark.parametrize(
    "subject", [b"$SEQ.x", b"$SEQ.", b"$SEQ.PUB", b"_GR_.x", b"$GR.y", b"$NRG."]
)
def test_given_a_reserved_subject_then_it_is_refused_without_ok_and_the_client_goes_on(
    subject: bytes,
) -> None:
    stage = Stage()
    ear = stage.join(QUIET + b"SUB > 1\r\n")
    publisher = stage.join(LOUD)
    told = b"-ERR 'Permissions Violation for Publish to \"%b\"'\r\n" % subject
    assert publisher.ask(Message(subject, b"x").wire + b"PING\r\n") == told + b"PONG\r\n"
    assert ear.take() == b""
    assert stage.number == 0


@pytest.mark.parametrize("subject", [b"$SEQ", b"$SEQx.y", b"_GR_", b"$SYS.x", b"$JS.x", b"$"])
def test_given_a_subject_that_only_looks_reserved_then_it_is_ordinary(subject: bytes) -> None:
    stage = Stage()
    assert stage.join(QUIET).ask(Message(subject, b"x").wire) == b""
    assert stage.number == 1


@pytest.mark.parametrize("reply", [b"_R_.", b"_R_.x", b"_GR_.x", b"$GR.x", b"$JS.ACK.x"])
def test_given_a_reserved_reply_then_the_message_is_refused(reply: bytes) -> None:
    stage = Stage(exclude=[b"tick.*"])
    publisher = stage.join(LOUD)
    words = b"-ERR 'Permissions Violation for Publish with Reply of \"%b\"'\r\n" % reply
    for subject in (b"a", b"tick.1"):
        assert publisher.ask(Message(subject, b"x", reply=reply).wire) == words
    assert stage.number == 0


def status(sent: Message, sid: bytes) -> bytes:
    headers = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % sent.subject
    size = len(headers)
    return b"HMSG %b %b %d %d\r\n%b\r\n" % (sent.reply, sid, size, size, headers)


@pytest.mark.parametrize("pattern", [b"box.1", b"box.*", b">"])
@pytest.mark.parametrize("subject", [b"ask", b"a..b"])
def test_given_a_request_that_nobody_gets_then_one_subscription_on_the_reply_hears_503(
    pattern: bytes, subject: bytes
) -> None:
    stage = Stage()
    asker = stage.join(ASKER + b"SUB ask.not 8\r\nSUB box q 9\r\n")
    asker.send(b"SUB %b 1\r\nUNSUB 1 5\r\n" % pattern)
    request = Message(subject, b"x", reply=b"box.1")
    if pattern == b">":
        request = Message(b"a..b", b"x", reply=b"box.1")
    for _ in range(9):
        assert asker.ask(request.wire) == status(request, b"1"), "it counts for no max"
    assert stage.number == (9 if request.subject == b"ask" else 0)


def test_given_somebody_who_gets_the_request_then_there_is_no_503() -> None:
    stage = Stage()
    asker = stage.join(ASKER + b"SUB box 1\r\n")
    stage.join(QUIET + b"SUB ask q 1\r\n")
    assert asker.ask(Message(b"ask", b"x", reply=b"box").wire) == b""


@pytest.mark.parametrize(
    ("subscription", "reply"),
    [(b"SUB box q 1\r\n", b"box"), (b"SUB other 1\r\n", b"box"), (b"SUB > 1\r\n", b"box..x")],
    ids=["only a queue", "not on the reply", "an invalid reply"],
)
def test_given_nobody_to_tell_then_there_is_no_503(subscription: bytes, reply: bytes) -> None:
    asker = Stage().join(ASKER + subscription)
    assert asker.ask(Message(b"a..b", b"x", reply=reply).wire) == b""


def test_given_another_connections_subscription_on_the_reply_then_it_hears_no_503() -> None:
    stage = Stage()
    other = stage.join(ASKER + b"SUB box 1\r\n")
    asker = stage.join(ASKER)
    assert asker.ask(Message(b"ask", b"x", reply=b"box").wire) == b""
    assert other.take() == b""


def test_given_a_client_that_did_not_ask_for_it_then_there_is_no_503() -> None:
    asker = Stage().join(HEADS + b"SUB box 1\r\n")
    assert asker.ask(Message(b"ask", b"x", reply=b"box").wire) == b""
