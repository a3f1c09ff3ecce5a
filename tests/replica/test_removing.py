"""How soon publishing goes on without a member that died, stopped or restarts its connection."""

from dataclasses import replace

from tests.replica.process import Node
from tests.replica.scripts import Scripted
from tests.replica.test_joining import SEED, names, watermark

PATIENT = 20_000.0  # milliseconds: nothing is judged by all of `slow`
SETTLED = 4000.0


def settled() -> tuple[Scripted, Node, Node, Node]:
    """Three members whose answers have come soon for a while: the coordinator, and two others."""
    run = Scripted(SEED)
    run.settings = replace(run.settings, slow=PATIENT, dead=2 * PATIENT, patience=4 * PATIENT)
    run.run(SETTLED)
    leader = run.leader()
    assert len(names(run)) == 3
    one, other = run.others(leader)
    return run, leader, one, other


def test_given_a_follower_that_is_killed_when_its_port_refuses_then_publishing_goes_on() -> None:
    run, leader, dead, _ = settled()
    run.publish_at(leader, range(70, 72))
    run.crash(dead, False)
    run.run(run.now + 200)  # two views by a simulated engine, and a lost answer
    assert dead.disk.memory.member not in run.engine.view.members
    before = watermark(leader)
    run.run(run.now + 300)
    assert watermark(leader) > before


def test_given_a_follower_that_is_stopped_when_it_was_never_late_then_it_is_removed_soon() -> None:
    run, leader, stopped, _ = settled()
    run.publish_at(leader, range(70, 72))
    stopped.paused = run.now + PATIENT / 2
    run.run(run.now + 2 * run.settings.slow_least + 200)
    assert stopped.disk.memory.member not in run.engine.view.members


def test_given_a_follower_that_was_late_when_it_is_stopped_then_it_gets_more_time() -> None:
    run, leader, late, _ = settled()
    run.publish_at(leader, range(70, 72))
    late.slow = 120.0
    run.run(run.now + 1000)
    assert late.member is not None, "it was not removed"
    late.paused = run.now + 2 * run.settings.slow_least
    run.run(run.now + 1000)
    assert len(names(run)) == 3


def test_given_no_message_when_a_follower_is_stopped_then_it_gets_all_the_time() -> None:
    run, _, stopped, _ = settled()
    run.is_publishing = False
    for node in run.nodes.values():
        assert node.process is not None
        node.process.draw = lambda: 0.5  # and no queue group changes
    run.run(run.now + 1000)
    stopped.paused = run.now + PATIENT / 2
    run.run(run.now + PATIENT / 4)
    assert len(names(run)) == 3


def test_given_a_connection_that_ends_when_the_follower_lives_then_it_stays_in_sync() -> None:
    run, _, alive, _ = settled()
    views = run.stats["views"]
    for _ in range(10):
        for connection in list(run.connections.values()):
            if alive in connection.nodes and all(connection.is_open):
                run.hang_up(connection, 0, cut=False)
        run.run(run.now + 200)
    assert len(names(run)) == 3
    assert run.stats["views"] == views


def test_given_a_follower_that_lives_when_its_port_refuses_then_it_must_get_what_it_missed() -> (
    None
):
    run, leader, alive, _ = settled()
    run.publish_at(leader, range(70, 72))
    alive.refuses_until = run.now + 1000
    for connection in list(run.connections.values()):
        if alive in connection.nodes and all(connection.is_open):
            connection.held[connection.nodes.index(alive)] = run.now + 600  # it hears that late
            run.hang_up(connection, connection.nodes.index(leader), cut=True)
    run.run(run.now + 300)
    assert alive.disk.memory.member not in run.engine.view.members
    run.go_on()  # the checker looks at each commit, and at the end all logs are equal
    assert len(names(run)) == 3
