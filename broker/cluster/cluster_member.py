"""A broker as a member of a cluster: puts the parts together, and takes them apart at the end.

join     open the store, learn who this member is, get the number of this run from the engine
keep     make what the server needs: keeper, replays, driver
start    listen for other members, take part, and wait until this member has caught up
stop     hand over or leave, and close
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from sequencer.replica.member import Member
from sequencer.replica.replica_settings import ReplicaSettings

from broker.cluster.cluster_plane import ClusterPlane
from broker.cluster.cluster_secret import read_secret
from broker.cluster.committed_journal import CommittedJournal
from broker.cluster.driver import ClientHost, Driver
from broker.cluster.etcd import EtcdAccess, EtcdGateway
from broker.cluster.etcd_keeper import EtcdKeeper
from broker.cluster.member_keeper import MemberKeeper
from broker.cluster.member_links import MemberLinks
from broker.cluster.membership import Membership, open_membership
from broker.cluster.note_file import NoteFile
from broker.cluster.store_log import StoreLog
from broker.cluster.view_keeper import EngineError, Presence
from broker.replay.replays import Replays
from broker.settings.settings import Settings
from broker.storage.keeper import Keeper
from broker.storage.opening import open_journal, open_window
from broker.version import VERSION
from sequencer.journal.errors import StoreError
from sequencer.journal.replica_store import ReplicaStore
from sequencer.msgids import Window
from sequencer.replica.forward_table import ForwardTable
from sequencer.replica.numbering import Numbering
from sequencer.sequencer import Sequencer
from sublist.sublist import Sublist

log = logging.getLogger("seriatim")

LEAVE_SECONDS: Final = 2.0  # how long a stop waits for the view
ANNOUNCE_SECONDS: Final = 1.0  # between two looks at what the engine's list should say
MS: Final = 1000


class ClusterMember:
    """Made by `join`, before the server."""

    def __init__(
        self,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        store: ReplicaStore,
        memory: Membership,
        views: EtcdKeeper,
        run: int,
    ) -> None:
        self.settings = settings
        self.loop = loop
        self.journal = store
        self.memory = memory
        self.views = views
        self.run = run
        self.window: Window | None = open_window(settings, store)
        self.numbering = Numbering(ForwardTable(run, store.salt), Sequencer(), self.window)
        self.present: dict[str, Presence] = {}  # who is there, by the engine's list
        self.address = ""  # of this member, for the others
        self.driver: Driver
        self._plane: ClusterPlane
        self._jobs: list[asyncio.Task[None]] = []

    @classmethod
    async def join(cls, settings: Settings, loop: asyncio.AbstractEventLoop) -> "ClusterMember":
        """Open the store and find out who this is. Raises `StoreError` and `OSError`."""
        chosen = settings.cluster
        store = open_journal(settings, member=True)
        assert isinstance(store, ReplicaStore), "the settings have checked that"
        try:
            damage = str(store.damage[-1]) if store.damage else ""
            memory, why = open_membership(store.path, chosen.name, settings.journal.sync, damage)
            if why:
                log.warning("Cluster: this is a new member, %s: %s", memory.member, why)
            access = EtcdAccess(
                tuple(chosen.etcd),
                chosen.etcd_user,
                chosen.etcd_password_file,
                chosen.etcd_ca,
                chosen.etcd_cert,
                chosen.etcd_key,
            )
            gateway = EtcdGateway(access, memory.remembered.engine)
            views = EtcdKeeper(gateway, chosen.name)
            run = await cls._next_run(views, memory)
        except BaseException:
            store.close()
            raise
        return cls(settings, loop, store, memory, views, run)

    @staticmethod
    async def _next_run(views: EtcdKeeper, memory: Membership) -> int:
        """The number of this process: from the engine, or the one kept in reserve."""
        try:
            run = await views.next_run(memory.newest_run)
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
        return run

    @property
    def unanswered(self) -> int:
        """Publishes of this member's clients that wait for an answer."""
        return self.numbering.table.placed - self.numbering.table.settled

    def make_plane(self, sublist: Sublist, hold_pending: int) -> ClusterPlane:
        """The plane of a member."""
        self._plane = ClusterPlane(sublist, hold_pending)
        return self._plane

    def keep(self, host: ClientHost) -> tuple[Replays, Keeper]:
        """Make what keeps and replays what is committed, and what drives it all."""
        settings, plane, loop = self.settings, self._plane, self.loop
        chosen = settings.cluster
        journal = StoreLog(self.journal, self.memory, loop)
        committed = CommittedJournal(self.journal, plane.sequencer)
        replays = Replays(plane, committed, loop, settings.limits.answers_pending)
        journal.salted = replays.replay_writer.know_salt
        keeper = MemberKeeper(plane.gate, journal, replays, settings.journal, loop, self.numbering)
        member = Member(
            self.memory,
            journal,
            NoteFile(self.memory.folder),
            self.numbering,
            self.run,
            chosen.name,
            replica_settings(settings),
            loop.time() * MS,
        )
        secret = read_secret(chosen.secret_file) if chosen.secret_file else b""
        links = MemberLinks(secret, chosen.name, self._address_of, loop)
        self.driver = Driver(member, plane, journal, self.views, links, host, loop)
        links.owner = self.driver
        keeper.synced_to = self.driver.synced
        keeper.roomy = self.driver.flush_soon
        plane.join(self.numbering, self.run, chosen.forward_bytes, self.driver.flush_soon)
        plane.gate.catchup_pending = settings.limits.catchup_pending
        return replays, keeper

    async def start(self) -> None:
        """Take part, and return when this member has caught up. Raises `OSError`."""
        chosen = self.settings.cluster
        host = chosen.host or self.settings.host
        port = await self.driver.links.listen(host, max(chosen.port, 0))
        self.address = chosen.member_advertise or f"{host}:{port}"
        log.info("Cluster %s: member %s, run %d", chosen.name, self.memory.member, self.run)
        log.info("Listening for members on %s:%d", host, port)
        self._announce()
        self.driver.start()
        for job in (
            self.views.watch(self.driver.learned, self._list_changed),
            self.views.keep_announced(),
            self._keep_presence(),
        ):
            self._jobs.append(self.loop.create_task(job))
        await self.driver.serving.wait()
        log.info("Cluster %s: caught up at number %d", chosen.name, self.driver.committed)

    async def stop(self) -> None:
        """Hand over or leave, and take part no more."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.driver.leave(), LEAVE_SECONDS)
        await self.driver.stop()
        for job in self._jobs:
            job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)
        await self.views.close()
        self.memory.close()

    def facts(self) -> dict[str, object]:
        """What `$SEQ.INFO` says of the cluster."""
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

    def client_addresses(self) -> list[str]:
        """HOST:PORT of all members that are there, the coordinator last: it has most to do."""
        view = self.driver.member.view
        coordinator = view.coordinator if view is not None else ""
        ordered = sorted(self.present, key=lambda member: (member == coordinator, member))
        return [address for member in ordered for address in self.present[member].clients]

    # The engine's list of members

    def _address_of(self, member: str) -> tuple[str, int] | None:
        presence = self.present.get(member)
        address = presence.cluster if presence else self.memory.remembered.addresses.get(member)
        if not address:
            return None
        host, _, port = address.rpartition(":")
        return host.strip("[]"), int(port)

    def _list_changed(self, present: dict[str, Presence]) -> None:
        self.present = present
        self.memory.learn_addresses({member: one.cluster for member, one in present.items()})

    def _announce(self) -> None:
        settings, member = self.settings, self.driver.member
        clients = (settings.cluster.advertise or f"{settings.host}:{settings.port}",)
        http = f"{settings.http_host or settings.host}:{settings.http_port}"
        presence = Presence(
            settings.server_name or member.memory.member,
            self.run,
            self.address,
            clients,
            http if settings.http_port else "",
            VERSION,
            member.settings.protocols,
            member.role,
            self.journal.last,
        )
        self.views.announce(self.memory.member, presence)

    async def _keep_presence(self) -> None:
        while True:
            self._announce()
            await asyncio.sleep(ANNOUNCE_SECONDS)


def replica_settings(settings: Settings) -> ReplicaSettings:
    """The core's settings: milliseconds, bytes and counts."""
    chosen = settings.cluster
    return ReplicaSettings(
        sync=settings.journal.sync,
        pulse=chosen.pulse * MS,
        slow=chosen.slow * MS,
        dead=chosen.dead * MS,
        rank=chosen.rank * MS,
        patience=chosen.patience * MS,
        window_bytes=chosen.window_bytes,
        near_bytes=chosen.near_bytes,
        forward_bytes=chosen.forward_bytes,
        uncommitted_bytes=chosen.forward_bytes,
        id_window=settings.journal.dedupe_window * MS,
    )
