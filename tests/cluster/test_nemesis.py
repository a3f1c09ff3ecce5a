"""What the nemesis judges by: each kind of breach is found by its peers and its ledger."""

import asyncio
import socket
from pathlib import Path

import pytest

from testkit.model_frame import netstring, netstring_frame
from tests.cluster.cluster_peers import Counting, Patient, Taker
from tests.cluster.troubles import put_back
from tests.crash.ledger import Broken, Ledger, Message
from tests.crash.peers import Live, Peer, Wire
from tests.crash.trial import Lives
from tests.support.raw import Operation

OK = Operation("+OK")
FULL = b"'Permissions Violation for Publish to \"%s\": the cluster has 1 of 2 members in sync'"


def refusal(subject: bytes) -> Operation:
    return Operation("-ERR", FULL % subject)


def message_of(number: int) -> Message:
    return Message(b"one", number)


def hear(peer: Peer, *numbers: int) -> None:
    """A connection on which these are delivered, until the broker is gone."""

    async def heard() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            for number in numbers:
                message = message_of(number)
                frame = netstring_frame(number, message.payload)
                theirs.sendall(b"MSG %s 1 %d\r\n%s\r\n" % (message.subject, len(frame), frame))
            theirs.shutdown(socket.SHUT_WR)
            wire = Wire(*await asyncio.open_connection(sock=ours))
            await peer.live(wire)
            wire.close()

    asyncio.run(heard())


def test_given_a_number_that_was_delivered_before_a_restart_when_it_comes_again_then_broken() -> (
    None
):
    live = Live("Live", Lives(), 1)
    hear(live, 5, 6)
    hear(live, 9, 10)
    with pytest.raises(Broken, match="got 10 again"):
        hear(live, 10)
    with pytest.raises(Broken, match="got 13 after 11"):
        hear(live, 11, 13)


def test_given_a_number_that_one_of_a_group_has_when_it_comes_to_any_then_broken() -> None:
    lives = Lives()
    one, other = Taker("one", lives, 1), Taker("other", lives, 1)
    hear(one, 1, 4)
    hear(other, 2, 3)
    with pytest.raises(Broken, match="'one' got 4 twice"):
        hear(one, 4)
    with pytest.raises(Broken, match="'other' got 1, which b'one' of the same queue group has"):
        hear(other, 1)


def test_given_answers_with_ok_when_one_is_that_of_another_message_then_broken() -> None:
    peer, (first, second) = Counting("one", Lives(), 1), map(message_of, (0, 1))
    peer.waiting.extend([first, second])
    assert peer.answers(OK, first)
    assert peer.answers(refusal(b"$SEQ.bad"), None)
    assert peer.answers(refusal(second.subject), second)
    assert [*peer.waiting] == [second], "it is to be sent again"
    assert peer.ledger.taken == {first}
    for said, message in ((refusal(b"$SEQ.bad"), second), (OK, None)):
        with pytest.raises(Broken, match="was answered"):
            peer.answers(said, message)


def test_given_answers_by_request_when_one_is_wrong_then_broken() -> None:
    peer, message = Patient("one", Lives(), 1), message_of(3)
    inbox = b"_INBOX.one.3"
    peer.waiting.append(message)
    refused = Operation("HMSG", subject=inbox, header=b"NATS/1.0 503\r\n\r\n")
    assert peer.answers(refused, message)
    assert [*peer.waiting] == [message]
    assert peer.answers(Operation("MSG", subject=inbox, payload=netstring(b"12")), message)
    assert peer.ledger.numbers == {message: 12}
    peer.waiting.append(message)
    with pytest.raises(Broken, match="has number 12, and was acknowledged again as 13"):
        peer.answers(Operation("MSG", subject=inbox, payload=netstring(b"13")), message)
    with pytest.raises(Broken, match="out of turn"):
        peer.answers(Operation("MSG", subject=b"_INBOX.one.4", payload=b"1:1,"), message)


def test_given_a_publisher_that_was_refused_when_judged_then_its_order_may_differ_and_no_more() -> (
    None
):
    def judge(*counts: int) -> None:
        journal = {at: message_of(count) for at, count in enumerate(counts, 1)}
        Ledger().judge(journal, 1, {b"one"}, frozenset([b"one"]))

    judge(0, 2, 1, 3)
    for counts in ((0, 2, 1, 2), (0, 2, 3)):
        with pytest.raises(Broken):
            judge(*counts)


def test_given_a_copy_when_put_back_then_the_files_are_the_earlier_ones_with_their_inodes(
    tmp_path: Path,
) -> None:
    store, copy = tmp_path / "store", tmp_path / "copy"
    for folder in (store, copy):
        (folder / "cluster").mkdir(parents=True)
        (folder / "cluster" / "member.json").write_text("old")
    (copy / "1.segment").write_text("first")
    (store / "cluster" / "member.json").write_text("much newer")
    (store / "2.segment").write_text("second")
    inodes = [(store / name).stat().st_ino for name in ("cluster", "cluster/member.json")]
    put_back(copy, store)
    assert [(store / name).stat().st_ino for name in ("cluster", "cluster/member.json")] == inodes
    assert (store / "cluster" / "member.json").read_text() == "old"
    assert (store / "1.segment").read_text() == "first"
    assert not (store / "2.segment").exists()
