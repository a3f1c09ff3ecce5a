"""What chance does not meet often enough, step by step: three members, two of them needed."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from sequencer.replica import member_messages as m
from tests.replica.clients import Listener, Publisher
from tests.replica.defects import DEFECTS
from tests.replica.faults import Run
from tests.replica.machine_disk import Disk
from tests.replica.process import Node
from tests.replica.world import HOUR, TIGHT, id_of


class Scripted(Run):
    """Nothing goes wrong but what the script says."""

    def __init__(self, seed: int, kinds: dict[str, Any] | None = None) -> None:
        super().__init__(seed, kinds)
        self.is_slow_for: Node | None = None
        scripted = self._trouble, self._put_back, self._set_clocks
        self.events = [event for event in self.events if event[2] not in scripted]

    def send(self, node: Node, number: int, message: Any) -> None:
        """Records that are on their way for longer than their sender lives never arrive."""
        connection = self.connections.get(number)
        is_slow = connection is not None and self.is_slow_for in connection.nodes
        if not (is_slow and isinstance(message, m.Data) and message.records is not None):
            super().send(node, number, message)

    def isolate(self, node: Node, others: list[str]) -> None:
        for name in others:
            self.cut |= {(node.name, name), (name, node.name)}

    def join(self, node: Node, name: str) -> None:
        self.cut -= {(node.name, name), (name, node.name)}

    def publish_at(self, node: Node, numbers: range) -> None:
        """More publishers, at this member."""
        for number in numbers:
            one = Publisher(number, False, node)
            self.publishers.append(one)
            self.at(self.random.uniform(0, 50), partial(self._publish, one))

    def leader(self) -> Node:
        node = self.coordinator()
        assert node is not None, "the view's coordinator has a machine"
        return node

    def others(self, *known: Node) -> list[Node]:
        return [node for node in self.nodes.values() if node not in known]

    def go_on(self) -> None:
        self.end(self.now + 9000)


def forgotten_epoch(run: Scripted) -> None:
    """A deposed coordinator that nobody told meets a member that was restarted."""
    run.run(500)
    old = run.leader()
    run.isolate(old, [*(n for n in run.nodes if n != old.name), "engine"])
    run.run(1600)
    new = run.leader()
    other = run.others(old, new)[0]
    run.isolate(other, ["engine", new.name])
    run.crash(other, False)
    run.join(other, old.name)
    run.start(other)
    run.run(1900)
    run.crash(new, False)
    run.join(other, "engine")
    run.isolate(other, [old.name])
    run.run(3200)
    run.go_on()


def zombie(run: Scripted) -> None:
    """A coordinator that was stopped goes on, and does not know that it was deposed."""
    run.run(500)
    old = run.leader()
    other, third = run.others(old)
    run.isolate(third, [old.name, other.name])
    run.run(1000)  # the third is removed: only the other one must acknowledge
    run.join(third, other.name)
    run.isolate(old, [third.name, "engine"])
    old.paused = run.now + 600
    run.run(2200)
    run.go_on()


def late_swap(run: Scripted) -> None:
    """A swap that nobody waits for any more is carried out after all."""
    run.run(500)
    other = run.others(run.leader())[0]
    member = other.member
    assert member is not None
    assert member.view is not None
    view = member.view._replace(epoch=member.view.epoch + 1, coordinator=member.id, run=other.run)
    run.at(400, lambda: run.engine.swap(run.engine.revision, view))
    run.run(2000)
    run.go_on()


def whole_power_cut(run: Scripted) -> None:
    """All machines lose power at once, with sync = always; the coordinator's is the last one up."""
    run.run(600)
    leader = run.leader()
    for node in run.nodes.values():
        node.slow_disk = 0.0 if node is leader else 150.0
    run.run(900)
    for node in run.nodes.values():
        run.crash(node, True)
        node.slow_disk = 0.0
    run.run(1100)
    for node in run.others(leader):
        run.start(node)
    run.run(2400)
    run.go_on()


def stray_note(run: Scripted) -> None:
    """A member has a weight that the others never had; all stop before its disk has lost that."""
    run.run(50)
    for node in run.nodes.values():
        assert node.process is not None
        node.process.draw = lambda: 0.5  # nobody joins a queue group, which would be a note
    run.run(600)
    leader = run.leader()
    returned, other = run.others(leader)
    run.crash(returned, False)
    notes = returned.disk.notes
    fields = {"after": returned.disk.log.last, "groups": [[">", "workers", {"stray": 1}]]}
    notes.append(m.Note(notes.last + 1, 99, "GROUPS", fields))
    notes.sync()
    returned.slow_notes = 10_000.0
    run.start(returned)
    run.run(run.now + 220)
    for node in run.nodes.values():
        run.crash(node, False)
    returned.slow_notes = 0.0
    run.start(returned)
    run.run(run.now + 900)
    run.start(other)
    run.run(run.now + 900)
    run.start(leader)
    run.go_on()


