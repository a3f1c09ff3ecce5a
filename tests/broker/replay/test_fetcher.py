"""What threads read: a few at a time, for those that live; nothing is held for one that ended."""

import errno
from typing import Any

import pytest

from broker.dataplane.connection import Connection
from broker.replay.cursor import Cursor
from broker.replay.fetcher import FETCHES, Fetcher
from parser.machine import Parser
from sequencer.journal.ring import RingPiece
from tests.support.turns import Turns


class Threads:
    """A fetcher, and what it has told."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.fetched: list[Cursor] = []
        self.failed: list[tuple[Cursor, BaseException]] = []
        loop: Any = self.turns
        self.fetcher = Fetcher(
            loop, self.fetched.append, lambda cursor, error: self.failed.append((cursor, error))
        )
        self.piece: Any = RingPiece(1, bytearray(b"x" * 1000))
        self.piece.size = 1000
        self.connection = Connection(None, Parser(4096, 1 << 20), 1 << 20)

    def ask(self, offset: int = 0, size: int = 100) -> Cursor:
        cursor = Cursor(self.connection, 1)
        cursor.piece, cursor.offset = self.piece, offset
        self.fetcher.fetch(cursor, size)
        return cursor


def test_given_what_is_read_then_its_cursor_gets_it_and_the_end_of_a_piece_is_the_end() -> None:
    threads = Threads()
    cursors = [threads.ask(), threads.ask(950)]
    threads.turns.run()
    assert threads.fetched == cursors
    assert [threads.fetcher.take(cursor) for cursor in cursors] == [b"x" * 100, b"x" * 50]
    assert threads.fetcher.take(cursors[0]) is None
    assert threads.piece.holders == 0


def test_given_many_when_few_are_read_for_then_each_that_is_taken_makes_place_for_one() -> None:
    threads = Threads()
    cursors = [threads.ask() for _ in range(FETCHES + 5)]
    threads.turns.run()
    assert threads.fetched == cursors[:FETCHES]
    for cursor in cursors[:3]:
        threads.fetcher.take(cursor)
    threads.turns.run()
    assert threads.fetched == cursors[: FETCHES + 3]


@pytest.mark.parametrize("under_way", [False, True])
def test_given_one_that_has_ended_when_it_is_read_for_then_its_place_is_free(
    under_way: bool,
) -> None:
    threads = Threads()
    others = [threads.ask() for _ in range(FETCHES - under_way)]
    ended, last = threads.ask(), threads.ask()
    assert ended.home is threads.fetcher
    ended.ended = True
    threads.fetcher.discard(ended)
    threads.turns.run()
    assert ended not in threads.fetched
    for cursor in others[:1]:
        threads.fetcher.take(cursor)
    threads.turns.run()
    assert threads.fetched[-1] is last
    assert threads.piece.holders == 0


@pytest.mark.parametrize("error", [OSError(errno.EIO, "bad"), ValueError("a defect")])
def test_given_a_read_that_fails_then_that_is_told_and_its_place_is_free(error: Exception) -> None:
    threads = Threads()

    class Bad(RingPiece):
        def read(self, offset: int, into: memoryview, wait: bool) -> int:
            raise error

    good, threads.piece = threads.piece, Bad(1, bytearray(10))
    threads.piece.size = 10
    failing = [threads.ask() for _ in range(FETCHES)]
    threads.turns.run()
    assert threads.failed == [(cursor, error) for cursor in failing]
    threads.piece = good
    cursor = threads.ask()
    threads.turns.run()
    assert threads.fetched == [cursor]
