"""Building subject indexes: a part at a time, and of good segments alone."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sequencer.journal.header import SUBJECTS
from sequencer.journal.ring import Ring
from sequencer.journal.subject_builder import SubjectBuilder
from sequencer.journal.subject_index import probe_of, read_subjects
from tests.support.stores import in_memory, open_store
from tests.support.subject_indexes import build, entries_of, sealed, write_version_1


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as path:
        yield Path(path) / "store"


def test_given_sealed_segments_when_prepared_and_stepped_then_each_gets_its_index(
    folder: Path,
) -> None:
    store = open_store(folder)
    older, newer = sealed(store, [b"a", b"b"]), sealed(store, [b"c"])
    builder = SubjectBuilder(store)
    assert not builder.step(), "nothing is chosen yet"
    builder.prepare()
    assert builder.step()
    assert [os.path.exists(one.path + SUBJECTS) for one in (older, newer)] == [False, True]
    builder.prepare()
    assert builder.step()
    builder.prepare()
    assert not builder.step(), "all have theirs"
    assert os.path.exists(older.path + SUBJECTS)
    assert older.holders == newer.holders == 0
    store.close()


def test_given_an_index_of_the_version_before_when_prepared_then_it_is_written_again(
    folder: Path,
) -> None:
    store = open_store(folder)
    segment = sealed(store, [b"a", b"b"])
    build(store)
    write_version_1(segment, store.id)
    found = read_subjects(segment, store.id)
    assert found is not None, "it is good until then"
    assert found.may_have(probe_of(b"absent")), "it has no filter"
    build(store)
    again = read_subjects(segment, store.id)
    assert again is not None
    assert not again.may_have(probe_of(b"absent"))
    assert entries_of(again) == entries_of(found)
    store.close()


def test_given_a_damaged_segment_when_built_then_it_has_no_index(folder: Path) -> None:
    store = open_store(folder)
    segment = sealed(store, [b"a", b"b", b"a"])
    store.close()
    with open(segment.file, "r+b") as file:
        file.seek(segment.start + 20)
        file.write(b"\xff")
    store = open_store(folder)
    build(store)
    assert not os.path.exists(segment.path + SUBJECTS)
    store.close()


def test_given_the_ring_when_asked_for_an_index_then_it_has_none() -> None:
    ring = Ring(1 << 20)
    assert read_subjects(ring.segments()[0], ring.id) is None
    builder = SubjectBuilder(ring)
    builder.prepare()
    assert not builder.step()