def diverging_notes(run: Scripted) -> None:
    """A member comes back with notes that the others never had, past a SNAPSHOT of theirs."""
    run.run(500)
    leader = run.leader()
    theirs = leader.disk.notes
    run.run(4000, lambda: bool(theirs.notes) and theirs.notes[0].kind == "SNAPSHOT")
    if not (theirs.notes and theirs.notes[0].kind == "SNAPSHOT"):
        return  # few clients commit batches
    oldest = theirs.notes[0]
    returned = run.others(leader)[0]
    run.crash(returned, False)
    fields = {"after": 1 << 40, "groups": []}
    strays = range(theirs.first, oldest.fields["until"] + 50)
    own = returned.disk.notes
    own.replace(tuple(m.Note(at, 99, "GROUPS", fields) for at in strays))
    own.sync()
    run.start(returned)
    run.run(run.now + 1500)
    run.go_on()


def lagging_joiner(run: Scripted) -> None:
    """A coordinator that was restarted knows no watermark, and a joiner lacks what is committed."""
    run.run(600)
    leader = run.leader()
    other, joiner = run.others(leader)
    run.isolate(joiner, [leader.name, other.name])
    run.run(1300)  # the joiner is removed, and the others go on
    run.crash(leader, False)
    run.crash(other, False)
    run.join(joiner, other.name)
    run.start(other)
    run.is_slow_for = joiner  # the records that the new coordinator sends are still on their way
    run.run(run.now + 800)
    run.crash(other, False)
    run.is_slow_for = None
    run.run(run.now + 1500)
    run.start(leader)
    run.join(joiner, leader.name)
    run.run(run.now + 600)
    run.go_on()


def hasty_joiner(run: Scripted) -> None:
    """A joiner lacks some of what is committed, and the coordinator dies before it has that."""
    run.run(600)
    leader = run.leader()
    other, joiner = run.others(leader)
    run.isolate(joiner, [leader.name, other.name])
    run.run(run.now + 450)  # the joiner is removed
    run.is_slow_for = joiner
    run.join(joiner, leader.name)
    run.run(run.now + 250)
    run.crash(leader, False)
    run.is_slow_for = None
    run.join(joiner, other.name)
    run.isolate(other, ["engine"])
    run.run(run.now + 700)
    run.join(other, "engine")
    run.run(run.now + 500)
    run.go_on()


def stall(run: Scripted) -> None:
    """Nobody acknowledges, nobody can be removed, and many clients go on publishing."""
    run.settings = replace(run.settings, **TIGHT)
    run.run(500)
    leader = run.leader()
    run.isolate(leader, [node.name for node in run.others(leader)])
    run.engine.is_down = True
    run.publish_at(leader, range(10, 40))
    run.run(run.now + 500)
    run.go_on()


def lost_tail(run: Scripted) -> None:
    """A machine loses power with what it had acknowledged; the coordinator dies, too."""
    run.run(500)
    leader = run.leader()
    other, third = run.others(leader)
    run.isolate(third, [leader.name, other.name])
    run.run(900)  # the third is removed
    other.slow_disk = 500.0
    run.run(1300)
    run.crash(other, True)
    other.slow_disk = 0.0
    run.crash(leader, False)
    run.join(third, other.name)
    run.start(other)
    run.run(run.now + 900)
    run.go_on()


def forgotten_id(run: Scripted) -> None:
    """A message is published at a member that is cut off; elsewhere, too; and that is forgotten."""
    run.settings = replace(run.settings, id_window=4200)
    run.run(500)
    leader = run.leader()
    other, third = run.others(leader)
    run.isolate(other, [leader.name, third.name, "engine"])
    one = Publisher(90, True, other, since={"id90-1": run.now})
    run.publishers.append(one)
    run._send(one, {1: "id90-1"})
    run.run(run.now + 20)
    while one.node is other:
        run._move(one)
    run.run(run.now + 6000)
    run.join(other, leader.name)
    run.join(other, third.name)
    run.run(run.now + 500)
    run.go_on()


