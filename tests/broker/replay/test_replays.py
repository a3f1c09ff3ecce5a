"""Whose turn it is: cursors that play, wait, are parked, are fetched for, fail, and end."""

import errno
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.replay import fetcher, stepper
from broker.replay.cursor import Cursor
from sequencer.journal.layout import HEADER_SIZE
from sequencer.journal.segment import Segment
from sequencer.journal.store import Store
from testkit.messages import netstring_frame
from testkit.peer import Peer
from testkit.stage import QUIET, Stage
from tests.support.stores import in_memory, open_store


@pytest.fixture
def store() -> Iterator[Store]:
    with in_memory() as path:
        opened = open_store(Path(path) / "store", segment_bytes=100_000)
        yield opened
        opened.close()


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
    stage = Stage(store=store)
    fill(stage, 300)
    peer = asking(stage, b"$SEQ.FROM.%d.a" % first)
    stage.loop.run()
    assert peer.take() == told(first, 300)
    fill(stage, 3)
    stage.loop.run()
    assert peer.take() == told(first, 303)[len(told(first, 300)) :]
    assert active(stage) == 0


def test_given_messages_that_come_at_every_turn_then_none_is_missed_between_replay_and_live(
    store: Store,
) -> None:
    stage = Stage(store=store)
    fill(stage, 2000)
    peer = asking(stage, b"$SEQ.FROM.1.>")
    turns = 0
    while active(stage):
        stage.loop.turn()
        fill(stage, 1)
        turns += 1
    fill(stage, 1)
    assert turns > 3
    assert peer.take() == told(1, 2001 + turns)


def test_given_an_outbox_that_holds_much_while_its_socket_takes_more_then_the_replay_goes_on(
    store: Store,
) -> None:
    """A store that was lent for a long message is longer than an outbox of a replay may be."""
    stage = Stage(store=store)
    asking(stage, b"a")
    fill(stage, 1, size=300_000)
    assert any(len(spare) > stepper.BUFFER for spare in stage.plane.gate.spare)
    fill(stage, 1500)
    peer = asking(stage, b"$SEQ.FROM.2.a")
    stage.loop.run()
    assert peer.take() == told(2, 1501)


def test_given_a_reader_that_stalls_then_its_cursor_is_parked_until_it_reads(store: Store) -> None:
    stage = Stage(store=store)
    fill(stage, 2000)
    peer = asking(stage, b"$SEQ.FROM.1.a")
    peer.socket_room = 10_000
    stage.loop.run()
    assert stage.loop.quiet
    assert 0 < peer.connection.held() < (1 << 18) + 2000
    heard = peer.take()
    while len(heard) < len(told(1, 2000)):
        heard += peer.resume(10_000)
        stage.loop.run()
        heard += peer.take()
    assert heard == told(1, 2000)


@pytest.mark.parametrize("ending", [b"UNSUB 1\r\n", b"UNSUB 1 2\r\n"])
@pytest.mark.parametrize(
    "words", [b"$SEQ.FROM.1.a", b"$SEQ.RANGE.1.9000.a", b"$SEQ.FROM.9000.a", b"$SEQ.LAST.*"]
)
def test_given_a_subscription_that_ends_then_its_cursor_does_and_the_broker_rests(
    store: Store, words: bytes, ending: bytes
) -> None:
    stage = Stage(store=store)
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


def test_given_many_that_wait_for_numbers_then_those_that_have_gone_have_ended(
    store: Store,
) -> None:
    stage = Stage(store=store)
    keeps = asking(stage, b"$SEQ.FROM.5.a")
    for at in range(1000):
        peer = asking(stage, b"$SEQ.RANGE.%d.999999999.a" % (1000 + at))
        stage.loop.run()
        if at % 2:
            peer.leave()
        else:
            peer.send(b"UNSUB 1\r\n")
    assert active(stage) == 1
    fill(stage, 6)
    stage.loop.run()
    assert keeps.take() == told(5, 6)


