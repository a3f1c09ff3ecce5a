"""What chance does not meet often enough, step by step: three members, two of them needed."""

from collections.abc import Callable
from typing import Any

from sequencer.replica import member_messages as m
from tests.replica.defects import DEFECTS
from tests.replica.faults import Run
from tests.replica.process import Node


class Scripted(Run):
    """Nothing goes wrong but what the script says."""

    def __init__(self, seed: int, kinds: dict[str, Any] | None = None) -> None:
        super().__init__(seed, kinds)
        self.is_slow_for: Node | None = None
        self.events = [event for event in self.events if event[2] != self._trouble]

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
