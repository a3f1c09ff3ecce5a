"""Keepers of views at a real etcd, and what they report, awaited."""

import asyncio
import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

from broker.cluster.engine.etcd import EtcdAccess, EtcdGateway
from broker.cluster.engine.etcd_keeper import EtcdKeeper
from broker.cluster.engine.view_keeper import EngineError, KeptView, Presence, Swapped
from sequencer.replica.view import View
from tests.support.etcd_server import EtcdServer

WAIT_S = 60.0
MEMBERS = ("a" * 16, "b" * 16, "c" * 16)

_names = itertools.count(1)


def cluster_name() -> str:
    """A name that no other test has."""
    return f"test-{os.getpid()}-{next(_names)}"


def view(epoch: int = 1, run: int = 1) -> View:
    return View("1141c2c3a6b8558d", epoch, MEMBERS[0], run, MEMBERS)


def presence(run: int = 1, **more: Any) -> Presence:
    return Presence(
        name="one",
        run=run,
        cluster="127.0.0.1:6222",
        clients=("127.0.0.1:4222",),
        http="",
        version="1",
        protocols=(1, 1),
        state="follower",
        last=7,
    )._replace(**more)


@contextlib.asynccontextmanager
async def keeper_of(
    *endpoints: EtcdServer | str,
    cluster: str = "",
    engine_id: str = "",
    timeout: float = 30.0,  # generous: a busy machine is not what most tests are about
    **how: Any,
) -> AsyncIterator[EtcdKeeper]:
    """A keeper; closed at the end, whatever happens."""
    places = tuple(one if isinstance(one, str) else one.endpoint for one in endpoints)
    gateway = EtcdGateway(EtcdAccess(places, timeout=timeout), engine_id)
    keeper = EtcdKeeper(gateway, cluster or cluster_name(), **how)
    try:
        yield keeper
    finally:
        await keeper.close()


class Reported:
    """What a watch reports, and a way to wait for it."""

    def __init__(self) -> None:
        self.views: list[KeptView] = []
        self.members: list[dict[str, Presence]] = []
        self._told = asyncio.Event()

    def view_changed(self, kept: KeptView) -> None:
        self.views.append(kept)
        self._told.set()

    def members_changed(self, members: dict[str, Presence]) -> None:
        self.members.append(members)
        self._told.set()

    @property
    def epochs(self) -> list[int]:
        return [kept.view.epoch for kept in self.views if kept.view is not None]

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until this is so; it can only become so by a report."""
        async with asyncio.timeout(WAIT_S):
            while not true():
                self._told.clear()
                await self._told.wait()


@contextlib.asynccontextmanager
async def watching(keeper: EtcdKeeper) -> AsyncIterator[Reported]:
    """A watch that runs, and is cancelled at the end."""
    reported = Reported()
    async with running(keeper.watch(reported.view_changed, reported.members_changed)):
        yield reported


@contextlib.asynccontextmanager
async def running(work: Any) -> AsyncIterator["asyncio.Task[Any]"]:
    """A task, cancelled at the end; then it has ended."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def swap_until_answered(keeper: EtcdKeeper, revision: int, wanted: View) -> Swapped:
    """What a member does: ask again for the same revision until the engine answers."""
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(EngineError):
                return await keeper.swap(revision, wanted)
