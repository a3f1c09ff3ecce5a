"""A reader in the journal window: it goes on where the segments end, and reads nothing older."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sequencer.journal.journal_tail import Lost
from sequencer.journal.reader import Reader, Record
from sequencer.journal.store import Store
from sequencer.journal.window_tail import WindowTail
from tests.support.stores import SECOND, abandon, open_store, payload_of, put

NUMBER_MAX = (1 << 63) - 1


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_store(tmp_path / "store", segment_bytes=1 << 20)
    yield made
    if os.path.exists(tmp_path / "store" / "window"):
        made.close()


def trail_of(store: Store) -> WindowTail:
    return WindowTail(store.path, store.salt, store.id)


def numbers(items: list[Record | Lost]) -> list[int]:
    found = []
    for item in items:
        assert isinstance(item, Record), "nothing is lost"
        assert bytes(item.payload) == payload_of(item.number, len(item.payload))
        found.append(item.number)
    return found


def test_given_what_no_sync_has_moved_when_read_then_it_is_there(store: Store) -> None:
    put(store, 5)
    reader = Reader(store.path)
    assert numbers(list(reader.records())) == [1, 2, 3, 4, 5]
    assert reader.bounds() == (1, 5)
    assert numbers(list(reader.records(first=4))) == [4, 5]
    assert numbers(list(reader.records(first=2, last=3))) == [2, 3]
    assert list(reader.records(first=6)) == []


def test_given_a_follower_when_more_is_written_moved_and_rolled_then_each_comes_once(
    store: Store,
) -> None:
    follower = Reader(store.path, chunk_bytes=4096).follow()
    found: list[int] = []
    for turn in range(40):
        put(store, 7, size=2000)
        if turn % 3 == 0:
            store.sync()
        if turn % 11 == 0:
            store.roll(SECOND)
        while items := follower.poll():
            found += numbers(items)
    assert found == list(range(1, 281))
    follower.close()


def test_given_a_reader_that_is_lapped_then_it_goes_on_from_the_segments(store: Store) -> None:
    put(store, 3)
    follower = Reader(store.path, chunk_bytes=4096).follow()
    assert numbers(follower.poll()) == [1, 2, 3]
    for _ in range(60):  # several times the size of the window
        put(store, 3, size=20_000)
    found: list[int] = []
    while items := follower.poll():
        found += numbers(items)
    assert found == list(range(4, 184))
    follower.close()


def test_given_a_record_longer_than_a_chunk_then_it_is_read_whole(store: Store) -> None:
    put(store)
    put(store, size=50_000)
    put(store)
    assert numbers(list(Reader(store.path, chunk_bytes=4096).records())) == [1, 2, 3]


def test_given_a_writer_that_was_killed_then_its_last_records_are_read(store: Store) -> None:
    put(store, 4)
    store.sync()
    put(store, 4)
    abandon(store)
    reader = Reader(store.path)
    follower = reader.follow()
    assert numbers(follower.poll()) + numbers(follower.poll()) == list(range(1, 9))
    again = open_store(Path(store.path))
    put(again, 2)
    found: list[int] = []
    while items := follower.poll():
        found += numbers(items)
    assert found == [9, 10]
    again.close()
    assert follower.poll() == []
    assert numbers(list(reader.records(first=8))) == [8, 9, 10]
    follower.close()


def test_given_a_window_then_it_says_where_its_records_will_be(store: Store) -> None:
    put(store, 10)
    tail = trail_of(store)
    part = tail.more(4, 1 << 20, NUMBER_MAX, None)
    assert part is not None
    store.sync()
    with open(store.segments()[0].file, "rb") as file:
        file.seek(part.offset)
        assert file.read(part.size) == bytes(part.data[: part.size])
    assert part.segment == 1
    tail.close()


def test_given_a_limit_then_nothing_above_it_is_read(store: Store) -> None:
    put(store, 10)
    tail = trail_of(store)
    part = tail.more(1, 1 << 20, 6, None)
    assert part is not None
    following = tail.more(7, 1 << 20, NUMBER_MAX, bytearray(1 << 20))
    assert following is not None
    assert following.offset == part.offset + part.size
    assert tail.more(7, 1 << 20, 6, None) is None
    assert tail.ends_before(11)
    assert not tail.ends_before(10)
    tail.close()


def test_given_the_window_of_another_journal_then_it_is_not_read(store: Store) -> None:
    put(store, 3)
    tail = WindowTail(store.path, store.salt, "00" * 8)
    assert tail.more(1, 1 << 20, NUMBER_MAX, None) is None
    assert not tail.ends_before(9)
    tail.close()
