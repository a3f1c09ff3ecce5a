"""The full check of a journal, and truncating it: an operator's tools."""

import os
from pathlib import Path

import pytest

from sequencer.journal.cut import truncate
from sequencer.journal.errors import StoreError, StoreLocked
from sequencer.journal.header import stem
from sequencer.journal.record import RecordBatch
from sequencer.journal.verify import Finding, verify
from tests.support.recorded_store import abandon_older
from tests.support.stores import SECOND, give, messages, open_store, payload_of, put

SMALL = 464  # five records of these tests


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The path of a closed store of three segments: five messages, five and three."""
    where = str(tmp_path / "store")
    store = open_store(where, segment_bytes=SMALL)
    for _ in range(13):
        put(store)
    while store.build_indexes():
        pass
    store.close()
    return where


def segment(path: str, first: int) -> Path:
    return Path(path) / (stem(first) + ".segment")


def index(path: str, first: int) -> Path:
    return Path(path) / (stem(first) + ".index")


def spoil(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 4
    file.write_bytes(data)


def only(path: str) -> Finding:
    (finding,) = verify(path)
    return finding


def test_given_a_good_store_when_verified_then_nothing_is_found_and_nothing_changes(
    path: str,
) -> None:
    before = {name: os.stat(Path(path) / name).st_mtime_ns for name in os.listdir(path)}
    heard: list[tuple[int, int]] = []
    assert list(verify(path, lambda done, total: heard.append((done, total)))) == []
    assert heard == sorted(heard)
    assert heard[-1][0] == heard[-1][1] == sum(segment(path, n).stat().st_size for n in (1, 6, 11))
    assert {name: os.stat(Path(path) / name).st_mtime_ns for name in os.listdir(path)} == before


def test_given_a_store_in_use_when_verified_then_it_can_be(path: str) -> None:
    store = open_store(path)
    put(store, 3)
    assert list(verify(path)) == []
    store.close()


@pytest.mark.parametrize(("first", "at", "number"), [(1, 70, 1), (6, 150, 7), (11, 290, 13)])
def test_given_a_spoilt_record_when_verified_then_its_number_and_place_are_found(
    path: str, first: int, at: int, number: int
) -> None:
    spoil(segment(path, first), at)
    found = only(path)
    assert (found.level, found.first, found.last) == ("error", number, number)
    assert found.file == segment(path, first).name
    assert found.offset == at - (at - 64) % 80
    assert f"number {number} lost" in str(found)


def test_given_a_segment_gone_when_verified_then_the_hole_is_found(path: str) -> None:
    segment(path, 6).unlink()
    found = only(path)
    assert (found.level, found.first, found.last) == ("error", 6, 10)


def test_given_a_torn_tail_after_a_crash_when_verified_then_it_is_no_fault(path: str) -> None:
    store = open_store(path)
    put(store)
    abandon_older(store, store.last - 1)
    file = segment(path, 11)
    os.truncate(file, file.stat().st_size - 3)
    found = only(path)
    assert (found.level, found.first) == ("info", 0)
    assert "an unfinished write" in found.text


def test_given_a_head_spoilt_when_verified_then_it_is_found(path: str) -> None:
    spoil(segment(path, 6), 20)
    assert only(path).text == "its head is damaged; the next start repairs it"


@pytest.mark.parametrize(
    ("at", "text"),
    [(100, "wrong"), (40, "wrong")],
)
def test_given_an_index_spoilt_when_verified_then_it_is_found(
    path: str, at: int, text: str
) -> None:
    spoil(index(path, 6), at)
    found = only(path)
    assert (found.level, found.file) == ("info", index(path, 6).name)
    assert found.text.startswith(text)


def test_given_an_index_missing_or_of_another_segment_when_verified_then_it_is_found(
    path: str,
) -> None:
    index(path, 6).unlink()
    assert only(path).text == "missing; the broker rewrites it"
    index(path, 6).write_bytes(index(path, 1).read_bytes())
    assert only(path).text.startswith("it does not match this segment")


def test_given_times_that_fall_when_verified_then_the_number_is_found(path: str) -> None:
    store = open_store(path)
    batch = RecordBatch(store.salt, store.epoch)
    for number, time in ((14, 90), (15, 80), (16, 95)):
        batch.append_message(number, time * SECOND, b"a", b"", b"", payload_of(number))
    give(store, batch)
    store.close()
    assert [one.text for one in verify(path)][:1] == [
        "number 15 has a time before that of the number before it"
    ]


def test_given_no_store_json_when_verified_then_the_rest_is_checked_all_the_same(
    path: str,
) -> None:
    (Path(path) / "store.json").unlink()
    spoil(segment(path, 6), 150)
    assert [one.first for one in verify(path)] == [0, 7]


def test_given_no_store_when_verified_then_it_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store here"):
        list(verify(str(tmp_path)))
    with pytest.raises(StoreError, match="not a directory"):
        list(verify(str(tmp_path / "none")))


@pytest.mark.parametrize("last", range(14))
def test_given_a_number_when_the_store_is_cut_there_then_all_up_to_it_stays(
    path: str, last: int
) -> None:
    cut = truncate(path, last)
    assert (cut.first, cut.last) == (last + 1, 13)
    assert list(verify(path)) == []
    store = open_store(path)
    assert (store.first, store.last, store.damage) == (1, last, [])
    assert list(messages(store)) == list(range(1, last + 1))
    put(store)
    assert store.last == last + 1
    store.close()


def test_given_a_number_that_is_not_there_when_cut_then_it_is_refused(path: str) -> None:
    with pytest.raises(StoreError, match="has numbers 1 to 13; give one of 0 to 13"):
        truncate(path, 14)
    assert list(verify(path)) == []


def test_given_a_store_in_use_when_cut_then_it_is_refused(path: str) -> None:
    store = open_store(path)
    with pytest.raises(StoreLocked):
        truncate(path, 5)
    store.close()
