"""The second log stays short, however many clients join queue groups and leave them."""

import pytest

from sequencer.replica import member_messages as m
from sequencer.replica.coordinator_role import NOTES_MAX
from sequencer.replica.member import Member
from sequencer.replica.member_wire import encode_message
from sequencer.replica.notes.note_snapshots import KEPT, SPARE
from sequencer.replica.notes.queue_weights import QueueWeights
from tests.replica.machine_disk import NotesInMemory
from tests.replica.scripts import Scripted, fitting

SEED = fitting(range(40), None, False)[0]
KEY = (">", "workers")


@pytest.fixture
def member() -> Member:
    """A coordinator that replaces notes as a broker does. Nothing happens but what a test does."""
    run = Scripted(SEED)
    run.run(600)
    found = run.leader().member
    assert found is not None
    while found.note_state.open:  # what a batch needs stays
        run.run(run.now + 10)
    found.note_state.spare, found.note_state.kept = SPARE, KEPT
    return found


def write(member: Member, after: int, *changed: list[object]) -> None:
    """A note of queue groups is written, and committed."""
    fields = {"after": after, "groups": list(changed)}
    note = m.Note(member.notes.last + 1, member.memory.epoch, "GROUPS", fields)
    member.note_state.append(note)
    notes = member.notes
    assert isinstance(notes, NotesInMemory)
    notes.sync()
    member.note_state.advance_commit(member.watermark, note.number)


def known_by_a_new_member(member: Member) -> QueueWeights:
    weights = QueueWeights()
    for number in range(member.notes.first, member.notes.last + 1):
        note = member.notes.at(number)
        if note.kind == "SNAPSHOT":
            weights.reset_to(note)
        elif note.kind == "GROUPS":
            weights.add(note)
    return weights


def test_given_clients_that_come_and_go_for_long_then_the_notes_stay_few(member: Member) -> None:
    most = 0
    for after in range(1, 4 * SPARE):
        write(member, after, [*KEY, {"a": after % 3} if after % 3 else {}])
        most = max(most, member.notes.last - member.notes.first + 1)
    assert most <= SPARE + 10
    weights = known_by_a_new_member(member)
    assert weights.newest == member.note_state.weights.newest, (
        "nothing is forgotten that counts now"
    )
    exact = range(weights.since + 1, 4 * SPARE)
    assert len(exact) >= KEPT
    assert [weights.taker(one, KEY) for one in exact] == [
        member.note_state.weights.taker(one, KEY) for one in exact
    ]


def test_given_old_numbers_then_nobody_uses_them_again(member: Member) -> None:
    for after in range(2 * SPARE):
        write(member, after, [*KEY, {"a": after + 1}])
    weights = known_by_a_new_member(member)
    assert weights.since > 0
    assert weights.taker(weights.since, KEY) == ""
    assert weights.taker(weights.since + 1, KEY) == "a"


def test_given_many_groups_with_long_names_then_each_message_of_notes_fits_a_frame(
    member: Member,
) -> None:
    names = [f"{'é' * 400}.{number}" for number in range(2000)]
    for after in range(150):
        some: list[list[object]] = [
            [names[(after * 40 + one) % 2000], "workers", {"a": after}] for one in range(40)
        ]
        write(member, after, *some)
    first = member.notes.first
    assert member.notes.at(first).kind == "SNAPSHOT", "so many bytes are replaced earlier"
    for start in range(first, member.notes.last + 1, NOTES_MAX):
        end = min(start + NOTES_MAX, member.notes.last + 1)
        some_notes = tuple(member.notes.at(number) for number in range(start, end))
        encode_message(m.Notes(1, 0, some_notes))
    assert known_by_a_new_member(member).newest == member.note_state.weights.newest
