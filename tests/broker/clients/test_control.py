"""The protocol's rules for everything but plain messages, verb by verb."""

import logging

import pytest

from testkit.peer import Peer
from testkit.stage import HEADS, QUIET, Stage

PLAIN = b'CONNECT {"verbose":false,"pedantic":false%b}\r\n'


@pytest.fixture
def peer() -> Peer:
    return Stage().join()


def connect(*fields: bytes) -> bytes:
    return PLAIN % b"".join(b"," + one for one in fields)


# CONNECT


def test_given_connect_then_the_link_has_what_the_client_chose(peer: Peer) -> None:
    wish = connect(b'"echo":false', b'"headers":true', b'"no_responders":true', b'"frame":"none"')
    assert peer.ask(wish) == b""
    connection = peer.connection
    assert (connection.verbose, connection.pedantic, connection.echo) == (False, False, False)
    assert (connection.headers, connection.no_responders, connection.frame) == (True, True, "none")
    assert peer.connects == 1


def test_given_an_empty_connect_then_the_defaults_of_nats_hold(peer: Peer) -> None:
    assert peer.ask(b"CONNECT {}\r\n") == b"+OK\r\n"
    connection = peer.connection
    assert (connection.verbose, connection.pedantic, connection.echo) == (True, True, True)
    assert (connection.headers, connection.no_responders, connection.frame) == (
        False,
        False,
        "netstring",
    )


def test_given_a_second_connect_then_it_adds_to_the_first(peer: Peer) -> None:
    assert peer.ask(b'CONNECT {"verbose":false,"name":"one"}\r\n') == b""
    assert peer.ask(b'CONNECT {"pedantic":false,"name":null}\r\n') == b""
    assert (peer.connection.verbose, peer.connection.pedantic) == (False, False)
    assert peer.options == {"verbose": False, "pedantic": False, "name": "one"}
    assert peer.connects == 2


def test_given_a_connect_then_its_ok_is_by_its_own_verbose(peer: Peer) -> None:
    assert peer.ask(b'CONNECT {"verbose":false}\r\n') == b""
    assert peer.ask(b'CONNECT {"verbose":true}\r\n') == b"+OK\r\n"


def test_given_a_listener_with_a_frame_then_it_holds_until_the_client_chooses() -> None:
    peer = Stage().join(frame="none")
    assert peer.connection.frame == "none"
    peer.send(b"CONNECT {}\r\n")
    assert peer.connection.frame == "none"
    peer.send(b'CONNECT {"frame":"netstring"}\r\n')
    assert peer.connection.frame == "netstring"
    peer.send(b"CONNECT {}\r\n")
    assert peer.connection.frame == "netstring"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"CONNECT nonsense\r\n", b""),
        (b"CONNECT \r\n", b""),
        (b"CONNECT []\r\n", b""),
        (b'CONNECT {"verbose":1}\r\n', b""),
        (b'CONNECT {"protocol":2}\r\n', b"-ERR 'invalid client protocol'\r\n"),
        (b'CONNECT {"account":"x"}\r\n', b"-ERR 'Authorization Violation'\r\n"),
        (
            b'CONNECT {"no_responders":true}\r\n',
            b"-ERR 'no responders requires headers support'\r\n",
        ),
        (
            b'CONNECT {"frame":"xml"}\r\n',
            b"-ERR 'invalid frame option: use netstring, header, stamp or none'\r\n",
        ),
    ],
)
def test_given_a_connect_that_is_wrong_then_the_client_is_hung_up_on(
    peer: Peer, text: bytes, told: bytes
) -> None:
    assert peer.ask(text) == told
    assert peer.finished
    assert peer.connects == 0


def test_given_two_connects_that_do_not_go_together_then_the_second_is_refused(peer: Peer) -> None:
    peer.send(connect(b'"headers":true', b'"no_responders":true'))
    assert not peer.finished
    peer.send(b'CONNECT {"headers":false}\r\n')
    assert peer.finished


# PING, PONG, INFO, +OK


