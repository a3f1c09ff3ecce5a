"""Traffic at every member of a cluster, while its processes, network, disks and clocks fail.

    play(ClusterTrial(cluster, SEED), [kill, stop_and_continue, ...])        raises Broken

The peers are those of tests/crash: each has a member of its own, and waits until that is back. All
share one ledger: what one member has shown binds all others. At the end every member replays what
came; they must be equal, and must have all that was seen or promised. So several trials may follow
each other on one cluster.
"""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from itertools import count
from random import Random
from typing import Any

from tests.cluster.cluster_peers import Flood, Quitter, Rounds, Taker
from tests.crash.ledger import Broken, Ledger, Message
from tests.crash.peers import (
    Asker,
    Careless,
    Follower,
    Live,
    Peer,
    Repeating,
    Slow,
    Verbose,
    Wire,
    replayed,
)
from tests.crash.trial import Lives
from tests.support.cluster_start import ClusterOf
from tests.support.depth import depth
from tests.support.processes import SeriatimServer

ROUND_S = 180.0
EVENTS = (500, depth(2000, 10_000))  # between two troubles
PACE_S = depth(20, 2) / 1000  # between two messages of a publisher: two processors are shared
ASK_S = 0.05
TAKERS = 2  # of a queue group, at each member

Trouble = Callable[["ClusterTrial"], Awaitable[None]]
_serial = count()


class MemberLives(Lives):
    """The lives of one member."""

    def __init__(self, server: SeriatimServer, ledger: Ledger) -> None:
        super().__init__()
        self.server = server
        self.ledger = ledger
        self.inside = getattr(server, "inside", nullcontext)
        self.tls = server.tls

    async def pause(self, messages: int = 1) -> None:
        await asyncio.sleep(PACE_S * messages)  # no event to await: the rate of a publisher


