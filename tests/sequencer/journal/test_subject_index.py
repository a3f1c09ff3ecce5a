"""The subject index of a segment: what it says is what the records say, or it is not used."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from sequencer.journal import subject_index, subject_table
from sequencer.journal.cut import truncate
from sequencer.journal.header import SUBJECTS
from sequencer.journal.subject_index import (
    HEAD_SIZE,
    SubjectIndexes,
    has_subjects,
    probe_of,
    read_subjects,
)
from tests.support.stores import in_memory, open_store
from tests.support.subject_indexes import build, entries_of, fill, lasts_in, sealed


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as path:
        yield Path(path) / "store"


@pytest.mark.parametrize("subjects", [1, 30, 5000])
def test_given_a_sealed_segment_when_built_then_its_index_says_what_its_records_say(
    folder: Path, subjects: int
) -> None:
    random = Random(subjects)
    store = open_store(folder, segment_bytes=1 << 30)
    names = [b"subject.%d" % random.randrange(subjects) for _ in range(8000)]
    segment = sealed(store, names)
    assert read_subjects(segment, store.id) is None
    build(store)
    index = read_subjects(segment, store.id)
    assert index is not None
    assert entries_of(index) == lasts_in(segment, store.salt)
    assert len(entries_of(index)) == len(set(names))
    assert (index.first, index.last, index.gone) == (1, 8000, False)
    assert read_subjects(store.segments()[-1], store.id) is None, "the newest has none"
    store.close()


def test_given_more_subjects_than_an_index_may_have_then_the_file_says_that_there_is_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject_table, "SUBJECTS_MAX", 10)
    store = open_store(folder)
    segment = sealed(store, [b"s.%d" % at for at in range(11)])
    build(store)
    assert read_subjects(segment, store.id) is None
    assert has_subjects(segment, store.id)
    store.close()


def test_given_any_flipped_byte_when_read_then_the_index_is_as_it_was_or_is_not_used(
    folder: Path,
) -> None:
    store = open_store(folder)
    segment = sealed(store, [b"a", b"b", b"c.d", b"a"])
    build(store)
    path = Path(segment.path + SUBJECTS)
    good = path.read_bytes()
    wanted = lasts_in(segment, store.salt)
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :])
        index = read_subjects(segment, store.id)
        if index is not None:
            assert at >= HEAD_SIZE
            data = path.read_bytes()[HEAD_SIZE : index.size]
            assert index.entries(HEAD_SIZE, memoryview(data)) is None
    for size in range(len(good)):
        path.write_bytes(good[:size])
        assert read_subjects(segment, store.id) is None
    path.write_bytes(good)
    index = read_subjects(segment, store.id)
    assert index is not None
    assert entries_of(index) == wanted
    path.unlink()
    assert read_subjects(segment, store.id) is None
    build(store)
    assert path.read_bytes() == good
    store.close()


def test_given_a_store_that_is_cut_and_written_again_then_no_earlier_index_is_used(
    folder: Path,
) -> None:
    store = open_store(folder)
    first = sealed(store, [b"a", b"b", b"c"])
    second = sealed(store, [b"a", b"b", b"c"])
    build(store)
    kept = [Path(one.path + SUBJECTS).read_bytes() for one in (first, second)]
    store.close()
    truncate(str(folder), 2)
    assert not list(folder.glob("*.subjects"))
    store = open_store(folder)
    fill(store, [b"d"])  # as long as what was cut off
    (again,) = store.segments()
    store.roll(1)
    assert (again.size, again.last) == (first.size, first.last)
    Path(again.path + SUBJECTS).write_bytes(kept[0])
    assert read_subjects(again, store.id) is None, "its last record is another one"
    build(store)
    index = read_subjects(again, store.id)
    assert index is not None
    assert set(entries_of(index)) == {b"a", b"b", b"d"}
    store.close()


def test_given_retention_when_a_segment_goes_then_its_index_goes_with_it(folder: Path) -> None:
    store = open_store(folder)
    segment = sealed(store, [b"a"])
    kept = sealed(store, [b"a"])
    build(store)
    assert len(list(folder.glob("*.subjects"))) == 2
    store.retain_count = 1
    store.retain(1)
    assert list(folder.glob("*.subjects")) == [Path(kept.path + SUBJECTS)]
    assert segment.gone
    store.close()


def test_given_an_index_without_its_segment_when_opened_then_it_is_removed(folder: Path) -> None:
    store = open_store(folder)
    fill(store, [b"a"])
    store.close()
    (folder / f"{99:020d}.subjects").write_bytes(b"x")
    open_store(folder).close()
    assert not list(folder.glob("*.subjects"))


def test_given_a_filter_when_asked_then_it_knows_all_subjects_and_few_others(folder: Path) -> None:
    store = open_store(folder)
    subjects = [b"s.%d" % at for at in range(2000)]
    segment = sealed(store, subjects)
    build(store)
    index = read_subjects(segment, store.id)
    assert index is not None
    assert all(index.may_have(probe_of(one)) for one in subjects)
    wrong = sum(index.may_have(probe_of(b"t.%d" % at)) for at in range(10_000))
    assert wrong < 300, "one in a hundred"
    store.close()


def test_given_indexes_that_are_kept_when_their_segments_change_then_they_are_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(folder)
    segments = [sealed(store, [b"a.%d" % at, b"b"]) for at in range(5)]
    build(store)
    indexes = SubjectIndexes(store)
    first = indexes.of(segments[0])
    assert first is not None
    assert indexes.of(segments[0]) is first
    segments[0].size += 8
    assert indexes.of(segments[0]) is None, "the segment is another one"
    segments[0].size -= 8
    again = indexes.of(segments[0])
    assert again is not None
    assert again is not first
    segments[0].gone = True
    indexes.forget_deleted()
    segments[0].gone = False
    assert indexes.of(segments[0]) is not again
    monkeypatch.setattr(subject_index, "KEPT_BYTES", again.kept_bytes * 2)
    kept = [indexes.of(one) for one in segments]
    assert indexes.of(segments[-1]) is kept[-1]
    assert indexes.of(segments[0]) is not kept[0], "there was no room for all"
    store.close()


def test_given_a_prefix_when_its_subjects_are_looked_up_then_all_are_found_or_none(
    folder: Path,
) -> None:
    store = open_store(folder)
    subjects = [b"%s.%d" % (word, at) for word in (b"a", b"m", b"z") for at in range(300)]
    segment = sealed(store, subjects)
    build(store)
    index = read_subjects(segment, store.id)
    assert index is not None
    assert index.blocks > 4
    for prefix in (b"a.", b"m.1", b"m.299", b"z.", b"nothing.", b"zz."):
        found = index.subjects_from(prefix, 100)
        assert found is not None
        wanted = {one for one in subjects if one.startswith(prefix)}
        assert wanted == {one for one in found if one.startswith(prefix)}
    assert index.subjects_from(b"", 2) is None, "that is too many"
    file = Path(segment.path + SUBJECTS)
    data = bytearray(file.read_bytes())
    data[HEAD_SIZE] ^= 1
    file.write_bytes(data)
    assert index.subjects_from(b"a.", 100) is None
    store.close()
