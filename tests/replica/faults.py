"""What goes wrong, and when; and a whole run: trouble, then all is well, then the last look."""

from collections.abc import Callable
from typing import Any

from tests.replica.clients import Clients
from tests.replica.messages_made import published_in
from tests.replica.process import Node
from tests.replica.world import HOUR

TROUBLE = 2600.0  # milliseconds of trouble
# Hours by which a clock may jump: also by more than ids are remembered.
CLOCKS = [hours * HOUR for hours in (0, 0.001, -1, 1, 24, 24, -24, 9000, -9000)]
QUIET = 9000.0  # in which it must have settled


class Run(Clients):
    """A cluster with clients, and with trouble."""

    def __init__(self, seed: int, kinds: dict[str, Any] | None = None) -> None:
        super().__init__(seed, kinds)
        self.rate = self.random.choice([120.0, 200.0, 300.0, 500.0])
        if self.random.random() < 0.03:
            self.rate = 0.0
        troubles: dict[Callable[[Node], None], int]
        troubles = {self._killed: 2, self._power: 1, self._partition: 2, self._one_way: 1}
        troubles |= {self._pause: 2, self._slow: 1, self._engine_down: 1, self._everybody: 1}
        troubles |= {self._retain: 1, self._hand_over: 1, self._reset: 2, self._fill: 1}
        troubles |= {self._refuse: 1}
        self.troubles = [kind for kind, weight in troubles.items() for _ in range(weight)]
        if self.rate:
            self.at(300, self._trouble)
            if self.chance.random() < 0.5:
                self.at(self.chance.uniform(600, TROUBLE), self._put_back)
            self.at(300, self._set_clocks)

    def go(self) -> "Run":
        trouble = TROUBLE * (3 if self.has_short_ids else 1)
        self.run(trouble)
        self.end(trouble + QUIET)
        return self

    def end(self, until: float) -> None:
        """Heal everything; all must be as it should be by then."""
        self._heal()
        self.at(300, self._stop)
        self.run(until, self._is_settled)
        members = [node.member for node in self.nodes.values()]
        self.checker.final(members, self.pending(), self.unfinished())

    def _stop(self) -> None:
        self.is_publishing = False

    def _is_settled(self) -> bool:
        members = [node.member for node in self.nodes.values()]
        if self.is_publishing or self.pending() or self.unfinished() or None in members:
            return False
        marks = {(mb.delivered, mb.log.last, mb.note_watermark) for mb in members if mb}
        return len(marks) == 1 and all(a == b for a, b, _ in marks)

    def coordinator(self) -> Node | None:
        name = self.engine.view.coordinator
        return next((n for n in self.nodes.values() if n.disk.memory.member == name), None)

    def _trouble(self) -> None:
        if self.is_healed:
            return
        rng = self.random
        self.at(rng.uniform(0.2, 1.8) * self.rate, self._trouble)
        node = rng.choice(list(self.nodes.values()))
        if rng.random() < 0.4:  # more of it for the coordinator
            node = self.coordinator() or node
        rng.choice(self.troubles)(node)

    def _killed(self, node: Node) -> None:
        self._kill(node, False)

    def _power(self, node: Node) -> None:
        if self.may_lose(node):
            self._kill(node, True)

    def _pause(self, node: Node) -> None:
        self.count("pause")
        node.paused = self.now + self.random.uniform(50, 1300)

    def _slow(self, node: Node) -> None:
        self.count("slow")
        node.slow = self.random.choice([0.0, 30.0, 120.0])
        node.slow_disk = node.slow_notes = self.random.choice([0.0, 100.0, 400.0])

    def _engine_down(self, _: Node) -> None:
        self.count("engine down")
        self.engine.is_down = True
        self.at(self.random.uniform(100, 1200), self._engine_up)

    def _kill(self, node: Node, power: bool) -> None:
        self.crash(node, power)
        if self.random.random() < 0.3:  # it starts without the engine
            self._cut({(node.name, "engine"), ("engine", node.name)})
        self.at(self.random.uniform(20, 900), lambda: self.start(node))

    def _put_back(self) -> None:
        """An older state of a disk is put back, from before the process that runs or has run last.

        A younger one can be told only by a coordinator that knows what the member had.
        """
        node = self.chance.choice(list(self.nodes.values()))
        saved, now = node.saved, node.disk.memory
        if saved is None or (saved.member, saved.run) == (now.member, node.run):
            return
        if saved.member == now.member and self.can_do_without(node):
            self.crash(node, False)
            if node.saved is not saved:
                node.saved = saved
            self.put_back(node)
            self.at(self.chance.uniform(20, 900), lambda: self.start(node))

    def _reset(self, node: Node) -> None:
        """A connection ends at one side, while what was sent on it is still on its way."""
        mine = [c for c in self.connections.values() if node in c.nodes and all(c.is_open)]
        if mine:
            self.count("reset")
            connection = self.random.choice(mine)
            side = self.random.randint(0, 1)
            connection.held[1 - side] = self.now + self.random.choice([0.0, 60.0, 250.0])
            self.hang_up(connection, side, cut=False)

    def _refuse(self, node: Node) -> None:
        """All its connections end, and its port refuses others for a while: yet it lives."""
        self.count("refuses")
        node.refuses_until = self.now + self.random.uniform(20, 400)
        for connection in list(self.connections.values()):
            if node in connection.nodes and all(connection.is_open):
                self.hang_up(connection, self.random.randint(0, 1), cut=False)

    def _everybody(self, _: Node) -> None:
        power = self.always and self.random.random() < 0.5
        for node in self.nodes.values():
            self._kill(node, power)

    def _partition(self, _: Node) -> None:
        self.count("partition")
        rng = self.random
        names = [*self.nodes, "engine"]
        side = {name for name in names if rng.random() < 0.5}
        self._cut({(a, b) for a in names for b in names if (a in side) != (b in side)})

    def _one_way(self, node: Node) -> None:
        self.count("one way")
        other = self.random.choice([name for name in [*self.nodes, "engine"] if name != node.name])
        pairs = {(node.name, other), (other, node.name)}
        self._cut(pairs if self.random.random() < 0.3 else {self.random.choice(sorted(pairs))})

    def _cut(self, pairs: set[tuple[str, str]]) -> None:
        self.cut |= pairs
        self.at(self.random.uniform(100, 1300), lambda: self.cut.difference_update(pairs))

    def _set_clocks(self) -> None:
        """The clock of a machine jumps; often it is right again soon."""
        if self.is_healed:
            return
        self.count("clock")
        clocks = self.clocks
        node = clocks.choice(list(self.nodes.values()))
        before, node.skew = node.skew, clocks.choice(CLOCKS)
        if clocks.random() < 0.8:
            self.at(clocks.uniform(20, 600), lambda: setattr(node, "skew", before))
        self.at(clocks.uniform(100, 2000), self._set_clocks)

    def _engine_up(self) -> None:
        self.engine.is_down = False

    def _fill(self, node: Node) -> None:
        """Its disk is full for a while."""
        self.count("disk full")
        node.disk.fill(True)
        self.at(self.random.uniform(50, 900), lambda: node.disk.fill(False))

    def _retain(self, node: Node) -> None:
        """Delete the beginning of a log, but nothing that a batch or another member counts on."""
        member = node.member
        if member is None or node.paused > self.now:
            return
        self.count("retain")
        # Nor an id that somebody may still publish again: the window is shorter than retention.
        ids = {payload for one in self.publishers for payload in one.waiting.values()}
        ids = ids.union(*(one.refused for one in self.publishers))
        for other in self.nodes.values():
            if other.process is not None:
                waiting = other.process.waiting
                ids |= {self.checker.payloads[key[1:]] for key in waiting}
        log = node.disk.log
        most = min(member.delivered - 5, member.keep_after)
        for number in range(log.first, most + 1):
            if published_in(log.at(number)).id in ids:
                most = number - 1
                break
        log.retain(most)

    def _hand_over(self, _: Node) -> None:
        node = self.coordinator()
        others = [one for one in self.engine.view.members if one != self.engine.view.coordinator]
        if node is not None and node.member is not None and others:
            self.count("hand over")
            to = self.random.choice(others)
            self.call(node, node.run, lambda process: process.member.hand_over(to))

    def _heal(self) -> None:
        self.is_healed = True
        self.cut.clear()
        self.engine.is_down = False
        for node in self.nodes.values():
            node.paused = min(node.paused, self.now)
            node.refuses_until = 0.0
            node.slow = node.slow_disk = node.slow_notes = 0.0
            node.disk.fill(False)
            self.start(node)
