"""A broker as a member of a cluster: puts the parts together, and takes them apart at the end.

join     open the store, learn who this member is, get the number of this run from the engine
keep     make what the server needs: keeper, replays, driver
start    listen for other members, take part, and wait until this member has caught up
stop     hand over or leave, or end together with all others, and close
"""

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from broker.addresses import EVERYWHERE, cannot_listen, is_loopback
from broker.cluster.awaited_numbers import AwaitedNumbers
from broker.cluster.cluster_plane import ClusterPlane
from broker.cluster.cluster_report import cluster_state
from broker.cluster.cluster_watch import ClusterWatch
from broker.cluster.direct_exchange import DirectExchange
from broker.cluster.driver import Driver
from broker.cluster.engine.engine_change import recovered_engine
from broker.cluster.engine.etcd import EtcdAccess, EtcdGateway, Fields
from broker.cluster.engine.etcd_keeper import EtcdKeeper
from broker.cluster.engine.etcd_requests import EtcdRequests, request_from
from broker.cluster.engine.view_keeper import EngineError, Presence
from broker.cluster.group_members import GroupMembers
from broker.cluster.group_shares import GroupShares
from broker.cluster.links.cluster_secret import read_secret
from broker.cluster.links.member_links import MemberLinks
from broker.cluster.links.member_tls import MemberTls
from broker.cluster.operator_service import OperatorService
from broker.cluster.row_plane import RowPlane
from broker.cluster.storage.committed_journal import CommittedJournal
from broker.cluster.storage.member_keeper import MemberKeeper
from broker.cluster.storage.membership import Membership, open_membership
from broker.cluster.storage.store_log import StoreLog
from broker.cluster.storage.watermark_keeper import WatermarkKeeper
from broker.cluster_side import MemberHost
from broker.cluster_state import ClusterState
from broker.dataplane.connection import Connection
from broker.dataplane.staged_rows import Staged
from broker.rehearsal import MEMBER_FLAGS
from broker.replay.replays import Replays
from broker.settings.settings import Settings
from broker.settings.staging_settings import STAGING
from broker.settings.tls_settings import BrokerTlsSettings
from broker.staging.stage_files import StageFiles
from broker.staging.staging_service import StagingService
from broker.storage.keeper import Keeper
from broker.storage.note_file import NoteFile, NoteWriter
from broker.storage.opening import open_journal, open_window
from broker.version import VERSION
from sequencer.journal.errors import StoreError
from sequencer.journal.replica_store import ReplicaStore
from sequencer.msgids import Window
from sequencer.replica.clock_difference import APART_S
from sequencer.replica.forward_table import ForwardTable
from sequencer.replica.member import Member
from sequencer.replica.member_messages import DirectHello, MemberRequest
from sequencer.replica.numbering import Numbering
from sequencer.replica.replica_settings import ReplicaSettings
from sequencer.sequencer import Sequencer
from sublist.sublist import Sublist

log = logging.getLogger("seriatim")

# Written and sent at once. Twice a single broker's batch: a message to each member costs more than
# the cache misses of a larger batch.
BATCH_BYTES: Final = 512 << 10
LEAVE_SECONDS: Final = 2.0  # how long a stop waits to hand over or leave
ANNOUNCE_SECONDS: Final = 1.0  # between two updates of this member's entry in the engine's list
MS: Final = 1000


class MemberBatches:
    """The batches of a member: requests go to the coordinator, which may be this member."""

    is_alone = False

    def __init__(self, member: Member, ask: Callable[[MemberRequest], None]) -> None:
        """`ask` passes a request to the core."""
        self._member = member
        self._ask = ask

    @property
    def committing(self) -> int:
        """The count of batches that this member is publishing, as the coordinator."""
        role = self._member.coordinator
        return len(role.batches.running) if role is not None else 0

    def carry_out(self, request: MemberRequest) -> None:
        """Pass a request to the core."""
        self._ask(request)

    async def stop(self) -> None:
        """Do nothing: another member carries out the promised commits."""


