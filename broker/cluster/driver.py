"""Drives the core of replication: gives it events, carries out its actions, and delivers.

    sockets, timers, the engine, the disk --event--> Member --actions--> sockets, the engine
                                                        `-- Deliver --> ClusterPlane.deliver

Everything runs in the event loop's thread. An event only calls the core; `_flush` comes at the end
of the loop's turn, once for all of its events. So a thousand publishes of many clients are one
write to the journal, one message to each member, and one acknowledgement.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Protocol

from sequencer.replica.member import Member

from broker.cluster.cluster_plane import ClusterPlane
from broker.cluster.member_connection import MemberConnection
from broker.cluster.member_links import MemberLinks
from broker.cluster.store_log import StoreLog
from broker.cluster.view_keeper import EngineError, KeptView, ViewKeeper
from sequencer.replica import member_messages as m
from sequencer.replica.view import BadView, View

log = logging.getLogger("seriatim")

TICK: Final = 0.025  # seconds; a quarter of the shortest pulse that makes sense
DELIVER_BYTES: Final = 1 << 18


class ClientHost(Protocol):
    """What the driver needs of the broker's clients."""

    def abandon(self, origin: int) -> None:
        """Close the connection of a publisher: what became of its messages is unknown."""

    def delivered(self) -> None:
        """More messages were delivered: serve those that wait for them."""

    def fatal(self, why: str) -> None:
        """Stop the broker."""


