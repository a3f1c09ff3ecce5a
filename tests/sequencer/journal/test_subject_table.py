"""Tables of the last message of each subject: what a model finds in the same records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.journal import subject_table
from sequencer.journal.chunk import END, GAP
from sequencer.journal.layout import BAD, MORE
from sequencer.journal.record import Walk
from sequencer.journal.subject_table import SubjectTable
from tests.support.subject_indexes import SALT, Lasts, batch_of, lasts_of


def model(data: bytes, base: int, last: int) -> Lasts:
    """What a table must know of these records."""
    found: Lasts = {}
    walk = Walk(SALT)
    walk.attach(data, 0, len(data))
    while walk.next() == 1 and walk.number <= last:
        subject = data[walk.subject : walk.subject + walk.subject_size]
        found[subject] = walk.number, base + walk.at
    return found


@given(
    subjects=st.lists(st.sampled_from([b"a", b"b", b"a.b", b"ab", b""]), min_size=1, max_size=60),
    step=st.integers(1, 400),
    last=st.integers(1, 70),
    base=st.sampled_from([0, 64, 1 << 20]),
)
def test_given_records_in_pieces_when_taken_then_the_last_of_each_subject_is_known(
    subjects: list[bytes], step: int, last: int, base: int
) -> None:
    data = bytes(batch_of(subjects).view())
    table, walk = SubjectTable(1), Walk(SALT)
    only = {name: SubjectTable(1, name) for name in set(subjects)}
    for one in (table, *only.values()):
        at, stop, state = 0, 0, MORE
        while state == MORE and stop < len(data):
            stop = min(stop + step, len(data))
            walk.attach(data, at, stop)
            state = one.add_records(walk, base, last)
            at = one.end - base
        if last <= len(subjects):
            walk.attach(data, at, stop)
            assert one.add_records(walk, base, last) == END
    wanted = model(data, base, last)
    assert lasts_of(table) == wanted
    assert len(table) == len(wanted)
    for name, one in only.items():
        assert one.find(name) == table.find(name) == wanted.get(name)


def test_given_a_gap_and_a_bad_record_when_taken_then_the_table_says_so() -> None:
    data = bytearray(bytes(batch_of([b"a"] * 3).view()) + bytes(batch_of([b"b"] * 3, 6).view()))
    table, walk = SubjectTable(1), Walk(SALT)
    walk.attach(data, 0, len(data))
    assert table.add_records(walk, 64, 100) == GAP
    assert (table.next, walk.number) == (4, 6)
    table.skip(walk.number)
    data[-1] ^= 1
    walk.attach(data, table.end - 64, len(data))
    assert table.add_records(walk, 64, 100) == BAD
    assert [number for number, _ in lasts_of(table).values()] == [3, 7]


def test_given_too_many_subjects_when_taken_then_the_table_is_full_unless_for_one_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subject_table, "SUBJECTS_MAX", 10)
    data = bytes(batch_of([b"s.%d" % at for at in range(20)]).view())
    for only, full in ((None, True), (b"s.3", False)):
        table, walk = SubjectTable(1, only), Walk(SALT)
        walk.attach(data, 0, len(data))
        assert table.add_records(walk, 64, 20) == END
        assert table.full is full
        assert len(table) == 0
        assert (table.find(b"s.3") is None) is full
        assert table.last_at > 0