class ClusterMember:
    """The member that this broker is: all its parts. Made by `join`, before the server."""

    def __init__(
        self,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        store: ReplicaStore,
        memory: Membership,
        notes: NoteFile,
        views: EtcdKeeper,
        requests: EtcdRequests,
        run: int,
        is_registered: bool,
    ) -> None:
        self.settings = settings
        self.loop = loop
        self.journal = store
        self.memory = memory
        self.notes = NoteWriter(notes, loop, self._notes_synced, self._notes_failed)
        self.watermark = WatermarkKeeper(store, memory)
        self.views = views
        self.requests = requests
        self.run = run
        self.window: Window | None = open_window(settings, store)
        sequencer = Sequencer(batch_max=BATCH_BYTES)
        self.numbering = Numbering(ForwardTable(run, store.salt), sequencer, self.window)
        self.present: dict[str, Presence] = {}  # the engine's list, by id
        self.address = ""  # of this member, for the others
        self.http_port = 0  # of monitoring
        self.driver: Driver
        self.operator: OperatorService
        self.groups: GroupMembers
        self.staging: StagingService
        self.watch: ClusterWatch
        self._host: MemberHost
        self._is_registered = is_registered  # in the engine
        self._registering = asyncio.Lock()
        self.ends_stream = False  # all members stop, and this one sends the feeds
        self._plane: ClusterPlane
        self._jobs: list[asyncio.Task[None]] = []

    @classmethod
    async def join(cls, settings: Settings, loop: asyncio.AbstractEventLoop) -> "ClusterMember":
        """Open the store and identify this member. Raises `StoreError` and `OSError`."""
        chosen = settings.cluster
        store = open_journal(settings, member=True)
        assert isinstance(store, ReplicaStore), "the settings have checked that"
        try:
            damage = str(store.damage[-1]) if store.damage else ""
            memory, why = open_membership(store.path, chosen.name, settings.journal.sync, damage)
            if why:
                log.warning("Cluster: this is a new member, %s: %s", memory.member, why)
            notes = _open_notes(memory, settings.journal.sync)
        except BaseException:
            store.close()
            raise
        try:
            access = EtcdAccess(
                tuple(chosen.etcd),
                chosen.etcd_user,
                chosen.etcd_password_file,
                chosen.etcd_ca,
                chosen.etcd_cert,
                chosen.etcd_key,
            )
            engine = await recovered_engine(access, chosen.name, memory, store.id)
            gateway = EtcdGateway(access, engine)
            views = EtcdKeeper(gateway, chosen.name)
            requests = EtcdRequests(gateway, chosen.name)
            try:
                run, is_registered = await cls._next_run(views, memory, settings.journal.sync)
                parts = settings, loop, store, memory, notes, views, requests
                return cls(*parts, run, is_registered)
            except BaseException:
                await views.close()
                raise
        except BaseException:
            notes.close()
            store.close()
            raise

    async def give_up(self) -> None:
        """Close the connections to the engine, because the broker cannot start."""
        await self.notes.stop()
        await self.views.close()

    @staticmethod
    async def _next_run(views: EtcdKeeper, memory: Membership, sync: str) -> tuple[int, bool]:
        """Return the number of this process, and whether the engine has registered it.

        The number comes from the engine; without the engine, it is the one kept in reserve.
        """
        is_registered = False
        try:
            run = await views.next_run(memory.newest_run)
            if later := await _register(views, memory, run):
                why = outdated(later)
                memory.renew()
                memory.open(sync)
                log.warning("Cluster: this is a new member, %s: %s", memory.member, why)
                await _register(views, memory, run)
            is_registered = True
            memory.start_run(run)
            memory.put_reserve(await views.next_run(run))
            memory.learn_engine(views.engine_id)
        except EngineError as error:
            run = memory.take_reserve()
            if not run:
                raise StoreError(
                    f"{error}; this member needs etcd to start: there is no number in reserve"
                ) from error
            log.warning("Cluster: started without etcd: %s", error)
        return run, is_registered

    async def _is_known(self) -> bool:
        """Register a process that started without the engine. Raises `EngineError` if it is away.

        False: the store is an old copy. Until this is known, the core hears nothing from the
        engine, so it cannot take over.
        """
        async with self._registering:
            if not self._is_registered:
                run = await self.views.next_run(self.memory.newest_run)
                if later := await _register(self.views, self.memory, run):
                    self._begin_again(outdated(later))
                    return False
                self._is_registered = True
        return True

    @property
    def unanswered(self) -> int:
        """Publishes of this member's clients that wait for an answer."""
        return self.numbering.table.placed - self.numbering.table.settled

    def make_plane(self, sublist: Sublist, hold_pending: int) -> ClusterPlane:
        """Make the plane of this member."""
        self._plane = ClusterPlane(sublist, hold_pending)
        return self._plane

    def keep(self, host: MemberHost) -> tuple[Replays, Keeper]:
        """Make the keeper and the replays of committed messages, and the driver of all parts."""
        settings, plane, loop = self.settings, self._plane, self.loop
        chosen = settings.cluster
        committed = CommittedJournal(self.journal, plane.sequencer)
        replays = Replays(plane, committed, loop, settings.limits.answers_pending)
        journal = StoreLog(
            *(self.journal, self.memory, loop),
            readable=lambda: self.driver.readable(),
            salted=replays.replay_writer.know_salt,
        )
        rows = Staged(RowPlane(plane.sublist, self.numbering.sequencer))
        folder, durable = os.path.join(self.journal.path, STAGING), settings.journal.sync != "never"
        stages = StageFiles(folder, durable, settings, rows, host.claims, loop)
        keeper = MemberKeeper(
            *(plane.gate, journal, replays, settings.journal, loop, self.numbering),
            synced_to=lambda number: self.driver.synced(number),
            roomy=lambda: self.driver.flush_soon(),
            lost=self._may_have_lost,
            closed=self.memory.close,
        )
        member = Member(
            self.memory,
            journal,
            self.notes.notes,
            self.numbering,
            self.run,
            chosen.name,
            replica_settings(settings),
            loop.time() * MS,
            stages,
        )
        self.awaited = AwaitedNumbers(journal, plane.sequencer, loop)
        secret = read_secret(chosen.secret_file) if chosen.secret_file else b""
        links = MemberLinks(secret, chosen.name, self._address_of, loop, member_tls(settings))
        shares = GroupShares(member.id, member.note_state.weights)
        self.groups = GroupMembers(member.id, shares, member.takers, replays.lagging)
        batches = MemberBatches(member, lambda request: self.driver.event(member.ask, request))
        self.staging = StagingService(batches, plane, stages, settings.staging, host.claims.may_use)
        hello = DirectHello(chosen.name, member.id, self.run)
        direct = DirectExchange(plane, links, hello, loop, self._direct_members)
        self.driver = Driver(
            *(member, plane, journal, self.notes, self.views, links, host, loop, self.groups),
            *(self.staging, direct),
            delivered=self.awaited.delivered,
            ticked=lambda: self.watch.look(),
            is_known=self._is_known,
            lost=self._begin_again,
        )
        self.operator = OperatorService(self.driver, self.requests, host.quit)
        links.report_to(self.driver, direct.links)
        plane.join_direct(member.id, direct.ask)
        stages.join(
            member.note_state,
            synced=lambda: self.driver.event(member.stages_synced),
            wake=self.driver.flush_soon,
        )
        self._host = host
        self.watch = ClusterWatch(
            *(self.driver, host, self.client_addresses, self.name_of),
            chosen.stranded * MS,
        )
        plane.join(
            self.numbering,
            self.run,
            member.settings.forward_bytes,
            self.driver.flush_soon,
            shares,
            published=lambda: member.published,
            await_begin=self.groups.await_begin,
        )
        return replays, keeper

    async def start(self) -> None:
        """Take part, and return when this member has caught up. Raises `OSError`."""
        chosen = self.settings.cluster
        host = chosen.host or self.settings.host
        try:
            port = await self.driver.links.listen(host, max(chosen.port, 0))
        except OSError as error:
            raise cannot_listen(host, chosen.port, error, MEMBER_FLAGS, "members") from error
        told = chosen.advertise.rpartition(":")[0] if host in EVERYWHERE else host
        self.address = chosen.member_advertise or f"{told}:{port}"
        await self.staging.files.load()
        self.driver.member.know_committed(self.watermark.known)
        log.info("Cluster %s: member %s, run %d", chosen.name, self.memory.member, self.run)
        links = self.driver.links
        log.info("Listening for members on %s:%d%s", host, port, ", TLS" if links.tls else "")
        self._check_tls(links)
        self._announce()
        self.driver.start()
        for job in (
            self.views.watch(self.driver.learned, self._list_changed, self._requested),
            self.views.keep_announced(),
            self._keep_presence(),
            self.watermark.keep(self.driver.member),
        ):
            self._jobs.append(self.loop.create_task(job))
        if self.watermark.known:
            self.driver.serve_soon()
        await self.driver.serving.wait()
        log.info("Cluster %s: caught up at number %d", chosen.name, self.driver.committed)

    def _check_tls(self, links: MemberLinks) -> None:
        """Raise `TlsFault` if other members would refuse this one."""
        host = self._host_of(self.address)
        if links.tls is not None:
            links.tls.try_at(host)
        elif not is_loopback(host):
            log.warning(
                "Cluster: what members send to each other is not encrypted: give tls.cert_file and"
                " tls.ca_file, or keep the network between them private"
            )
        elif self.settings.tls.is_on and self.settings.cluster.tls == "auto":
            log.info("Cluster: members speak no TLS with each other without tls.ca_file")

    def reload_tls(self, tls: BrokerTlsSettings) -> None:
        """Read the certificates again, for new connections between members.

        Raises `TlsFault` and keeps the old ones if they are bad. TLS is not turned on or off.
        """
        used = self.driver.links.tls
        if used is not None:
            used.reload(tls, self._host_of(self.address))

    async def step_down(self) -> None:
        """Hand over or leave the view, if that is possible; this member goes on as a learner."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await self.driver.step_down()

    async def stop(self) -> None:
        """Hand over or leave, and stop taking part. The journal is closed after this."""
        if self.operator.stopping is not None:
            ending = self.loop.create_task(self.operator.settle(lambda: self.present))
            await asyncio.sleep(0)  # it sets the state that the list shows
            self._announce()
            await ending
            self.ends_stream = self.coordinates
        else:
            await self.step_down()
        await self.operator.stop()
        await self.driver.stop()
        self.awaited.stop()
        for job in self._jobs:
            job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        await self.staging.files.stop()
        await self.notes.stop()
        self.watermark.close(self.driver.member)
        await self.views.close()

    def _notes_synced(self) -> None:
        self.driver.event(self.driver.member.notes_synced)

    def _notes_failed(self, why: str) -> None:
        self.driver.event(self.driver.member.notes_failed, why)

    def _may_have_lost(self, error: OSError) -> None:
        """Begin again after a failed sync: unsynced data may be lost in memory, too (rule 12)."""
        if self.settings.journal.sync != "always":  # else it was not acknowledged
            self._begin_again(f"what was acknowledged may be lost: {error}")

    def _begin_again(self, why: str) -> None:
        """Stop; the next start is as a new member, which copies what it is missing from others."""
        try:
            self.memory.renew()
        except OSError:
            with suppress(OSError):  # it was done, or the folder is gone
                self.memory.delete_file()
        self.driver.give_up(f"{why}; start it again: it comes back as a new member")

    def await_number(self, number: int, action: Callable[[], None]) -> bool:
        """Run `action` when this number may be shown; False: it is not awaited."""
        return self.awaited.wait(number, action)

    @property
    def coordinates(self) -> bool:
        """True if this member coordinates, and so sends the feeds."""
        return self.driver.feeds.coordinates

    @property
    def stream(self) -> int:
        """The number of the feeds' stream, which only `cluster recover` changes."""
        view = self.driver.member.view
        return view.stream if view is not None else 0

    def facts(self) -> dict[str, object]:
        """Return the facts that `$SEQ.INFO` gives about the cluster."""
        member = self.driver.member
        view = member.view
        return {
            "cluster": self.settings.cluster.name,
            "member": self.memory.member,
            "role": member.role,
            "reign": view.epoch if view is not None else 0,
            "stream": view.stream if view is not None else 0,
            "coordinator": view.coordinator if view is not None else "",
            "members": list(view.members) if view is not None else [],
        }

    def state(self) -> ClusterState:
        """Return the state that monitoring shows."""
        return cluster_state(self.driver, self.watch, self.present)

    def client_addresses(self, others: bool = False) -> list[str]:
        """Return HOST:PORT of all members in sync, the coordinator last: it is the busiest.

        `others`: without this one.
        """
        view = self.driver.member.view
        coordinator = view.coordinator if view is not None else ""
        in_sync = view.members if view is not None else ()
        chosen = [one for one in in_sync if not (others and one == self.memory.member)]
        chosen.sort(key=lambda member: (member == coordinator, member))
        there = [self.present[member] for member in chosen if member in self.present]
        return [address for presence in there for address in presence.clients]

    def is_awaiting(self, connection: Connection) -> bool:
        """True if this client has published something that is not committed."""
        return connection.placed > self.numbering.table.settled

    def name_of(self, member: str) -> str:
        """Return a member's name for the log: its id, and the name that its operator chose."""
        presence = self.present.get(member)
        if presence is None or presence.name == member:
            return member
        return f"{member} ({presence.name})"

    def _requested(self, name: str, kept: Fields) -> None:
        request = request_from(name, kept)
        if request is not None:
            self.operator.asked(request)

    # The engine's list of members

    def _direct_members(self) -> list[str]:
        """Return the other members, if messages here may have no number."""
        if not self.settings.sequencer.exclude:
            return []
        own = self.memory.member
        return [member for member, one in self.present.items() if one.direct and member != own]

    def _address_of(self, member: str) -> tuple[str, int] | None:
        presence = self.present.get(member)
        address = presence.cluster if presence else self.memory.remembered.addresses.get(member)
        if not address:
            return None
        return self._host_of(address), int(address.rpartition(":")[2])

    @staticmethod
    def _host_of(address: str) -> str:
        return address.rpartition(":")[0].strip("[]")

    def _list_changed(self, present: dict[str, Presence]) -> None:
        self.present = present
        try:
            self.memory.learn_addresses({member: one.cluster for member, one in present.items()})
        except OSError as error:  # needed only for a start without the engine
            log.warning("Cluster: addresses of members cannot be written down: %s", error)
        own = present.get(self.memory.member)
        if own is not None:
            self.driver.event(self.driver.member.on_registered_run, own.run)

    def _announce(self) -> None:
        settings, member = self.settings, self.driver.member
        bound = self._host.addresses
        port = bound[0][1] if bound else max(settings.port, 0)
        address = settings.cluster.advertise or (f"{settings.host}:{port}" if port else "")
        clients = (address,) if address else ()
        http_host = settings.http_host or settings.host
        if http_host in EVERYWHERE:  # clients cannot connect to it
            http_host = settings.cluster.advertise.rpartition(":")[0]
        http = f"{http_host}:{self.http_port}"
        presence = Presence(
            settings.server_name or member.memory.member,
            self.run,
            self.address,
            clients,
            http if self.http_port else "",
            VERSION,
            member.settings.protocols,
            self.operator.state or member.role,
            self.journal.last,
            self._wrong_clocks(),
            direct=True,
        )
        self.views.announce(self.memory.member, presence)

    def _wrong_clocks(self) -> tuple[tuple[str, int], ...]:
        """Return the wrong clocks in whole seconds: fractions would change the list constantly."""
        role = self.driver.member.coordinator
        clocks = sorted(role.clocks.items()) if role is not None else ()
        return tuple((name, round(ahead)) for name, ahead in clocks if abs(ahead) > APART_S)

    async def _keep_presence(self) -> None:
        while True:
            self._announce()
            if self.driver.journal.has_hole:
                self._begin_again(f"the journal is damaged: {self.journal.damage[0]}")
            await asyncio.sleep(ANNOUNCE_SECONDS)


