"""Queue groups over real members: each message goes to one taker of all."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import count

import pytest

from testkit.model_frame import split_frame
from tests.crash.peers import Wire
from tests.support.cluster_start import ClusterOf
from tests.support.depth import depth

LIMIT_S = 120.0


@pytest.fixture
def cluster() -> Iterator[ClusterOf]:
    with ClusterOf(3) as made:
        yield made


class GroupTrial:
    """A group with takers at every member, and a publisher at every member."""

    def __init__(self, cluster: ClusterOf) -> None:
        self.cluster = cluster
        self.ports = [member.port for member in cluster.members]
        self.taken: Counter[bytes] = Counter()
        self.by: list[set[bytes]] = [set(), set(), set()]  # by member
        self.rounds = 0  # of takers that came and went
        self.confirmed: set[bytes] = set()  # published, and PONG came
        self.counts = count()
        self.wires: list[Wire] = []

    async def open(self, at: int) -> Wire:
        wire = await Wire.open(self.ports[at])
        self.wires.append(wire)
        return wire

    def close(self) -> None:
        for wire in self.wires:
            wire.close()

    async def publish(self, at: int, messages: int) -> None:
        """Messages to two subjects; a few at a time, until all are confirmed."""
        wire = await self.open(at)
        for _ in range(messages // 10):
            sent = [b"%d.%d" % (at, next(self.counts)) for _ in range(10)]
            for text in sent:
                subject = b"jobs.new" if text[-1] % 2 else b"jobs.old.two"
                wire.send(b"PUB %s %d\r\n%s\r\n" % (subject, len(text), text))
            if not await self.pong(wire, at):
                break
            self.confirmed.update(sent)
            await asyncio.sleep(0)
        wire.close()

    async def pong(self, wire: Wire, at: int) -> bool:
        """PING, and take what comes before the PONG; False: the broker is gone."""
        wire.send(b"PING\r\n")
        while (operation := await wire.operation()) is not None:
            if operation.verb == "PONG":
                return True
            self.take(at, operation.payload)
        return False

    def take(self, at: int, framed: bytes) -> None:
        text = split_frame(framed)[1]
        self.taken[text] += 1
        self.by[at].add(text)

    async def come_and_go(self, at: int, pattern: bytes) -> None:
        """Join the group, take a few messages, leave it, and come again."""
        while True:
            wire = await self.open(at)
            wire.send(b"SUB %s workers 1\r\n" % pattern)
            if not await self.pong(wire, at):
                return
            for _ in range(20):
                if (operation := await wire.operation()) is not None:
                    self.take(at, operation.payload)
            wire.send(b"UNSUB 1\r\n")
            if not await self.pong(wire, at):
                return
            wire.close()
            self.rounds += 1

    async def stay(self, at: int, ready: asyncio.Event) -> None:
        """Join the group, and take until the end."""
        wire = await self.open(at)
        wire.send(b"SUB jobs.> workers 1\r\n")
        if await self.pong(wire, at):
            ready.set()
            while (operation := await wire.operation()) is not None:
                self.take(at, operation.payload)

    async def everything_came(self) -> None:
        """All that is confirmed is taken; who counts it has a while."""
        while not self.confirmed <= self.taken.keys():
            await asyncio.sleep(0.05)  # no event to await: takers are many


def test_given_takers_that_come_and_go_then_one_of_all_gets_each_message(
    cluster: ClusterOf,
) -> None:
    async def run() -> GroupTrial:
        trial = GroupTrial(cluster)
        ready = asyncio.Event()
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            takers = [group.create_task(trial.stay(0, ready))]
            await ready.wait()
            for at, pattern in enumerate((b"jobs.>", b"jobs.*", b"jobs.old.*")):
                takers.append(group.create_task(trial.come_and_go(at, pattern)))
            while trial.rounds < depth(6, 60):
                await asyncio.gather(*(trial.publish(at, 300) for at in range(3)))
            await trial.everything_came()
            for taker in takers:
                taker.cancel()
        trial.close()
        return trial

    trial = asyncio.run(run())
    assert set(trial.taken.values()) == {1}
    assert trial.taken.keys() == trial.confirmed
    assert all(trial.by), "takers of every member had some"


def test_given_a_coordinator_that_is_killed_then_nobody_takes_twice_and_the_others_go_on(
    cluster: ClusterOf,
) -> None:
    async def run() -> GroupTrial:
        trial = GroupTrial(cluster)
        dead = cluster.coordinator()
        alive = [at for at in range(3) if at != dead]
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            readies = [asyncio.Event() for _ in range(3)]
            takers = [group.create_task(trial.stay(at, readies[at])) for at in range(3)]
            for ready in readies:
                await ready.wait()
            publishers = [group.create_task(trial.publish(at, 1000)) for at in range(3)]
            while len(trial.taken) < 300:
                await asyncio.sleep(0.01)  # no event to await: takers are many
            await asyncio.to_thread(cluster.members[dead].kill)
            await asyncio.gather(*publishers)
            # The new coordinator's first weights are without the dead one.
            probe = await trial.open(alive[0])
            probe.send(b"SUB other others 1\r\n")
            assert await trial.pong(probe, alive[0])
            trial.confirmed.clear()
            await asyncio.gather(*(trial.publish(at, 300) for at in alive))
            await trial.everything_came()
            for taker in takers:
                taker.cancel()
        trial.close()
        return trial

    trial = asyncio.run(run())
    assert set(trial.taken.values()) == {1}
    assert len(trial.confirmed) == 600
