"""Publishers, batches and readers: what clients of a cluster do, and what they may rely on."""

import json
import zlib
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sequencer.replica import member_messages as m
from tests.replica.checker import ROW, Breach
from tests.replica.process import Node, Process
from tests.replica.world import World

WAITING_MAX = 12


@dataclass
class Publisher:
    """One client, at one member at a time. With ids it publishes again what was not answered."""

    number: int
    with_ids: bool
    node: Node
    origin: int = 0  # of its connection; 0: it has none
    nth: int = 0
    made: int = 0
    waiting: dict[int, str] = field(default_factory=dict)  # its own count -> payload
    since: dict[str, float] = field(default_factory=dict)  # payload -> when it was published first
    refused: set[str] = field(default_factory=set)  # payloads to publish again, a little later


@dataclass
class Batcher:
    """One application: it stages and commits batch after batch, each until it is answered."""

    name: str
    batch: int = 0
    rows: list[str] = field(default_factory=list)
    stages: dict[str, bytes] = field(default_factory=dict)
    staged: int = 0  # how many of them are answered
    key: int = 0
    at: float = 0.0
    is_busy: bool = False


@dataclass
class Reader:
    """A subscriber of everything that goes on at another member when its own is gone."""

    node: Node
    next: int = 1


@dataclass
class Listener:
    """A subscriber of what is new, also in a queue group. It subscribes each time it connects.

    It must get nothing twice, wherever it has got it; and all that was published after its PONG.
    """

    node: Node | None = None
    run: int = 0
    begins: int = 0  # its subscription, after this number
    pong: float = 0.0  # when it was answered
    seen: set[int] = field(default_factory=set)


