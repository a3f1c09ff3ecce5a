"""Whatever a cursor is doing when its subscription or connection ends, nothing of it stays.

The garbage collector does not track a compiled Subscription. So the test is that nothing refers to
it any more, nor to its cursor, immediately.
"""

import errno
import sys
from collections.abc import Callable
from typing import Any, cast

import pytest

from broker.replay.bulk import Bulk, read_request
from broker.replay.cursor import Cursor
from broker.replay.lookup import Lookup
from sequencer.journal.segment import Segment
from sequencer.journal.store import Store
from testkit.peer import Peer
from testkit.stage import HEADS, QUIET, Stage
from tests.broker.replay.test_replays import fill

FILLED = 700
NEVER = 10**17


def subscribe(stage: Stage, words: bytes, *, stalled: bool = False, turns: int = 0) -> Peer:
    peer = stage.join(HEADS)
    if stalled:
        peer.socket_room = 1000
    peer.send(b"SUB %b 1\r\n" % words)
    for _ in range(turns):
        stage.loop.turn()
    if stalled:
        stage.loop.run(threads=False)
        assert not peer.connection.writable
    return peer


def cold(patch: pytest.MonkeyPatch, number: int) -> None:
    """Have reads fail that may not wait."""
    read = Segment.read

    def never(piece: Segment, offset: int, into: memoryview, wait: bool) -> int:
        if not wait:
            raise OSError(number, "not now")
        return read(piece, offset, into, wait)

    patch.setattr(Segment, "read", never)


def fetching(stage: Stage, patch: pytest.MonkeyPatch, others: int) -> Peer:
    cold(patch, errno.EAGAIN)
    for _ in range(others):
        subscribe(stage, b"$SEQ.FROM.1.a")
    peer = subscribe(stage, b"$SEQ.FROM.1.a")
    stage.loop.run(threads=False)
    return peer


def trying_again(stage: Stage, patch: pytest.MonkeyPatch) -> Peer:
    cold(patch, errno.EMFILE)
    peer = subscribe(stage, b"$SEQ.FROM.1.a")
    stage.loop.run()
    return peer


# What a cursor is doing when its client has enough of it.
PLAYING: dict[str, Callable[[Stage, pytest.MonkeyPatch], Peer]] = {
    "ready": lambda stage, _: subscribe(stage, b"$SEQ.FROM.1.a"),
    "a number to come": lambda stage, _: subscribe(stage, b"$SEQ.FROM.%d.a" % NEVER, turns=2),
    "a range to come": lambda stage, _: subscribe(stage, b"$SEQ.RANGE.9999.%d.a" % NEVER, turns=2),
    "a time to come": lambda stage, _: subscribe(stage, b"$SEQ.SINCE.9000000000000.a", turns=2),
    "parked": lambda stage, _: subscribe(stage, b"$SEQ.FROM.1.a", stalled=True),
    "parked in a range": lambda stage, _: subscribe(stage, b"$SEQ.RANGE.1.9000.a", stalled=True),
    "a survey that is ready": lambda stage, _: subscribe(stage, b"$SEQ.LAST.>"),
    "a survey": lambda stage, _: subscribe(stage, b"$SEQ.LAST.>", turns=1),
    "picks": lambda stage, _: subscribe(stage, b"$SEQ.LAST.>", stalled=True),
    "read for by a thread": lambda stage, patch: fetching(stage, patch, 0),
    "to be read for": lambda stage, patch: fetching(stage, patch, 30),
    "trying again": trying_again,
}
ENDINGS: dict[str, Callable[[Peer], object]] = {
    "UNSUB": lambda peer: peer.send(b"UNSUB 1\r\n"),
    "UNSUB max": lambda peer: (peer.send(b"UNSUB 1 1\r\n"), peer.resume()),
    "gone": lambda peer: peer.leave(),
    "too slow": lambda peer: (
        peer.stage.plane.gate.disconnect_slow(peer.connection),
        peer.stage.plane.release(None),
    ),
    "a defect": lambda peer: fail(peer),
}


def fail(peer: Peer) -> None:
    """A defect shows when it is this one's turn."""
    replays: Any = peer.stage.replays
    cursor = cast(Cursor, next(iter(peer.connection.subs.values())).replay)
    if cursor.queue is not None:
        cursor.queue.discard(cursor)
    replays._stepper.fail(cursor, ValueError("a defect"))
    peer.stage.plane.release(None)