def test_given_life_signs_then_ping_is_answered_and_the_session_knows(peer: Peer) -> None:
    peer.send(QUIET)
    assert peer.ask(b"PING\r\nPONG\r\nPING\r\n+OK\r\n") == b"PONG\r\nPONG\r\n"
    assert (peer.pings, peer.pongs) == (2, 1)


@pytest.mark.parametrize("text", [b"INFO {}\r\n", b"INFO null\r\n", b'info {"a":1}\r\n'])
def test_given_info_from_a_client_then_it_is_ignored(peer: Peer, text: bytes) -> None:
    assert peer.ask(text) == b""
    assert not peer.finished


@pytest.mark.parametrize("text", [b"INFO x\r\n", b"INFO 1\r\n", b"INFO []\r\n", b"-ERR 'x'\r\n"])
def test_given_what_no_client_says_then_it_is_hung_up_on_without_a_word(
    peer: Peer, text: bytes
) -> None:
    assert peer.ask(text + b"PING\r\n") == b""
    assert peer.finished


# SUB, UNSUB


def test_given_sub_then_it_is_in_the_sublist_and_answered_if_verbose(peer: Peer) -> None:
    assert peer.ask(b"SUB a.* 1\r\nSUB b q 2\r\n") == b"+OK\r\n+OK\r\n"
    subs = peer.connection.subs
    assert {sid: (sub.subject, sub.queue) for sid, sub in subs.items()} == {
        b"1": (b"a.*", None),
        b"2": (b"b", b"q"),
    }
    assert peer.stage.sublist.statistics()["subscriptions"] == 2
    assert peer.ask(b"UNSUB 1\r\nUNSUB 9\r\n") == b"+OK\r\n+OK\r\n"
    assert set(subs) == {b"2"}
    peer.send(QUIET)
    assert peer.ask(b"SUB c 3\r\nUNSUB 3\r\n") == b""


@pytest.mark.parametrize("subject", [b"a..b", b".a", b"a.", b">.a", b"a.>.b"])
def test_given_an_invalid_subject_then_the_sub_is_refused_and_the_client_goes_on(
    peer: Peer, subject: bytes
) -> None:
    assert peer.ask(b"SUB %b 1\r\nPING\r\n" % subject) == b"-ERR 'Invalid Subject'\r\nPONG\r\n"
    assert peer.connection.subs == {}


def test_given_a_known_sid_then_even_an_invalid_subject_is_ignored(peer: Peer) -> None:
    peer.send(b"SUB a 1\r\n")
    peer.take()
    assert peer.ask(b"SUB a..b 1\r\n") == b"+OK\r\n"
    assert peer.connection.subs[b"1"].subject == b"a"


def test_given_a_sub_to_the_brokers_own_subjects_then_it_is_forbidden(peer: Peer) -> None:
    words = b"-ERR 'Permissions Violation for Subscription to \"$SEQ.%b\"%b'\r\n"
    assert peer.ask(b"SUB $SEQ.> 1\r\n") == words % (b">", b"")
    assert peer.ask(b"SUB $SEQ.x q 1\r\n") == words % (b"x", b' using queue "q"')
    assert peer.connection.subs == {}


def test_given_as_many_subs_as_are_allowed_then_one_more_is_refused_until_a_place_is_free() -> None:
    peer = Stage(max_subscriptions=2).join()
    told = b"-ERR 'maximum subscriptions exceeded'\r\n"
    assert peer.ask(b"SUB a 1\r\nSUB b 2\r\nSUB c 3\r\n") == b"+OK\r\n+OK\r\n" + told
    assert peer.ask(b"SUB a 1\r\nSUB a..b 4\r\nSUB $SEQ.x 5\r\n") == told * 3, "judged first"
    assert peer.ask(b"UNSUB 1\r\nSUB c 3\r\n") == b"+OK\r\n+OK\r\n"
    assert not peer.finished


