"""The world of a cluster: time, network, disks, the engine, and all that goes wrong with them."""

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sequencer.replica import member_messages as m
from sequencer.replica.member_wire import FrameReader, encode_message
from sequencer.replica.replica_settings import ReplicaSettings
from sequencer.replica.view import View
from tests.replica.checker import Checker
from tests.replica.machine_disk import Disk
from tests.replica.process import Node, Process, Saved

TICK = 25.0
HOUR = 3_600_000.0
JOURNAL = "1141c2c3a6b8558d"
# A tenth of what they are in a broker: a simulated cluster need not live for long.
FAST = ReplicaSettings(
    pulse=40,
    slow=250,
    slow_least=130,
    calm=300,
    probe=20,
    dead=400,
    rank=60,
    refused_rank=20,
    stuck=2000,
    dial=80,
    refused=100,
    engine=150,
    reread=1200,
    near_bytes=4096,
    near_time=20,
    rejoin=100,
    rejoin_max=800,
    block_bytes=2000,
    window_bytes=20_000,
    uncommitted_bytes=60_000,
    forward_bytes=30_000,
    patience=300,
    hand_over=150,
    disk=200,
    fetch=60,
    id_window=36_000_000,
)

TIGHT: dict[str, Any] = {
    "block_bytes": 400,
    "window_bytes": 800,
    "uncommitted_bytes": 1500,
    "forward_bytes": 1000,
}


@dataclass
class Connection:
    """Two directions, each in its order; nothing is said about one and the other.

    A queue has (when it is there, message). One event at a time looks at a direction.
    """

    number: int
    nodes: tuple[Node, Node]
    runs: tuple[int, int]
    queues: tuple[deque[Any], deque[Any]] = field(default_factory=lambda: (deque(), deque()))
    free: list[float] = field(default_factory=lambda: [0.0, 0.0])
    is_open: list[bool] = field(default_factory=lambda: [True, True])  # that side still uses it
    held: list[float] = field(default_factory=lambda: [0.0, 0.0])  # it waits in some buffer until
    is_due: list[bool] = field(default_factory=lambda: [False, False])  # an event will look at it
    readers: tuple[FrameReader, FrameReader] = field(
        default_factory=lambda: (FrameReader(), FrameReader())
    )


def id_of(name: str, run: int = 0) -> str:
    """The id of a member: another one when its disk may have lost what it had acknowledged."""
    return f"{name * 8}{run:08x}"


class Engine:
    """A register with versions. What it is asked may be lost, late, or done and not answered."""

    def __init__(self, view: View) -> None:
        self.revision = 1
        self.view = view
        self.is_down = False
        self.runs: dict[str, int] = {}  # the newest process of each member

    def swap(self, revision: int, view: View) -> bool:
        if revision == self.revision:
            self.revision += 1
            self.view = view
            return True
        return False