@pytest.mark.parametrize("doing", PLAYING)
@pytest.mark.parametrize("ending", ENDINGS)
def test_given_any_replay_when_its_subscription_ends_then_nothing_refers_to_either(
    store: Store, monkeypatch: pytest.MonkeyPatch, doing: str, ending: str
) -> None:
    stage = Stage(journal=store)
    fill(stage, FILLED)
    for at in range(900):
        fill(stage, 1, subject=b"s.%d" % at)
    peer = PLAYING[doing](stage, monkeypatch)
    (sub,) = peer.connection.subs.values()
    cursor = cast(Cursor, sub.replay)
    assert not cursor.ended
    ENDINGS[ending](peer)
    if ending == "UNSUB max":
        if "to come" in doing:
            assert not cursor.ended, "it has not had its message"
            return
        monkeypatch.undo()
        stage.loop.later(1)
    assert cursor.ended
    monkeypatch.undo()
    stage.loop.later(1)  # threads are done, and timers have passed
    assert sys.getrefcount(cursor) == 2
    del cursor  # which refers to it
    assert sys.getrefcount(sub) == 2
    assert_at_rest(stage, store)


def assert_at_rest(stage: Stage, store: Store) -> None:
    replays: Any = stage.replays
    assert (replays.active, replays.catching_up) == (0, 0)
    assert not replays.scheduler.ready
    assert not list(replays.scheduler.parked)
    assert not replays.waits
    assert not replays._asked
    assert (replays.opened.open, len(replays.opened._all), len(replays.opened._latest)) == (0, 0, 0)
    assert not replays._catching
    assert all(segment.holders == 0 for segment in store.segments())


def look_up(stage: Stage, peer: Peer) -> Cursor:
    assert stage.replays is not None
    lookup = Lookup(stage.replays, peer.connection)
    for number in range(1, 500):
        lookup.want(number, b"$SEQ.GET", b"in")
    return lookup


def read(stage: Stage, peer: Peer) -> Cursor:
    assert stage.replays is not None
    return Bulk(stage.replays, peer.connection, b"in", read_request(b'{"from": 1}', stage.number))


@pytest.mark.parametrize("stalled", [False, True], ids=["reads", "does not read"])
@pytest.mark.parametrize("asked", [look_up, read])
@pytest.mark.parametrize("ending", ["gone", "too slow", "answered"])
def test_given_any_question_when_its_connection_ends_then_nothing_of_it_stays(
    store: Store, asked: Callable[[Stage, Peer], Cursor], ending: str, stalled: bool
) -> None:
    stage = Stage(journal=store)
    fill(stage, FILLED)
    peer = stage.join(HEADS)
    peer.send(b"SUB in 1\r\n")
    if stalled:
        peer.socket_room = 1000
    cursor = asked(stage, peer)
    assert stage.replays is not None
    stage.replays.serve_requests(cursor)
    if stalled:
        stage.loop.run()
        assert stage.replays.active == 1
    if ending == "answered":
        peer.resume()
        stage.loop.run()
        assert peer.take()
    else:
        ENDINGS[ending](peer)
    assert cursor.ended
    assert sys.getrefcount(cursor) == 2
    assert_at_rest(stage, store)


@pytest.mark.parametrize("ending", ["gone", "too slow", "caught up"])
def test_given_a_link_that_catches_up_when_it_ends_then_nothing_of_it_stays(
    store: Store, ending: str
) -> None:
    stage = Stage(journal=store, catchup_pending=4096)
    peer = stage.join(QUIET)
    peer.send(b"SUB a 1\r\n")
    peer.stall()
    fill(stage, 100)
    peer.send(b"PING\r\nUNSUB 1\r\n")  # both wait for what was published before
    assert stage.replays is not None
    cursor = stage.replays._catching[peer.connection]
    (sub,) = peer.connection.subs.values()
    if ending == "caught up":
        peer.resume()
        stage.loop.run()
        assert b"PONG" in peer.take()
    else:
        ENDINGS[ending](peer)
    assert cursor.ended
    assert sys.getrefcount(cursor) == 2
    assert_at_rest(stage, store)
    del cursor
    stage.sublist.route(b"a")  # what it led to is looked for again
    assert sys.getrefcount(sub) == 2


def test_given_a_client_that_says_what_nobody_may_then_its_error_does_not_hold_its_connection() -> (
    None
):
    stage = Stage()
    peer = stage.join(QUIET)
    peer.send(b"NO\r\n")
    assert peer.connection.closed
    fault = peer.connection.parser.fault
    assert fault is not None
    assert fault.__traceback__ is None, "whose frames refer to the link"