class ClusterTrial:
    """Peers at each member, and what happens to the members."""

    publisher_kinds: tuple[type[Peer], ...] = (Careless, Asker, Verbose, Quitter)

    def __init__(self, cluster: ClusterOf, seed: int) -> None:
        self.cluster = cluster
        self.seed = seed
        self.chance = Random(seed)
        self.ledger = Ledger()
        self.lives = [MemberLives(server, self.ledger) for server in cluster.members]
        self.first = 1
        self.publishers: list[Peer] = []
        self.writing: dict[Peer, asyncio.Task[None]] = {}
        self.followers: list[Follower] = []
        self.others: list[Peer] = []

    def play(self, troubles: list[Trouble]) -> None:
        """Run the troubles one after the other, under traffic, and judge."""
        asyncio.run(self._run(troubles))

    async def _run(self, troubles: list[Trouble]) -> None:
        for lives in self.lives:
            lives.port = lives.server.port
        self.first = 1 + max([(await info(lives))["last"] for lives in self.lives])
        self._gather()
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(peer.run()) for peer in [*self.followers, *self.others]]
            self.writing = {peer: group.create_task(peer.run()) for peer in self.publishers}
            for lives in self.lives:
                await lives.born()
            for trouble in troubles:
                async with asyncio.timeout(ROUND_S):
                    await self.traffic()
                    await trouble(self)
            async with asyncio.timeout(ROUND_S):
                await self.traffic()
                for lives in self.lives:
                    await lives.end()
                await asyncio.wait(self.writing.values())
            for task in readers:
                task.cancel()
        async with asyncio.timeout(ROUND_S):
            await self._judge()

    def _gather(self) -> None:
        """Peers of names that no trial before has used."""
        serial = next(_serial)
        for at, lives in enumerate(self.lives):
            seed, name = self.seed + at, f"{at}-{serial}"
            for kind in self.publisher_kinds:
                self.publishers.append(kind(f"{kind.__name__}{name}", lives, seed))
            self.followers.append(Follower(f"Follower{name}", lives, seed, ">", self.first))
            self.followers.append(Follower(f"Some{name}", lives, seed, "t.1.>", self.first))
            self.followers.append(Slow(f"Slow{name}", lives, seed, ">", self.first))
            self.others.append(Live(f"Live{name}", lives, seed))
            self.others += [Taker(f"Taker{name}-{one}", lives, seed) for one in range(TAKERS)]

    async def traffic(self) -> None:
        """Wait for a random count of deliveries and acknowledgements."""
        await self.ledger.more(self.chance.randint(*EVENTS))

    # Who

    def coordinator(self) -> MemberLives:
        """The member that coordinates, as the engine's view says."""
        return self.lives[self.cluster.coordinator()]

    def anyone(self) -> MemberLives:
        """A member; more often the one that coordinates."""
        return self.coordinator() if self.chance.random() < 0.5 else self.chance.choice(self.lives)

    def followers_of(self, coordinator: int) -> list[int]:
        """The other members, in a random order."""
        others = [at for at in range(len(self.lives)) if at != coordinator]
        self.chance.shuffle(others)
        return others

    # Troubles

    async def kill(self, lives: MemberLives) -> None:
        """`kill -9`, some traffic of the others, and a start."""
        await self.die(lives)
        await self.ledger.more(self.chance.randint(0, 500))
        await self.start(lives)

    async def die(self, lives: MemberLives) -> None:
        """`kill -9`."""
        lives.dies()
        await asyncio.to_thread(lives.server.kill)

    async def start(self, lives: MemberLives) -> None:
        """Start it, and wait until it has caught up."""
        await asyncio.to_thread(lives.server.start, lives.port)
        await lives.born()

    async def retire(self, lives: MemberLives) -> None:
        """Those of its clients end that cannot be refused anything; until it is born again."""
        ended = MemberLives(lives.server, self.ledger)
        ended.over = True
        retired = [
            peer for peer in self.writing if peer.lives is lives and isinstance(peer, Repeating)
        ]
        for peer in retired:
            peer.lives = ended
        await asyncio.wait([self.writing[peer] for peer in retired])
        lives.is_dying = True

    async def die_all(self) -> None:
        """`kill -9` of all at once."""
        await asyncio.gather(*map(self.die, self.lives))

    async def freeze(self, lives: MemberLives, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after a while: it does not know that time has passed."""
        lives.server.signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)  # no event to await: the time is what is tested
        lives.server.signal(signal.SIGCONT)

    async def view(self, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until the engine's view is so."""
        while not is_so(view := await asyncio.to_thread(self.cluster.view)):
            await asyncio.sleep(ASK_S)  # no event to await: it is asked
        return view

    async def whole(self) -> None:
        """Wait until all members are in sync, under the ids that they have now."""
        await self.view(lambda view: {*view["members"]} == {*self.cluster.ids()})

    async def flood(self, at: int, messages: int) -> "asyncio.Task[None]":
        """So many messages at a member, sent at once; a task that ends when all are confirmed."""
        flood = Flood(f"Flood{at}-{next(_serial)}", self.lives[at], self.seed)
        await flood.send(messages)
        return asyncio.create_task(flood.confirmed())

    # The end

    async def _judge(self) -> None:
        journals = []
        last = max([(await info(lives))["last"] for lives in self.lives])
        for lives in self.lives:
            journals.append(await journal(lives, self.first, last))
        for at, found in enumerate(journals[1:], 1):
            if found != journals[0]:
                wrong = [n for n in found if found[n] != journals[0].get(n)][:5]
                raise Broken(f"members 0 and {at} differ: {wrong}")
        once = {peer.name for peer in self.publishers if isinstance(peer, Repeating)}
        refused = {peer.name for peer in self.publishers if isinstance(peer, Rounds)}
        self.ledger.judge(journals[0], self.first, once, frozenset(refused))
        for follower in self.followers:
            follower.judge(journals[0])


async def info(lives: Lives) -> dict[str, Any]:
    """What a member says of its journal."""
    wire = await Wire.open(lives.port, inside=lives.inside, tls=lives.tls)
    wire.send(b"SUB _INBOX.info 1\r\nPUB $SEQ.INFO _INBOX.info 0\r\n\r\n")
    answer = await wire.operation()
    wire.close()
    if answer is None or answer.verb not in ("MSG", "HMSG"):
        raise Broken(f"$SEQ.INFO was answered {answer}")
    found: dict[str, Any] = json.loads(answer.payload)
    return found


async def journal(lives: Lives, first: int, last: int, buffer: int = 0) -> dict[int, Message]:
    """All messages that a member has, from `first` to `last`."""
    wire = await Wire.open(lives.port, buffer=buffer, inside=lives.inside, tls=lives.tls)
    return await replayed(wire, first, last)
