"""Rounds of traffic, each ended by `kill -9` at a random moment, on one journal and one port.

    play(Trial(store, SEED, sync="interval"), rounds=5)        raises Broken

A moment is a random count of deliveries and acknowledgements, so that the broker is in the middle
of its work on any machine; some starts are killed as well. The seed decides sizes, subjects,
repeats and moments; the scheduler's part cannot be repeated.

    SOAK_SECONDS=600    in the environment: more rounds for so long, divided among the trials
    CRASH_SEED=7        repeats the seed of a failure; a soak draws one, the gate has its own
"""

import asyncio
import json
import os
import ssl
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

from tests.crash.ledger import Broken, Ledger, Message
from tests.crash.peers import (
    Asker,
    Careless,
    Follower,
    Live,
    Peer,
    Slow,
    Verbose,
    Wire,
    replayed,
)
from tests.support.depth import IS_SOAK
from tests.support.processes import SeriatimServer

SOAK_S = float(os.environ.get("SOAK_SECONDS", "0"))
STEADY_SEED = 7  # a change is judged by what it changes
DRAWN = SystemRandom().randrange(1, 1 << 32) if IS_SOAK else STEADY_SEED
SEED = int(os.environ.get("CRASH_SEED", "0")) or DRAWN
TRIALS = 5  # that share the time of a soak: kills, in each sync mode and with deletions; power cuts
ROUND_S = 180.0  # far more than a round takes: no progress is a fault, too
EVENTS = (200, 30_000)  # in one life
SEGMENTS = (65_536, 262_144, 4 << 20)
WINDOWS = (1 << 20, 64 << 20)
PENDING = (16_384, 262_144)


class Lives:
    """The lives of one broker, as its peers see them. One writer: the trial."""

    inside: Callable[[], AbstractContextManager[None]] = staticmethod(nullcontext)  # its network
    tls: ssl.SSLContext | None = None  # of its clients

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.port = -1
        self.over = False
        self.pong_confirms = True
        self._life = 0
        self._up = asyncio.Condition()
        self.is_dying = True

    def is_up(self, life: int) -> bool:
        return self._life == life and not self.is_dying

    async def next(self, life: int) -> int:
        """Wait until the broker is up in a life after this one; which."""
        async with self._up:
            await self._up.wait_for(lambda: self.over or (self._life > life and not self.is_dying))
        return self._life

    async def pause(self, messages: int = 1) -> None:
        """After a publisher has sent so many: none here."""

    async def ahead(self, number: int) -> None:
        """Wait until somebody knows of this number, or the broker is gone."""
        while not self.is_dying and not self.over and self.ledger.last < number:
            await self.ledger.more(300)

    async def born(self) -> None:
        async with self._up:
            self._life, self.is_dying = self._life + 1, False
            self._up.notify_all()

    def dies(self) -> None:
        self.is_dying = True
        self.ledger.wake()

    async def end(self) -> None:
        """Publishers finish what they have under way."""
        async with self._up:
            self.over = True
            self._up.notify_all()
        self.ledger.wake()


