"""A member that returns while clients go on publishing."""

from contextlib import nullcontext, suppress

import pytest

from sequencer.replica.member_messages import Note
from tests.replica.checker import Breach
from tests.replica.defects import DEFECTS
from tests.replica.process import Process
from tests.replica.scripts import Scripted

ORIGIN = 0x7FFF_FFFF  # of a client that no simulated publisher is
UNHEARD = 99  # an epoch that the others know nothing of
BATCHES = 8  # a seed of three members whose clients commit batches
EVERY = 5.0  # milliseconds


def test_given_new_messages_at_each_look_when_a_member_returns_then_it_gets_in_sync() -> None:
    run = Scripted(1)
    run.run(500)
    leader = run.leader()
    returned = run.others(leader)[0]
    run.crash(returned, False)
    run.run(1500)
    assert leader.member is not None
    assert returned.name not in names(run)
    run.start(returned)
    count = 0

    def turn(process: Process) -> None:
        """Messages are written, and time passes, before anything is sent."""
        nonlocal count
        count += 1
        origin = process.run << 32 | ORIGIN
        run.checker.payloads[origin, count] = f"{count}"
        process.publish(origin, count, "", f"{count}")
        if process.member.reign is not None:
            process.member.reign.release()
        process.member.tick()

    def again() -> None:
        run.call(leader, leader.run, turn)
        run.at(EVERY, again)

    again()
    run.run(3000)
    assert returned.name in names(run)


@pytest.mark.parametrize("defect", ["", "notes that diverge outlive a snapshot"])
def test_given_notes_that_diverge_past_a_snapshot_when_a_member_returns_then_they_are_replaced(
    defect: str,
) -> None:
    run = Scripted(BATCHES, DEFECTS[defect] if defect else None)
    run.run(500)
    leader = run.leader()
    theirs = leader.disk.notes
    run.run(9000, lambda: bool(theirs.at(theirs.first).kind == "SNAPSHOT"))
    returned = run.others(leader)[0]
    run.crash(returned, False)
    own, oldest = returned.disk.notes, theirs.at(theirs.first)
    own.base = theirs.base  # it has replaced as much, by what another coordinator had
    numbers = range(theirs.first, oldest.fields["until"] + 50)
    own.notes = [Note(at, UNHEARD, "GROUPS", {"after": 1 << 40, "groups": []}) for at in numbers]
    run.start(returned)
    with suppress(Breach) if defect else nullcontext():
        run.run(run.now + 1500)
    assert all(note.epoch != UNHEARD for note in own.notes) is (not defect)
    assert defect or returned.name in names(run)


def names(run: Scripted) -> set[str]:
    """Who is in sync, by name."""
    members = run.engine.view.members
    return {
        node.name
        for node in run.nodes.values()
        if node.member is not None and node.member.id in members
    }
