"""Whom a coordinator refuses, and what it tells an operator, in a simulated cluster of three."""

from dataclasses import replace
from typing import Any

import pytest

from sequencer.replica import member_messages as m
from sequencer.replica.member import Member
from tests.replica.process import Process
from tests.replica.scripts import Scripted, fitting

SEED = fitting(range(40), None, False)[0]


def coordinator(run: Scripted) -> Member:
    member = run.leader().member
    assert member is not None
    assert member.coordinator is not None
    return member


@pytest.fixture
def cluster() -> Scripted:
    run = Scripted(SEED)
    run.run(600)
    return run


def hello(of: Member, **other: Any) -> m.Hello:
    told = m.Hello(
        protocols=(1, 1),
        cluster="sim",
        journal=of.log.journal,
        member="f" * 16,
        run=99,
        sync=of.settings.sync,
        epoch=0,
        epochs=(),
        last=0,
        note_epochs=(),
        note_last=0,
    )
    return told._replace(**other)


def answer(member: Member, told: m.Hello) -> object:
    member.actions = []
    member.receive(1000, told)
    return next(one.message for one in member.actions if isinstance(one, m.Send))


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"cluster": "other"}, "this is cluster sim, not other"),
        ({"protocols": (2, 3)}, "the members speak protocol 1; this one speaks 2 to 3"),
        ({"journal": "f" * 16}, "the cluster's journal is 1141c2c3a6b8558d; this store is f"),
        ({"sync": "never"}, "journal.sync is interval in this cluster, not never"),
    ],
)
def test_given_a_member_that_does_not_fit_when_it_says_hello_then_the_error_says_why(
    cluster: Scripted, other: dict[str, object], why: str
) -> None:
    member = coordinator(cluster)
    refused = answer(member, hello(member, **other))
    assert isinstance(refused, m.NotCoordinator)
    assert refused.why.startswith(why)
    assert refused.view == member.view


def test_given_a_copy_of_the_coordinators_store_then_it_is_refused(cluster: Scripted) -> None:
    member = coordinator(cluster)
    refused = answer(member, hello(member, member=member.id))
    assert isinstance(refused, m.NotCoordinator)
    assert "this store is a copy" in refused.why


def test_given_an_older_process_of_a_member_then_it_is_refused(cluster: Scripted) -> None:
    member = coordinator(cluster)
    node = cluster.others(cluster.leader())[0]
    refused = answer(member, hello(member, member=node.disk.memory.member, run=0))
    assert isinstance(refused, m.NotCoordinator)
    assert f"is connected: {node.run}" in refused.why


def test_given_a_member_that_lost_what_it_acknowledged_when_it_says_hello_then_it_is_refused(
    cluster: Scripted,
) -> None:
    member = coordinator(cluster)
    node = cluster.others(cluster.leader())[0]
    name, log, notes = node.disk.memory.member, node.disk.log, node.disk.notes.last
    assert member.coordinator is not None
    had = max(member.coordinator.acked[name][0], member.watermark)
    whole = hello(member, member=name, run=node.run, epochs=log.epochs(), last=had, note_last=notes)
    assert member.coordinator.loss(whole) == ""

    # When: its journal is shorter than that, whether it said so in this epoch or before
    for told in (whole._replace(last=had - 1), whole._replace(last=0, epochs=())):
        refused = answer(member, told)
        assert isinstance(refused, m.NotCoordinator)
        assert refused.why.startswith(f"{m.LOST}: it had number {had}")
    member.coordinator.acked.clear()
    refused = answer(member, whole._replace(last=member.watermark - 1))
    assert isinstance(refused, m.NotCoordinator)
    assert f"it had number {member.watermark}" in refused.why

    # Then: the same store is taken under another id, and the member asks to become another one
    assert isinstance(answer(member, whole._replace(last=0, epochs=(), member="e" * 16)), m.Welcome)
    follower = node.member
    assert follower is not None
    follower.actions = []
    follower.receive(follower.follower.connection, refused)
    assert m.LostAcknowledged(f"the coordinator says: {refused.why}") in follower.actions


def test_given_a_later_process_of_the_same_member_then_the_older_one_stops(
    cluster: Scripted,
) -> None:
    member = coordinator(cluster)
    member.on_registered_run(member.run)
    assert member.actions == []
    member.on_registered_run(member.run + 1)
    assert isinstance(member.actions[0], m.Stop)
    assert "one of the stores is a copy" in member.actions[0].why


def test_given_a_member_of_a_higher_epoch_then_the_coordinator_asks_the_engine(
    cluster: Scripted,
) -> None:
    member = coordinator(cluster)
    assert answer(member, hello(member, epoch=9)) == m.NotCoordinator("", 0, None)
    assert m.ReadView() in member.actions