def wrong_clock(run: Scripted) -> None:
    """A member's clock is a day ahead for a moment; it takes over, and is given an id again."""
    run.run(500)
    leader = run.leader()
    other, third = run.others(leader)
    one = Publisher(90, True, third, since={"id90-1": run.now})
    run.publishers += [one, more := Publisher(91, True, other)]
    run._publish(more)
    run._send(one, {1: "id90-1"})
    run.cut |= {(leader.name, third.name)}  # it is taken there, and that is not heard of
    run.run(run.now + 900)
    other.skew += 24 * HOUR
    run.run(run.now + 200)
    other.skew -= 24 * HOUR
    run.crash(leader, False)
    while one.node is not other:
        run._move(one)
    run.cut.clear()
    run.run(run.now + 1500)
    run._publish(one)
    run.go_on()


def recover(run: Scripted) -> None:
    """The engine is put back to an older state; an operator sets a view of a higher epoch."""
    run.run(300)
    engine = run.engine
    backup = engine.revision, engine.view
    for _ in range(2):
        leader = run.leader()
        run.crash(leader, False)
        run.run(run.now + 1000)
        run.start(leader)
        run.run(run.now + 600)
    engine.revision, engine.view = backup
    run.run(run.now + 3000)
    members = [node.member for node in run.nodes.values() if node.member is not None]
    assert all(member.engine_is_older for member in members), "they say so"
    newest = max(members, key=lambda member: member.memory.epoch).view
    assert newest is not None
    for node in run.nodes.values():
        if node.disk.memory.member == newest.coordinator:
            run.crash(node, False)
    run.run(run.now + 800)
    members = [node.member for node in run.nodes.values() if node.member is not None]
    log = [(member.log.epochs()[-1][0], member.log.last, member.id) for member in members]
    for member in members:
        member.is_counted = True
    epoch = max(member.memory.epoch for member in members) + 1
    chosen = max(log)[2]
    view = engine.view._replace(
        epoch=epoch, coordinator=chosen, run=0, members=(chosen,), stream=engine.view.stream + 1
    )
    assert engine.swap(engine.revision, view)
    assert engine.revision < max(member.revision for member in members)
    run.run(run.now + 3000)
    assert not any(member.engine_is_older for member in members)
    for node in run.nodes.values():
        if node.process is None:  # nobody has counted it: it may have more, and would stop
            node.disk = Disk(id_of(node.name, 99), run.checker, is_new=True)
    run.go_on()


def counted_again(run: Scripted) -> None:
    """A member was away while the engine was put back; it has counted up to the same revision."""
    run.run(500)
    leader = run.leader()
    run.crash(leader, False)
    memory, engine = leader.disk.memory, run.engine
    chosen = max(run.others(leader), key=lambda node: node.disk.log.last)
    name = chosen.disk.memory.member
    epoch = memory.epoch + 2
    engine.view = engine.view._replace(epoch=epoch, coordinator=name, run=0, members=(name,))
    engine.revision = memory.revision
    run.start(leader)
    run.run(run.now + 2000)
    run.go_on()
    assert engine.view.epoch >= epoch, "epochs never fall"


def full_disk(run: Scripted) -> None:
    """A member connects again while what it has forwarded waits for the coordinator's disk."""
    run.run(500)
    leader = run.leader()
    other, third = run.others(leader)
    run.isolate(third, [leader.name, other.name])
    run.run(run.now + 450)
    run.engine.is_down = True  # the third cannot come back, and nobody can take over
    run.crash(other, False)
    run.join(third, leader.name)
    run.publish_at(third, range(90, 96))
    run.run(run.now + 250)
    leader.disk.fill(True)
    run.run(run.now + 60)
    for connection in run.connections.values():
        if connection.nodes == (third, leader) and all(connection.is_open):
            run.hang_up(connection, 0, cut=False)
    run.run(run.now + 250)
    leader.disk.fill(False)
    run.run(run.now + 300)
    run.go_on()


def refused_forwards(run: Scripted) -> None:
    """The disk refuses what others have forwarded, and no other member can take over."""
    run.run(500)
    leader = run.leader()
    for number, node in enumerate(run.others(leader)):
        run.publish_at(node, range(90 + 10 * number, 96 + 10 * number))
    run.run(run.now + 100)
    run.engine.is_down = True
    leader.disk.fill(True)
    run.run(run.now + 400)
    leader.disk.fill(False)
    run.run(run.now + 300)
    run.go_on()


def two_connections(run: Scripted) -> None:
    """A member connects again while what it has sent on its old connection is on its way."""
    run.run(500)
    leader = run.leader()
    other = run.others(leader)[0]
    run.publish_at(other, range(90, 96))
    run.run(run.now + 100)
    for connection in list(run.connections.values()):
        if connection.nodes == (other, leader) and all(connection.is_open):
            connection.held[1] = run.now + 200
            run.run(run.now + 40)
            run.hang_up(connection, 0, cut=False)
    run.run(run.now + 500)
    run.go_on()


