"""Reads in threads: a few at a time, only for live cursors; nothing is held for one that ended."""

import errno
from typing import Any, cast

import pytest

from broker.dataplane.connection import Connection
from broker.replay.cursor import Cursor
from broker.replay.stepper import FETCHES, Fetcher
from parser.machine import Parser
from sequencer.journal.ring import RingSegment
from testkit.manual_loop import ManualLoop


class Fetching:
    """A fetcher, and what it has told."""

    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.fetched: list[Cursor] = []
        self.failed: list[tuple[Cursor, BaseException]] = []
        loop: Any = self.loop
        self.fetcher = Fetcher(
            loop, self.fetched.append, lambda cursor, error: self.failed.append((cursor, error))
        )
        self.piece: Any = RingSegment(1, bytearray(b"x" * 1000))
        self.piece.size = 1000
        self.connection = Connection(cast(Any, None), Parser(4096, 1 << 20), 1 << 20)

    def ask(self, offset: int = 0, size: int = 100) -> Cursor:
        cursor = Cursor(self.connection, 1)
        cursor.segment, cursor.offset = self.piece, offset
        self.fetcher.fetch(cursor, size)
        return cursor


def test_given_what_is_read_then_its_cursor_gets_it_and_the_end_of_a_piece_is_the_end() -> None:
    fetching = Fetching()
    cursors = [fetching.ask(), fetching.ask(950)]
    fetching.loop.run()
    assert fetching.fetched == cursors
    assert [fetching.fetcher.collect(cursor) for cursor in cursors] == [b"x" * 100, b"x" * 50]
    assert fetching.fetcher.collect(cursors[0]) is None
    assert fetching.piece.holders == 0


def test_given_many_when_few_are_read_for_then_each_that_is_taken_makes_place_for_one() -> None:
    fetching = Fetching()
    cursors = [fetching.ask() for _ in range(FETCHES + 5)]
    fetching.loop.run()
    assert fetching.fetched == cursors[:FETCHES]
    for cursor in cursors[:3]:
        fetching.fetcher.collect(cursor)
    fetching.loop.run()
    assert fetching.fetched == cursors[: FETCHES + 3]


@pytest.mark.parametrize("under_way", [False, True])
def test_given_one_that_has_ended_when_it_is_read_for_then_its_place_is_free(
    under_way: bool,
) -> None:
    fetching = Fetching()
    others = [fetching.ask() for _ in range(FETCHES - under_way)]
    ended, last = fetching.ask(), fetching.ask()
    assert ended.queue is fetching.fetcher
    ended.ended = True
    fetching.fetcher.discard(ended)
    fetching.loop.run()
    assert ended not in fetching.fetched
    for cursor in others[:1]:
        fetching.fetcher.collect(cursor)
    fetching.loop.run()
    assert fetching.fetched[-1] is last
    assert fetching.piece.holders == 0


@pytest.mark.parametrize("error", [OSError(errno.EIO, "bad"), ValueError("a defect")])
def test_given_a_read_that_fails_then_it_is_reported_and_its_place_is_free(
    error: Exception,
) -> None:
    fetching = Fetching()

    class Bad(RingSegment):
        def read(self, offset: int, into: memoryview, wait: bool) -> int:
            raise error

    good, fetching.piece = fetching.piece, Bad(1, bytearray(10))
    fetching.piece.size = 10
    failing = [fetching.ask() for _ in range(FETCHES)]
    fetching.loop.run()
    assert fetching.failed == [(cursor, error) for cursor in failing]
    fetching.piece = good
    cursor = fetching.ask()
    fetching.loop.run()
    assert fetching.fetched == [cursor]
