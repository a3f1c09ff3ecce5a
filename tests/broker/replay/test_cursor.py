"""Each kind of cursor at its limits: the end of a piece, the head, missing numbers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.replay.cursor import DEFERRED_MAX
from sequencer.journal.ring import Ring
from sequencer.journal.store import Store
from testkit.stage import QUIET, Stage
from tests.broker.replay.test_replays import active, asking, fill, told
from tests.support.stores import in_memory, open_store

DAY_MS = 86_400_000


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest) -> Iterator[Store | Ring]:
    if request.param == "memory":
        yield Ring(1 << 26)
        return
    with in_memory() as path:
        yield open_store(Path(path) / "store", segment_bytes=20_000)


def end(number: int) -> bytes:
    return b"MSG $SEQ.END.%d 1 0\r\n\r\n" % number


def lost(first: int, last: int) -> bytes:
    return b"MSG $SEQ.LOST.%d.%d 1 0\r\n\r\n" % (first, last)


@pytest.mark.parametrize(("first", "last"), [(1, 1), (5, 60), (99, 100), (100, 100), (1, 100)])
def test_given_a_range_when_it_is_there_then_it_is_played_and_ends(
    store: Store | Ring, first: int, last: int
) -> None:
    stage = Stage(journal=store)
    fill(stage, 100)
    peer = asking(stage, b"$SEQ.RANGE.%d.%d.>" % (first, last))
    stage.loop.run()
    assert peer.take() == told(first, last) + end(last)
    assert peer.connection.subs == {}
    fill(stage, 1)
    assert peer.take() == b""


def test_given_a_range_that_ends_later_then_it_waits_for_its_last_number(
    store: Store | Ring,
) -> None:
    stage = Stage(journal=store)
    fill(stage, 10)
    peer, later = asking(stage, b"$SEQ.RANGE.8.13.a"), asking(stage, b"$SEQ.RANGE.12.13.a")
    stage.loop.run()
    assert (peer.take(), later.take()) == (told(8, 10), b"")
    fill(stage, 5)
    stage.loop.run()
    assert (peer.take(), later.take()) == (told(11, 13) + end(13), told(12, 13) + end(13))


def test_given_a_store_with_nothing_in_it_then_all_that_comes_is_played(
    store: Store | Ring,
) -> None:
    stage = Stage(journal=store)
    wishes = [b"FROM.1.>", b"SINCE.0.>", b"LAST.>", b"RANGE.1.3.>", b"FROM.3.>"]
    peers = [asking(stage, b"$SEQ." + wish) for wish in wishes]
    stage.loop.run()
    assert [peer.take() for peer in peers] == [b""] * 5
    fill(stage, 3)
    stage.loop.run()
    heard = [peer.take() for peer in peers]
    assert heard == [told(1, 3)] * 3 + [told(1, 3) + end(3), told(3, 3)]


def test_given_a_time_that_has_not_come_then_nothing_before_it_is_played(
    store: Store | Ring,
) -> None:
    stage = Stage(journal=store)
    stage.sequencer.tick(5 * DAY_MS * 1_000_000)
    fill(stage, 3)
    tomorrow = asking(stage, b"$SEQ.SINCE.%d.a" % (6 * DAY_MS))
    today = asking(stage, b"$SEQ.SINCE.%d.a" % (5 * DAY_MS))
    yesterday = asking(stage, b"$SEQ.SINCE.%d.a" % (4 * DAY_MS))
    fill(stage, 3)
    stage.loop.run()
    fill(stage, 1)
    stage.loop.run()
    assert tomorrow.take() == b""
    assert today.take() == yesterday.take() == told(1, 7)
    stage.sequencer.tick(6 * DAY_MS * 1_000_000)
    fill(stage, 2)
    stage.loop.run()
    assert tomorrow.take() == told(8, 9)
    assert active(stage) == 0


@pytest.mark.parametrize(
    ("wish", "heard"),
    [
        (b"FROM.1.a", lost(1, 20) + told(21, 60)),
        (b"FROM.20.a", lost(20, 20) + told(21, 60)),
        (b"FROM.21.a", told(21, 60)),
        (b"RANGE.3.5.a", lost(3, 5) + end(5)),
        (b"RANGE.3.22.a", lost(3, 20) + told(21, 22) + end(22)),
        (b"SINCE.0.a", lost(1, 20) + told(21, 60)),
        (b"SINCE.1000.a", lost(1, 20) + told(21, 60)),  # all have that time, the deleted ones too
        (b"SINCE.1001.a", b""),
        (b"LAST.a", told(60, 60)),
    ],
)
def test_given_numbers_that_were_deleted_then_they_are_reported_as_lost(
    wish: bytes, heard: bytes
) -> None:
    with in_memory() as path:
        store = open_store(Path(path) / "store", segment_bytes=1 << 30)
        stage = Stage(journal=store)
        stage.sequencer.tick(1_000_000_000)
        fill(stage, 20)
        stage.sequencer.ask_again()
        store.roll(1)
        fill(stage, 40)
        store.retain_count = 40
        assert store.retain(1) == [(1, 20)]
        peer = asking(stage, b"$SEQ." + wish)
        stage.loop.run()
        assert peer.take() == heard


def test_given_that_all_is_deleted_when_a_time_before_that_is_asked_for_then_it_is_lost() -> None:
    with in_memory() as path:
        store = open_store(Path(path) / "store", segment_bytes=1 << 30)
        stage = Stage(journal=store)
        stage.sequencer.tick(5_000_000_000)
        fill(stage, 20)
        stage.sequencer.ask_again()
        store.roll(1)
        store.retain_bytes = 1
        assert store.retain(1) == [(1, 20)]
        before, after = (asking(stage, b"$SEQ.SINCE.%d.a" % time) for time in (5000, 5001))
        stage.loop.run()
        assert (before.take(), after.take()) == (lost(1, 20), b"")
        stage.sequencer.tick(5_001_000_000)
        fill(stage, 1)
        stage.loop.run()
        assert before.take() == after.take() == told(21, 21)


def test_given_a_replay_in_a_piece_that_is_deleted_then_it_reads_that_and_tells_the_rest() -> None:
    with in_memory() as path:
        store = open_store(Path(path) / "store", segment_bytes=400_000)
        stage = Stage(journal=store)
        fill(stage, 3000)
        pieces = store.segments()
        peer = asking(stage, b"$SEQ.FROM.1.a")
        peer.socket_room = 10_000
        stage.loop.run()
        store.retain_bytes = 900_000
        store.retain(1)
        assert pieces[0].gone
        assert pieces[1].gone
        heard = peer.take()
        while active(stage):
            heard += peer.resume(100_000)
            stage.loop.run()
        heard += peer.resume()
        gone = pieces[0].last
        expected = told(1, gone) + lost(gone + 1, store.first - 1) + told(store.first, 3000)
        assert heard == expected


def test_given_a_reader_that_lags_when_it_asks_for_a_pong_then_that_comes_after_the_messages(
    store: Store | Ring,
) -> None:
    stage = Stage(journal=store, catchup_pending=10_000)
    peer = asking(stage, b"a")
    peer.stall()
    fill(stage, 100)
    assert peer.connection.detached
    peer.send(b"PING\r\n")
    fill(stage, 50)
    peer.send(b"PING\r\nUNSUB 1\r\n")
    fill(stage, 50)
    heard = peer.resume()
    stage.loop.run()
    heard += peer.take()
    behind = told(1, 150)[len(told(1, 100)) :]
    assert heard == told(1, 100) + b"PONG\r\n" + behind + b"PONG\r\n"
    assert peer.connection.subs == {}


def test_given_a_reader_that_lags_when_it_pings_for_ever_then_it_is_cut_off(
    store: Store | Ring,
) -> None:
    stage = Stage(journal=store, catchup_pending=10_000)
    peer = asking(stage, b"a")
    peer.stall()
    fill(stage, 100)
    peer.send(b"PING\r\n" * DEFERRED_MAX)
    assert not peer.slow
    peer.send(b"PING\r\n")
    assert peer.slow
    stage.loop.run()
    assert active(stage) == 0


def test_given_what_a_reader_needs_is_gone_then_it_is_cut_off() -> None:
    stage = Stage(journal=Ring(600_000), catchup_pending=10_000)
    peer, other = asking(stage, b"a"), asking(stage, b"a")
    peer.stall()
    fill(stage, 2000)
    assert peer.connection.detached
    peer.resume()
    stage.loop.run()
    assert peer.slow
    assert stage.replays is not None
    assert (stage.replays.given_up, stage.replays.catching_up) == (1, 0)
    assert other.take() == told(1, 2000)
    assert stage.join(QUIET).ask(b"PING\r\n") == b"PONG\r\n"


def test_given_what_a_reader_needs_when_more_is_deleted_just_then_then_it_is_cut_off_once() -> None:
    with in_memory() as path:
        store = open_store(Path(path) / "store", segment_bytes=400_000)
        stage = Stage(journal=store, catchup_pending=10_000)
        peer = asking(stage, b"a")
        peer.stall()
        fill(stage, 3000)
        assert peer.connection.detached
        store.retain_bytes = 900_000
        store.retain(1)
        Path(store.segments()[0].file).unlink()  # as the keeper's thread has, before it says so
        peer.resume()
        stage.loop.run()
        assert peer.slow
        assert stage.replays is not None
        assert (stage.replays.given_up, stage.replays.catching_up) == (1, 0)