def rows_on_a_full_disk(run: Scripted) -> None:
    """The disk refuses rows of a batch, and no other member can take over."""
    run.run(300)
    leader = run.leader()
    while run.now < 2000 and not _has_unwritten_rows(leader):
        run.run(run.now + 0.5)
    run.engine.is_down = True
    leader.disk.fill(True)
    run.run(run.now + 300)
    leader.disk.fill(False)
    run.run(run.now + 300)
    run.go_on()


def _has_unwritten_rows(node: Node) -> bool:
    member = node.member
    assert member is not None
    assert member.coordinator is not None
    running = member.coordinator.batches.running.values()
    return any(one.last > member.log.last for one in running)


def old_copy(run: Scripted) -> None:
    """An earlier process's disk is put back, and then the coordinator dies."""
    run.run(500)
    leader = run.leader()
    other, third = run.others(leader)
    run.crash(other, False)
    run.save(other)
    run.start(other)
    run.run(run.now + 700)  # it is in the view again
    run.isolate(third, [leader.name, other.name])
    run.run(run.now + 500)  # the third is removed
    run.crash(other, False)
    run.crash(leader, False)
    run.put_back(other)
    run.join(third, other.name)
    run.start(other)
    run.run(run.now + 900)
    run.go_on()


def copy_of_now(run: Scripted) -> None:
    """The disk of the same process is put back; the coordinator dies before it has caught up."""
    run.run(500)
    leader = run.leader()
    other, third = run.others(leader)
    run.save(other)
    run.isolate(third, [leader.name, other.name])
    run.run(run.now + 600)  # the third is removed
    run.crash(other, False)
    run.put_back(other)
    run.is_slow_for = other
    run.start(other)
    run.run(run.now + 100)
    run.crash(leader, False)
    run.is_slow_for = None
    run.join(third, other.name)
    run.run(run.now + 900)
    run.go_on()


def old_watermark(run: Scripted) -> None:
    """All are killed. One that was behind starts alone, and serves a client that has seen more."""
    run.run(500)
    leader = run.leader()
    late = run.others(leader)[0]
    one = Listener()
    run.listeners = [one]
    run.at(0, lambda: run.subscribe(one, leader))
    run.isolate(late, [node.name for node in run.others(late)])
    run.run(run.now + 700)  # it is removed, and the others go on
    for node in run.nodes.values():
        run.crash(node, False)
        node.saved = None
    run.isolate(late, ["engine"])
    run.start(late)
    run.run(run.now + run.settings.patience + 100)
    assert late.process is not None
    assert late.process.serves(), "it knows something, and others may not come"
    one.node, one.run = late, late.process.run
    one.begins, one.pong = late.process.member.published, run.now
    run.join(late, "engine")
    for node in run.others(late):
        run.join(late, node.name)
        run.start(node)
    run.run(run.now + 1500)
    run.go_on()


def moved_client(run: Scripted) -> None:
    """A coordinator dies; its client subscribes at a member that knows less to be committed."""
    run.run(500)
    leader = run.leader()
    other = run.others(leader)[0]
    one = Listener()
    run.listeners = [one]
    run.subscribe(one, leader)
    run.run(run.now + 200)
    while run.now < 2500 and not _is_behind(other, one):
        run.run(run.now + 0.5)
    run.crash(leader, False)
    run.subscribe(one, other)
    run.run(run.now + 1500)
    run.go_on()


def _is_behind(node: Node, one: Listener) -> bool:
    """Whether it has in its log what this client has seen, and does not know it to be committed."""
    member = node.member
    assert member is not None
    return member.delivered < max(one.seen, default=0) <= member.log.last


def fitting(seeds: range, kinds: dict[str, Any] | None, always: bool | None) -> list[int]:
    """Seeds whose cluster has three members, of which two are needed."""
    found = []
    for seed in seeds:
        run = Scripted(seed, kinds)
        if len(run.nodes) == 3 and run.least == 2 and always in (None, run.always):
            found.append(seed)
    return found


def play(
    script: Callable[[Scripted], None],
    defect: str,
    always: bool | None,
    seeds: range,
    enough: int = 1 << 30,
) -> dict[int, str]:
    """What was breached, by seed; no more than `enough`."""
    kinds = DEFECTS[defect] if defect else None
    breaches = {}
    for seed in fitting(seeds, kinds, always):
        try:
            script(Scripted(seed, kinds))
        except AssertionError as breach:
            breaches[seed] = str(breach) or "an assertion of the member itself"
            if len(breaches) == enough:
                break
    return breaches
