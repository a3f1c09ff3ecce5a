"""What a crash or a bad disk leaves behind: recovered or reported, and never read as a message."""

import os
import shutil
from pathlib import Path

import pytest

from sequencer.journal.errors import StoreError
from sequencer.journal.header import START, Head, decode_head, encode_head, stem
from sequencer.journal.survey import Survey
from tests.support.recorded_store import (
    COUNT,
    abandon_older,
    check,
    index,
    lost,
    record,
    segment,
    texts,
)
from tests.support.stores import (
    SECOND,
    abandon,
    batch_of,
    messages,
    open_store,
    payload_of,
    put,
    read_from,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_given_a_process_killed_when_opened_then_nothing_is_missing(path: Path) -> None:
    record(path)
    store = open_store(path)
    assert store.report == []
    assert (store.first, store.last, store.epoch) == (1, COUNT, 2)
    assert check(store) == set(range(1, COUNT + 1))
    store.close()


def test_given_a_torn_record_at_the_end_when_opened_then_it_is_cut_and_its_number_used_again(
    path: Path,
) -> None:
    record(path)
    file = segment(path, 11)
    os.truncate(file, file.stat().st_size - 9)
    store = open_store(path)
    assert store.last == COUNT - 1
    assert "bytes of an unfinished write after number 12 cut off" in texts(store)
    assert store.damage == []
    assert check(store) == set(range(1, COUNT))
    store.close()


@pytest.mark.parametrize("junk", [b"\0" * 5000, b"\xff" * 77, bytes(range(256)) * 3])
def test_given_bytes_after_the_last_record_when_opened_then_they_are_cut(
    path: Path, junk: bytes
) -> None:
    record(path)
    with segment(path, 11).open("ab") as file:
        file.write(junk)
    store = open_store(path)
    assert f"{len(junk)} bytes of an unfinished write" in texts(store)
    assert check(store) == set(range(1, COUNT + 1))
    store.close()


@pytest.mark.parametrize("closed", [True, False])
def test_given_the_last_record_spoilt_when_opened_then_its_number_is_used_again_only_after_a_crash(
    path: Path, closed: bool
) -> None:
    record(path, closed=closed)
    file = segment(path, 11)
    os.truncate(file, file.stat().st_size - 9)
    store = open_store(path, accept_loss=closed)
    assert lost(store) == ([(COUNT, COUNT)] if closed else [])
    assert store.last == (COUNT if closed else COUNT - 1)
    assert check(store) == set(range(1, COUNT))
    store.close()
    again = open_store(path)
    assert lost(again) == ([(COUNT, COUNT)] if closed else [])
    assert put(again) == (COUNT + 2 if closed else COUNT + 1)
    again.close()


def test_given_a_record_spoilt_in_the_newest_segment_when_opened_then_it_stays_and_is_reported(
    path: Path,
) -> None:
    record(path)
    spoil(segment(path, 11), START + 80 + 60)
    size = segment(path, 11).stat().st_size
    store = open_store(path)
    assert store.last == COUNT
    assert lost(store) == [(12, 12)]
    assert "number 12 lost in segment 11 at bytes 144 to 224" in texts(store)
    assert segment(path, 11).stat().st_size == size
    assert check(store) == set(range(1, COUNT + 1)) - {12}
    store.close()


def test_given_a_record_spoilt_in_a_sealed_segment_when_read_then_the_next_good_one_is_found(
    path: Path,
) -> None:
    record(path)
    spoil(segment(path, 6), START + 80 + 4)  # the record's length
    store = open_store(path)
    assert store.report == []
    assert check(store) == set(range(1, COUNT + 1)) - {7}
    index(path, 6).unlink()
    store.close()
    again = open_store(path)
    while again.build_indexes():
        pass
    assert lost(again) == [(7, 7)]
    again.close()
    assert lost(open_store(path)) == [(7, 7)], "the index tells of it"


def test_given_the_last_record_of_a_sealed_segment_spoilt_when_read_then_the_next_segment_is(
    path: Path,
) -> None:
    record(path)
    spoil(segment(path, 6), segment(path, 6).stat().st_size - 20)
    index(path, 6).unlink()
    store = open_store(path)
    assert check(store) == set(range(1, COUNT + 1)) - {10}
    while store.build_indexes():
        pass
    assert lost(store) == [(10, 10)]
    store.close()
    assert lost(open_store(path)) == [(10, 10)]


def test_given_a_segment_gone_from_the_middle_when_opened_then_the_hole_is_reported(
    path: Path,
) -> None:
    record(path)
    segment(path, 6).unlink()
    store = open_store(path)
    assert lost(store) == [(6, 10)]
    assert not index(path, 6).exists()
    assert check(store) == set(range(1, COUNT + 1)) - set(range(6, 11))
    store.close()


@pytest.mark.parametrize("left", [0, 1, 20, START - 1])
def test_given_the_newest_segment_without_a_head_when_opened_then_it_is_recreated(
    path: Path, left: int
) -> None:
    record(path)
    os.truncate(segment(path, 11), left)
    store = open_store(path)
    assert store.last == 10
    assert "its head is rewritten" in texts(store)
    assert check(store) == set(range(1, 11))
    store.close()


def test_given_zeros_where_the_newest_segment_should_be_when_opened_then_they_are_cut(
    path: Path,
) -> None:
    record(path)
    segment(path, 11).write_bytes(bytes(4096))
    store = open_store(path)
    assert check(store) == set(range(1, 11))
    store.close()


def test_given_the_newest_segment_overwritten_when_opened_then_it_is_set_aside(path: Path) -> None:
    record(path)
    segment(path, 11).write_bytes(b"something else" * 100)
    store = open_store(path)
    aside = Path(f"{segment(path, 11)}.damaged")
    assert "are not records and are left, in" in texts(store)
    assert aside.stat().st_size == 1400
    assert check(store) == set(range(1, 11))
    store.close()
    assert open_store(path).last == 11


def test_given_a_head_spoilt_when_opened_then_it_is_mended(path: Path) -> None:
    for first in (1, 6, 11):
        where = path / str(first)
        record(where)
        head = segment(where, first).read_bytes()[:START]
        spoil(segment(where, first), 30)
        store = open_store(where)
        assert "its head" in texts(store)
        assert check(store) == set(range(1, COUNT + 1))
        mended = decode_head(segment(where, first).read_bytes()[:START])
        assert mended is not None
        assert mended._replace(created=0, epoch=0) == decode_head(head)._replace(created=0, epoch=0)
        store.close()


def test_given_half_made_files_when_opened_then_they_are_removed(path: Path) -> None:
    record(path)
    for name in (stem(14) + ".segment.tmp", stem(6) + ".index.tmp", "store.json.tmp"):
        (path / name).write_bytes(b"half")
    index(path, 6).rename(index(path, 7))
    store = open_store(path)
    assert not [name for name in os.listdir(path) if name.endswith(".tmp")]
    assert not index(path, 7).exists()
    assert check(store) == set(range(1, COUNT + 1))
    store.close()


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[1]", b"\xff\xfe", b'{"format": 1}'])
def test_given_no_good_store_json_when_opened_then_the_segments_tell_what_it_said(
    path: Path, content: bytes | None
) -> None:
    store = record(path, closed=True)
    if content is None:
        (path / "store.json").unlink()
    else:
        (path / "store.json").write_bytes(content)
    again = open_store(path)
    assert "rewritten from the segments" in texts(again)
    assert (again.id, again.salt, again.epoch) == (store.id, store.salt, 2)
    assert check(again) == set(range(1, COUNT + 1))
    again.close()
    assert open_store(path).report == []


def test_given_no_store_json_and_an_epoch_only_in_records_when_opened_then_it_is_not_reused(
    path: Path,
) -> None:
    for _ in range(4):
        store = open_store(path)
        put(store)
        store.close()
    (path / "store.json").unlink()
    assert open_store(path).epoch == 5


def test_given_no_store_json_and_no_heads_when_opened_then_it_is_refused(path: Path) -> None:
    record(path)
    (path / "store.json").unlink()
    for first in (1, 6, 11):
        spoil(segment(path, first), 30)
    with pytest.raises(StoreError, match="put the file back from a copy"):
        open_store(path)


def test_given_a_spoilt_store_json_alone_when_opened_then_it_is_refused(path: Path) -> None:
    path.mkdir()
    (path / "store.json").write_text("{")
    with pytest.raises(StoreError, match="remove it to begin a new journal"):
        open_store(path)


def test_given_all_segments_gone_when_opened_then_it_is_another_journal_if_that_is_wanted(
    path: Path,
) -> None:
    store = record(path)
    for first in (1, 6, 11):
        segment(path, first).unlink()
    for _ in range(2):
        with pytest.raises(StoreError, match=r"up to number 10 are missing.*--accept-loss"):
            open_store(path)
    again = open_store(path, accept_loss=True)
    assert again.id != store.id
    assert (again.first, again.last) == (1, 0)
    assert f"the segments of journal {store.id} are gone" in texts(again)
    again.close()


def test_given_a_segment_of_another_store_when_opened_then_it_is_refused_and_named(
    path: Path,
) -> None:
    record(path)
    other = record(path / "other")
    shutil.copy(segment(path / "other", 6), segment(path, 6))
    with pytest.raises(StoreError, match=f"{stem(6)}.*a segment of journal {other.id}"):
        open_store(path)


def test_given_a_segment_renamed_when_opened_then_its_name_is_asked_back(path: Path) -> None:
    record(path)
    segment(path, 6).rename(segment(path, 7))
    with pytest.raises(StoreError, match=f"give it back the name {stem(6)}.segment"):
        open_store(path)


def test_given_a_newer_format_when_opened_then_it_is_refused(path: Path) -> None:
    store = record(path)
    head = Head(store.salt, store.id, 11, 0, 1, version=2)
    with segment(path, 11).open("r+b") as file:
        file.write(encode_head(head))
    with pytest.raises(StoreError, match="has version 2, and this Seriatim knows version 1"):
        open_store(path)


def test_given_records_of_the_next_segment_after_a_sealed_one_when_opened_then_each_counts_once(
    path: Path,
) -> None:
    record(path)
    with segment(path, 6).open("ab") as file:
        file.write(segment(path, 11).read_bytes()[START:])
    store = open_store(path)
    while store.build_indexes():
        pass
    assert store.damage == []
    assert [one.last for one in store.segments()] == [5, 10, COUNT]
    assert store.segments()[1].size == START + 5 * 80
    assert check(store) == set(range(1, COUNT + 1))
    store.close()


@pytest.mark.parametrize("spoilt", [b"", b"SERINDEX", bytes(500)])
def test_given_an_invalid_index_when_opened_then_it_is_recreated(path: Path, spoilt: bytes) -> None:
    record(path)
    good = index(path, 6).read_bytes()
    index(path, 6).write_bytes(spoilt)
    store = open_store(path)
    while store.build_indexes():
        pass
    assert index(path, 6).read_bytes() == good
    assert check(store) == set(range(1, COUNT + 1))
    store.close()


def test_given_a_payload_that_holds_a_record_when_the_tail_is_torn_then_it_is_not_taken_for_one(
    path: Path,
) -> None:
    store = open_store(path)
    put(store)
    stranger = batch_of(store, 2)
    forged = type(stranger)(store.salt ^ 1, store.epoch)
    for number in (3, 4):
        forged.append_message(number, SECOND, b"a", b"", b"", payload_of(number))
    batch = type(stranger)(store.salt, store.epoch)
    with forged.view() as view:
        batch.append_message(2, 2 * SECOND, b"subj.two", b"", b"", bytes(view) + b"x" * 500)
    store.reserve(batch.end)
    with batch.view() as view:
        store.write(view, 2, 2, 2 * SECOND, False)
    size = store.segments()[0].size
    abandon_older(store, 1)
    os.truncate(segment(path, 1), size - 100)
    again = open_store(path)
    assert (again.last, again.damage) == (1, [])
    again.close()


@pytest.mark.parametrize("before", [0, 1])
def test_given_too_much_that_looks_like_records_when_searched_then_it_is_left_and_not_cut(
    path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    store = open_store(path)
    for _ in range(before):
        put(store)
    forged = batch_of(store, 3)
    start = store.segments()[0].size
    abandon_older(store, before)
    with forged.view() as view, segment(path, 1).open("ab") as file:
        file.write(bytes(64) + bytes(view)[:-8])
    monkeypatch.setattr("sequencer.journal.survey.SEARCH_FACTOR", -(10**9))
    again = open_store(path)
    monkeypatch.undo()
    assert (again.last, again.damage[0].offset if before else start) == (before, start)
    assert "are not records and are left" in texts(again)
    assert check(again) == set(range(1, before + 1))
    again.close()
    last = open_store(path)
    assert set(messages(last)) == set(range(1, before + 2))
    last.close()


def spoil(file: Path, at: int, bits: int = 0x10) -> None:
    """Flip bits of one byte of a file."""
    with file.open("r+b") as opened:
        opened.seek(at)
        (byte,) = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte ^ bits]))


