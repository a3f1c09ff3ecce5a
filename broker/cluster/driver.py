"""Drives the core of replication: gives it events, carries out its actions, and delivers.

    sockets, timers, the engine, the disk --event--> Member --actions--> sockets, the engine
                                                        `-- Deliver --> ClusterPlane.deliver

Everything runs in the event loop's thread. An event only calls the core; `_flush` runs at the end
of the loop's turn, once for all of its events. So a thousand publishes of many clients become one
write to the journal, one message to each member, and one acknowledgement.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, assert_never

from broker.cluster.cluster_plane import ClusterPlane
from broker.cluster.direct_exchange import DirectExchange
from broker.cluster.engine.view_keeper import EngineError, FateUnknown, KeptView, ViewKeeper
from broker.cluster.feed_sender import FeedSender
from broker.cluster.group_members import GroupMembers
from broker.cluster.links.member_connection import MemberConnection
from broker.cluster.links.member_links import MemberLinks
from broker.cluster.storage.store_log import StoreLog
from broker.cluster_side import MemberHost
from broker.runtime.clocks import steady_ns
from broker.staging.staging_service import StagingService
from broker.storage.note_file import NoteWriter
from sequencer.replica import member_messages as m
from sequencer.replica.coordinator_role import CoordinatorRole
from sequencer.replica.member import Member
from sequencer.replica.view import BadView, View

log = logging.getLogger("seriatim")

TICK: Final = 0.025  # seconds; a quarter of the shortest pulse that makes sense
DELIVER_BYTES: Final = 640 << 10
MS: Final = 1000


class Driver:
    """The driver of one member's core, for its one thread."""

    def __init__(
        self,
        member: Member,
        plane: ClusterPlane,
        journal: StoreLog,
        notes: NoteWriter,
        views: ViewKeeper,
        links: MemberLinks,
        host: MemberHost,
        loop: asyncio.AbstractEventLoop,
        groups: GroupMembers,
        staging: StagingService,
        direct: DirectExchange,
        delivered: Callable[[], None] = lambda: None,
        ticked: Callable[[], None] = lambda: None,
        is_known: Callable[[], Awaitable[bool]] | None = None,
        lost: Callable[[str], None] | None = None,
    ) -> None:
        """`delivered` is called when more may be shown, `ticked` every `TICK`.

        `is_known` returns True if the engine knows this process; it raises `EngineError`. `lost` is
        called when acknowledged messages are lost: the member must come back with a new id.
        """
        self.member = member
        self.groups = groups
        self.feeds = FeedSender(plane.sequencer, host.stream_begun)
        self.plane = plane
        self.journal = journal
        self.notes = notes
        self.views = views
        self.links = links
        self.host = host
        self.loop = loop
        self.committed = member.watermark  # deliver up to this number
        self.serving = asyncio.Event()  # this member has caught up once: clients may connect
        self.staging = staging
        self.direct = direct
        self._delivered = delivered
        self._ticked = ticked
        self._is_known = is_known or _is_known
        self._lost = lost or self.give_up
        self.stopping = False
        self._unwritten = ""  # the logged reason why the view could not be written
        self.engine_has_lost = False  # the view, or all changes since an old one
        self._knows_no_cluster = False  # logged: the engine knows none either
        self._flushing = False
        self._delivering = False
        self._tick_timer: asyncio.TimerHandle | None = None
        self._jobs: set[asyncio.Task[None]] = set()
        self._role = ""  # the role that was logged
        self._reported: tuple[View | None, CoordinatorRole | None] = None, None
        self._begun_at = 0  # the log's end when this member began to coordinate
        self.swaps = dict.fromkeys(("done", "lost", "unknown", "failed"), 0)  # by result

    def start(self) -> None:
        """Begin to take part in the cluster."""
        self.committed = self.member.watermark
        self.plane.skip_to(self.committed)
        self._tick()

    def serve_soon(self) -> None:
        """Admit clients before this member has caught up, if that takes too long.

        They can replay what it knows to be committed. Nothing else could be shown anyway without a
        coordinator, or with too few members in sync. Their subscriptions begin after everything
        that is in the journal (rule 15).
        """
        self.loop.call_later(self.member.settings.patience / MS, self.serving.set)

    def give_up(self, why: str) -> None:
        """Stop the broker: this process must not be a member any longer."""
        if not self.stopping:
            self._stop(m.Stop(why))

    async def step_down(self) -> None:
        """Hand over if this member coordinates, and ask to be removed; return when that is done."""
        member = self.member
        while not self.stopping and (member.coordinator is not None or member.role == "follower"):
            self.event(member.leave)
            await asyncio.sleep(TICK)  # no event to await: the view may come from several sources

    async def stop(self) -> None:
        """Stop taking part: close the connections. Nothing is called after this."""
        self.stopping = True
        self.feeds.set_role(False)
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        self.links.stop()
        self.direct.links.stop()
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
        try:
            call(*arguments)
        except OSError as error:
            self._not_remembered(str(error))
        self.flush_soon()

    def _not_remembered(self, why: str) -> None:
        """Log that a view cannot be written. Its epoch is not learned, and comes again (rule 7)."""
        if why != self._unwritten:
            self._unwritten = why
            log.error("Cluster %s: the view cannot be written down: %s", self.member.cluster, why)

    def flush_soon(self) -> None:
        """Flush at the end of this turn of the loop."""
        if not self._flushing:
            self._flushing = True
            self.loop.call_soon(self._flush)

    def joined(self, connection: MemberConnection) -> None:
        if connection.member:
            self.event(self.member.dialled, connection.number, connection.member)

    def received(self, connection: MemberConnection, messages: Sequence[m.Message]) -> None:
        self.event(self._receive, connection.number, messages)

    def _receive(self, connection: int, messages: Sequence[m.Message]) -> None:
        for message in messages:
            self.member.receive(connection, message)

    def gone(self, connection: MemberConnection) -> None:
        self.event(self.member.disconnected, connection.number)

    def dial_failed(self, member: str, refused: bool) -> None:
        self.event(self.member.dial_failed, member, refused)

    def learned(self, kept: KeptView) -> None:
        """Pass a view that the engine has, or had, to the core."""
        if kept.view is not None:
            self.event(self.member.on_view, kept.revision, kept.view)
        self._look_at_engine(kept)

    def _look_at_engine(self, kept: KeptView) -> None:
        """Log once that the engine has lost the view, or has none, and that it has it again."""
        member = self.member
        if member.view is None and kept.view is None and not self._knows_no_cluster:
            self._knows_no_cluster = True
            log.warning(
                "Cluster %s: etcd knows no cluster of this name. This member waits until"
                " `seriatim cluster init` has made it; is cluster.name right?",
                member.cluster,
            )
        is_lost = member.view is not None and (kept.view is None or member.engine_is_older)
        if is_lost and not self.engine_has_lost:
            log.error(
                "Cluster %s: etcd has lost the view. This member goes on, but none can take over,"
                " join or leave. Give etcd its data back, or run `seriatim cluster recover`",
                member.cluster,
            )
        elif self.engine_has_lost and not is_lost:
            log.info("Cluster %s: etcd has the view again", member.cluster)
        self.engine_has_lost = is_lost

    def synced(self, number: int) -> None:
        self.event(self.member.synced, number)

    def readable(self) -> None:
        """Note that a thread has read records of the journal."""
        self.event(self.member.readable)
        self._deliver_soon()

    def _tick(self) -> None:
        self._tick_timer = self.loop.call_later(TICK, self._tick)
        self.event(self.member.tick)
        if not self.stopping:
            self.journal.keep_from = self.member.keep_after + 1
            self.plane.unavailable = self.member.refusing.encode()
            self.direct.tick()
            self._ticked()

    def _set_time(self) -> None:
        self.member.now = self.loop.time() * 1000
        self.member.wall = time.time_ns()
        self.member.steady = steady_ns()

    # Actions

    def _flush(self) -> None:
        """End a turn: let the core send what is due, and carry out all its actions."""
        self._flushing = False
        self.plane.flushing = False
        if self.stopping:
            return
        self.direct.flush()
        self._set_time()
        member = self.member
        member.delivered = max(self.plane.sequencer.number, self.journal.remembered)
        member.remembered = max(member.remembered, self.journal.remembered)
        member.flush()
        self.notes.write_soon()
        feeds, coordinates = self.feeds, member.coordinator is not None
        if feeds.coordinates != coordinates or feeds.view is not member.view:
            feeds.set_role(coordinates, member.view)
        while member.actions:
            for action in member.take_actions():
                self._carry_out(action)
        if self.plane.unavailable:  # only a tick turns this on
            self.plane.unavailable = member.refusing.encode()
        self.plane.is_full = member.is_full
        self.plane.turn_bytes = 0
        if self.committed > self.plane.sequencer.number:
            self._deliver()
        elif self.plane.is_waiting:
            self.plane.settle()
            self.plane.release(None)
        delivered = self.plane.sequencer.number
        if self.groups.advance(self.loop.time(), delivered, member.note_watermark):
            self.plane.release(None)
        if not self.serving.is_set() and self._has_caught_up():
            self.serving.set()
        if member.complaint or self._reported != (member.view, member.coordinator):
            self._report()

    def _has_caught_up(self) -> bool:
        """True once a new client would be sent only live messages, no backlog."""
        member = self.member
        if member.coordinator is not None:
            has = member.coordinator.is_begun and self.committed >= self._begun_at
        else:
            has = member.role == "follower" and member.follower.is_ready
        return has and self.groups.is_forgotten(self.loop.time())

    def _report(self) -> None:
        """Log what an operator must know, once for each change."""
        member = self.member
        self._reported = member.view, member.coordinator
        if member.role != self._role:
            self._role = member.role
            if member.coordinator is not None:
                self._begun_at = self.journal.last
            epoch = member.view.epoch if member.view is not None else 0
            log.info(
                "Cluster %s: this member is %s, epoch %d, at number %d",
                *(member.cluster, self._role, epoch, self.journal.last),
            )
        if complaint := member.take_complaint():
            log.warning("Cluster %s: %s", member.cluster, complaint)

    def _carry_out(self, action: m.Action) -> None:  # noqa: C901 - one case for each action
        match action:
            case m.Send(connection, message):
                self.links.send(connection, message)
            case m.Deliver(number):
                self.committed = number
            case m.Dial(member):
                self.links.dial(member)
            case m.Close(connection):
                self.links.close(connection)
            case m.ReadView():
                self._begin(self._read())
            case m.SwapView(revision, view):
                self._begin(self._swap(revision, view))
            case m.Begin():
                self._begun(action)
            case m.LogCut(number):
                self.plane.cut(number)
            case m.Missed():
                self._missed(action)
            case m.Abandon():
                self._abandon(action)
            case m.Done():
                self.staging.done(action)
                self.plane.release(None)
            case m.LostAcknowledged(why):
                self._lost(why)
            case m.Stop():
                self._stop(action)
            case _:
                assert_never(action)

    def _begun(self, action: m.Begin) -> None:
        self.plane.begin_waiting(action.number)
        if self.groups.begun():
            self.plane.release(None)

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
            if not await self._is_known():
                return
            kept = await self.views.read()
        except (EngineError, BadView) as error:
            log.debug("Cluster: the view cannot be read: %s", error)
        else:
            if kept.view is not None:
                self.event(self.member.engine_has, kept.revision, kept.view)

    async def _swap(self, revision: int, view: View) -> None:
        try:
            swapped = await self.views.swap(revision, view)
            self.swaps["done" if swapped.done else "lost"] += 1
            self.learned(swapped.now)
        except (EngineError, BadView) as error:
            self.swaps["unknown" if isinstance(error, FateUnknown) else "failed"] += 1
            log.warning("Cluster: the view may not have been changed: %s", error)

    # Delivery

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
            plane.skip_to(skipped)  # no client is here yet, and the ids are known
        while plane.sequencer.number < self.committed and not self.stopping:
            try:
                records = journal.read(plane.sequencer.number, DELIVER_BYTES)
            except OSError as error:
                self.give_up(f"number {plane.sequencer.number + 1} cannot be read: {error}")
                break
            if records is None:
                break  # a thread reads them; then this goes on
            plane.sequencer.tick(time.time_ns(), steady_ns())
            data = bytes(records.data)
            interrupted = plane.deliver(data, self.committed)
            self.feeds.send(data)
            plane.release(None)
            if interrupted:
                self._deliver_soon()
                break
        plane.settle()
        plane.release(None)
        self.staging.delivered()
        self._delivered()
        self.host.delivered()


async def _is_known() -> bool:
    return True
