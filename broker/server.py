"""The broker as a whole: its listeners, its sessions, and how it starts and stops."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.addresses import shown
from broker.auth.application_claims import ApplicationClaims
from broker.clients.acceptor import Acceptor
from broker.clients.admission import Admission
from broker.clients.changing_limits import set_limits
from broker.clients.control import Control
from broker.clients.gatherer import Gatherer
from broker.clients.heartbeat import Heartbeat
from broker.clients.inbox import RECEIVE_BYTES, Inbox
from broker.clients.info_push import InfoPush
from broker.clients.lame_duck import LameDuck
from broker.clients.listening import Listening
from broker.clients.message_counts import Traffic
from broker.clients.metering import Metering
from broker.clients.request_handler import RequestHandler, Stager
from broker.clients.session import Session
from broker.cluster_side import ClusterSide, StagingSide
from broker.core import Core
from broker.dataplane.kinds import Classifier
from broker.dataplane.ownership import connection_of
from broker.dataplane.plane import Plane
from broker.dataplane.user import User
from broker.info_line import info_line
from broker.limits.connection_slots import ConnectionSlots
from broker.replay.replays import Replays
from broker.runtime.trimming import Trimmer
from broker.settings.limits_settings import CONTROL_LINE_MAX
from broker.settings.settings import Settings
from broker.settings.staging_settings import STAGING
from broker.storage.keeper import Keeper
from broker.storage.opening import open_journal, open_window
from broker.wires.closed_connections import KEPT, ClosedConnections
from broker.wires.disconnect_log import OUTCOME_UNKNOWN, DisconnectLog
from parser import errors
from sequencer.journal.ring import Ring
from sequencer.journal.store import Store
from sequencer.sequencer import Sequencer
from sublist.sublist import Sublist
from sublist.subscription import Subscription

if TYPE_CHECKING:
    from broker.wires.trusted_proxies import TrustedProxies

log = logging.getLogger("seriatim")

ID_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"  # base32, as in nats-server's ids
LISTED_MAX = 1000  # clients: that many lines take some 20 ms
# Nodes of the tree of wildcard subscriptions that one message may visit: 5 ms, in which no other
# client is served. Usual patterns stay far below a hundred, however many there are. With all
# combinations of `a` and `*`, each token doubles the number.
MATCH_NODES_MAX = 8192
DRAIN_POLL = 0.005  # seconds; the kernel sends no event when a client has acknowledged its data


class Server:
    """The broker, made and used within one event loop, by its one thread."""

    def __init__(self, settings: Settings, cluster: ClusterSide | None = None) -> None:
        self.settings = settings
        self.cluster = cluster
        self.loop = asyncio.get_running_loop()
        self.server_id = "N" + "".join(ID_ALPHABET[byte % 32] for byte in os.urandom(55))
        self.name = settings.server_name or self.server_id
        self.started_at = time.time()
        # Tells our publishers from those of earlier processes.
        self._run = cluster.run if cluster else int.from_bytes(os.urandom(4), "big")
        self.sessions: dict[int, Session] = {}
        self.total_connections = 0
        self._cids = 0  # cids given so far, to clients of every kind
        self.slow_consumers = self.stale_connections = 0
        self.config_loaded_at = self.started_at
        self.closed = ClosedConnections(KEPT if settings.http_port or settings.https_port else 0)
        self.failed = ""  # why it stops by itself
        limits = settings.limits
        exclude = [pattern.encode() for pattern in settings.sequencer.exclude]
        classifier = Classifier(exclude, limits.max_subject_tokens)
        self.plane = _make_plane(settings, cluster, classifier)
        self.control = Control(self.plane, limits.max_subscriptions, limits.max_matches)
        self.control.classifier = classifier
        self.control.has_headers = not settings.no_header_support
        self.control.sessions = self.sessions
        self.control.reaper.later = self.loop.call_soon
        self.plane.attach(self.control)
        self.feeds = None
        if settings.feeds:
            from broker.feeds.feeds import Feeds  # a megabyte that other brokers need not load

            self.feeds = Feeds(settings, self.plane.sequencer, self.loop)
        self.journal = cluster.journal if cluster else open_journal(settings)
        self.window = cluster.window if cluster else open_window(settings, self.journal)
        self.replays: Replays | None = None
        self.keeper: Keeper | None = None
        self.claims = ApplicationClaims()
        self._keep_all(cluster)
        self.core = Core(
            *(settings, self.loop, self.plane, self.journal, self.replays, self.keeper),
            self.claims,
            cluster.facts if cluster is not None else None,
            cluster.await_number if cluster is not None else None,
        )
        self.control.request_handler = RequestHandler(self.core, self.open_staging)
        self.acceptor = Acceptor(self.loop)
        self.listening = Listening(self.core, self, self.acceptor)
        self.places = ConnectionSlots(limits.max_connections, limits.max_connections_per_address)
        self.proxies = proxies_of(settings)
        if self.proxies is not None:
            self.places.is_proxy = self.proxies.trusts
        self.metering = Metering(self.plane, self.loop)
        set_limits(self, limits)
        self.inbox = Inbox(RECEIVE_BYTES, CONTROL_LINE_MAX)
        self.gatherer = Gatherer(self.core, self.inbox)
        self.heartbeat = Heartbeat(self.loop)
        self._trimmer = Trimmer(self.loop)
        self.closings = DisconnectLog(self.loop, limits.closings_logged)
        self.admission = Admission(self.core)
        self.control.admission = self.admission
        self.info_push = InfoPush(self.loop, self.plane, self.sessions)
        self.lame_duck = self._make_lame_duck()
        self.cquencer = None
        if settings.sequencer.port:
            from broker.cquencer.cquencer_service import Cquencer  # only if needed

            subject = settings.sequencer.subject.encode()
            fitting = self.feeds.fitting(subject) if self.feeds is not None else None
            self.cquencer = Cquencer(self.core, self, self.inbox.buffer, fitting)
        self.staging: StagingSide | None = cluster.staging if cluster is not None else None
        if self.staging is None and self._has_staging():
            self.open_staging()
        self._closed_traffic = Traffic(0, 0, 0, 0)

    def renew_tls(self, settings: Settings) -> None:
        """Read the files of TLS again; the clients stay. Raises `OSError`, and changes nothing."""
        self.listening.renew_tls(settings.tls)

    def _make_lame_duck(self) -> LameDuck:
        limits, cluster = self.settings.limits, self.cluster
        return LameDuck(
            *(self.loop, self.sessions, self.info_push),
            *(limits.lame_duck, limits.lame_duck_grace, limits.drain_timeout),
            cluster.is_awaiting if cluster is not None else lambda connection: False,
        )

    def _has_staging(self) -> bool:
        """True if an earlier process has left batches in the store."""
        journal = self.journal
        return isinstance(journal, Store) and os.path.isdir(os.path.join(journal.path, STAGING))

    def open_staging(self) -> Stager:
        """Return the staging service; made at the first request. Raises `OSError`."""
        from broker.staging.local_batches import LocalBatches  # only if needed

        if self.staging is None:
            self.staging = LocalBatches(self.core).service
        return self.staging

    def _keep_all(self, cluster: ClusterSide | None) -> None:
        """Keep what is numbered, here or in the cluster, if it is to be kept."""
        if cluster is not None:
            self._take_part(cluster)
            return
        if self.journal is not None:
            self._keep(self.journal)
        if self.window is not None:
            self.plane.know_ids(self.window)

    def _take_part(self, cluster: ClusterSide) -> None:
        """Serve what the cluster has committed."""
        self.replays, self.keeper = cluster.keep(self)
        self.control.groups = cluster.groups
        if self.feeds is not None:
            self.feeds.speaks = lambda: cluster.coordinates
            self.feeds.attach(self.replays.journal)
        self.control.replays, self.control.keeper = self.replays, self.keeper

    def _keep(self, journal: Store | Ring) -> None:
        """Keep everything that is numbered: in the journal, the feeds and the replays."""
        plane, settings = self.plane, self.settings
        if self.feeds is not None:
            self.feeds.attach(journal)
        self.replays = self.control.replays = Replays(
            plane, journal, self.loop, settings.limits.answers_pending
        )
        if isinstance(journal, Ring):
            journal.let_go = self.replays.let_go_of_memory
            plane.sequencer.keep(journal, False, lambda error: None)
            return
        self.keeper = self.control.keeper = Keeper(
            plane.gate, journal, self.replays, settings.journal, self.loop
        )
        plane.sequencer.keep(journal, settings.journal.sync == "always", self.keeper.trouble)
        plane.gate.catchup_pending = settings.limits.catchup_pending

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses that clients connect to, those of NATS first."""
        return self.listening.addresses

    # Start and stop

    async def start(self) -> None:
        """Listen on all addresses. Raises `OSError` with the address if one of them fails."""
        self._trimmer.start()
        if self.keeper is not None:
            self.keeper.start()
        if self.cluster is not None:
            await self.cluster.start()
            if self.feeds is not None:
                self.feeds.identify(self.cluster.journal.id, self.cluster.stream)
        if self.feeds is not None:
            await self.feeds.start()
        self.listening.start()
        if self.cquencer is not None:
            self.cquencer.start()
        log.info("Server id is %s", self.server_id)
        log.info("Server is ready")

    async def retire(self) -> None:
        """Be a lame duck: accept no client, hand over, close the clients one after the other."""
        seconds = self.settings.limits.lame_duck
        self.acceptor.close()
        log.info("Entering lame duck mode: closing clients within %g s", seconds)
        self.lame_duck.announce()
        if self.cluster is not None:
            await self.cluster.step_down()
        await self.lame_duck.close_all()

    async def stop(self) -> None:
        """Take in nothing more, deliver what was accepted, close; bounded by `drain_timeout`."""
        self.acceptor.close()
        self.heartbeat.stop()
        self._trimmer.stop()
        self.info_push.stop()
        self.lame_duck.stop()
        self.closings.stop()
        self.admission.stop()
        if self.staging is not None:
            await self.staging.stop()
        for session in self.sessions.values():
            session.start_draining()
        if self.cquencer is not None:
            self.cquencer.start_draining()
        deadline = self.loop.time() + self.settings.limits.drain_timeout
        while late := self._undrained():
            if self.loop.time() >= deadline:
                log.warning("%d clients did not receive all their messages in time", late)
                break
            await asyncio.sleep(DRAIN_POLL)
        for session in list(self.sessions.values()):
            session.close()
        if self.cquencer is not None:
            self.cquencer.close()
        await asyncio.sleep(0)  # the transports report the end to their sessions
        self.gatherer.close()
        if self.cluster is not None:
            await self.cluster.stop()
            if self.feeds is not None:
                self.feeds.ends = self.cluster.ends_stream
        if self.feeds is not None:
            await self.feeds.stop(deadline)
        if self.keeper is not None:
            await self.keeper.stop()

    def _undrained(self) -> int:
        """Return how many clients have not acknowledged everything that is meant for them."""
        late = sum(not session.is_drained() for session in self.sessions.values())
        late += self.cluster.unanswered if self.cluster is not None else 0
        return late + (self.cquencer.undrained() if self.cquencer is not None else 0)

    # Sessions

    def admit(self, session: Session) -> bool:
        """Give a new session its cid, and admit it if there is room."""
        self.total_connections += 1
        session.cid, session.connection.origin = self.new_client()
        if not self.reserve_slot(session.ip, session.label):
            return False
        self.sessions[session.cid] = session
        return True

    def relocate(self, session: Session, forwarded: Sequence[str]) -> bool:
        """Count a proxy's client at its own address; return whether there is room."""
        ip = session.ip if self.proxies is None else self.proxies.client(session.ip, forwarded)
        if ip == session.ip:
            return True
        self.places.release(session.ip)
        session.ip = ip
        log.debug("%s - is the client of a proxy", session.label)
        if self.reserve_slot(ip, session.label):
            return True
        del self.sessions[session.cid]
        return False

    def new_client(self) -> tuple[int, int]:
        """Return a new client's cid, and its origin in the journal's records."""
        self._cids += 1
        return self._cids, self._run << 32 | (self._cids & 0xFFFFFFFF)

    def may_ask_port(self) -> bool:
        """True if the user of the cquencer port's clients may publish to their subject."""
        return self.admission.may_ask_port(self.settings)

    def reserve_slot(self, ip: str, label: str) -> bool:
        """Count a client, until `release_slot`; log it and return False if there is no room."""
        why = self.places.enter(ip)
        if why:
            self.closings.tell(logging.WARNING, ip, "%s - %s", label, why)
        return not why

    @property
    def port_user(self) -> User | None:
        """The user that clients of the cquencer port act as, if there are users."""
        return self.admission.port_user(self.settings)

    def release_slot(self, ip: str) -> None:
        """Stop counting a client that has gone."""
        self.places.release(ip)
        self.acceptor.freed()

    def session_ended(self, session: Session) -> None:
        """Forget a session that has ended; its counts stay."""
        self.heartbeat.remove(session)
        self.closed.add(session, time.time())
        self.stale_connections += session.closed_for == errors.StaleConnection.reason
        if self.sessions.pop(session.cid, None) is None:
            self.acceptor.freed()  # it was refused
        else:
            self.release_slot(session.ip)
            self._closed_traffic = self._closed_traffic.plus(session.connection)

    def info(self, session: Session, greeting: bool = False) -> bytes:
        """Return the INFO line for one client."""
        return info_line(self, session, greeting)

    def list_clients(self) -> None:
        """Log a line for each client, as cquencer does: its address, and when it connected."""
        clients = [(one.ip, one.port, one.started_at) for one in self.sessions.values()]
        if self.cquencer is not None:
            port = self.cquencer.clients.values()
            clients[:0] = [(one.ip, one.port, one.started_at) for one in port]
        log.info("%d clients are connected", len(clients))
        for ip, own_port, started_at in clients[:LISTED_MAX]:
            log.info("%s %d", shown(ip, own_port), started_at)
        if len(clients) > LISTED_MAX:
            log.info("and %d more; /portz and /connz list all", len(clients) - LISTED_MAX)

    # For a cluster

    def abandon(self, origin: int) -> None:
        """Close the connection of a publisher: the outcome of its messages is unknown."""
        session = self.sessions.get(origin & 0xFFFFFFFF)
        if self.cquencer is not None:
            self.cquencer.abandon(origin & 0xFFFFFFFF)
        if session is not None:
            log.warning("%s - closing: the outcome of its last messages is unknown", session.label)
            session.close(OUTCOME_UNKNOWN)

    def delivered(self) -> None:
        """Serve those that wait for messages: more were delivered."""
        self.core.advance()

    def stream_begun(self, stream: int) -> None:
        """Switch the feeds to this stream, which the cluster has begun."""
        if self.feeds is not None and self.cluster is not None:
            self.feeds.begin_stream(self.cluster.journal.id, stream)

    def addresses_changed(self) -> None:
        """Tell clients that understand it that other members serve clients now."""
        self.info_push.changed()

    def send_away(self, why: str) -> None:
        """Ask all clients to connect to another member, and close them in turn."""
        assert self.cluster is not None, "only a member knows of others"
        if self.cluster.client_addresses(others=True) and self.lame_duck.send_away():
            log.warning("Lame duck mode: %s: clients are sent to other members", why)

    def welcome_back(self) -> None:
        """Serve the clients of this member again."""
        if self.lame_duck.call_back():
            log.info("Leaving lame duck mode: contact with the other members is restored")

    def fatal(self, why: str) -> None:
        """Stop the broker, which cannot go on."""
        self.failed = why
        signal.raise_signal(signal.SIGINT)  # at once

    def quit(self) -> None:
        """Stop the broker, as an operator asks."""
        signal.raise_signal(signal.SIGINT)  # at once

    def reload_users(self, settings: Settings) -> None:
        """Take the users and permissions of these settings; close clients that are now unknown."""
        self.settings = settings
        self.admission.renew(settings, self.sessions.values(), self.control.recheck)
        if self.cquencer is not None and not self.may_ask_port():
            self.cquencer.dismiss()

    # Figures

    @property
    def auth_failures(self) -> int:
        """The count of attempts to authenticate that failed so far."""
        return self.admission.failures

    @property
    def websocket_address(self) -> tuple[str, int] | None:
        """The address that WebSocket clients connect to."""
        return self.listening.websocket

    @property
    def stalls(self) -> int:
        """The count of times that a publisher waited for subscribers."""
        return self.core.stalls

    def traffic(self) -> Traffic:
        """Return the counts of what was received and sent, including closed connections."""
        total = self._closed_traffic
        for session in self.sessions.values():
            total = total.plus(session.connection)
        if self.cquencer is not None:
            port = self.cquencer.port
            total = total._replace(
                in_msgs=total.in_msgs + port.messages, in_bytes=total.in_bytes + port.bytes
            )
        return total

    @property
    def last_number(self) -> int:
        """The last number given; 0 before the first."""
        return self.plane.sequencer.number

    def reached_by(self, subject: bytes) -> list[tuple[int, Subscription]]:
        """Return the subscriptions that a message would reach, each with its connection's cid."""
        trie = self.plane.sublist.trie
        found = trie.literal(subject) + trie.wild(subject)
        owned = [(connection_of(sub), sub) for sub in found if sub.owner is not None]
        return [(one.session.cid, sub) for one, sub in owned if not one.closed]


def proxies_of(settings: Settings) -> "TrustedProxies | None":
    """Return the proxies that may name their clients; None: there are none."""
    if not settings.proxy_header:
        return None
    from broker.wires.trusted_proxies import TrustedProxies  # only if needed

    return TrustedProxies(settings.proxy_header, settings.trusted_proxies)


def _make_plane(settings: Settings, cluster: ClusterSide | None, classifier: Classifier) -> Plane:
    """Make the data plane with the limits of the settings."""
    limits = settings.limits
    sublist = Sublist(classifier, limits.max_routes)
    sublist.max_match_nodes = MATCH_NODES_MAX
    hold_pending = limits.hold_pending
    if cluster is not None:
        plane = cluster.make_plane(sublist, hold_pending)
    else:
        plane = Plane(sublist, Sequencer(), hold_pending)
    return plane
