"""Where a number or a time is in a store of several segments, with and without indexes."""

from pathlib import Path

import pytest

from sequencer.journal.store import Store
from tests.support.stores import open_store, put, read_from

SMALL = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


def build(store: Store) -> None:
    while store.build_indexes():
        pass


@pytest.mark.parametrize("indexed", [True, False])
def test_given_any_number_when_located_then_it_is_at_or_after_the_place(
    path: Path, indexed: bool
) -> None:
    store = open_store(path, segment_bytes=1 << 20)
    for _ in range(300):
        put(store, size=9000)
    if indexed:
        build(store)
    store.close()
    store = open_store(path)
    for number in (1, 2, 115, 116, 117, 150, 299, 300):
        piece, offset = store.locate(number)
        assert piece.first <= number <= piece.last
        before = [found[0] for found in read_from(store, piece, offset) if found[0] <= number]
        assert before[-1] == number
        assert len(before) <= 9 or not (indexed or piece is store.segments()[-1])
    assert store.locate(301) == (store.segments()[-1], store.segments()[-1].size)
    assert store.locate(0)[0] is store.segments()[0]
    store.close()


@pytest.mark.parametrize("indexed", [True, False])
def test_given_any_time_when_located_then_the_first_of_that_time_is_at_or_after_the_place(
    path: Path, indexed: bool
) -> None:
    store = open_store(path, segment_bytes=SMALL)
    for number in range(1, 200):
        put(store, time=number // 3 * 10 + 10)
    if indexed:
        build(store)
    for time in (0, 1, 9, 10, 11, 329, 330, 331, 660, 669, 670):
        records = read_from(store, *store.locate_time(time))
        first = next(number for number, when, _ in records if when >= time)
        assert first == max(1, (-(-time // 10) - 1) * 3)
    assert store.locate_time(671)[1] == store.segments()[-1].size
    store.close()