class Clients(World):
    """A world with clients."""

    def __init__(self, seed: int, kinds: dict[str, Any] | None = None) -> None:
        super().__init__(seed, kinds)
        rng, nodes = self.random, list(self.nodes.values())
        self.is_publishing = True
        self.keys = 0
        self.answered = 0
        self.publishers = [
            Publisher(number, rng.random() < 0.5, rng.choice(nodes))
            for number in range(rng.randint(2, 6))
        ]
        self.waiting: dict[tuple[int, int], tuple[Publisher, int]] = {}
        self.batchers = [Batcher(f"app{number}") for number in range(rng.randint(0, 2))]
        self.readers = [Reader(rng.choice(nodes)) for _ in range(2)]
        self.listeners = [Listener() for _ in range(3)]
        self.sent_at: dict[str, float] = {}  # when a payload was published first
        self.group_seen: set[int] = set()
        for listener in self.listeners:
            self.at(self.chance.uniform(0, 100), partial(self._listen, listener))
        for one in self.publishers:
            self.at(rng.uniform(0, 100), partial(self._publish, one))
        for batcher in self.batchers:
            self.at(rng.uniform(0, 200), partial(self._batch, batcher))
        for reader in self.readers:
            self.at(rng.uniform(0, 100), partial(self._read, reader))

    def pending(self) -> int:
        return sum(len(one.waiting) + len(one.refused) for one in self.publishers)

    def unfinished(self) -> list[tuple[str, int]]:
        return [(one.name, one.batch) for one in self.batchers if one.is_busy]

    # Publishers

    def _publish(self, one: Publisher) -> None:
        node, rng = one.node, self.random
        if self.is_publishing:
            self.at(rng.uniform(15, 110), lambda: self._publish(one))
        elif not one.waiting and not one.refused:
            return
        is_lost = one.waiting and not one.origin
        is_impatient = one.with_ids and one.waiting and rng.random() < 0.01
        if node.process is None or is_lost or is_impatient or one.origin >> 32 not in (0, node.run):
            self._move(one)
        elif node.member is not None and node.member.is_full:
            pass  # it does not read from its clients now
        elif node.paused <= self.now and len(one.waiting) < WAITING_MAX and self.is_publishing:
            burst = {}
            for _ in range(rng.choice([1, 1, 1, 3, 6])):
                one.made += 1
                payload = f"{'id' if one.with_ids else 'm'}{one.number}-{one.made}"
                one.since[payload] = self.sent_at[payload] = self.now
                burst[one.made] = payload
            self._send(one, burst)

    def _send(self, one: Publisher, burst: dict[int, str]) -> None:
        """Publish these, by the publisher's own count; the broker reads them at once, or two."""
        node = one.node
        if not one.origin:
            node.clients += 1
            one.origin, one.nth = node.run << 32 | node.clients, 0
        one.waiting |= burst
        origin, parts = one.origin, [[*burst.items()]]
        if len(burst) > 1 and self.random.random() < 0.5:
            at = self.random.randint(1, len(burst) - 1)
            parts = [parts[0][:at], parts[0][at:]]
        for part in parts:
            self.call(node, node.run, partial(self._arrive_all, one=one, origin=origin, part=part))

    def _arrive_all(
        self, process: Process, one: Publisher, origin: int, part: list[tuple[int, str]]
    ) -> None:
        for count, payload in part:
            self._arrives(process, one, origin, count, payload)

    def _arrives(
        self, process: Process, one: Publisher, origin: int, count: int, payload: str
    ) -> None:
        """The broker reads a PUB; what it refuses has no sequence."""
        if one.origin != origin:
            return
        is_held = process.member.is_full
        self.checker.payloads[origin, one.nth + 1] = payload
        message_id = payload if one.with_ids else ""
        if not is_held and process.publish(origin, one.nth + 1, message_id, payload):
            one.nth += 1
            self.waiting[origin, one.nth] = one, count
            return
        self.count("refused")
        one.waiting.pop(count, None)
        if one.with_ids:  # it tries again, after what it has sent meanwhile
            one.refused.add(payload)
            self.at(self.random.uniform(100, 300), lambda: self._again(one, payload))

    def _again(self, one: Publisher, payload: str) -> None:
        one.refused.discard(payload)
        if one.since[payload] <= self._oldest:
            return
        one.made += 1
        if one.origin and one.origin >> 32 == one.node.run:
            self._send(one, {one.made: payload})
        else:
            one.waiting[one.made] = payload

    @property
    def _oldest(self) -> float:
        """An id is good for its window: what is older is not published again."""
        return self.now - self.settings.id_window / 8

    def _move(self, one: Publisher) -> None:
        """Connect to another member; what was not answered is published again, if that is safe."""
        up = [node for node in self.nodes.values() if node.process is not None]
        oldest = self._oldest
        again = {n: p for n, p in one.waiting.items() if one.with_ids and one.since[p] > oldest}
        self.waiting = {key: who for key, who in self.waiting.items() if who[0] is not one}
        one.origin, one.waiting = 0, {}
        if up:
            one.node = self.random.choice(up)
            if one.node.paused <= self.now:
                if again:
                    self._send(one, dict(sorted(again.items())))
                return
        if again:  # nobody is there: what was not answered is remembered
            one.waiting = again
            self.at(30, lambda: None if one.origin else self._move(one))

    def published(self, node: Node, origin: int, nth: int, number: int) -> None:
        self.checker.answered(origin, nth, number)
        self.answered += 1
        one, count = self.waiting.pop((origin, nth), (None, 0))
        if one is not None:
            one.waiting.pop(count, None)

    def abandoned(self, node: Node, origins: frozenset[int]) -> None:
        self.count("abandoned")
        for one in self.publishers:
            if one.origin in origins:
                self._move(one)

    def clients_of(self, node: Node, run: int) -> None:
        for one in self.publishers:
            if one.node is node and one.origin >> 32 == run:
                self.at(self.random.uniform(1, 40), partial(self._gone, one, run))

    def _gone(self, one: Publisher, run: int) -> None:
        if one.origin >> 32 == run:
            self._move(one)

    # Batches

    def _batch(self, one: Batcher) -> None:
        rng = self.random
        if not one.is_busy:
            if not self.is_publishing:
                return
            self._begin_batch(one)
        elif self.now - one.at > 350:
            if rng.random() < 0.3:
                one.staged = 0
            self._ask(one)
        self.at(60, lambda: self._batch(one))

    def _begin_batch(self, one: Batcher) -> None:
        rng = self.random
        one.batch += rng.choice([1, 1, 5])
        one.rows = [f"{ROW}{one.name}.{one.batch}/{nth}" for nth in range(rng.randint(1, 9))]
        half = rng.choice([0, 0, len(one.rows) // 2])
        parts = {"a": one.rows[:half], "b": one.rows[half:]}
        one.stages = {
            name: "".join(f"{row}\n" for row in rows).encode()
            for name, rows in parts.items()
            if rows
        }
        one.staged = 0
        one.is_busy = True
        self._ask(one)

    def _ask(self, one: Batcher) -> None:
        """Stage what is not staged, then commit; through any member."""
        one.at = self.now
        up = [n for n in self.nodes.values() if n.process is not None and n.paused <= self.now]
        if not up:
            return
        self.keys += 1
        one.key = self.keys
        node = self.random.choice(up)
        headers = {"application": one.name, "batch": str(one.batch)}
        if one.staged < len(one.stages):
            name = sorted(one.stages)[one.staged]
            headers |= {"name": name, "offset": "0"}
            request = m.MemberRequest(one.key, "STAGE", headers, one.stages[name])
        else:
            stages = [[name, len(d), zlib.crc32(d)] for name, d in sorted(one.stages.items())]
            payload = json.dumps({"stages": stages}).encode()
            request = m.MemberRequest(one.key, "COMMIT", headers, payload)
        self.call(node, node.run, lambda process: process.member.ask(request))

    def done(self, node: Node, action: m.Done) -> None:
        one = next((one for one in self.batchers if one.key == action.key), None)
        if one is None or not one.is_busy:
            return
        fields = json.loads(action.payload) if action.payload else {}
        if action.status == 200 and "first" in fields:
            if fields["batch"] != one.batch:
                raise Breach(f"batch: {one.name} {one.batch} is answered with {fields}")
            numbers = fields["first"], fields["last"]
            self.checker.committed[one.name, one.batch] = one.rows, numbers
            one.is_busy = False
            self.count("batches")
        elif action.status == 200:
            self._check_staged(one)
            one.staged += 1
            self._ask(one)
        elif action.status == 404:
            one.staged = 0
            self._ask(one)
        else:
            one.at = self.now - 300

    def _check_staged(self, one: Batcher) -> None:
        """A stage that is answered is on as many machines as a message that is."""
        if one.staged < len(one.stages) and (one.name, one.batch) not in self.checker.prepared:
            name = sorted(one.stages)[one.staged]
            what = (one.name, one.batch, name), len(one.stages[name])
            have = sum(what in node.disk.stages.had for node in self.nodes.values())
            if have < self.least:
                raise Breach(f"staged: {what} is answered, and {have} members have it")

    # Readers

    def _read(self, one: Reader) -> None:
        self.at(self.random.uniform(30, 80), lambda: self._read(one))
        member = one.node.member
        if member is None or self.random.random() < 0.02:
            one.node = self.random.choice(list(self.nodes.values()))
            return
        log: Any = member.log
        one.next = max(one.next, log.first)  # told as lost
        for number in range(one.next, member.delivered + 1):
            if self.checker.order.get(number) != log.at(number):
                raise Breach(f"order: a reader gets {number}, which is not what was shown")
            one.next += 1

    # Subscribers of what is new

    def _listen(self, one: Listener) -> None:
        self.at(self.chance.uniform(20, 80), lambda: self._listen(one))
        process = one.node.process if one.node is not None else None
        if process is None or process.run != one.run or self.chance.random() < 0.03:
            self.subscribe(one, self.chance.choice(list(self.nodes.values())))

    def subscribe(self, one: Listener, node: Node) -> None:
        """Connect there, if that member serves clients, and subscribe.

        Only to one that is in the view: another one may be behind what this client has seen, and
        not know it.
        """
        process, one.node = node.process, None
        is_busy = node.paused > self.now or bool(node.inbox)
        if process is None or is_busy or not process.serves():
            return
        if process.member.id in self.engine.view.members:
            one.node, one.run = node, process.run
            one.begins, one.pong = process.member.published, self.now

    def _listeners_at(self, process: Process) -> list[Listener]:
        here = [one for one in self.listeners if one.node is process.node]
        return [one for one in here if one.run == process.run]

    def begun(self, process: Process, number: int) -> None:
        for one in self._listeners_at(process):
            if one.begins == m.UNKNOWN:
                one.begins, one.pong = number, self.now

    def was_cut(self, process: Process, number: int) -> None:
        for one in self._listeners_at(process):
            if number < one.begins < m.UNKNOWN:
                one.begins = number

    def shown(self, process: Process, number: int, is_taken: bool) -> None:
        for one in self._listeners_at(process):
            if number > one.begins:
                if number in one.seen:
                    raise Breach(f"again: {number} is delivered twice")
                one.seen.add(number)
                if is_taken and number in self.group_seen:
                    raise Breach(f"again: {number} is delivered twice to a group")
                if is_taken:
                    self.group_seen.add(number)
                    is_taken = False
            elif one.begins < m.UNKNOWN:
                published = self.sent_at.get(self.checker.what[number].payload, 0.0)
                if published > one.pong:
                    raise Breach(f"missed: {number} was published after a PONG")