class Driver:
    """One per member, for its one thread."""

    def __init__(
        self,
        member: Member,
        plane: ClusterPlane,
        journal: StoreLog,
        views: ViewKeeper,
        links: MemberLinks,
        host: ClientHost,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.member = member
        self.plane = plane
        self.journal = journal
        self.views = views
        self.links = links
        self.host = host
        self.loop = loop
        self.committed = member.watermark  # to be delivered up to here
        self.serving = asyncio.Event()  # this member has caught up once: clients may come
        self.stopping = False
        self._flushing = False
        self._delivering = False
        self._tick_timer: asyncio.TimerHandle | None = None
        self._jobs: set[asyncio.Task[None]] = set()
        self._role = ""  # what the log has reported
        self._begun_at = 0  # the log's end when this member began to coordinate
        self._actions: dict[type, Callable[[Any], None]] = {
            m.Send: self._send,
            m.Dial: lambda action: self.links.dial(action.member),
            m.Close: lambda action: self.links.close(action.connection),
            m.ReadView: lambda action: self._begin(self._read()),
            m.SwapView: lambda action: self._begin(self._swap(action.revision, action.view)),
            m.Deliver: self._deliver_to,
            m.Missed: self._missed,
            m.Abandon: self._abandon,
            m.Stop: self._stop,
        }
        journal.readable = self._readable

    def start(self) -> None:
        """Begin to take part in the cluster."""
        self.plane.skip_to(self.member.watermark)
        self._tick()

    async def leave(self) -> None:
        """Hand over if this member coordinates, and ask to be removed; return when that is done."""
        member = self.member
        while not self.stopping and (member.reign is not None or member.role == "follower"):
            self.event(member.leave)
            await asyncio.sleep(TICK)  # no event to await: the view comes by one of many ways

    async def stop(self) -> None:
        """Take part no more. The connections are closed, and nothing is called after this."""
        self.stopping = True
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        self.links.stop()
        for job in list(self._jobs):
            job.cancel()
            with suppress(asyncio.CancelledError):
                await job

    # Events

    def event(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call the core, and flush at the end of this turn."""
        if self.stopping:
            return
        self._set_time()
        call(*arguments)
        self.flush_soon()

    def flush_soon(self) -> None:
        """Flush at the end of this turn of the loop."""
        if not self._flushing:
            self._flushing = True
            self.loop.call_soon(self._flush)

    def joined(self, connection: MemberConnection) -> None:
        if connection.member:
            self.event(self.member.dialled, connection.number, connection.member)

    def received(self, connection: MemberConnection, messages: list[Any]) -> None:
        for message in messages:
            self.event(self.member.receive, connection.number, message)

    def gone(self, connection: MemberConnection) -> None:
        self.event(self.member.disconnected, connection.number)

    def dial_failed(self, member: str, refused: bool) -> None:
        self.event(self.member.dial_failed, member, refused)

    def learned(self, kept: KeptView) -> None:
        """The engine has, or had, this view."""
        if kept.view is not None:
            self.event(self.member.learned, kept.revision, kept.view)

    def synced(self, number: int) -> None:
        self.event(self.member.synced, number)

    def _readable(self) -> None:
        self.event(self.member.readable)
        self._deliver_soon()

    def _tick(self) -> None:
        self._tick_timer = self.loop.call_later(TICK, self._tick)
        self.event(self.member.tick)

    def _set_time(self) -> None:
        self.member.now = self.loop.time() * 1000
        self.member.wall = time.time_ns()

    # Actions

    def _flush(self) -> None:
        """End of a turn: let the core send what is due, and carry out all its actions."""
        self._flushing = False
        self.plane.flushing = False
        if self.stopping:
            return
        self._set_time()
        member = self.member
        member.delivered = max(self.plane.sequencer.number, self.journal.remembered)
        member.flush()
        while member.actions:
            actions, member.actions = member.actions, []
            for action in actions:
                self._actions[type(action)](action)
        self.plane.unavailable = member.refusing.encode()
        self.journal.keep_from = member.keep_after + 1
        if self.committed > self.plane.sequencer.number:
            self._deliver()
        elif self.plane.is_waiting:
            self.plane.settle()
            self.plane.release(None)
        if not self.serving.is_set() and self._has_caught_up():
            self.serving.set()
        self._report()

    def _has_caught_up(self) -> bool:
        """Whether clients that come now see what is new, and nothing old as if it were."""
        member = self.member
        if member.reign is not None:
            return member.reign.is_begun and self.committed >= self._begun_at
        return member.role == "follower" and member.follower.is_ready

    def _report(self) -> None:
        """Log what an operator must know, once for each change."""
        member = self.member
        if member.role != self._role:
            self._role = member.role
            if member.reign is not None:
                self._begun_at = self.journal.last
            epoch = member.view.epoch if member.view is not None else 0
            log.info(
                "Cluster %s: this member is %s, epoch %d, at number %d",
                *(member.cluster, self._role, epoch, self.journal.last),
            )
        if member.complaint:
            log.warning("Cluster %s: %s", member.cluster, member.complaint)
            member.complaint = ""

    def _send(self, action: m.Send) -> None:
        self.links.send(action.connection, action.message)

    def _missed(self, action: m.Missed) -> None:
        log.error(
            "Cluster: numbers %d to %d were deleted everywhere before they came here",
            *(action.first, action.last),
        )
        self._deliver()
        self.plane.skip_to(action.last)
        self.committed = max(self.committed, action.last)

    def _abandon(self, action: m.Abandon) -> None:
        for origin in action.origins:
            self.host.abandon(origin)

    def _stop(self, action: m.Stop) -> None:
        log.critical("Cluster: %s", action.why)
        self.stopping = True
        self.host.fatal(action.why)

    # The engine

    def _begin(self, job: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(job)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    async def _read(self) -> None:
        try:
            self.learned(await self.views.read())
        except (EngineError, BadView) as error:
            log.debug("Cluster: the view cannot be read: %s", error)

    async def _swap(self, revision: int, view: View) -> None:
        try:
            self.learned((await self.views.swap(revision, view)).now)
        except (EngineError, BadView) as error:
            log.warning("Cluster: the view may not have been changed: %s", error)

    # Delivery

    def _deliver_to(self, action: m.Deliver) -> None:
        self.committed = action.number

    def _deliver_soon(self) -> None:
        if not self._delivering:
            self._delivering = True
            self.loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        """Fan out what is committed, as much as one turn may take."""
        self._delivering = False
        plane, journal = self.plane, self.journal
        skipped = min(self.committed, journal.remembered)
        if not self.serving.is_set() and plane.sequencer.number < skipped:
            plane.skip_to(skipped)  # nobody is here yet, and the ids are known
        while plane.sequencer.number < self.committed and not self.stopping:
            records = journal.read(plane.sequencer.number, DELIVER_BYTES)
            if records is None:
                break  # a thread reads them; then this goes on
            plane.sequencer.tick(time.time_ns())
            interrupted = plane.deliver(bytes(records.data), self.committed)
            plane.release(None)
            if interrupted:
                self._deliver_soon()
                break
        plane.settle()
        plane.release(None)
        self.host.delivered()
