"""A member that returns while clients go on publishing."""

from contextlib import nullcontext, suppress
from dataclasses import replace

import pytest

from sequencer.replica.member_messages import Note
from tests.replica.checker import Breach
from tests.replica.defects import DEFECTS
from tests.replica.machine_disk import Written
from tests.replica.process import Node, Process
from tests.replica.scripts import Scripted, fitting

ORIGIN = 0x7FFF_FFFF  # of a client that no simulated publisher is
UNHEARD = 99  # an epoch that the others know nothing of
BATCHES = 8  # a seed of three members whose clients commit batches
EVERY = 5.0  # milliseconds
LONG = 60_000.0
SEED = fitting(range(40), None, False)[0]


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
        if process.member.coordinator is not None:
            process.member.coordinator.release()
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
    own.file = Written(own.base, tuple(own.notes))
    own.synced = own.last
    run.start(returned)
    with suppress(Breach) if defect else nullcontext():
        run.run(run.now + 1500)
    assert all(note.epoch != UNHEARD for note in own.notes) is (not defect)
    assert defect or returned.name in names(run)


def removed_for_slowness(run: Scripted) -> tuple[Node, Node, Node]:
    """The coordinator, a member, and one that was too slow and may not come again for long."""
    run.settings = replace(run.settings, rejoin=LONG)
    run.run(500)
    leader = run.leader()
    other, slow = run.others(leader)
    slow.paused = run.now + 2 * run.settings.slow
    run.run(run.now + 1500)
    assert names(run) == {leader.name, other.name}
    return leader, other, slow


def test_given_a_member_that_was_too_slow_when_enough_are_left_then_it_stays_outside() -> None:
    run = Scripted(SEED)
    leader, other, _ = removed_for_slowness(run)
    run.run(run.now + 5000)
    assert names(run) == {leader.name, other.name}


def test_given_a_member_that_was_too_slow_when_too_few_are_left_then_it_takes_its_place() -> None:
    run = Scripted(SEED)
    leader, other, slow = removed_for_slowness(run)
    run.crash(other, False)
    committed = watermark(leader)
    run.run(run.now + 2000)
    assert names(run) == {leader.name, slow.name}
    assert watermark(leader) > committed, "publishing goes on"


def test_given_a_member_that_wants_to_leave_when_one_was_too_slow_then_that_one_comes() -> None:
    run = Scripted(SEED)
    leader, other, slow = removed_for_slowness(run)
    run.call(other, other.run, lambda process: process.member.leave())
    run.run(run.now + 2000)
    assert names(run) == {leader.name, slow.name}


def test_given_a_starved_coordinator_when_a_member_dies_then_it_finds_out() -> None:
    run = Scripted(SEED)
    run.run(500)
    leader = run.leader()
    dead, other = run.others(leader)

    def starve() -> None:
        """Each of its turns is later than half of what counts as silence."""
        leader.paused = run.now + 0.6 * run.settings.slow
        run.at(0.7 * run.settings.slow, starve)

    starve()
    run.run(run.now + 1000)
    run.crash(dead, False)
    run.run(run.now + 4000)
    assert run.leader() is leader
    assert dead.disk.memory.member not in run.engine.view.members
    assert names(run) == {leader.name, other.name}


def watermark(node: Node) -> int:
    assert node.member is not None
    return node.member.watermark


def names(run: Scripted) -> set[str]:
    """Who is in sync, by name."""
    members = run.engine.view.members
    return {
        node.name
        for node in run.nodes.values()
        if node.member is not None and node.member.id in members
    }