def _open_notes(memory: Membership, sync: str) -> NoteFile:
    """Open the member's second log; a member whose notes are damaged is another one (rule 12).

    Raises `OSError`, and `StoreError`.
    """
    notes = NoteFile(memory.folder)
    try:
        if notes.damage:
            memory.renew()
            memory.open(sync)
            why = f"what it has acknowledged is damaged: {notes.damage}"
            log.warning("Cluster: this is a new member, %s: %s", memory.member, why)
        if not notes.size:  # a member without room for notes must not start
            notes.sync()
    except BaseException:
        notes.close()
        raise
    return notes


async def _register(views: EtcdKeeper, memory: Membership, run: int) -> int:
    """Have the engine register `run` as the member's newest process.

    Return 0; or the number of a later process that this store does not know of.
    """
    while True:
        newest, revision = await views.newest_run(memory.member)
        if memory.is_outdated(newest):
            return newest
        memory.claim(run, newest)
        if await views.register_run(memory.member, run, revision):
            memory.note_registered(run)
            return 0


def outdated(later: int) -> str:
    """Explain why a store gets a new id when etcd knows a later process of its member."""
    return (
        f"this store was put back to an older state: process {later} has used it since, and may"
        " have acknowledged messages that are not in it"
    )


def member_tls(settings: Settings) -> MemberTls | None:
    """Return the TLS between members; None if it is off. Raises `TlsFault`."""
    use, tls = settings.cluster.tls, settings.tls
    if use == "off" or (use == "auto" and not (tls.cert_file and tls.ca_file)):
        return None
    return MemberTls(tls, use == "optional")


def replica_settings(settings: Settings) -> ReplicaSettings:
    """Return the core's settings, in milliseconds, bytes and counts."""
    chosen = settings.cluster
    return ReplicaSettings(
        sync=settings.journal.sync,
        slow=chosen.slow * MS,
        dead=chosen.dead * MS,
        patience=chosen.patience * MS,
        window_bytes=chosen.window_bytes,
        uncommitted_bytes=chosen.window_bytes,
        id_window=settings.journal.dedupe_window * MS,
    )