def read_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets the sizes of what surveys read."""
    sizes: list[int] = []
    load = Survey._load

    def loading(survey: Survey, base: int, want: int) -> int:
        sizes.append(load(survey, base, want))
        return sizes[-1]

    monkeypatch.setattr(Survey, "_load", loading)
    return sizes


def test_given_a_clean_stop_when_opened_then_only_the_end_of_the_newest_segment_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(path)
    for _ in range(200):
        put(store, 10, size=2000, ids=True)
    store.close()
    sizes = read_bytes(monkeypatch)
    again = open_store(path)
    assert 0 < sum(sizes) < 100_000
    assert (again.report, again.damage, again.last) == ([], [], 2000)
    assert (again.newest_time, again.oldest_time) == (1991 * SECOND, SECOND)
    assert put(again, 10, size=2000, ids=True) == 2010
    assert list(messages(again)) == list(range(1, 2011))
    assert [one[0] for one in again.recent_ids(0, 9999)] == list(range(1, 2011))
    for number in (1, 977, 2000, 2001):
        assert next(read_from(again, *again.locate(number)))[0] > number - 30
    abandon(again)
    sizes.clear()
    after = open_store(path)
    assert sum(sizes) > 3_000_000, "it was killed: all is read"
    assert list(messages(after)) == list(range(1, 2011))
    after.close()


@pytest.mark.parametrize("how", ["written", "index", "gone", "number"])
def test_given_a_newest_segment_or_an_index_that_changed_when_opened_then_it_is_read_through(
    path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    store = open_store(path)
    for _ in range(200):
        put(store, 10, size=2000)
    store.close()
    file, index_file = segment(path, 1), index(path, 1)
    data, index_data = file.read_bytes(), bytearray(index_file.read_bytes())
    later = index_file.stat().st_mtime_ns + SECOND
    if how == "written":
        file.write_bytes(data.replace(payload_of(100, 2000), payload_of(101, 2000)))
        os.utime(file, ns=(later, later))
    elif how == "index":
        index_data[100] ^= 1
        index_file.write_bytes(index_data)
    elif how == "gone":
        index_file.unlink()
    else:  # of a copy that is older
        os.truncate(file, file.stat().st_size - 2056)
        index_file.unlink()
    sizes = read_bytes(monkeypatch)
    again = open_store(path, accept_loss=how == "number")
    assert sum(sizes) > 3_000_000
    assert lost(again) == {"written": [(100, 100)], "number": [(2000, 2000)]}.get(how, [])
    again.close()


def test_given_damage_that_is_known_when_closed_and_opened_then_it_is_still_known(
    path: Path,
) -> None:
    record(path)
    file = segment(path, 11)
    data = file.read_bytes()
    file.write_bytes(data.replace(payload_of(11), payload_of(11)[::-1]))
    store = open_store(path)
    assert lost(store) == [(11, 11)]
    store.close()
    again = open_store(path)
    assert lost(again) == [(11, 11)]
    again.close()