class Trial:
    """A broker, its peers, and the rounds."""

    def __init__(
        self, store: Path, seed: int, sync: str, *more: str, events: tuple[int, int] = EVENTS
    ) -> None:
        self.chance = Random(f"{seed} {sync} {more}")
        self.events = events
        arguments = ["--sync", sync, "--segment_bytes", str(self.chance.choice(SEGMENTS))]
        arguments += ["--journal_window_bytes", str(self.chance.choice(WINDOWS)), *more]
        limits = {"catchup_pending": self.chance.choice(PENDING)}
        self.server = SeriatimServer("netstring", limits, arguments, store=store)
        self.lives = Lives()
        self.lives.pong_confirms = sync != "always"
        self.rounds = 0
        self.logs: list[str] = []  # of all lives
        self.info: dict[str, Any] = {"epoch": 0, "journal": None}
        self.publishers = [
            *(
                kind(f"{kind.__name__}{at}", self.lives, seed + at)
                for kind in (Careless, Asker, Verbose)
                for at in range(2)
            ),
        ]
        patterns = [(">", 1), (">", 1), ("t.1.>", 1), ("t.*.x", 1), ("t.3.y", 500)]
        self.followers = [
            *(
                Follower(f"Follower{at}", self.lives, seed + at, *words)
                for at, words in enumerate(patterns)
            ),
            Slow("Slow", self.lives, seed),
            Slow("SlowOfSome", self.lives, seed, "t.2.*"),
        ]
        self.others: list[Peer] = [Live("Live0", self.lives, seed), Live("Live1", self.lives, seed)]

    async def run(self, more: Callable[[int], bool]) -> None:
        """Rounds while `more(rounds so far)` says so, then the end and the judgement."""
        try:
            async with asyncio.TaskGroup() as group:
                readers = [group.create_task(peer.run()) for peer in self.followers + self.others]
                writers = [group.create_task(peer.run()) for peer in self.publishers]
                await self.start()
                while more(self.rounds):
                    async with asyncio.timeout(ROUND_S):
                        await self.round()
                await self.lives.end()
                async with asyncio.timeout(ROUND_S):
                    await asyncio.wait(writers)
                for task in readers:
                    task.cancel()
            self.judge(await self.journal())
        finally:
            await asyncio.to_thread(self.server.kill)
            self.logs += self.server.log

    async def round(self) -> None:
        """Traffic, the end of this life, and the next one."""
        await self.lives.ledger.more(self.chance.randint(*self.events))
        self.lives.dies()
        await asyncio.to_thread(self.end_life)
        self.logs += self.server.log
        while self.chance.random() < 0.3:
            await asyncio.to_thread(self.kill_start, self.chance.randint(0, 3))
        await self.start()
        self.rounds += 1

    def before_start(self) -> None:
        """Before each life, whether it is to become a long one or not."""

    async def start(self) -> None:
        self.before_start()
        await asyncio.to_thread(self.server.start, self.lives.port)
        self.lives.port = self.server.port
        await self.check_info()
        await self.lives.born()

    def end_life(self) -> None:
        """How a life ends: here with the process, which now and then is asked to end."""
        if self.chance.random() < 0.2:
            self.server.stop()
        else:
            self.server.kill()

    def kill_start(self, lines: int) -> None:
        """Start, and kill after so many lines of the log: in the middle of recovery, perhaps."""
        self.before_start()
        command = [*self.server.command, "-a", "127.0.0.1", "-p", str(self.lives.port)]
        process = subprocess.Popen(
            command, env=self.server.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert process.stderr is not None
        with process.stderr as log:
            for _ in range(lines):
                log.readline()
            process.kill()
            process.wait()

    async def check_info(self) -> None:
        """The same journal in a new epoch, with all the numbers that anybody knows of."""
        before, self.info = self.info, await self.ask_info()
        if before["journal"] not in (None, self.info["journal"]):
            raise Broken(f"the journal was {before}, and is {self.info}")
        if self.info["epoch"] <= before["epoch"]:
            raise Broken(f"epoch {before['epoch']}, and after a restart {self.info['epoch']}")
        if self.info["last"] < self.lives.ledger.last:
            raise Broken(f"{self.lives.ledger.last} was known, the last is {self.info['last']}")
        if self.info["first"] < before.get("first", 1):
            raise Broken(f"{self.info['first']} is there, which had been deleted")

    async def ask_info(self) -> dict[str, Any]:
        """What the broker says of its journal."""
        wire = await Wire.open(self.lives.port)
        wire.send(b"SUB _INBOX.info 1\r\nPUB $SEQ.INFO _INBOX.info 0\r\n\r\n")
        answer = await wire.operation()
        wire.close()
        if answer is None or answer.verb not in ("MSG", "HMSG"):
            raise Broken(f"$SEQ.INFO was answered {answer}")
        info: dict[str, Any] = json.loads(answer.payload)
        return info

    async def forgotten(self) -> None:
        """Wait until nothing is left to be deleted: it would be lost from under a replay."""
        limit = self.info["limits"]["retain_bytes"]
        async with asyncio.timeout(ROUND_S):
            while 0 < limit < self.info["bytes"]:
                await asyncio.sleep(0.01)  # no event to await: it is asked
                self.info = await self.ask_info()

    async def journal(self) -> dict[int, Message]:
        """All that is retained, replayed by a broker that was stopped cleanly and started again."""
        await asyncio.to_thread(self.server.stop)
        self.logs += self.server.log
        self.before_start()
        await asyncio.to_thread(self.server.start, self.lives.port)
        await self.check_info()
        await self.forgotten()
        first, last = self.info["first"], self.info["last"]
        found: dict[int, Message] = {}
        if first <= last:  # a segment that grew while the disk was slow may be over the limit alone
            async with asyncio.timeout(ROUND_S):
                found = await replayed(await Wire.open(self.lives.port), first, last)
        if len(found) != last - first + 1:
            raise Broken(f"{len(found)} messages were replayed, of {first} to {last}")
        return found

    def judge(self, journal: dict[int, Message]) -> None:
        """Everything that was seen or promised, against the journal."""
        once = {peer.name for peer in self.publishers if not isinstance(peer, Careless)}
        self.lives.ledger.judge(journal, self.info["first"], once)
        for follower in self.followers:
            follower.judge(journal)

    def summary(self) -> str:
        """One line on what was done."""
        ledger = self.lives.ledger
        heard = sum(len(follower.heard) for follower in self.followers)
        return (
            f"{self.rounds} crashes, {self.info.get('last')} messages, {heard} followed,"
            f" {len(ledger.numbers)} numbers promised, {len(ledger.taken)} accepted"
        )


def play(trial: Trial, rounds: int) -> None:
    """Run at least so many rounds, and for its share of a soak; print what is needed to repeat."""
    end = time.monotonic() + SOAK_S / TRIALS
    try:
        asyncio.run(trial.run(lambda done: done < rounds or time.monotonic() < end))
    except BaseException:
        print(f"CRASH_SEED={SEED}, store {trial.server.store}", *trial.logs[-200:], sep="\n")
        raise
    finally:
        print(f"{' '.join(trial.server.command[4:])}: {trial.summary()}")
