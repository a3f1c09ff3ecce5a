"""The broker as a whole: its listeners, its sessions, and how it starts and stops."""

import asyncio
import json
import logging
import os
import signal
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from broker.addresses import shown
from broker.auth.application_claims import ApplicationClaims
from broker.clients.admission import Admission
from broker.clients.closed_connections import KEPT
from broker.clients.control import Control
from broker.clients.info_push import InfoPush
from broker.clients.lame_duck import LameDuck
from broker.clients.listening import Listening
from broker.clients.message_counts import Traffic
from broker.clients.request_handler import RequestHandler
from broker.clients.roster import Roster
from broker.clients.session import Session
from broker.cluster_side import ClusterSide
from broker.core import Core
from broker.dataplane.kinds import Classifier
from broker.dataplane.ownership import connection_of
from broker.dataplane.plane import Plane
from broker.replay.replays import Replays
from broker.runtime.trimming import Trimmer
from broker.settings.settings import Settings
from broker.settings.staging_settings import STAGING
from broker.storage.keeper import Keeper
from broker.storage.opening import open_journal, open_window
from broker.version import NATS_VERSION, PYTHON, VERSION
from broker.wires.bound_listener import BoundListener
from broker.wires.disconnect_log import OUTCOME_UNKNOWN
from sequencer.journal.ring import Ring
from sequencer.journal.store import Store
from sequencer.sequencer import Sequencer
from sublist.sublist import Sublist
from sublist.subscription import Subscription

