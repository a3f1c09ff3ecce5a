"""One step: cold reads, damage, unreadable pieces, and a cursor with a defect."""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.replay import stepper as fetcher
from broker.replay.cursor import Cursor
from sequencer.journal.layout import HEADER_SIZE
from sequencer.journal.segment import Segment
from sequencer.journal.store import Store
from sequencer.journal.window_file import FILE
from testkit.stage import QUIET, Stage
from tests.broker.replay.test_replays import active, asking, body, fill, msg, told
from tests.support.stores import abandon, in_memory, open_store, sync_piece


def test_given_a_cursor_with_a_defect_then_its_client_is_cut_off_and_others_are_served(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    class Defect(Cursor):
        def is_done(self) -> bool:
            raise ValueError("a defect")

    stage = Stage(journal=store)
    fill(stage, 100)
    assert stage.replays is not None
    unlucky, others = stage.join(QUIET), [asking(stage, b"$SEQ.FROM.1.a") for _ in range(40)]
    stage.replays.start_cursor(Defect(unlucky.connection, 1))
    others += [asking(stage, b"$SEQ.FROM.1.a") for _ in range(40)]
    stage.loop.run()
    assert unlucky.slow
    assert all(peer.take() == told(1, 100) for peer in others)
    assert "a defect" in caplog.text
    assert active(stage) == 0


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
    stage = Stage(journal=store)
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
    stage = Stage(journal=store)
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
    stage = Stage(journal=store)
    fill(stage, 300)
    Cold(monkeypatch, [0])
    peers = [asking(stage, b"$SEQ.FROM.1.a") for _ in range(50)]
    stage.loop.run(threads=False)
    for peer in peers[:49]:
        peer.leave()
    stage.loop.run()
    assert peers[49].take() == told(1, 300)
    assert active(stage) == 0
    assert all(segment.holders == 0 for segment in store.segments())
    other = asking(stage, b"$SEQ.FROM.1.a")
    stage.loop.run()
    assert other.take() == told(1, 300)


def test_given_no_descriptor_to_read_with_when_there_is_one_again_then_nothing_was_lost(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(journal=store)
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


def test_given_a_piece_that_cannot_be_read_then_its_numbers_are_reported_as_lost(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(journal=store)
    fill(stage, 300)
    second, third = store.segments()[1:3]
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


@pytest.mark.parametrize("lengths", [[0], [7], [500], [2500], [500, 0, 3], [1 << 18]])
def test_given_a_window_that_is_lost_then_what_is_on_the_disk_is_played_to_its_end(
    long_store: Store, monkeypatch: pytest.MonkeyPatch, lengths: list[int]
) -> None:
    stage = Stage(journal=long_store)
    fill(stage, 300)
    long_store.sync()
    fill(stage, 20)
    lose_window(long_store)
    Cold(monkeypatch, lengths)
    all_of_it, synced = (asking(stage, b"$SEQ.RANGE.1.%d.a" % last) for last in (320, 300))
    stage.loop.run()
    assert synced.take() == told(1, 300) + b"MSG $SEQ.END.300 1 0\r\n\r\n"
    lost = b"MSG $SEQ.LOST.301.320 1 0\r\n\r\nMSG $SEQ.END.320 1 0\r\n\r\n"
    assert all_of_it.take() == told(1, 300) + lost


@pytest.mark.parametrize("number", [270, 300])
def test_given_damage_before_what_was_lost_with_the_window_then_it_is_passed_by(
    long_store: Store, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    stage = Stage(journal=long_store)
    fill(stage, 300)
    long_store.sync()
    fill(stage, 100)
    lose_window(long_store)
    (piece,) = long_store.segments()
    data = bytearray(Path(piece.file).read_bytes())
    size = (piece.synced - piece.start) // 300  # all are as long as one another
    at = piece.start + (number - 1) * size
    assert int.from_bytes(data[at + 8 : at + 16], "little") == number
    data[at + 4 : at + 8] = (1 << 15).to_bytes(4, "little")  # its length, beyond what is synced
    Path(piece.file).write_bytes(data)
    Cold(monkeypatch, [500])
    peer = asking(stage, b"$SEQ.RANGE.1.300.a")
    stage.loop.run()
    lost = b"MSG $SEQ.LOST.%d.%d 1 0\r\n\r\n" % (number, number)
    ending = told(number + 1, 300) + b"MSG $SEQ.END.300 1 0\r\n\r\n"
    assert peer.take() == told(1, number - 1) + lost + ending


@pytest.fixture
def long_store() -> Iterator[Store]:
    with in_memory() as path:
        opened = open_store(Path(path) / "store")
        yield opened
        abandon(opened)


def lose_window(store: Store) -> None:
    """Cut the window's file short, and let the store find out: the file has what is synced."""
    os.truncate(Path(store.path, FILE), 0)
    with pytest.raises(OSError, match="the journal window"):
        store.sync()


def damage(store: Store, number: int) -> None:
    """Change a byte of a record's payload, on the disk."""
    piece = sync_piece(store, number)
    path = Path(piece.file)
    data = bytearray(path.read_bytes())
    at = data.index(body(number)[:20], 64)
    data[at + 500] ^= 1
    path.write_bytes(bytes(data[: piece.size]))


@pytest.mark.parametrize("numbers", [[57], [1], [300], [57, 58], [56, 58], [298, 300], [120, 299]])
def test_given_damage_then_just_what_is_damaged_is_reported_as_lost(
    store: Store, numbers: list[int]
) -> None:
    stage = Stage(journal=store)
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


def test_given_a_time_whose_first_record_is_damaged_then_no_number_0_is_reported_as_lost(
    store: Store,
) -> None:
    stage = Stage(journal=store)
    stage.sequencer.tick(1_000_000_000)
    fill(stage, 300)
    damage(store, 1)
    peer = asking(stage, b"$SEQ.SINCE.1000.a")
    stage.loop.run()
    heard = peer.take()
    assert heard.startswith(b"MSG $SEQ.LOST.1.1 1 0\r\n\r\n" + msg(2))
    assert heard.count(b"$SEQ.LOST.") == 1
