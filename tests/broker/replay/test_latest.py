"""The last message of every subject: found from the newest piece to the oldest, sent in order."""

import errno
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sequencer.journal.ring import Ring
from sequencer.journal.segment import Segment
from sequencer.journal.store import Store
from testkit.stage import QUIET, Stage
from tests.broker.replay.test_replays import active, asking, fill, msg
from tests.broker.replay.test_stepper import damage
from tests.support.stores import in_memory, open_store


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest) -> Iterator[Store | Ring]:
    if request.param == "memory":
        yield Ring(1 << 26)
        return
    with in_memory() as path:
        yield open_store(Path(path) / "store", segment_bytes=20_000)


def lasts(stage: Stage, subjects: int, count: int) -> dict[bytes, int]:
    """Publish to random subjects; the last number of each."""
    random = Random(3)
    found = {}
    for _ in range(count):
        subject = b"s.%d" % random.randrange(subjects)
        fill(stage, 1, random.choice([10, 900, 4000]), subject)
        found[subject] = stage.number
    return found


def heard_numbers(data: bytes) -> list[int]:
    return [int(part.split(b":")[2].split(b",")[0]) for part in data.split(b"MSG ")[1:]]


@pytest.mark.parametrize("subjects", [1, 7, 150])
def test_given_subjects_then_the_last_of_each_comes_in_the_order_of_numbers_and_then_live(
    store: Store | Ring, subjects: int
) -> None:
    stage = Stage(journal=store)
    last = lasts(stage, subjects, 400)
    fill(stage, 3, subject=b"other")
    peer, one = asking(stage, b"$SEQ.LAST.s.*"), asking(stage, b"$SEQ.LAST.s.0")
    stage.loop.run()
    assert heard_numbers(peer.take()) == sorted(last.values())
    assert heard_numbers(one.take()) == [last[b"s.0"]]
    fill(stage, 1, subject=b"s.0")
    assert peer.take() == one.take() == msg(404, subject=b"s.0")
    assert active(stage) == 0


def test_given_messages_that_come_during_the_survey_then_they_follow_once(
    store: Store | Ring,
) -> None:
    stage = Stage(journal=store)
    last = lasts(stage, 40, 3000)
    peer = asking(stage, b"$SEQ.LAST.>")
    came = []
    while active(stage):
        stage.loop.turn()
        fill(stage, 1, subject=b"s.1")
        came.append(stage.number)
    assert len(came) > 1
    assert heard_numbers(peer.take()) == sorted(last.values()) + came


def test_given_a_reader_that_stalls_then_it_gets_all_later(store: Store | Ring) -> None:
    stage = Stage(journal=store)
    for at in range(900):
        fill(stage, 1, subject=b"s.%d" % at)
    peer = asking(stage, b"$SEQ.LAST.>")
    peer.stall()
    stage.loop.run()
    heard = b""
    while active(stage):
        heard += peer.resume(50_000)
        stage.loop.run()
        heard += peer.take()
    heard += peer.resume()
    assert heard_numbers(heard) == list(range(1, 901))


@pytest.mark.parametrize("most", [1, 3, 10])
def test_given_a_limit_of_just_so_many_subjects_then_it_ends_and_nobody_else_is_hurt(
    store: Store | Ring, most: int
) -> None:
    stage = Stage(journal=store)
    for at in range(10):
        fill(stage, 1, subject=b"s.%d" % at)
    peer = stage.join(QUIET)
    peer.send(b"SUB $SEQ.LAST.s.* 1\r\nUNSUB 1 %d\r\n" % most)
    stage.loop.run()
    assert heard_numbers(peer.take()) == list(range(1, most + 1))
    other = asking(stage, b"$SEQ.LAST.>")
    stage.loop.run()
    assert heard_numbers(other.take()) == list(range(1, 11))


