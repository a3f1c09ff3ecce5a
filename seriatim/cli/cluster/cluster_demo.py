"""`seriatim cluster demo`: a cluster of three on this machine, to see what happens when one dies.

    k  kills the coordinator, and starts it again after some seconds
    s  stops it with SIGSTOP for some seconds: it does not know that time has passed
    p  cuts it off from the others and from etcd for some seconds
    h  hands over: no failure at all
    q  quits

One fault at a time. It is over when publishing goes on and all three members are in sync again.
"""

import asyncio
import os
import sys
import termios
import time
import tty
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any, Final

from broker.cluster.engine.etcd import EtcdGateway
from broker.cluster.engine.etcd_keeper import EtcdKeeper
from broker.cluster.engine.etcd_requests import EtcdRequests
from broker.cluster.engine.view_keeper import KeptView, Presence
from sequencer.replica.view import View
from seriatim.cli.cluster.demo_members import CLUSTER, NAMES, DemoMembers
from seriatim.cli.cluster.demo_traffic import DemoTraffic
from seriatim.cli.errors import CliError

KEYS: Final = {"k": "kill", "s": "stop", "p": "cut", "h": "handover", "q": "quit"}
TROUBLES: Final = ("kill", "stop", "cut", "handover")
AWAY_S: Final = 3.0  # how long a member is stopped, cut off or dead
READY_S: Final = 60.0
RECOVERED_S: Final = 60.0
STATUS_S: Final = 0.5
BETWEEN_S: Final = 1.0
HELP: Final = "k kills the coordinator, s stops it, p cuts it off, h hands over, q ends"

END_OF_INPUT: Final = "q"

Say = Callable[[str], None]
Back = Callable[[], Coroutine[Any, Any, None]]


