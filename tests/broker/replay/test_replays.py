"""Replays of subscriptions: what they send, and that they end with their subscriber."""

from typing import Any

import pytest

from sequencer.journal.store import Store
from testkit.model_frame import netstring_frame
from testkit.peer import Peer
from testkit.stage import QUIET, Stage


def body(number: int, size: int = 900) -> bytes:
    return (b"%d " % number).ljust(size, b"x")


def fill(stage: Stage, count: int, size: int = 900, subject: bytes = b"a") -> None:
    publisher = stage.join(QUIET)
    for _ in range(count):
        text = body(stage.number + 1, size)
        publisher.send(b"PUB %b %d\r\n%b\r\n" % (subject, len(text), text))


def msg(number: int, size: int = 900, subject: bytes = b"a") -> bytes:
    frame = netstring_frame(number, body(number, size))
    return b"MSG %b 1 %d\r\n%b\r\n" % (subject, len(frame), frame)


def told(first: int, last: int, size: int = 900) -> bytes:
    return b"".join(msg(number, size) for number in range(first, last + 1))


def asking(stage: Stage, words: bytes, **how: Any) -> Peer:
    peer = stage.join(QUIET, **how)
    peer.send(b"SUB %b 1\r\n" % words)
    return peer


def active(stage: Stage) -> int:
    assert stage.replays is not None
    return stage.replays.active


@pytest.mark.parametrize("first", [1, 57, 300, 301, 302])
def test_given_a_number_then_all_from_there_on_is_played_and_then_it_is_live(
    store: Store, first: int
) -> None:
    stage = Stage(journal=store)
    fill(stage, 300)
    peer = asking(stage, b"$SEQ.FROM.%d.a" % first)
    stage.loop.run()
    assert peer.take() == told(first, 300)
    fill(stage, 3)
    stage.loop.run()
    assert peer.take() == told(first, 303)[len(told(first, 300)) :]
    assert active(stage) == 0


@pytest.mark.parametrize("ending", [b"UNSUB 1\r\n", b"UNSUB 1 2\r\n"])
@pytest.mark.parametrize(
    "words", [b"$SEQ.FROM.1.a", b"$SEQ.RANGE.1.9000.a", b"$SEQ.FROM.9000.a", b"$SEQ.LAST.*"]
)
def test_given_a_subscription_that_ends_then_its_cursor_does_and_the_broker_rests(
    store: Store, words: bytes, ending: bytes
) -> None:
    stage = Stage(journal=store)
    fill(stage, 700)
    fill(stage, 1, subject=b"b")
    peer = asking(stage, words)
    peer.send(ending)
    stage.loop.run()
    fill(stage, 20)
    stage.loop.run()
    waits = words == b"$SEQ.FROM.9000.a" and ending == b"UNSUB 1 2\r\n"
    assert len(peer.connection.subs) == active(stage) == waits
    peer.leave()
    stage.loop.run()
    other = asking(stage, b"$SEQ.FROM.1.a")
    stage.loop.run()
    assert other.take().startswith(told(1, 700))


def test_given_a_connection_that_goes_then_all_its_cursors_end(store: Store) -> None:
    stage = Stage(journal=store)
    fill(stage, 2000)
    peer = stage.join(QUIET)
    peer.stall()
    peer.send(b"SUB $SEQ.FROM.1.a 1\r\nSUB $SEQ.RANGE.5.9.a 2\r\nSUB $SEQ.LAST.> 3\r\n")
    stage.loop.run()
    assert active(stage) == 3 or active(stage) == 1
    peer.leave()
    stage.loop.run()
    assert active(stage) == 0
    assert all(segment.holders == 0 for segment in store.segments())


# What is not in memory


def test_given_a_range_that_nothing_matched_when_its_end_is_not_synced_yet_then_it_is_not_told(
    store: Store,
) -> None:
    stage = Stage(journal=store, sync="always")
    early = asking(stage, b"$SEQ.RANGE.1.5.nobody")
    stage.loop.run()
    fill(stage, 5)
    late = asking(stage, b"$SEQ.RANGE.1.5.nobody")
    stage.loop.run(threads=False)
    assert stage.sequencer.safe < 5
    assert early.take() == late.take() == b""
    stage.loop.run()
    assert stage.sequencer.safe == 5
    assert early.take() == late.take() == b"MSG $SEQ.END.5 1 0\r\n\r\n"
