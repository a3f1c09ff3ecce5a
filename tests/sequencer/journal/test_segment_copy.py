"""A segment from another member: it becomes ours whole and good, or nothing of it stays."""

import os
from pathlib import Path

import pytest

from sequencer.journal.errors import StoreError
from sequencer.journal.header import START, encode_head, stem
from sequencer.journal.header import decode_head as decoded
from sequencer.journal.replica_store import ReplicaStore
from sequencer.journal.segment_copy import SegmentCopy
from tests.support.replica_stores import append, open_replica, said_in
from tests.support.stores import messages, open_store, put

EPOCHS = {1: 2, 2: 2, 3: 2, 4: 5, 5: 5, 6: 5}


@pytest.fixture
def sender(tmp_path: Path) -> ReplicaStore:
    """A store of two sealed segments and an empty one."""
    store = open_replica(tmp_path / "sender")
    for number, epoch in EPOCHS.items():
        append(store, [number], epoch)
    store.roll(6)
    return store


@pytest.fixture
def receiver(tmp_path: Path, sender: ReplicaStore) -> ReplicaStore:
    store = open_replica(tmp_path / "receiver")
    store.adopt(sender.id, sender.salt)
    return store


def bytes_of(store: ReplicaStore, first: int) -> bytes:
    return Path(store.path, stem(first) + ".segment").read_bytes()


def receive(store: ReplicaStore, first: int, data: bytes, size: int = 0) -> SegmentCopy:
    copy = SegmentCopy(store.path, first, size or len(data))
    for at in range(0, len(data), 100):
        copy.write(data[at : at + 100])
    copy.check(store.id, store.salt, 1)
    return copy


def test_given_all_sealed_segments_when_copied_then_both_stores_are_the_same(
    sender: ReplicaStore, receiver: ReplicaStore
) -> None:
    for segment in sender.sealed_segments():
        copy = receive(receiver, segment.first, bytes_of(sender, segment.first))
        assert (copy.first, copy.last, copy.epoch) == (segment.first, segment.last, segment.epoch)
        receiver.install_segment(copy)
    assert receiver.last == 6
    assert messages(receiver) == messages(sender)
    assert receiver.epochs() == sender.epochs() == ((2, 1), (5, 4))
    assert receiver.newest_time == 6
    assert append(receiver, [7], 5) == 7, "of the same epoch: in the same segment"
    assert append(receiver, [8], 6) == 8
    assert receiver.sync() == 8
    receiver.close()
    again = open_replica(receiver.path)
    assert list(messages(again)) == list(range(1, 9))
    assert again.epochs() == ((2, 1), (5, 4), (6, 8))
    assert (again.damage, again.report) == ([], [])
    again.close()


def test_given_records_before_it_when_installed_then_it_follows_them(
    sender: ReplicaStore, receiver: ReplicaStore
) -> None:
    append(receiver, [1, 2, 3], 2)
    receiver.install_segment(receive(receiver, 4, bytes_of(sender, 4)))
    assert [segment.first for segment in receiver.pieces()] == [1, 4]
    assert list(messages(receiver)) == list(EPOCHS)
    while receiver.build_indexes():
        pass
    receiver.sync()
    while receiver.build_indexes():
        pass
    assert [segment.first for segment in receiver.sealed_segments()] == [1]


def test_given_a_reader_that_waits_at_the_end_when_installed_then_it_goes_on(
    sender: ReplicaStore, receiver: ReplicaStore
) -> None:
    append(receiver, [1, 2, 3], 2)
    receiver.roll(3)
    waiting = receiver.pieces()[-1]
    waiting.hold()
    receiver.install_segment(receive(receiver, 4, bytes_of(sender, 4)))
    assert waiting.gone
    assert waiting.read(waiting.start, memoryview(bytearray(100)), True) == 0
    assert receiver.pieces()[0].following is receiver.locate(4)[0]
    waiting.release()


