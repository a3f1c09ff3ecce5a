"""Two producers, a consumer and a broker that are killed, reorgs: one state, nothing twice."""

import asyncio
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

from cardinal.producer import Messages, Producer, ReorgChannel
from cardinal.transport.publisher import Publisher
from tests.cardinal.chains import GENESIS, SCHEMA, Made, branch, messages_of, state_of
from tests.clients.served import run
from tests.support.places import ROOT
from tests.support.processes import SeriatimServer

THRESHOLD = 6

BASE = branch(GENESIS, "x", 40)
LEFT, RIGHT = branch(BASE[-1], "l", 2), branch(BASE[-1], "r", 40)
LATE = branch(RIGHT[-1], "w", 3)  # comes while the channel is open
DEEP = branch(RIGHT[19], "d", 30)  # replaces more blocks than the threshold
END = branch(DEEP[-1], "e", 10)
FINAL = [*BASE, *RIGHT[:20], *DEEP, *END]


class Consuming:
    """The consumer's process, and the heads that it prints."""

    def __init__(self, url: str, file: Path) -> None:
        self.command = [sys.executable, "-m", "tests.cardinal.consuming", url, str(file)]
        self.heads: list[str] = []

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *self.command, str(THRESHOLD), cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )

    async def until(self, count: int = 0, head: bytes = b"") -> None:
        """Read heads until there are so many more, or until this one."""
        wanted = len(self.heads) + count
        assert self.process.stdout is not None
        while len(self.heads) < wanted or (head and self.heads[-1:] != [head.hex()]):
            line = await self.process.stdout.readline()
            assert line, f"the consumer ended with {await self.process.wait()}"
            self.heads.append(line.decode().strip())

    async def kill(self) -> None:
        """Kill it, as a machine would."""
        self.process.kill()
        await self.process.communicate()


async def send_all(
    url: str,
    parts: Sequence[Sequence[Messages]],
    gates: Sequence[asyncio.Event],
    sent: Sequence[asyncio.Barrier],
) -> None:
    """One of the producers: each part when its gate opens."""
    async with Publisher("chain", url) as publisher:
        for part, gate, done in zip(parts, gates, sent, strict=True):
            await gate.wait()
            for messages in part:
                await publisher.send(messages)
            await done.wait()


def made(producer: Producer | ReorgChannel, blocks: Sequence[Made]) -> list[Messages]:
    return [messages for block in blocks for messages in messages_of(producer, block)]


def parts() -> list[list[Messages]]:
    """What a producer sends, in the pieces between which things go wrong."""
    producer = Producer(SCHEMA)
    channel = producer.reorg(RIGHT[19].number, RIGHT[19].hash, RIGHT[-1].weight, DEEP[-1].hash)
    return [
        made(producer, BASE),
        made(producer, [*LEFT, *RIGHT]),
        [channel.begin(), *made(channel, DEEP[:15]), *made(producer, LATE)],
        [*made(channel, DEEP[15:]), channel.complete(), *made(producer, END)],
    ]


def stored(file: Path) -> tuple[list[bytes], dict[str, bytes], int]:
    """The chain and the state that the consumer has stored, and how often it applied a block."""
    with sqlite3.connect(file) as db:
        chain = [row[0] for row in db.execute("select hash from chain order by place")]
        state = dict(db.execute("select key, value from state").fetchall())
        (times,) = db.execute("select max(times) from applied").fetchone()
    db.close()
    return chain, state, times


def test_given_two_producers_when_all_is_killed_and_reorganised_then_the_states_are_the_same(
    tmp_path: Path,
) -> None:
    file = tmp_path / "state.db"

    async def scenario(server: SeriatimServer) -> None:
        url = f"nats://127.0.0.1:{server.port}"
        gates = [asyncio.Event() for _ in range(4)]
        sent = [asyncio.Barrier(count) for count in (2, 2, 3, 2)]
        producers = [asyncio.create_task(send_all(url, parts(), gates, sent)) for _ in range(2)]
        consuming = Consuming(url, file)
        await consuming.start()
        gates[0].set()
        await consuming.until(count=10)
        await consuming.kill()
        await consuming.start()
        gates[1].set()
        await consuming.until(count=5)
        port = server.port
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start, port)
        await consuming.until(head=RIGHT[-1].hash)
        gates[2].set()
        await sent[2].wait()  # the channel is open, and half of it is sent
        await consuming.until(head=LATE[-1].hash)
        await consuming.kill()
        await consuming.start()
        gates[3].set()
        await consuming.until(head=END[-1].hash)
        await asyncio.gather(*producers)
        await consuming.kill()

    with SeriatimServer("netstring") as server:
        run(scenario(server))
    chain, state, times = stored(file)
    assert chain == [block.hash for block in FINAL]
    assert state == state_of(FINAL)
    assert times == 1, "nothing is applied twice"