if TYPE_CHECKING:
    from broker.clients.request_handler import GuardJudge, StreamRequests
    from broker.staging.staging_service import StagingService
    from broker.streams.stream_service import StreamService

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
        self.cluster = cluster
        self.loop = asyncio.get_running_loop()
        self.server_id = "N" + "".join(ID_ALPHABET[byte % 32] for byte in os.urandom(55))
        self.name = settings.server_name or self.server_id
        self.started_at = self.config_loaded_at = time.time()
        self.failed = ""  # why it stops by itself
        limits = settings.limits
        exclude = [pattern.encode() for pattern in settings.sequencer.exclude]
        is_watched = bool(settings.http_port or settings.https_port)
        classifier = Classifier(
            exclude, limits.max_subject_tokens, settings.streams.enabled, is_watched
        )
        self.plane = _make_plane(settings, cluster, classifier)
        self.feeds = None
        if settings.feeds:
            from broker.feeds.feeds import Feeds  # a megabyte that other brokers need not load

            speaks = (lambda: cluster.coordinates) if cluster is not None else lambda: True
            self.feeds = Feeds(settings, self.plane.sequencer, self.loop, speaks)
        self.journal = cluster.journal if cluster else open_journal(settings)
        self._scopes = None
        if settings.streams.enabled and cluster is None and isinstance(self.journal, Store):
            from broker.streams.stream_service import recall_scopes  # only if wanted

            self._scopes = recall_scopes(self.journal.path)
        scope = self._scopes.find if self._scopes is not None else None
        self.window = cluster.window if cluster else open_window(settings, self.journal, scope)
        self.claims = ApplicationClaims()
        self.replays, self.keeper = self._keep(settings)
        self.core = Core(
            *(settings, self.loop, self.plane, self.journal, self.replays, self.keeper),
            self.claims,
            cluster.facts if cluster is not None else None,
            cluster.await_number if cluster is not None else None,
        )
        self.streams: StreamService | None = None
        if self._scopes is not None and isinstance(self.journal, Store):
            from broker.streams import stream_service

            self.streams = stream_service.StreamService(
                self.core, self.journal, self.name, self._scopes
            )
        self.sessions: dict[int, Session] = {}
        self.admission = Admission(self.core)
        self.control = Control(
            *(self.core, classifier, self.sessions),
            *(RequestHandler(self.core, self.open_staging), self.admission),
            cluster.groups if cluster is not None else None,
            self.loop.call_soon,
            self._make_judge,
            self._serve_streams(),
        )
        self.plane.attach(self.control)
        # Tells our publishers from those of earlier processes.
        run = cluster.run if cluster else int.from_bytes(os.urandom(4), "big")
        closed_kept = KEPT if is_watched else 0
        self.roster = Roster(self.core, self.admission, run, self.sessions, self.info, closed_kept)
        self.listening = Listening(self.core, self.roster)
        self.info_push = InfoPush(self.loop, self.plane, self.sessions)
        self.lame_duck = LameDuck(
            *(self.core, self.sessions, self.info_push),
            cluster.is_awaiting if cluster is not None else lambda connection: False,
        )
        # INFO for clients of a listener, by what else it depends on: as many as there are listeners
        # and frames. Each has the state in which it holds, and what is before and after a client's
        # own fields.
        self._infos: dict[tuple[BoundListener, str, bool], tuple[Any, bytes, bytes]] = {}
        self._trimmer = Trimmer(self.loop, self.core.plane.gate.spare.drop)
        self.cquencer = None
        if settings.sequencer.port:
            from broker.cquencer.cquencer_service import Cquencer  # only if needed

            subject = settings.sequencer.subject.encode()
            fitting = self.feeds.fitting(subject) if self.feeds is not None else None
            self.cquencer = Cquencer(self.core, self.roster, fitting)
        self.staging: StagingService | None = cluster.staging if cluster is not None else None
        if self.staging is None and self._has_staging():
            self.open_staging()

    @property
    def settings(self) -> Settings:
        """The settings in effect."""
        return self.core.settings

    def renew_tls(self, settings: Settings) -> None:
        """Read the files of TLS again; the clients stay. Raises `OSError`, and changes nothing."""
        self.listening.renew_tls(settings.tls)

    def _has_staging(self) -> bool:
        """True if an earlier process has left batches in the store."""
        journal = self.journal
        return isinstance(journal, Store) and os.path.isdir(os.path.join(journal.path, STAGING))

    def open_staging(self) -> "StagingService":
        """Return the staging service; made at the first request. Raises `OSError`."""
        from broker.staging.local_batches import LocalBatches  # only if needed

        if self.staging is None:
            self.staging = LocalBatches(self.core).service
        return self.staging

    def _serve_streams(self) -> "StreamRequests | None":
        """Return what answers requests about streams; None: there are no such subjects."""
        if self.streams is not None or not self.settings.streams.enabled:
            return self.streams
        from broker.streams.no_streams import NoStreams  # there can be none here

        return NoStreams(self.core, self.cluster is not None)

    def _make_judge(self) -> "GuardJudge":
        """Make the judge of guarded messages, at the first one."""
        from broker.streams.publishing import Judge  # only if needed

        ready = self.streams.is_ready if self.streams is not None else lambda: True
        return Judge(self.core, self.window, ready, self.cluster is not None)

    def _keep(self, settings: Settings) -> tuple[Replays | None, Keeper | None]:
        """Keep everything that is numbered: in the journal, the feeds and the replays."""
        plane, journal, cluster = self.plane, self.journal, self.cluster
        if cluster is not None:
            replays, keeper = cluster.keep(self)  # they serve what the cluster has committed
            if self.feeds is not None:
                self.feeds.attach(replays.journal)
            return replays, keeper
        if self.window is not None:
            plane.know_ids(self.window)
        if journal is None:
            return None, None
        if self.feeds is not None:
            self.feeds.attach(journal)
        replays = Replays(plane, journal, self.loop, settings.limits.answers_pending)
        if isinstance(journal, Ring):
            journal.let_go = replays.let_go_of_memory
            plane.sequencer.keep(journal, False, lambda error: None)
            return replays, None
        keeper = Keeper(plane.gate, journal, replays, settings.journal, self.loop)
        plane.sequencer.keep(journal, settings.journal.sync == "always", keeper.trouble)
        return replays, keeper

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
        if self.streams is not None:
            self.streams.start()
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
        self.roster.acceptor.close()
        log.info("Entering lame duck mode: closing clients within %g s", seconds)
        self.lame_duck.announce()
        if self.cluster is not None:
            await self.cluster.step_down()
        await self.lame_duck.close_all()

    async def stop(self) -> None:
        """Take in nothing more, deliver what was accepted, close; bounded by `drain_timeout`."""
        if isinstance(self.journal, Store):
            self.journal.say_leaving()
        self.roster.stop()
        self._trimmer.stop()
        self.info_push.stop()
        self.lame_duck.stop()
        self.admission.stop()
        await self._stop_services()
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
        self.roster.gatherer.close()
        if self.cluster is not None:
            await self.cluster.stop()
        if self.feeds is not None:
            ends = self.cluster is None or self.cluster.ends_stream
            await self.feeds.stop(deadline, ends)
        if self.keeper is not None:
            await self.keeper.stop()

    async def _stop_services(self) -> None:
        """Stop what takes requests of its own: nothing of it is half done then."""
        if self.staging is not None:
            await self.staging.stop()
        if self.streams is not None:
            await self.streams.stop()

    def _undrained(self) -> int:
        """Return how many clients have not acknowledged everything that is meant for them."""
        late = sum(not session.is_drained() for session in self.sessions.values())
        late += self.cluster.unanswered if self.cluster is not None else 0
        return late + (self.cquencer.undrained() if self.cquencer is not None else 0)

    # Clients

    def info(self, session: Session, greeting: bool = False) -> bytes:
        """Return the INFO line for one client; `greeting`: it answers the client's first PING."""
        if session.nonce:
            return b"%b%b%b" % self._made_info(session, greeting)
        cluster, web = self.cluster, session.listener.kind == "websocket"
        urls = None  # in a cluster: they lead to NATS' own port
        if cluster is not None and not web:
            urls = cluster.client_addresses(self.lame_duck.is_on)
        state = self.settings, self.admission.is_asking, self.lame_duck.is_on, urls
        key = session.listener, session.frame, greeting
        known = self._infos.get(key)
        if known is None or known[0] != state:
            head, _, tail = self._made_info(session, greeting)
            known = self._infos[key] = state, head, tail
        return b"%b%b%b" % (known[1], _of_client(session), known[2])

    def _made_info(self, session: Session, greeting: bool) -> tuple[bytes, bytes, bytes]:
        """Return INFO in three pieces, of which the second differs from client to client."""
        settings = self.settings
        web = session.listener.kind == "websocket"
        host, port = ("", 0) if web else settings.advertised
        before: dict[str, Any] = {
            "server_id": self.server_id,
            "server_name": self.name,
            "version": NATS_VERSION,
            "seriatim": VERSION,
            "proto": 1,
            "git_commit": "",
            "go": PYTHON,
            "headers": not settings.no_header_support,
            "max_payload": settings.limits.max_payload,
            **({"jetstream": True, "api_lvl": 1} if self.streams is not None else {}),
            "host": host or session.listener.host,
            "port": port or session.listener.port,
        }
        fields: dict[str, Any] = {"frame": session.frame, **self.admission.info}
        if session.nonce:
            fields["nonce"] = session.nonce
        if session.listener.tls:
            may_do_without = settings.tls.allow_non_tls and not web
            if not may_do_without:
                fields["tls_required"] = True
            if web or may_do_without:
                fields["tls_available"] = True
            if settings.tls.is_verifying:
                fields["tls_verify"] = True
        if self.cluster is not None:
            fields["cluster"] = settings.cluster.name
            if not web:  # they lead to NATS' own port
                fields["connect_urls"] = self.cluster.client_addresses(self.lame_duck.is_on)
        if self.lame_duck.is_on:
            fields["ldm"] = True
        if greeting:
            fields |= {"connect_info": True, "remote_account": "$G"}
        head = b"INFO %b," % _json(before)[:-1]
        return head, _of_client(session), b",%b \r\n" % _json(fields)[1:]

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
        self.admission.renew(settings, self.sessions.values(), self.control.recheck)
        if self.cquencer is not None and not self.admission.may_ask_port(settings):
            self.cquencer.dismiss()

    # Figures

    def traffic(self) -> Traffic:
        """Return the counts of what was received and sent, including closed connections."""
        total = self.roster.traffic()
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


def _json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _of_client(session: Session) -> bytes:
    """Return the fields of INFO that differ from client to client."""
    return b'"client_id":%d,"client_ip":%b' % (session.cid, _quoted(session.ip))


@lru_cache(4096)
def _quoted(text: str) -> bytes:
    return json.dumps(text).encode()


def _make_plane(settings: Settings, cluster: ClusterSide | None, classifier: Classifier) -> Plane:
    """Make the data plane with the limits of the settings."""
    limits = settings.limits
    sublist = Sublist(classifier, limits.max_routes, max_match_nodes=MATCH_NODES_MAX)
    hold_pending = limits.hold_pending
    if cluster is not None:
        plane = cluster.make_plane(sublist, hold_pending)
    else:
        plane = Plane(sublist, Sequencer(), hold_pending)
    limit_outboxes(plane, settings)
    return plane


def limit_outboxes(plane: Plane, settings: Settings) -> None:
    """Put the limits of outboxes into effect."""
    limits = settings.limits
    # Only a journal on disk keeps what a slow subscriber has not got, for as long as that takes.
    catchup_pending = limits.catchup_pending if settings.journal.enabled else 0
    plane.gate.limit(limits.hold_pending, catchup_pending, limits.max_pending_total)
