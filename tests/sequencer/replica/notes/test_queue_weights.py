"""Which member's subscribers take a number of a queue group."""

from collections import Counter

import pytest

from sequencer.replica.member_messages import Note
from sequencer.replica.notes.queue_weights import QueueWeights, changes

KEY = ("orders.*", "workers")


def groups(number: int, after: int, **weights: int) -> Note:
    return Note(number, 1, "GROUPS", {"after": after, "groups": [[*KEY, weights]]})


def test_given_weights_when_many_numbers_come_then_members_get_their_shares() -> None:
    weights = QueueWeights()
    weights.add(groups(1, 0, a=1, b=3))
    taken = Counter(weights.taker(number, KEY) for number in range(1, 20_001))
    assert taken["a"] == pytest.approx(5000, rel=0.1)
    assert taken["b"] == pytest.approx(15_000, rel=0.1)


def test_given_a_note_when_numbers_come_then_it_counts_for_those_after_it() -> None:
    weights = QueueWeights()
    weights.add(groups(1, 2, a=1))
    weights.add(groups(2, 4, b=1))
    weights.add(groups(3, 6))
    assert [weights.taker(number, KEY) for number in range(1, 9)] == [*2 * [""], *"aabb", "", ""]
    assert weights.taker(9, ("other", "workers")) == ""


def test_given_a_note_that_is_not_committed_then_no_number_for_it_is_either() -> None:
    weights = QueueWeights()
    weights.add(groups(1, 10, a=1))
    weights.add(groups(2, 20, b=1))
    assert [weights.limit(number) for number in range(3)] == [10, 20, None]


def test_given_notes_that_are_cut_then_what_is_in_force_stays() -> None:
    weights = QueueWeights()
    weights.add(groups(1, 2, a=1))
    assert weights.taker(3, KEY) == "a"
    weights.add(groups(2, 5, b=1))
    weights.forget_above(1)
    assert weights.newest == {KEY: {"a": 1}}
    assert weights.taker(9, KEY) == "a"


def test_given_two_tables_then_a_note_says_only_what_has_changed() -> None:
    now, wanted = {KEY: {"a": 1}, ("x", "y"): {"a": 1}}, {KEY: {"a": 2}, ("x", "z"): {"b": 1}}
    now["same", "q"] = wanted["same", "q"] = {"c": 1}
    assert changes(now, wanted) == [[*KEY, {"a": 2}], ["x", "y", {}], ["x", "z", {"b": 1}]]
