"""One bound for the memory of reads and surveys: nobody is refused, nobody blocks others."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from broker.dataplane.connection import Connection
from broker.replay import latest, memory, scheduler
from broker.replay.bulk import Bulk, read_request
from broker.replay.cursor import Cursor
from broker.replay.memory import SHORT, MemoryPart, ReadMemory
from parser.machine import Parser
from sequencer.journal.columns import Collector
from sequencer.journal.ring import Ring
from sequencer.journal.store import Store
from testkit.peer import Peer
from testkit.stage import HEADS, QUIET, Stage
from tests.broker.replay.test_latest import heard_numbers
from tests.broker.replay.test_replays import active, asking, fill
from tests.support.stores import in_memory, open_store

MIB = 1 << 20


@pytest.fixture
def store() -> Iterator[Store]:
    with in_memory() as path:
        opened = open_store(Path(path) / "store", segment_bytes=4 * MIB)
        yield opened
        opened.close()


def read(stage: Stage, peer: Peer, inbox: bytes, chunk_bytes: int) -> Bulk:
    assert stage.replays is not None
    peer.send(b"SUB %b 1\r\n" % inbox)
    wish = {"from": 1, "chunk_bytes": chunk_bytes, "max_bytes": 64 * MIB}
    asked = Bulk(
        stage.replays, peer.connection, inbox, read_request(json.dumps(wish).encode(), stage.number)
    )
    stage.replays.serve_requests(asked)
    return asked


def deaf(stage: Stage) -> Peer:
    peer = stage.join(HEADS)
    peer.socket_room = 1
    return peer


def used(stage: Stage) -> int:
    assert stage.replays is not None
    return stage.replays.memory.used


@pytest.mark.parametrize("chunk_bytes", [1 << 17, 1 << 24])
@pytest.mark.parametrize("size", [900, 300_000])
def test_given_many_that_take_no_answers_then_what_they_hold_is_bounded_and_a_reader_has_all(
    store: Store, chunk_bytes: int, size: int
) -> None:
    stage = Stage(journal=store, answers_pending=64 * MIB)
    fill(stage, 20 * MIB // size, size)
    silent = [deaf(stage) for _ in range(16)]
    for at, peer in enumerate(silent):
        for _ in range(4):
            read(stage, peer, b"in.%d" % at, chunk_bytes)
    held = 0
    while not stage.loop.quiet:
        stage.loop.turn()
        while stage.loop.threads:
            stage.loop.work()
        held = max(held, used(stage))
    outboxes = sum(len(peer.heard) + peer.connection.held() for peer in silent)
    assert outboxes <= held <= 16 * MIB
    other = stage.join(HEADS)
    asked = read(stage, other, b"other", chunk_bytes)
    heard = 0
    while not asked.ended:
        stage.loop.run()
        heard += len(other.take())
    assert heard > stage.number * size
    for peer in silent:
        peer.leave()
    assert (active(stage), used(stage)) == (0, 0)


def test_given_more_that_take_nothing_than_there_is_memory_then_those_that_hold_it_are_cut_off(
    store: Store,
) -> None:
    stage = Stage(journal=store, answers_pending=8 * MIB)
    fill(stage, 3000)
    silent = [deaf(stage) for _ in range(30)]
    for at, peer in enumerate(silent):
        read(stage, peer, b"in.%d" % at, 1 << 20)
    stage.loop.run()
    other = stage.join(HEADS)
    asked = read(stage, other, b"other", 1 << 20)
    stage.loop.run()
    assert not other.heard, "it waits"
    assert used(stage) <= 8 * MIB
    assert stage.replays is not None
    stage.replays.let_go(10)
    assert not any(peer.slow for peer in silent), "they have had no time yet"
    for _ in range(len(silent)):
        stage.loop.later(11)
        stage.replays.let_go(10)
        stage.loop.run()
        if asked.ended:
            break
    assert asked.ended
    assert b"Seriatim-Last: 1" in other.take()
    assert any(peer.slow for peer in silent)


def test_given_a_message_longer_than_a_chunk_may_be_then_it_is_answered_and_counted(
    store: Store,
) -> None:
    stage = Stage(journal=store, answers_pending=32 * MIB)
    for size in (10, 900_000, 10, 700_000, 10):
        fill(stage, 1, size)
    peer = stage.join(HEADS)
    asked = read(stage, peer, b"in", 4096)
    stage.loop.run()
    assert asked.ended
    heard = peer.take()
    assert heard.count(b"Seriatim-Rows: 1") + 2 * heard.count(b"Seriatim-Rows: 2") == 5
    assert used(stage) == 0


# Surveys


def subjects(stage: Stage, count: int) -> list[int]:
    publisher = stage.join(QUIET)
    for turn in range(2):
        for at in range(count):
            text = b"%d" % (stage.number + 1)
            publisher.send(b"PUB some.%d %d\r\n%b\r\n" % (at, len(text), text))
        del turn
    return list(range(count + 1, 2 * count + 1))


def room_for(count: int, surveys: int) -> int:
    """What `answers_pending` must be for so many subjects, in so many surveys at a time."""
    return surveys * (memory.MARGIN + count * (latest.SUBJECT + 12)) * 4 // 3


@pytest.mark.parametrize("readers", [True, False], ids=["all read", "some do not read"])
def test_given_more_surveys_than_there_is_memory_then_each_has_its_turn_and_all_are_served(
    readers: bool,
) -> None:
    stage = Stage(journal=Ring(1 << 26), answers_pending=room_for(3000, 2))
    expected = subjects(stage, 3000)
    silent = [] if readers else [deaf(stage) for _ in range(10)]
    for peer in silent:
        for sid in range(4):
            peer.send(b"SUB $SEQ.LAST.> %d\r\n" % sid)
    peers = [asking(stage, b"$SEQ.LAST.>") for _ in range(10)]
    most = 0
    while not stage.loop.quiet:
        stage.loop.turn()
        most = max(most, used(stage))
    assert memory.MARGIN < most <= room_for(3000, 2)
    for peer in peers:
        assert heard_numbers(peer.take()) == expected
    for peer in silent:
        peer.leave()
    assert (active(stage), used(stage)) == (0, 0)


def test_given_a_reader_whose_picks_others_need_then_it_gets_each_of_them_once() -> None:
    stage = Stage(journal=Ring(1 << 26), answers_pending=room_for(6000, 1) + 4 * MIB)
    expected = subjects(stage, 6000)
    slow = [asking(stage, b"$SEQ.LAST.>") for _ in range(6)]
    heard = [b""] * len(slow)
    for _ in range(1000):
        for at, peer in enumerate(slow):
            peer.socket_room = 3000
            heard[at] += peer.resume(3000)
            stage.loop.run()
            heard[at] += peer.take()
        if active(stage) == 0:
            break
    for at, peer in enumerate(slow):
        assert heard_numbers(heard[at] + peer.resume()) == expected


def test_given_more_subjects_than_there_is_memory_for_then_it_is_reported_and_nobody_is_hurt() -> (
    None
):
    stage = Stage(journal=Ring(1 << 26), answers_pending=8 * MIB)
    publisher = stage.join(QUIET)
    for at in range(2500):
        publisher.send(b"PUB %b.%d 0\r\n\r\n" % (b"x" * 3000, at))
    greedy, modest = asking(stage, b"$SEQ.LAST.>"), asking(stage, b"$SEQ.LAST.%b.5" % (b"x" * 3000))
    stage.loop.run()
    assert greedy.take() == (
        b'-ERR \'Permissions Violation for Subscription to "$SEQ.LAST.>": more subjects match than'
        b" limits.answers_pending has room for'\r\n"
    )
    assert not greedy.connection.closed
    assert not greedy.connection.subs
    assert heard_numbers(modest.take()) == [6]
    greedy.send(b"PING\r\n")
    assert greedy.take() == b"PONG\r\n"
    assert (active(stage), used(stage)) == (0, 0)


# Who waits


def test_given_those_that_wait_when_something_is_given_back_then_one_tries_after_the_other() -> (
    None
):
    woken: list[Cursor] = []
    part = MemoryPart(100, woken.append)
    connection = Connection(cast(Any, None), Parser(4096, 1 << 20), 1 << 20)
    one, two, three = (Cursor(connection, at) for at in range(3))
    part.hold(one, 100)
    part.wait(two)
    part.wait(three)
    assert woken == []
    part.hold(one, 40)
    assert woken == [two]
    assert part.has_turn(two)
    assert not part.has_turn(three)
    part.hold(two, 30)
    assert woken == [two, three]
    part.pass_on(three)
    assert part.has_turn(one)
    part.wait(three)
    part.release(two)
    part.release(one)
    assert woken == [two, three, three]
    assert part.used == 0


# The work of one turn


@pytest.mark.parametrize("what", ["surveys", "reads", "replays", "numbers"])
def test_given_much_work_then_one_turn_does_little_of_it(what: str) -> None:
    """Work is counted as bytes that are played; 768 KiB are some 6 ms."""
    stage = Stage(journal=Ring(1 << 26))
    if what == "numbers":
        waiting = stage.join(QUIET)
        for sid in range(5000):
            waiting.send(b"SUB $SEQ.RANGE.2.2.a %d\r\n" % sid)
        stage.loop.run()
    fill(stage, 1)
    subjects(stage, 20_000)
    for at in range(8):
        if what == "surveys":
            asking(stage, b"$SEQ.LAST.>")
        elif what == "replays":
            asking(stage, b"$SEQ.FROM.1.>")
        elif what == "reads":
            peer = stage.join(HEADS)
            peer.send(b"SUB in.%d 1\r\n" % at)
            filters = [f"some.{number}" for number in range(60)]
            wish = read_request(json.dumps({"from": 1, "subject": filters}).encode(), stage.number)
            assert stage.replays is not None
            stage.replays.serve_requests(Bulk(stage.replays, peer.connection, b"in.%d" % at, wish))
    stage.loop.run()
    assert stage.replays is not None
    assert active(stage) == 0
    advanced = scheduler.ADVANCED * scheduler.ADVANCE_WORK
    least = advanced if what == "numbers" else scheduler.BYTES // 2
    assert least < stage.replays.scheduler.most_work < 2 * scheduler.BYTES


def test_given_what_has_gathered_then_the_next_chunk_of_its_size_reuses_it_and_no_end_is_kept() -> (
    None
):
    reads = ReadMemory(1 << 30, lambda cursor: None)
    one, other = cast(Bulk, object()), cast(Bulk, object())
    collector = Collector(1)
    reads.keep(SHORT, one, collector)
    assert reads.reuse(SHORT, one) == (collector, True)
    assert reads.reuse(SHORT, one) == (None, False), "it is in use"
    reads.keep(SHORT, one, collector)
    assert reads.reuse(SHORT, other) == (collector, False), "it starts with an empty one"
    reads.keep(SHORT, one, collector)
    reads.free_collector(one)
    assert reads.reuse(SHORT, one) == (collector, False), "who has ended is not known any more"
    reads.keep(2 * SHORT, one, collector)
    assert reads.reuse(2 * SHORT, one) == (None, False), "a long one is not counted"
    reads.keep(SHORT, one, collector)
    assert reads.reuse(SHORT // 2, one) == (None, False)