def test_given_a_pick_that_was_deleted_before_it_was_played_then_it_is_reported_as_lost() -> None:
    with in_memory() as path:
        store = open_store(Path(path) / "store", segment_bytes=1 << 30)
        stage = Stage(journal=store)
        fill(stage, 1, subject=b"old")
        stage.sequencer.ask_again()
        store.roll(1)
        for at in range(600):
            fill(stage, 1, subject=b"s.%d" % at)
        stage.sequencer.ask_again()
        store.roll(1)
        fill(stage, 1, subject=b"new")
        peer = stage.join(QUIET)
        peer.send(b"SUB $SEQ.LAST.> 1\r\n")
        peer.stall()
        stage.loop.turn()  # the survey has begun
        store.retain_count = 1
        assert len(store.retain(1)) == 2
        stage.loop.run()
        heard = b""
        while active(stage):
            heard += peer.resume()
            stage.loop.run()
        heard += peer.resume() + peer.take()
        assert heard.endswith(msg(602, subject=b"new"))


def test_given_pieces_that_went_before_the_survey_began_then_what_is_left_is_surveyed() -> None:
    ring = Ring(1 << 20)
    stage = Stage(journal=ring)
    fill(stage, 100, subject=b"old")
    peer = stage.join(QUIET)
    peer.stall()
    peer.send(b"SUB $SEQ.FROM.1.> 1\r\n")
    stage.loop.run()
    peer.send(b"SUB $SEQ.LAST.> 2\r\n")  # it waits for the socket, and is nowhere yet
    stage.loop.run()
    fill(stage, 5000, subject=b"new")
    heard = b""
    while active(stage):
        heard += peer.resume()
        stage.loop.run()
        heard += peer.take()
    kept = ring.first
    assert b"MSG $SEQ.LOST.101.%d 2 0\r\n" % (kept - 1) in heard
    assert heard.count(b"MSG new 2 ") == 5101 - kept
    assert b"MSG old 2 " not in heard


@pytest.mark.parametrize("begun", [False, True], ids=["in the survey", "in the picks"])
def test_given_a_piece_that_cannot_be_read_then_the_others_are_and_the_broker_rests(
    monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    with in_memory() as path:
        store = open_store(Path(path) / "store", segment_bytes=20_000)
        stage = Stage(journal=store)
        for at in range(60):
            fill(stage, 1, subject=b"s.%d" % at)
        second, third = store.segments()[1:3]
        read, surveyed = Segment.read, set()

        def bad(piece: Segment, *how: Any) -> int:
            if piece is second and (not begun or store.segments()[0] in surveyed):
                raise OSError(errno.EIO, "Input/output error")
            surveyed.add(piece)
            return read(piece, *how)

        monkeypatch.setattr(Segment, "read", bad)
        peer = asking(stage, b"$SEQ.LAST.>")
        stage.loop.run()
        heard = peer.take()
        unread = range(second.first, third.first)
        assert heard.count(b"MSG s.") == 60 - len(unread)
        lost = [b"MSG $SEQ.LOST.%d.%d 1 0\r\n\r\n" % (number, number) for number in unread]
        assert heard.count(b"$SEQ.LOST.") == begun * len(lost)
        assert all((one in heard) == begun for one in lost)
        assert active(stage) == 0


@pytest.mark.parametrize("number", [1, 77, 200])
def test_given_a_damaged_record_then_the_last_good_one_of_its_subject_is_played(
    number: int,
) -> None:
    with in_memory() as path:
        store = open_store(Path(path) / "store", segment_bytes=20_000)
        stage = Stage(journal=store)
        for at in range(200):
            fill(stage, 1, subject=b"s.%d" % (at % 50))
        damage(store, number)
        peer = asking(stage, b"$SEQ.LAST.>")
        stage.loop.run()
        heard = peer.take()
        assert heard.count(b"MSG s.") in (49, 50)
        lost = b"MSG $SEQ.LOST.%d.%d 1 0\r\n\r\n" % (number, number)
        assert (lost in heard) == (number > 150)
        assert active(stage) == 0