@pytest.mark.parametrize(
    ("most", "left"),
    [
        (b"", False),
        (b"0", False),
        (b"-1", False),
        (b"+5", False),
        (b"x", False),
        (b"0000000005", False),  # ten digits are no number here
        (b"1", False),
        (b"2", False),
        (b"3", True),
        (b"000000003", True),
        (b"999999999", True),
    ],
)
def test_given_two_delivered_when_unsub_has_a_max_then_the_sub_ends_now_or_later(
    most: bytes, left: bool
) -> None:
    stage = Stage()
    ear = stage.join(QUIET + b"SUB a 1\r\n")
    stage.join(QUIET).send(b"PUB a 0\r\n\r\n" * 2)
    ear.send(b"UNSUB 1 %b\r\n" % most)
    assert (b"1" in ear.connection.subs) is left
    assert stage.sublist.statistics()["subscriptions"] == int(left)


def test_given_a_new_max_then_it_replaces_the_old() -> None:
    stage = Stage()
    ear = stage.join(QUIET + b"SUB a 1\r\nUNSUB 1 2\r\nUNSUB 1 4\r\n")
    stage.join(QUIET).send(b"PUB a 0\r\n\r\n" * 9)
    assert ear.take().count(b"MSG") == 4


# What goes wrong


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"NONSENSE\r\n", b"-ERR 'Unknown Protocol Operation'\r\n"),
        (b"PUB a 1\r\nxx", b"-ERR 'Unknown Protocol Operation'\r\n"),
        (b"SUB " + b"a" * 5000, b"-ERR 'maximum control line exceeded'\r\n"),
        (b"PUB a 2000000\r\n", b"-ERR 'Maximum Payload Violation'\r\n"),
        (b"PUB x 18446744073709551614\r\n", b""),
        (b"PUB a x\r\n", b""),
        (b"SUB a\r\n", b""),
        (b"HPUB a 0 0\r\n", b""),
    ],
)
def test_given_a_fatal_mistake_then_the_client_is_informed_and_what_it_says_next_does_not_count(
    text: bytes, told: bytes
) -> None:
    stage = Stage()
    ear = stage.join(QUIET + b"SUB > 1\r\n")
    peer = stage.join(QUIET)
    assert peer.ask(b"PING\r\n" + text + b"PING\r\nPUB a 1\r\nx\r\n") == b"PONG\r\n" + told
    assert peer.finished
    assert ear.take() == b""
    peer.send(b"PUB a 1\r\nx\r\n")
    assert stage.number == 0


@pytest.mark.parametrize("subject", [b"a..b", b"a.*"])
def test_given_a_pedantic_client_then_a_bad_subject_is_reported_before_the_broken_payload(
    subject: bytes,
) -> None:
    peer = Stage().join(b'CONNECT {"verbose":false}\r\n')
    heard = peer.ask(b"PUB %b 0\r\n\n\r\n" % subject)
    words = [b"Invalid Publish Subject", b"Unknown Protocol Operation"]
    assert heard == b"".join(b"-ERR '%b'\r\n" % one for one in words)


def test_given_headers_agreed_then_hpub_is_served_and_refused_again_when_they_are_not() -> None:
    peer = Stage().join(HEADS)
    peer.send(b"HPUB a 0 0\r\n\r\n")
    assert not peer.finished
    peer.send(b'CONNECT {"headers":false}\r\nHPUB a 0 0\r\n\r\n')
    assert peer.finished


def test_given_a_client_that_ends_then_its_subscriptions_end_with_it() -> None:
    stage = Stage()
    peer = stage.join(QUIET + b"SUB a 1\r\nSUB a.* 2\r\nSUB b q 3\r\n")
    stays = stage.join(QUIET + b"SUB a 1\r\n")
    stage.control.drop(peer.connection)
    stage.control.drop(peer.connection)
    assert peer.connection.subs == {}
    assert peer.connection.closed
    assert stage.sublist.statistics()["subscriptions"] == 1
    stage.join(QUIET).send(b"PUB a 0\r\n\r\n")
    assert stays.take()
    assert peer.take() == b""


def test_given_a_mistake_then_the_debug_log_says_who_made_it_and_what_was_seen(
    peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "seriatim"):
        peer.send(b"SUB a..b 1\r\n")
    assert caplog.messages == ['peer - InvalidSubject: subscription to "a..b"']