class ClusterDemo:
    """One run of the demo. For the thread of the event loop."""

    def __init__(self, members: DemoMembers, say: Say) -> None:
        self.members = members
        self.traffic = DemoTraffic(members.urls(), self._note_change)
        self.view: View | None = None
        self.stood: list[float] = []  # how long publishing paused, each time
        self._say = say
        self._gateway = EtcdGateway(members.access)
        self._keeper = EtcdKeeper(self._gateway, CLUSTER)
        self._changed = asyncio.Condition()
        self._watch: asyncio.Task[None] | None = None
        self._jobs: set[asyncio.Task[None]] = set()
        self._away = ""  # the member that is in trouble, and how
        self._count, self._counted_at = 0, time.monotonic()

    async def start(self) -> None:
        """Return when three members are in sync, and messages flow."""
        self._say("starting etcd and three members: one, two and three")
        await self.members.start()
        self._watch = asyncio.ensure_future(self._keeper.watch(self._learned, self._listed))
        if not await self._until(self._all_in_sync, READY_S):
            self._blame("the members did not get ready")
        self.traffic.start()
        if not await self._until(lambda: min(self.traffic.seen.values()) > 0, READY_S):
            self._blame("no messages arrive")
        self._say(f"three members are in sync; {self.coordinator} coordinates; messages flow")

    @property
    def coordinator(self) -> str:
        """The coordinator's name; empty if there is no view yet."""
        return self.members.name_of(self.view.coordinator) if self.view else ""

    async def trouble(self, kind: str) -> None:
        """Cause a fault at the coordinator, and return when the cluster has recovered."""
        assert self.view is not None, "it has started"
        name, epoch, answered = self.coordinator, self.view.epoch, self.traffic.answered
        self.traffic.begin_measuring()
        back: Back | None = None
        match kind:
            case "kill":
                self._say(f"{name}, which coordinates, is killed")
                self.members.kill(name)
                back = partial(self.members.start_again, name)
                self._away = f"{name} is dead"
            case "stop":
                self._say(f"{name}, which coordinates, is stopped with SIGSTOP")
                self.members.freeze(name)
                back = partial(self.members.thaw, name)
                self._away = f"{name} is stopped"
            case "cut":
                self._say(f"{name}, which coordinates, is cut off")
                self.members.network.cut(name)
                back = partial(self.members.network.heal, name)
                self._away = f"{name} is cut off"
            case _:
                self._say(f"{name}, which coordinates, hands over")
                await EtcdRequests(self._gateway, CLUSTER).post("hand over", "", bool, RECOVERED_S)
        await self._see_through(name, epoch, answered, back)

    async def _see_through(self, name: str, epoch: int, answered: int, back: Back | None) -> None:
        ending = time.monotonic() + AWAY_S
        if not await self._until(lambda: self._epoch > epoch, RECOVERED_S):
            self._blame("no member took over")
        answered = self.traffic.answered
        if not await self._until(lambda: self.traffic.answered > answered, RECOVERED_S):
            self._blame("publishing did not go on")
        stood = self.traffic.stood
        self.stood.append(stood)
        self._say(
            f"{self.coordinator} coordinates now, epoch {self._epoch};"
            f" publishing paused for {stood * 1000:.0f} ms"
        )
        if back is not None:
            await asyncio.sleep(max(0.0, ending - time.monotonic()))
            await back()
            self._say(f"{name} is back: it copies what it is missing")
        self._away = ""
        if not await self._until(self._all_in_sync, RECOVERED_S):
            self._blame(f"{name} did not come back in sync")
        self._say("three members are in sync")

    async def end(self) -> list[str]:
        """Stop the traffic; return what was wrong."""
        return await self.traffic.end(READY_S)

    async def close(self) -> None:
        """End all that was started."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait([self._watch])
        await self._keeper.close()
        self.members.close()

    def status(self) -> str:
        """The current state, in one line."""
        traffic, now = self.traffic, time.monotonic()
        rate = (traffic.answered - self._count) / (now - self._counted_at)
        self._count, self._counted_at = traffic.answered, now
        seen = "  ".join(f"{name} {number}" for name, number in traffic.seen.items())
        wrong = traffic.ledger.wrong
        verdict = f"WRONG: {wrong[0]}" if wrong else "no hole, nothing twice"
        count = len(self.view.members) if self.view else 0
        parts = [
            f"{rate:6.0f} numbers/s",
            f"seen by {seen}",
            f"{self.coordinator} coordinates, {count} in sync",
            verdict,
        ]
        return " | ".join([*parts, self._away] if self._away else parts)

    # What changes

    @property
    def _epoch(self) -> int:
        return self.view.epoch if self.view else 0

    def _all_in_sync(self) -> bool:
        return self.view is not None and len(self.view.members) == len(NAMES)

    def _learned(self, kept: KeptView) -> None:
        self.view = kept.view
        self._note_change()

    def _listed(self, present: dict[str, Presence]) -> None:
        self._note_change()

    def _note_change(self) -> None:
        if not self._jobs:
            job = asyncio.ensure_future(self._notify())
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        """Wait until `is_so()` holds; False if it does not within `seconds`."""
        try:
            async with asyncio.timeout(seconds), self._changed:
                while not is_so():
                    # Subscribers and processes report no change: poll.
                    try:
                        async with asyncio.timeout(STATUS_S):
                            await self._changed.wait()
                    except TimeoutError:
                        pass
        except TimeoutError:
            return is_so()
        return True

    def _blame(self, what: str) -> None:
        """Give up. Raises `CliError` with the logs."""
        logs = "\n".join(f"--- {name} ---\n{self.members.log_of(name)}" for name in NAMES)
        ended = self.members.ended()
        dead = f" ({', '.join(ended)} ended)" if ended else ""
        raise CliError(f"{what} in time{dead}\n{logs}")


def play(script: list[str]) -> bool:
    """Play faults without a terminal; return whether all promises held."""
    return asyncio.run(_play(script))


async def _play(script: list[str]) -> bool:
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", flush=True)

    demo = ClusterDemo(DemoMembers(), say)
    try:
        await demo.start()
        for kind in script:
            await asyncio.sleep(BETWEEN_S)
            await demo.trouble(kind)
        await asyncio.sleep(BETWEEN_S)
        return _judge(demo, await demo.end(), say)
    finally:
        await demo.close()


def _judge(demo: ClusterDemo, wrong: list[str], say: Say) -> bool:
    numbers = max(demo.traffic.seen.values())
    for text in wrong[:10]:
        say(f"WRONG: {text}")
    if not wrong:
        longest = f", at most {max(demo.stood) * 1000:.0f} ms" if demo.stood else ""
        say(
            f"{numbers} numbers, the same at all three members, no hole, nothing twice;"
            f" publishing paused {len(demo.stood)} times{longest}"
        )
    return not wrong


def watch() -> bool:
    """Let the user press keys; return whether all promises held."""
    return asyncio.run(_watch())


async def _watch() -> bool:
    def say(text: str) -> None:
        print(f"\r\x1b[K{time.strftime('%H:%M:%S')}  {text}", flush=True)

    demo = ClusterDemo(DemoMembers(), say)
    ticking: asyncio.Task[None] | None = None
    try:
        await demo.start()
        say(HELP)
        ticking = asyncio.ensure_future(_tick(demo))
        async for key in _pressed_keys():
            kind = KEYS.get(key)
            if kind == "quit":
                break
            if kind is not None:
                await demo.trouble(kind)
                say(HELP)
        ticking.cancel()
        say("stopping: all subscribers get what was published")
        return _judge(demo, await demo.end(), say)
    finally:
        if ticking is not None:
            ticking.cancel()
        await demo.close()


async def _pressed_keys() -> AsyncIterator[str]:
    """Yield each key pressed, without Return after it. Restores the terminal at the end."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    keys: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        data = os.read(descriptor, 64)
        for key in data.decode("utf-8", "replace") or END_OF_INPUT:
            keys.put_nowait(key)

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, read)
    try:
        while True:
            yield await keys.get()
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def _tick(demo: ClusterDemo) -> None:
    while True:
        sys.stdout.write(f"\r\x1b[K{demo.status()}")
        sys.stdout.flush()
        await asyncio.sleep(STATUS_S)