def test_given_a_connection_that_goes_then_all_its_cursors_end(store: Store) -> None:
    stage = Stage(store=store)
    fill(stage, 2000)
    peer = stage.join(QUIET)
    peer.stall()
    peer.send(b"SUB $SEQ.FROM.1.a 1\r\nSUB $SEQ.RANGE.5.9.a 2\r\nSUB $SEQ.LAST.> 3\r\n")
    stage.loop.run()
    assert active(stage) == 3 or active(stage) == 1
    peer.leave()
    stage.loop.run()
    assert active(stage) == 0
    assert all(segment.holders == 0 for segment in store.pieces())


def test_given_a_cursor_with_a_defect_then_its_client_is_cut_off_and_others_are_served(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    class Defect(Cursor):
        def is_done(self) -> bool:
            raise ValueError("a defect")

    stage = Stage(store=store)
    fill(stage, 100)
    assert stage.replays is not None
    unlucky, others = stage.join(QUIET), [asking(stage, b"$SEQ.FROM.1.a") for _ in range(40)]
    stage.replays.begin(Defect(unlucky.connection, 1))
    others += [asking(stage, b"$SEQ.FROM.1.a") for _ in range(40)]
    stage.loop.run()
    assert unlucky.slow
    assert all(peer.take() == told(1, 100) for peer in others)
    assert "a defect" in caplog.text
    assert active(stage) == 0


# What is not in memory


class Cold:
    """Reads that find nothing, or only a few bytes, in the system's memory."""

    def __init__(self, patch: pytest.MonkeyPatch, lengths: list[int]) -> None:
        self.waited = self.asked = 0
        read = Segment.read

        def cold(piece: Segment, offset: int, into: memoryview, wait: bool) -> int:
            if wait:
                self.waited += 1
                return read(piece, offset, into, wait)
            self.asked += 1
            length = lengths[self.asked % len(lengths)]
            if length == 0:
                raise BlockingIOError
            return read(piece, offset, into[:length], True)

        patch.setattr(Segment, "read", cold)


@pytest.mark.parametrize("lengths", [[0], [1], [7], [HEADER_SIZE - 1], [HEADER_SIZE], [500, 0, 3]])
@pytest.mark.parametrize("size", [0, 100, 300_000])
def test_given_a_cold_cache_when_reads_are_short_then_nothing_is_taken_for_damage(
    store: Store, monkeypatch: pytest.MonkeyPatch, lengths: list[int], size: int
) -> None:
    stage = Stage(store=store)
    fill(stage, 20, size)
    cold = Cold(monkeypatch, lengths)
    peers = [asking(stage, b"$SEQ.FROM.1.a"), asking(stage, b"$SEQ.LAST.*")]
    last = asking(stage, b"$SEQ.RANGE.3.9.a")
    stage.loop.run()
    assert peers[0].take() == told(1, 20, size)
    assert peers[1].take() == told(20, 20, size)
    assert last.take() == told(3, 9, size) + b"MSG $SEQ.END.9 1 0\r\n\r\n"
    assert cold.waited
    assert active(stage) == 0


def test_given_many_cursors_when_all_must_be_fetched_for_then_few_buffers_are_held(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(store=store)
    fill(stage, 300)
    Cold(monkeypatch, [0])
    peers = [asking(stage, b"$SEQ.FROM.%d.a" % (1 + at)) for at in range(200)]
    stage.loop.run(threads=False)
    assert len(stage.loop.threads) == fetcher.FETCHES
    stage.loop.run()
    for at, peer in enumerate(peers):
        assert peer.take() == told(1 + at, 300)
    assert active(stage) == 0


def test_given_a_thread_that_reads_when_its_client_goes_then_nothing_is_held_on_to(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(store=store)
    fill(stage, 300)
    Cold(monkeypatch, [0])
    peers = [asking(stage, b"$SEQ.FROM.1.a") for _ in range(50)]
    stage.loop.run(threads=False)
    for peer in peers[:49]:
        peer.leave()
    stage.loop.run()
    assert peers[49].take() == told(1, 300)
    assert active(stage) == 0
    assert all(segment.holders == 0 for segment in store.pieces())
    other = asking(stage, b"$SEQ.FROM.1.a")
    stage.loop.run()
    assert other.take() == told(1, 300)


def test_given_no_descriptor_to_read_with_when_there_is_one_again_then_nothing_was_lost(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(store=store)
    fill(stage, 300)
    read = Segment.read

    def none_left(*_: Any) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Segment, "read", none_left)
    peer = asking(stage, b"$SEQ.FROM.1.a")
    stage.loop.run()
    assert peer.take() == b""
    monkeypatch.setattr(Segment, "read", read)
    stage.loop.later(1)
    assert peer.take() == told(1, 300)


def test_given_a_piece_that_cannot_be_read_then_its_numbers_are_told_as_lost(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(store=store)
    fill(stage, 300)
    second, third = store.pieces()[1:3]
    read = Segment.read

    def bad(piece: Segment, *how: Any) -> int:
        if piece is second:
            raise OSError(errno.EIO, "Input/output error")
        return read(piece, *how)

    monkeypatch.setattr(Segment, "read", bad)
    peer = asking(stage, b"$SEQ.FROM.1.a")
    stage.loop.run()
    lost = b"MSG $SEQ.LOST.%d.%d 1 0\r\n\r\n" % (second.first, third.first - 1)
    assert peer.take() == told(1, second.first - 1) + lost + told(third.first, 300)
    assert "Input/output error" in caplog.text


def damage(store: Store, number: int) -> None:
    """Change a byte of a record's payload, on the disk."""
    piece = next(p for p in store.pieces() if p.first <= number <= p.last)
    path = Path(piece.file)
    data = bytearray(path.read_bytes())
    at = data.index(body(number)[:20], 64)
    data[at + 500] ^= 1
    path.write_bytes(bytes(data[: piece.size]))


@pytest.mark.parametrize("numbers", [[57], [1], [300], [57, 58], [56, 58], [298, 300], [120, 299]])
def test_given_damage_then_just_what_is_damaged_is_told_as_lost(
    store: Store, numbers: list[int]
) -> None:
    stage = Stage(store=store)
    fill(stage, 300)
    for number in numbers:
        damage(store, number)
    peer, latest = asking(stage, b"$SEQ.FROM.1.a"), asking(stage, b"$SEQ.LAST.a")
    stage.loop.run()
    heard = peer.take()
    good = [number for number in range(1, 301) if number not in numbers]
    parts = [part for part in re.split(rb"(?=MSG )", heard) if b"$SEQ.LOST" not in part]
    assert b"".join(parts) == b"".join(msg(number) for number in good)
    assert heard.count(b"$SEQ.LOST.") == len(numbers) - (numbers == [57, 58])
    fill(stage, 1)
    stage.loop.run()
    assert peer.take() == msg(301)
    assert latest.take().endswith(msg(301))
    assert active(stage) == 0


def test_given_a_time_when_the_first_record_of_it_is_damaged_then_no_number_0_is_told_as_lost(
    store: Store,
) -> None:
    stage = Stage(store=store)
    stage.sequencer.tick(1_000_000_000)
    fill(stage, 300)
    damage(store, 1)
    peer = asking(stage, b"$SEQ.SINCE.1000.a")
    stage.loop.run()
    heard = peer.take()
    assert heard.startswith(b"MSG $SEQ.LOST.1.1 1 0\r\n\r\n" + msg(2))
    assert heard.count(b"$SEQ.LOST.") == 1


def test_given_a_range_that_nothing_matched_when_its_end_is_not_synced_yet_then_it_is_not_told(
    store: Store,
) -> None:
    stage = Stage(store=store, sync="always")
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
