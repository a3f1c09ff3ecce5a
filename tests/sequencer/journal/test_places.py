"""Where a number or a time is in a store of several segments, with and without indexes."""

from pathlib import Path

import pytest

from sequencer.journal.index import HEAD_SIZE, read_index
from sequencer.journal.layout import RECORD
from sequencer.journal.record import RecordBatch, Walk
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


NEAR = 36 << 10  # what a look-up reads at first


def flood(store: Store, count: int) -> None:
    """Write as the sequencer does when messages come fast: long batches, put into the window."""
    batch = RecordBatch(store.salt, store.epoch)
    while store.last < count:
        store.reserve(5000 * 168)
        position = store.write_position()
        assert position is not None
        batch.set_target(*position)
        for number in range(store.last + 1, store.last + 5001):
            batch.append_message(number, number, b"orders", b"", b"", b"x" * 100)
        size = batch.seal()
        store.commit(size, batch.first, batch.last, batch.time, batch.ids, batch.marks)
        batch.clear()


def test_given_long_batches_when_numbers_are_located_then_each_is_close_behind_a_mark(
    path: Path,
) -> None:
    store = open_store(path, segment_bytes=4 << 20, window_bytes=32 << 20)
    flood(store, 60_000)
    store.sync()
    assert len(store.segments()) > 2
    for number in (1, 2, 300, 4999, 5001, 20_000, 40_001, 59_999, 60_000):
        piece, offset = store.locate(number)
        buffer = bytearray(NEAR)
        with memoryview(buffer) as view:
            got = piece.read(offset, view, True)
        walk = Walk(store.salt)
        walk.attach(buffer, 0, got)
        assert (walk.find(number), walk.number) == (RECORD, number)
    store.close()


def test_given_a_follower_s_long_batch_when_written_then_it_has_marks_inside(path: Path) -> None:
    store = open_store(path)
    put(store, 400, size=1000, ids=True)
    marks = store.segments()[0].own_marks()
    assert marks is not None
    assert len(marks) > 10
    for number in range(1, 401):
        records = read_from(store, store.segments()[0], marks.before_number(number))
        assert number - next(records)[0] <= 30
    assert len(marks.id_blocks(store.segments()[0].size)) == len(marks), "any may have ids"
    store.close()


def test_given_a_seal_when_synced_then_its_index_is_written_at_once(path: Path) -> None:
    store = open_store(path, segment_bytes=SMALL)
    for _ in range(300):
        put(store)
    sealed = store.segments()[:-1]
    assert len(sealed) > 3
    store.sync()
    assert all(one.indexed and one.marks is None for one in sealed)
    put(store, 60)
    store.roll(1)
    store.close()
    assert all(read_index(one.index_file) for one in store.segments())


def test_given_an_index_that_changes_when_a_number_is_located_then_it_is_not_believed(
    path: Path,
) -> None:
    store = open_store(path, segment_bytes=1 << 20)
    for _ in range(300):
        put(store, size=9000)
    store.sync()
    segment, offset = store.locate(60)
    assert offset > segment.start
    file = Path(segment.index_file)
    data = bytearray(file.read_bytes())
    data[HEAD_SIZE + 24] ^= 1
    file.write_bytes(data)
    assert store.locate(60) == (segment, segment.start)
    build(store)
    assert store.locate(60) == (segment, offset), "it is written again"
    store.close()