class World:
    """A cluster in one process, under one seed: every run with that seed is the same one."""

    def __init__(self, seed: int, kinds: dict[str, Any] | None = None) -> None:
        self.random = random.Random(seed)
        self.chance = random.Random(seed + 1)  # what draws from it changes nothing of the rest
        self.notes_chance = random.Random(seed + 2)  # likewise
        self.clocks = random.Random(seed)  # of its own: what else happens does not depend on clocks
        self.kinds = kinds or {}
        rng = self.random
        self.always = rng.random() < 0.4
        count = rng.choice([2, 3, 3, 3, 3, 4, 5])
        least = 1 if count == 2 and rng.random() < 0.5 else 2 if count < 5 else rng.choice([2, 3])
        self.least = least
        self.settings = self.settings_of(rng)
        self.checker = Checker(least)
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._runs = self._ids = 0
        self._connections = 0
        self.connections: dict[int, Connection] = {}
        self.cut: set[tuple[str, str]] = set()  # (from, to) that does not get through
        self.lost: set[str] = set()  # members whose disks have lost what they acknowledged
        self.is_healed = False
        self.pieces: set[tuple[int, str, int]] = set()
        self.stats: dict[str, int] = {}
        names = "abcde"[:count]
        self.nodes = {name: Node(name, Disk(id_of(name), self.checker)) for name in names}
        engine = self.kinds.get("engine", Engine)
        members = tuple(id_of(name) for name in names)
        self.engine = engine(View(JOURNAL, 0, members[0], 0, members, least))
        self.is_framed = rng.random() < 0.1  # messages go as bytes, as they do between brokers
        for node in self.nodes.values():
            clocks = self.clocks if self.has_short_ids else rng
            node.skew = clocks.choice([0.0, 0.0, 0.0, HOUR, -HOUR])
            self.at(rng.uniform(0, 30), partial(self.start, node))

    def settings_of(self, rng: random.Random) -> ReplicaSettings:
        """In some clusters ids are forgotten soon; in some little may wait."""
        settings = replace(FAST, sync="always" if self.always else "interval")
        self.has_short_ids = rng.random() < 0.05
        if self.has_short_ids:
            settings = replace(settings, id_window=4200)
        if rng.random() < 0.2:
            settings = replace(settings, **TIGHT)
        return settings

    # Time

    def at(self, delay: float, what: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self.events, (self.now + delay, self._count, what))

    def run(self, until: float, done: Callable[[], bool] | None = None) -> None:
        events = self.events
        look = self.now
        pop = heapq.heappop
        while events and events[0][0] <= until:
            self.now, _, what = pop(events)
            what()
            if done is not None and self.now >= look:
                if done():
                    return
                look = self.now + 100
        self.now = until

    def count(self, what: str) -> None:
        self.stats[what] = self.stats.get(what, 0) + 1

    # Processes

    def start(self, node: Node) -> None:
        if node.process is not None:
            return
        self._runs += 1
        node.run = self._runs
        node.paused = 0.0
        is_known = self.is_reachable(node)
        if is_known:
            if self._is_outdated(node):
                self.count("copies found")
                self._draw_id(node)
            self._register(node)
        node.process = Process(self, node)
        node.process.is_registered = is_known
        self._tick(node, node.run)

    def is_reachable(self, node: Node) -> bool:
        """Whether the engine answers this machine at once."""
        ways = (node.name, "engine"), ("engine", node.name)
        return not self.engine.is_down and not any(self.is_blocked(*way) for way in ways)

    def _is_outdated(self, node: Node) -> bool:
        """A store that does not know the newest process of its member is a copy of the past."""
        memory = node.disk.memory
        newest = self.engine.runs.get(memory.member, 0)
        return newest > memory.registered and not self.kinds.get("keeps_copies")

    def _register(self, node: Node) -> None:
        """Have the engine know a process."""
        memory = node.disk.memory
        self.engine.runs[memory.member] = memory.registered = node.run

    def renew(self, node: Node) -> None:
        """A process finds that its store has lost something: it ends, and is another one."""
        self.count("renewed")
        self.crash(node, False)
        self._draw_id(node)
        self.at(50, lambda: self.start(node))

    def _draw_id(self, node: Node) -> None:
        self._ids += 1
        node.disk.memory.member = id_of(node.name, 1 << 16 | self._ids)
        node.disk.memory.registered = 0

    def _tick(self, node: Node, run: int) -> None:
        if node.run != run or node.process is None:
            return
        self.call(node, run, ticked)
        member, memory = node.member, node.disk.memory
        if member is not None and self.chance.random() < 0.3:
            node.disk.watermark = memory.member, member.watermark
        self.at(TICK * self.random.uniform(0.8, 1.2), lambda: self._tick(node, run))

    def call(self, node: Node, run: int, what: Callable[[Process], Any]) -> None:
        """Have a process do something, when it is not stopped, and then what it asks for."""
        process = node.process
        if process is None or node.run != run:
            return
        if node.paused > self.now or node.inbox:
            node.inbox.append((run, what))
            if len(node.inbox) == 1:
                self.at(max(node.paused - self.now, 0), lambda: self._wake(node))
            return
        process.do(what)

    def _wake(self, node: Node) -> None:
        """It goes on, and finds what came meanwhile, in the order in which it came."""
        if node.paused > self.now:
            self.at(node.paused - self.now, lambda: self._wake(node))
            return
        while node.inbox and node.paused <= self.now:
            run, what = node.inbox[0]
            if node.process is not None and node.run == run:
                node.process.do(what)
            node.inbox.popleft()
        if node.inbox:
            self.at(node.paused - self.now, lambda: self._wake(node))

    def crash(self, node: Node, power: bool) -> None:
        """Kill a process; a power cut takes what is not synced from the disk, too."""
        process = node.process
        if process is None:
            return
        self.count("power" if power else "kill")
        node.process = None
        node.generation += 1
        node.is_syncing = node.is_noting = False
        log = node.disk.log
        node.disk.notes.crash(self.notes_chance.random)
        if power:
            keep = self.random.randint(min(log.synced, log.last), log.last)
            log.truncate(log.synced if self.random.random() < 0.7 else keep)
            node.disk.stages.lose(lambda: self.random.random() < 0.7)
            if not self.always:
                self.forsake(node)
        for connection in list(self.connections.values()):
            for side in (0, 1):
                if connection.nodes[side] is node and connection.runs[side] == process.run:
                    self.hang_up(connection, side, cut=True)
        self.clients_of(node, process.run)
        if self.chance.random() < 0.5:
            self.save(node)

    def save(self, node: Node) -> None:
        """Keep a copy of its disk."""
        node.saved = Saved(node.disk.memory.member, node.run, node.disk.snapshot())

    def put_back(self, node: Node) -> None:
        """Its disk is what it was; its process is not there."""
        assert node.saved is not None, "it was saved"
        self.count("put back")
        self.lost.add(node.disk.memory.member)
        node.saved.put_back()

    def forsake(self, node: Node) -> None:
        """What it has acknowledged may be gone: it is another member from now on (rule 12)."""
        if self.kinds.get("keeps_name"):
            return
        self.lost.add(node.disk.memory.member)
        node.disk.memory.member = id_of(node.name, self._runs + 1)
        node.disk.memory.registered = 0

    def clients_of(self, node: Node, run: int) -> None:
        """Overridden: the clients of a process that ended."""

    def may_lose(self, node: Node) -> bool:
        """Whether fewer than `min_in_sync` of the view have lost something, with this one."""
        return self.always or self.can_do_without(node)

    def can_do_without(self, node: Node) -> bool:
        members = set(self.engine.view.members)
        others = {name for name in members & self.lost if name != node.disk.memory.member}
        return len(others) + 1 < self.least and len(members - others) > 1

    # Disks

    def sync(self, node: Node) -> None:
        """Begin to sync what its journal has written, if that is not under way."""
        log = node.disk.log
        if node.is_syncing or log.synced >= log.last or node.process is None:
            return
        node.is_syncing = True
        generation, cuts, number, run = node.generation, log.cuts, log.last, node.run
        delay = self.random.uniform(1, 8) if self.always else self.random.uniform(40, 80)

        def done() -> None:
            if node.generation != generation:
                return
            node.is_syncing = False
            if log.cuts == cuts:
                log.synced = max(log.synced, min(number, log.last))
                self.call(node, run, lambda process: process.member.synced(number))
            else:
                self.sync(node)

        self.at(delay + node.slow_disk, done)

    def sync_notes(self, node: Node) -> None:
        """Begin to bring its notes to the disk, if that is not under way."""
        notes, chance = node.disk.notes, self.notes_chance
        if node.is_noting or not notes.is_dirty or node.process is None:
            return
        node.is_noting = True
        generation, run = node.generation, node.run
        notes.begin_sync()

        def done() -> None:
            if node.generation != generation:
                return
            if notes.is_full:
                self.call(node, run, lambda process: process.member.notes_failed("disk full"))
                self.at(chance.uniform(20, 60), done)
                return
            node.is_noting = False
            notes.end_sync()
            self.call(node, run, lambda process: process.member.notes_synced())

        self.at(chance.uniform(0.1, 5) + node.slow_notes, done)

    # What members ask for; clients override the rest

    def told(self, process: Process, action: Any) -> None:
        match action:
            case m.Begin():
                self.begun(process, action.number)
            case m.LogCut():
                self.was_cut(process, action.number)
            case m.LostAcknowledged():
                self.renew(process.node)
            case (origin, sequence, number):  # of a planted defect
                self.published(process.node, origin, sequence, number)

    def shown(self, process: Process, number: int, is_taken: bool) -> None:
        """Subscribers there get a number; `is_taken`: also one of its queue group."""

    def begun(self, process: Process, number: int) -> None:
        """Subscriptions there that did not know where they begin: after this number."""

    def was_cut(self, process: Process, number: int) -> None:
        """What is above this number will be something else."""

    def published(self, node: Node, origin: int, nth: int, number: int) -> None:
        """A publisher is answered."""

    def abandoned(self, node: Node, origins: frozenset[int]) -> None:
        """What became of these clients' messages nobody knows: they are hung up on."""

    def done(self, node: Node, action: m.Done) -> None:
        """A request is answered."""

    # The network

    def delay(self, node: Node) -> float:
        """Nine of ten take 1 to 6 ms, and one takes up to 60."""
        drawn = self.random.random()
        return (1.0 + 5.5 * drawn if drawn < 0.9 else 550.0 * drawn - 490.0) + node.slow

    def is_blocked(self, one: str, other: str) -> bool:
        return (one, other) in self.cut

    def dial(self, node: Node, name: str) -> None:
        target = next((o for o in self.nodes.values() if o.disk.memory.member == name), None)
        run = node.run
        if target is None:
            return

        def made() -> None:
            if self.is_blocked(node.name, target.name) or self.is_blocked(target.name, node.name):
                return
            is_there = target.process is not None and target.refuses_until <= self.now
            if not is_there or target.disk.memory.member != name:
                self.call(node, run, lambda process: process.member.dial_failed(name, True))
                return
            if node.run != run:
                return
            self._connections += 1
            number = self._connections
            connection = Connection(number, (node, target), (run, target.run))
            self.connections[number] = connection
            self.call(node, run, lambda process: process.member.dialled(number, name))

        self.at(self.delay(target) * 2, made)

    def send(self, node: Node, number: int, message: Any) -> None:
        connection = self.connections.get(number)
        if connection is None:
            return
        side = 0 if connection.nodes[0] is node else 1
        if not connection.is_open[side]:
            return
        other = 1 - side
        if self.is_framed:
            message = b"".join(bytes(part) for part in encode_message(message))
        self._post(connection, other, message)

    def _post(self, connection: Connection, side: int, message: Any) -> None:
        """Put something on its way; what was sent before it comes before it."""
        when = self.now + self.delay(connection.nodes[side])
        if when > connection.free[side]:
            connection.free[side] = when
        else:
            when = connection.free[side]
        connection.queues[side].append((when, message))
        if not connection.is_due[side]:
            self._look(connection, side, when)

    def _look(self, connection: Connection, side: int, when: float) -> None:
        connection.is_due[side] = True
        self.at(when - self.now, lambda: self._arrive(connection, side))

    def _lose_stage(self, node: Node, number: int, piece: m.StagePiece) -> None:
        """Nobody promises that a stage is kept before its PREPARE is: it may be fetched again."""
        key = (number, piece.application, piece.batch)
        if key not in self.pieces and self.random.random() < 0.3:
            node.disk.stages.forget(piece.application, piece.batch)
        self.pieces.add(key)

    def _arrive(self, connection: Connection, side: int) -> None:
        """What came in that direction is read, if it gets through: all of it, or a beginning."""
        connection.is_due[side] = False
        queue = connection.queues[side]
        if not queue or not connection.is_open[side]:
            return
        if connection.held[side] > self.now:
            self._look(connection, side, connection.held[side])
            return
        one, other = connection.nodes[1 - side], connection.nodes[side]
        if self.cut and (one.name, other.name) in self.cut:
            if self.random.random() < 0.05:
                self.hang_up(connection, self.random.randint(0, 1), cut=True)
            self._look(connection, side, self.now + 10)
            return
        messages = [queue.popleft()[1]]
        while queue and queue[0][0] <= self.now and self.random.random() < 0.8:
            messages.append(queue.popleft()[1])
        if queue:
            self._look(connection, side, max(queue[0][0], self.now))
        self.call(
            other, connection.runs[side], lambda pr: self._read_all(pr, connection, side, messages)
        )

    def _read_all(
        self, process: Process, connection: Connection, side: int, messages: list[Any]
    ) -> None:
        """A process reads what came, and then says what is due (the driver's `received`)."""
        for message in messages:
            if message is None:
                connection.is_open[side] = False
                process.member.disconnected(connection.number)
            elif not isinstance(message, bytes):
                self._receive(process, connection, side, message)
            else:
                at = self.random.randint(0, len(message))
                for part in (message[:at], message[at:]):
                    for one in connection.readers[side].feed(part):
                        self._receive(process, connection, side, one)

    def _receive(self, process: Process, connection: Connection, side: int, message: Any) -> None:
        if connection.is_open[side]:
            process.member.receive(connection.number, message)
            if isinstance(message, m.StagePiece):
                self._lose_stage(process.node, connection.number, message)

    def close(self, node: Node, number: int) -> None:
        """A process closes a connection, and hears no more of it."""
        connection = self.connections.get(number)
        if connection is not None:
            self.hang_up(connection, 0 if connection.nodes[0] is node else 1, cut=False)

    def hang_up(self, connection: Connection, side: int, cut: bool) -> None:
        """One side closes; the other one hears of it after what was sent, or a part of that."""
        if not connection.is_open[side]:
            return
        connection.is_open[side] = False
        other = 1 - side
        node, run = connection.nodes[side], connection.runs[side]
        number = connection.number
        self.call(node, run, lambda process: process.member.disconnected(number))
        queue = connection.queues[other]
        part = None
        if cut and queue:
            for _ in range(self.random.randint(0, len(queue))):
                _, part = queue.pop()
            if isinstance(part, bytes):
                self._post(connection, other, part[: self.random.randint(0, len(part) - 1)])
        self._post(connection, other, None)

    # The engine

    def ask_engine(self, node: Node, swap: m.SwapView | None) -> None:
        rng, engine = self.random, self.engine

        def arrive() -> None:
            if engine.is_down or self.is_blocked(node.name, "engine"):
                if swap is not None and rng.random() < 0.3 and not self.is_healed:
                    self.at(rng.uniform(50, 900), arrive)  # late, when nobody waits for it
                return
            if swap is not None and engine.swap(swap.revision, swap.view):
                self.count("views")
                self._tell_watchers()
            process = node.process
            if swap is None and process is not None and not process.is_registered:
                if self._is_outdated(node):
                    self.call(node, process.run, lambda pr: self.renew(pr.node))
                    return
                self._register(node)
                process.is_registered = True
            answer = engine.revision, engine.view
            if rng.random() < 0.03 and not self.is_healed:
                return  # done, and nobody hears of it
            if not self.is_blocked("engine", node.name):
                late = rng.uniform(1, 10)
                if swap is None:
                    self.call_later(node, late, lambda pr: pr.member.engine_has(*answer))
                else:
                    self.call_later(node, late, lambda pr: pr.member.on_view(*answer))

        self.at(rng.uniform(1, 10), arrive)

    def _tell_watchers(self) -> None:
        answer = self.engine.revision, self.engine.view
        for node in self.nodes.values():
            if self.random.random() < 0.15 or self.is_blocked("engine", node.name):
                continue  # a watch that is stale: pulses, refusals and later reads tell
            late = self.random.uniform(2, 30) if self.random.random() < 0.8 else 700.0
            self.call_later(node, late, lambda pr: pr.member.on_view(*answer))

    def call_later(self, node: Node, delay: float, what: Callable[[Process], Any]) -> None:
        run = node.run
        self.at(delay, lambda: self.call(node, run, what))


def ticked(process: Process) -> None:
    process.member.tick()
    if (
        process.sequencer.full
        and process.numbering.is_coordinator
        and not process.node.disk.log.is_full
    ):
        process.sequencer.resume()
