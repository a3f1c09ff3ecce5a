"""Records found without waiting: every one that is there, and no other, by a few open files."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.replay import lookup
from broker.replay.lookup import OPEN_MAX, NearRecords
from sequencer.journal.replica_store import ReplicaStore
from sequencer.journal.store import Store
from tests.support.stores import open_store, payload_of, put

SMALL = 16 << 10


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def in_memory(store: Store) -> None:
    """Sync everything, and read it, so that it is in the page cache."""
    store.sync()
    for segment in store.segments():
        Path(segment.file).read_bytes()


def payload(near: NearRecords, number: int) -> bytes | None:
    record = near.find(number)
    if record is None:
        return None
    assert record.number == number
    return bytes(near.buffer[record.payload : record.payload + record.payload_size])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Several segments: of records of one size, of many sizes, and a few long ones."""
    made = open_store(tmp_path / "store", segment_bytes=256 << 10)
    for _ in range(100):
        put(made, 50, size=100)
    for number in range(300):
        put(made, 1 + number % 7, size=37 * number % 5000)
    for _ in range(20):
        put(made, size=30_000)
    in_memory(made)
    yield made
    made.close()


def test_given_any_number_when_it_is_looked_up_then_its_record_is_found(store: Store) -> None:
    assert len(store.segments()) > 5
    near = NearRecords(store)
    for number in range(1, store.last + 1):
        found = payload(near, number)
        assert found is not None
        assert found.startswith(payload_of(number))


def test_given_no_room_for_marks_when_numbers_are_looked_up_then_they_are_found(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "MARKS_KEPT", 1)
    near = NearRecords(store)
    for number in (1, 5000, 5600, 1, 5000):  # the first segment has the room
        assert (payload(near, number) or b"").startswith(payload_of(number))
    for _ in range(2):
        near.tidy()  # nothing was used: another one gets it
    before = descriptors()
    assert payload(near, 5000) == payload_of(5000, 100)
    assert descriptors() == before + 1


def test_given_a_damaged_record_when_it_is_looked_up_then_only_it_is_not_found(
    store: Store,
) -> None:
    segment, offset = store.locate(2000)
    data = bytearray(Path(segment.file).read_bytes())
    at = data.index(payload_of(2000), offset)
    data[at] ^= 1
    with Path(segment.file).open("r+b") as file:
        file.seek(at)
        file.write(data[at : at + 1])
    near = NearRecords(store)
    found = [number for number in range(1900, 2100) if payload(near, number) is not None]
    assert found == [number for number in range(1900, 2100) if number != 2000]


def test_given_many_segments_when_numbers_are_looked_up_then_few_files_stay_open(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path / "store", segment_bytes=SMALL)
    for _ in range(600):
        put(store, size=1000)
    in_memory(store)
    sealed = store.segments()[:-1]
    assert len(sealed) > OPEN_MAX + 10
    before = descriptors()
    near = NearRecords(store)
    for segment in sealed:
        assert payload(near, segment.first) is not None
    assert descriptors() == before + OPEN_MAX
    near.tidy()
    assert payload(near, sealed[0].first) is not None
    store.retain_bytes = store.bytes - SMALL  # the first one goes
    store.retain(1)
    near.tidy()
    assert payload(near, store.first) is not None
    near.tidy()
    near.tidy()
    assert descriptors() == before
    store.close()


def test_given_numbers_that_are_taken_back_when_looked_up_then_the_new_messages_are_found(
    tmp_path: Path,
) -> None:
    store = ReplicaStore.open(str(tmp_path / "store"), 1, segment_bytes=SMALL)
    store.begin_epoch(1)
    for _ in range(100):
        put(store, size=700)
    in_memory(store)
    near = NearRecords(store)
    number = store.segments()[2].first + 3
    assert payload(near, number) == payload_of(number, 700)
    store.truncate(number - 2)
    store.begin_epoch(2)
    for _ in range(100):
        put(store, size=900)
    in_memory(store)
    for later in range(number - 1, number + 50):
        assert payload(near, later) == payload_of(later, 900)
    assert payload(near, number - 2) == payload_of(number - 2, 700)
    store.close()
