"""Building subject indexes: for whom asks, a part at a time, and of good segments alone."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sequencer.journal.header import SUBJECTS
from sequencer.journal.ring import Ring
from sequencer.journal.subject_builder import SubjectBuilder
from sequencer.journal.subject_index import read_subjects
from tests.support.stores import in_memory, open_store
from tests.support.subject_indexes import build, sealed


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as path:
        yield Path(path) / "store"


def test_given_no_request_when_prepared_then_nothing_is_built_until_somebody_does(
    folder: Path,
) -> None:
    store = open_store(folder)
    segment = sealed(store, [b"a", b"b"])
    builder = SubjectBuilder(store)
    builder.prepare()
    builder.step()
    assert not os.path.exists(segment.path + SUBJECTS)
    builder.wanted = True
    builder.prepare()
    builder.step()
    assert os.path.exists(segment.path + SUBJECTS)
    later = SubjectBuilder(store)
    later.prepare()
    assert later.wanted, "there are such files: somebody has asked before"
    builder.prepare()
    assert segment.holders == 1, "of the later one"
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
    builder.wanted = True
    builder.prepare()
    builder.step()