def test_given_any_byte_changed_when_checked_then_nothing_stays(
    sender: ReplicaStore, receiver: ReplicaStore
) -> None:
    data = bytearray(bytes_of(sender, 1))
    before = set(os.listdir(receiver.path))
    for at in range(len(data)):
        data[at] ^= 1
        with pytest.raises(StoreError, match="is not good: "):
            receive(receiver, 1, bytes(data))
        data[at] ^= 1
    assert set(os.listdir(receiver.path)) == before
    assert receiver.last == 0
    receiver.install_segment(receive(receiver, 1, bytes(data)))


@pytest.mark.parametrize(
    ("first", "change", "why"),
    [
        (1, lambda data: data[:-8], "damaged after number 2"),
        (1, lambda data: data + bytes(8), "damaged after number 3"),
        (1, lambda data: data[:START], "it is empty"),
        (1, lambda data: data[:30], "its head is damaged"),
        (4, lambda data: data, "it begins with number 1"),
        (1, lambda data: recoded(data, version=2), "it has version 2"),
        (1, lambda data: recoded(data, journal="00000000000000aa"), "it belongs to journal 000"),
        (1, lambda data: recoded(data, salt=1), "it belongs to journal"),
        (1, lambda data: recoded(data, epoch=3), "it is of epoch 3, and has a record of epoch 2"),
    ],
)
def test_given_a_file_that_is_no_such_segment_when_checked_then_it_is_said_why(
    sender: ReplicaStore, receiver: ReplicaStore, first: int, change: object, why: str
) -> None:
    assert callable(change)
    before = set(os.listdir(receiver.path))
    with pytest.raises(StoreError, match=why):
        receive(receiver, first, change(bytes_of(sender, 1)))
    assert set(os.listdir(receiver.path)) == before


def recoded(data: bytes, **fields: object) -> bytes:
    """With another head."""
    head = decoded(data)
    assert head is not None
    return encode_head(head._replace(**fields)) + data[START:]  # type: ignore[arg-type]


def test_given_a_part_of_it_when_checked_then_it_is_not_taken(
    sender: ReplicaStore, receiver: ReplicaStore
) -> None:
    data = bytes_of(sender, 1)
    with pytest.raises(StoreError, match=f"it has {len(data)} bytes instead of 1000"):
        receive(receiver, 1, data, 1000)


def test_given_another_number_when_installed_then_it_is_refused(
    sender: ReplicaStore, receiver: ReplicaStore
) -> None:
    copy = receive(receiver, 4, bytes_of(sender, 4))
    with pytest.raises(StoreError, match="begins with number 4; the next number is 1"):
        receiver.install_segment(copy)
    copy.abandon()
    assert not list(Path(receiver.path).glob("*.tmp"))


def test_given_what_one_broker_wrote_when_copied_then_it_may_have_several_epochs(
    tmp_path: Path,
) -> None:
    for _ in range(3):
        alone = open_store(tmp_path / "alone")
        put(alone, 2)
        alone.close()
    sender = open_replica(tmp_path / "alone")
    sender.begin_epoch(9)
    assert sender.epochs(7) == ((0, 1),)
    append(sender, [10 * 10**9], 9)
    assert sender.epochs(7) == ((0, 1), (9, 7))
    receiver = open_replica(tmp_path / "receiver")
    receiver.adopt(sender.id, sender.salt)
    data = bytes_of(sender, 1)
    copy = SegmentCopy(receiver.path, 1, len(data))
    copy.write(data)
    copy.check(receiver.id, receiver.salt, since=7)
    receiver.install_segment(copy)
    assert list(messages(receiver)) == list(range(1, 7))
    assert receiver.epochs(7) == ((0, 1),)
    assert receiver.epoch_of(6, 7) == 0
    append(receiver, [10 * 10**9], 9)
    assert messages(receiver)[7][1] == said_in(9, 7)
    receiver.close()


def test_given_a_crash_while_it_comes_in_then_the_next_opening_removes_it(
    sender: ReplicaStore, receiver: ReplicaStore
) -> None:
    receive(receiver, 1, bytes_of(sender, 1))
    receiver.close()
    again = open_replica(receiver.path)
    assert not list(Path(receiver.path).glob("*.tmp"))
    assert (again.last, again.report) == (0, [])
    again.close()