def test_given_a_new_store_then_it_gets_the_whole_journal_and_its_salt(cluster: Scripted) -> None:
    member = coordinator(cluster)
    welcome = answer(member, hello(member, journal="0" * 16))
    assert isinstance(welcome, m.Welcome)
    assert (welcome.common, welcome.anew, welcome.salt) == (0, True, member.log.salt)
    assert welcome.base >= member.log.last


def test_given_a_member_that_acknowledges_what_it_was_not_sent_then_it_is_hung_up_on(
    cluster: Scripted,
) -> None:
    member = coordinator(cluster)
    answer(member, hello(member))
    member.receive(1000, m.Ack(1, 1 << 40, 0, 0, 0))
    assert m.Close(1000) in member.actions
    assert "acknowledged what it was not sent" in member.complaint


def test_given_a_stall_then_new_messages_are_refused_with_the_reason(cluster: Scripted) -> None:
    leader = cluster.leader()
    member = coordinator(cluster)
    assert member.refusing == ""
    for node in cluster.others(leader):
        cluster.crash(node, power=False)
    cluster.run(cluster.now + 500)
    assert member.refusing == "the cluster has 1 of 2 members in sync"


def test_given_too_few_members_and_no_messages_then_the_first_one_is_refused_too(
    cluster: Scripted,
) -> None:
    cluster.is_publishing = False
    cluster.run(cluster.now + 500)
    leader = cluster.leader()
    member = coordinator(cluster)
    for node in cluster.others(leader):
        cluster.crash(node, power=False)
    cluster.run(cluster.now + 1000)
    assert member.table.settled == member.table.placed
    assert member.refusing == "the cluster has 1 of 2 members in sync"


def test_given_a_full_disk_and_no_successor_then_messages_wait_and_are_refused_later(
    cluster: Scripted,
) -> None:
    leader = cluster.leader()
    member = coordinator(cluster)
    cluster.engine.is_down = True
    leader.disk.fill(True)
    cluster.run(cluster.now + 100)
    assert member.refusing == ""
    assert member.numbering.table.held_bytes > 0, "they wait for a number"
    cluster.run(cluster.now + 500)
    assert member.refusing.startswith("the coordinator's journal has no room")
    leader.disk.fill(False)
    cluster.engine.is_down = False
    cluster.run(cluster.now + 3000)
    assert member.refusing == ""


def test_given_a_known_id_and_nothing_else_then_the_coordinators_client_is_answered(
    cluster: Scripted,
) -> None:
    cluster.is_publishing = False
    cluster.run(cluster.now + 500)
    leader = cluster.leader()
    origin = leader.run << 32 | 999
    for nth in (1, 2):
        cluster.checker.payloads[origin, nth] = "id once"

        def publish(process: Process, nth: int = nth) -> None:
            process.publish(origin, nth, "id once", "id once")

        cluster.call(leader, leader.run, publish)
        cluster.run(cluster.now + 300)
        assert leader.process is not None
        assert leader.process.table.settled == leader.process.table.placed > 0


def test_given_no_coordinator_then_a_follower_refuses_new_messages(cluster: Scripted) -> None:
    leader = cluster.leader()
    follower = cluster.others(leader)[0]
    cluster.crash(leader, power=False)
    cluster.engine.is_down = True
    cluster.run(cluster.now + 1500)
    member = follower.member
    assert member is not None
    assert member.refusing in ("no coordinator for 1 s", "no coordinator for 2 s")
    assert member.role == "follower"


def test_given_a_coordinator_that_was_killed_then_the_next_takes_over_without_waiting() -> None:
    run = Scripted(SEED)
    run.settings = replace(run.settings, dead=100_000)  # not by its silence
    run.run(600)
    old = run.leader()
    run.crash(old, power=False)
    run.run(run.now + 300)
    assert run.leader() is not old
    assert coordinator(run).coordinator is not None


def test_given_a_hand_over_then_the_chosen_one_coordinates_soon(cluster: Scripted) -> None:
    leader = cluster.leader()
    chosen = cluster.others(leader)[1]
    chosen_id = chosen.disk.memory.member
    cluster.call(leader, leader.run, lambda process: process.member.hand_over(chosen_id))
    cluster.run(cluster.now + 150)
    assert cluster.leader() is chosen
    assert coordinator(cluster).id == chosen_id
    cluster.go_on()


def test_given_a_member_that_leaves_then_the_view_goes_on_without_it(cluster: Scripted) -> None:
    node = cluster.others(cluster.leader())[0]
    cluster.call(node, node.run, lambda process: process.member.leave())
    cluster.run(cluster.now + 100)
    assert node.disk.memory.member not in cluster.engine.view.members
    assert node.member is not None
    assert node.member.role == "learner"
