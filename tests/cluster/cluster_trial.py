"""Traffic at every member of a cluster, while its processes are killed, stopped and started.

    play(ClusterTrial(cluster, SEED), [kill, stop_and_continue, ...])        raises Broken

The peers are those of tests/crash: each has a member of its own, and waits until that is back. All
share one ledger: what one member has shown binds all others. At the end every member replays its
whole journal; they must be equal, and must have all that was seen or promised.
"""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from tests.crash.ledger import Broken, Ledger, Message
from tests.crash.peers import Asker, Careless, Follower, Live, Peer, Verbose, Wire, hear
from tests.crash.trial import Lives
from tests.support.cluster_start import ClusterOf
from tests.support.processes import SeriatimServer

ROUND_S = 180.0
EVENTS = (500, 6000)  # between two troubles


class MemberLives(Lives):
    """The lives of one member."""

    def __init__(self, server: SeriatimServer, ledger: Ledger) -> None:
        super().__init__()
        self.server = server
        self.ledger = ledger


class ClusterTrial:
    """Peers at each member, and what happens to the members."""

    def __init__(self, cluster: ClusterOf, seed: int) -> None:
        self.cluster = cluster
        self.chance = Random(seed)
        self.ledger = Ledger()
        self.lives = [MemberLives(server, self.ledger) for server in cluster.members]
        self.publishers: list[Peer] = []
        self.followers: list[Follower] = []
        self.others: list[Peer] = []
        for at, lives in enumerate(self.lives):
            for kind in (Careless, Asker, Verbose):
                self.publishers.append(kind(f"{kind.__name__}{at}", lives, seed + at))
            self.followers.append(Follower(f"Follower{at}", lives, seed + at))
            self.followers.append(Follower(f"Some{at}", lives, seed + at, "t.1.>"))
            self.others.append(Live(f"Live{at}", lives, seed + at))

    def play(self, troubles: list[Callable[["ClusterTrial"], Awaitable[None]]]) -> None:
        """Run the troubles one after the other, under traffic, and judge."""
        asyncio.run(self._run(troubles))

    async def _run(self, troubles: list[Callable[["ClusterTrial"], Awaitable[None]]]) -> None:
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(peer.run()) for peer in [*self.followers, *self.others]]
            writers = [group.create_task(peer.run()) for peer in self.publishers]
            for lives in self.lives:
                lives.port = lives.server.port
                await lives.born()
            for trouble in troubles:
                async with asyncio.timeout(ROUND_S):
                    await self.traffic()
                    await trouble(self)
            async with asyncio.timeout(ROUND_S):
                await self.traffic()
                for lives in self.lives:
                    await lives.end()
                await asyncio.wait(writers)
            for task in readers:
                task.cancel()
        await self._judge()

    async def traffic(self) -> None:
        """Wait for a random count of deliveries and acknowledgements."""
        await self.ledger.more(self.chance.randint(*EVENTS))

    # Troubles

    def coordinator(self) -> MemberLives:
        """The member that coordinates, as the engine's view says."""
        return self.lives[self.cluster.coordinator()]

    def anyone(self) -> MemberLives:
        """A member; more often the one that coordinates."""
        return self.coordinator() if self.chance.random() < 0.5 else self.chance.choice(self.lives)

    async def kill(self, lives: MemberLives) -> None:
        """`kill -9`, some traffic of the others, and a start."""
        lives.dies()
        await asyncio.to_thread(lives.server.kill)
        await self.ledger.more(self.chance.randint(0, 500))
        await asyncio.to_thread(lives.server.start, lives.port)
        await lives.born()

    async def freeze(self, lives: MemberLives, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after a while: it does not know that time has passed."""
        lives.server.signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)  # no event to await: the time is what is tested
        lives.server.signal(signal.SIGCONT)

    # The end

    async def _judge(self) -> None:
        journals = []
        last = 0
        for lives in self.lives:
            last = max(last, (await info(lives.port))["last"])
        for lives in self.lives:
            journals.append(await journal(lives.port, last))
        for at, found in enumerate(journals[1:], 1):
            if found != journals[0]:
                wrong = [n for n in found if found[n] != journals[0].get(n)][:5]
                raise Broken(f"members 0 and {at} differ: {wrong}")
        once = {peer.name for peer in self.publishers if not isinstance(peer, Careless)}
        self.ledger.judge(journals[0], 1, once)
        for follower in self.followers:
            follower.judge(journals[0])


async def info(port: int) -> dict[str, Any]:
    """What a member says of its journal."""
    wire = await Wire.open(port)
    wire.send(b"SUB _INBOX.info 1\r\nPUB $SEQ.INFO _INBOX.info 0\r\n\r\n")
    answer = await wire.operation()
    wire.close()
    if answer is None or answer.verb not in ("MSG", "HMSG"):
        raise Broken(f"$SEQ.INFO was answered {answer}")
    found: dict[str, Any] = json.loads(answer.payload)
    return found


async def journal(port: int, last: int) -> dict[int, Message]:
    """All messages that a member has."""
    replay, found = Ledger(), {}
    wire = await Wire.open(port)
    wire.send(b"SUB $SEQ.RANGE.1.%d.> 1\r\n" % last)
    async with asyncio.timeout(ROUND_S):
        while True:
            operation = await wire.operation()
            if operation is None:
                raise Broken("the replay was cut off")
            if operation.subject == b"$SEQ.END.%d" % last:
                break
            number = hear(replay, operation)
            if number in found:
                raise Broken(f"{number} was replayed twice")
            found[number] = replay.seen[number]
    wire.close()
    return found
