"""Which member takes a message of a group: exactly one, whatever patterns the group has."""

from collections import Counter

from broker.cluster.group_shares import GroupShares
from sequencer.replica.member_messages import Note
from sequencer.replica.notes.queue_weights import QueueWeights

MEMBERS = ("a", "b", "c")


def made(*notes: Note) -> dict[str, GroupShares]:
    found = {}
    for member in MEMBERS:
        weights = QueueWeights()
        for note in notes:
            weights.add(note)
        found[member] = GroupShares(member, weights)
        found[member].reload_notes()
    return found


def groups(number: int, after: int, *changed: list[object]) -> Note:
    return Note(number, 1, "GROUPS", {"after": after, "groups": list(changed)})


def takers(shares: dict[str, GroupShares], number: int, subject: bytes, group: bytes) -> str:
    return "".join(name for name in MEMBERS if shares[name].takes(number, subject, group))


def test_given_several_patterns_that_match_then_one_member_of_all_takes() -> None:
    note = groups(
        1,
        0,
        ["jobs.*", "workers", {"a": 1, "b": 1}],
        ["jobs.new", "workers", {"c": 2}],
        ["jobs.>", "workers", {"a": 1}],
        ["jobs.>", "others", {"c": 1}],
        ["else", "workers", {"b": 9}],
    )
    shares = made(note)
    counts = Counter(takers(shares, number, b"jobs.new", b"workers") for number in range(1, 5001))
    assert counts.keys() == {"a", "b", "c"}, "never nobody, never two"
    assert abs(counts["a"] - 2000) < 200
    assert abs(counts["b"] - 1000) < 200
    assert {takers(shares, number, b"jobs.new", b"others") for number in range(5001, 5010)} == {"c"}


def test_given_one_pattern_then_the_core_draws_the_same_member() -> None:
    note = groups(1, 0, ["jobs", "workers", {"a": 3, "b": 1, "c": 2}])
    weights = QueueWeights()
    weights.add(note)
    shares = made(note)
    for number in [*range(1, 200), (1 << 40) + 7]:
        taker = weights.taker(number, ("jobs", "workers"))
        assert takers(shares, number, b"jobs", b"workers") == taker


def test_given_new_weights_then_they_count_from_their_number_on() -> None:
    shares = made(
        groups(1, 2, ["jobs", "workers", {"a": 1}]),
        groups(2, 4, ["jobs", "workers", {"b": 1}]),
        groups(3, 6, ["jobs", "workers", {}]),
    )
    taken = [takers(shares, number, b"jobs", b"workers") for number in range(1, 9)]
    assert taken == ["", "", "a", "a", "b", "b", "", ""]


def test_given_more_notes_than_before_when_announced_then_they_count() -> None:
    shares = made()
    assert takers(shares, 1, b"jobs", b"workers") == ""
    for one in shares.values():
        one.weights.add(groups(1, 1, ["jobs", "workers", {"c": 1}]))
        one.reload_notes()
    assert takers(shares, 2, b"jobs", b"workers") == "c"


def test_given_a_note_that_is_not_committed_then_settling_does_not_take_it() -> None:
    shares = made(groups(1, 0, ["jobs", "workers", {"a": 1}]))["a"]
    shares.settle(0, 0)
    assert not shares.weights.in_force
    shares.settle(0, 1)
    assert shares.weights.in_force == {("jobs", "workers"): {"a": 1}}
