"""Queue groups in the data plane: each message to exactly one member, and to which."""

from collections import Counter

import pytest

from testkit.messages import Message
from testkit.peer import Peer
from testkit.stage import QUIET, Stage
from tests.support.raw import operations

DEAF = b'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\n'
MANY = 300


def publish(subject: bytes, count: int) -> bytes:
    return b"".join(Message(subject, b"%d" % number).wire for number in range(count))


def heard(peer: Peer) -> list[tuple[bytes, bytes]]:
    """Sids and payloads of what a peer in frame mode `none` heard."""
    return [(one.sid, one.payload) for one in operations(peer.take())]


def group(stage: Stage, members: int, connect: bytes = QUIET) -> list[Peer]:
    return [stage.join(connect + b"SUB t q 1\r\n", frame="none") for _ in range(members)]


@pytest.mark.parametrize("members", [1, 2, 3, 7])
def test_given_a_group_then_each_message_has_one_member_and_each_member_its_share(
    members: int,
) -> None:
    stage = Stage()
    peers = group(stage, members)
    stage.join(QUIET).send(publish(b"t", MANY))
    shares = [heard(peer) for peer in peers]
    payloads = [payload for share in shares for _, payload in share]
    assert sorted(payloads, key=int) == [b"%d" % number for number in range(MANY)]
    for share in shares:
        assert len(share) > MANY / members / 2
        assert [int(payload) for _, payload in share] == sorted(int(p) for _, p in share)


def test_given_members_on_one_connection_then_each_message_comes_once() -> None:
    stage = Stage()
    peer = stage.join(QUIET + b"SUB t q 1\r\nSUB t q 2\r\nSUB * q 3\r\nSUB > q 4\r\n", frame="none")
    stage.join(QUIET).send(publish(b"t", MANY))
    found = heard(peer)
    assert [payload for _, payload in found] == [b"%d" % number for number in range(MANY)]
    shares = Counter(sid for sid, _ in found)
    assert set(shares) == {b"1", b"2", b"3", b"4"}, "one name is one group, whatever the patterns"


def test_given_groups_of_other_names_and_plain_ones_then_each_of_them_hears_it() -> None:
    stage = Stage()
    q, r, plain = (stage.join(QUIET, frame="none") for _ in range(3))
    q.send(b"SUB t q 1\r\n")
    r.send(b"SUB t r 1\r\n")
    plain.send(b"SUB t 1\r\n")
    stage.join(QUIET).send(publish(b"t", 10))
    assert heard(q) == heard(r) == heard(plain) == [(b"1", b"%d" % n) for n in range(10)]


def test_given_a_member_that_must_not_hear_itself_then_another_gets_all() -> None:
    stage = Stage()
    deaf = stage.join(DEAF + b"SUB t q 1\r\nSUB t 2\r\n", frame="none")
    (other,) = group(stage, 1)
    deaf.send(publish(b"t", 50))
    assert heard(deaf) == []
    assert len(heard(other)) == 50


def test_given_a_member_that_stalls_then_the_others_get_its_share() -> None:
    stage = Stage()
    stalled, one, other = group(stage, 3)
    stalled.stall()
    stage.join(QUIET).send(publish(b"t", 60))
    assert stalled.connection.held() == 0
    shares = [len(heard(peer)) for peer in (one, other)]
    assert sum(shares) == 60
    assert min(shares) > 0
    stalled.resume()
    stage.join(QUIET).send(publish(b"t", 60))
    assert heard(stalled)


def test_given_members_that_all_stall_then_one_of_them_still_gets_each_message() -> None:
    stage = Stage()
    peers = group(stage, 3)
    for peer in peers:
        peer.stall()
    stage.join(QUIET).send(publish(b"t", 60))
    waited = [len(operations(peer.resume())) for peer in peers]
    assert sum(waited) == 60
    assert min(waited) > 0


def test_given_a_member_with_a_full_outbox_then_it_is_cut_off_and_the_message_not_lost() -> None:
    stage = Stage()
    full = stage.join(QUIET + b"SUB t q 1\r\n", frame="none", max_pending=1000)
    full.stall()
    other = stage.join(QUIET + b"SUB t q 1\r\n", frame="none", max_pending=1 << 20)
    other.stall()
    sent = b"PUB t 400\r\n" + b"x" * 400 + b"\r\n"
    stage.join(QUIET).send(sent * 40)
    assert full.slow
    assert not other.slow
    assert full.connection.out_msgs > 0, "what the cut dropped"
    assert len(operations(other.resume())) == 40 - full.connection.out_msgs


def test_given_a_member_whose_wish_is_fulfilled_then_the_others_get_the_rest() -> None:
    stage = Stage()
    one, other = group(stage, 2)
    one.send(b"UNSUB 1 3\r\n")
    stage.join(QUIET).send(publish(b"t", 50))
    assert len(heard(one)) == 3
    assert len(heard(other)) == 47


def test_given_a_member_that_leaves_then_the_others_get_all_from_there_on() -> None:
    stage = Stage()
    one, other = group(stage, 2)
    stage.join(QUIET).send(publish(b"t", 20))
    had = len(heard(one))
    one.leave()
    assert len(heard(other)) == 20 - had
    stage.join(QUIET).send(publish(b"t", 20))
    assert heard(one) == []
    assert len(heard(other)) == 20


def test_given_only_a_muted_member_then_nobody_hears_and_a_request_gets_503() -> None:
    stage = Stage()
    asker = stage.join(
        b'CONNECT {"verbose":false,"pedantic":false,"echo":false,"headers":true,'
        b'"no_responders":true}\r\nSUB t q 1\r\nSUB r 2\r\n'
    )
    said = asker.ask(b"PUB t r 1\r\nx\r\n")
    assert said.startswith(b"HMSG r 2 ")
    assert b"NATS/1.0 503" in said
