"""nats-server's monitoring pages: the figures taken from the broker, and their JSON.

Each page is made in two steps. `take_...` runs in the broker's loop and only copies numbers and
references. So a page shows one moment, and the loop is not blocked for longer than one page takes.
`..._page` runs in the request's thread and makes the text. Field names are those of nats-server,
because its tools read them.
"""

import hashlib
import heapq
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from broker.clients.closed_connections import ClosedConnection
from broker.clients.message_counts import Traffic
from broker.clients.session import Session
from broker.cluster_state import ClusterState
from broker.monitor.cluster_figures import cluster_page, connected_members, take_cluster
from broker.monitor.figures import (
    BROKER,
    FEED,
    JOURNAL,
    LIMITS,
    PORT,
    REFUSED,
    REREQUESTS,
    SECOND_NS,
    STAGING,
    Figures,
    WholeBroker,
    take,
)
from broker.monitor.histograms import TakenDurations, take_durations
from broker.monitor.process_figures import PYTHON, CpuMeter, build, resident_bytes
from broker.monitor.query import ACCOUNT, SORTS, ConnectionsQuery, Page, SubscriptionsQuery
from broker.monitor.slow_clients import SlowClient, take_slowest
from broker.monitor.stream_figures import StreamsState, jetstream_part, take_streams
from broker.server import Server
from broker.version import NATS_VERSION, VERSION
from broker.wires.certificate_parts import name_parts, parts_of
from broker.wires.certificate_subject import subject_text
from sequencer.journal.ring import Ring
from sublist.subscription import Subscription

if TYPE_CHECKING:
    from broker.cquencer.cquencer_client import CquencerClient
    from broker.feeds.outlet import Outlet

# As in INFO, so that tools that compare versions find the features; the suffix is for people, as
# nats-top shows this text. It is a valid version for semver and for PEP 440.
SHOWN_VERSION = f"{NATS_VERSION}+seriatim.{VERSION}"
TRAFFIC = ("in_msgs", "out_msgs", "in_bytes", "out_bytes")
KINDS = ("clients", "routes", "gateways", "leafs")  # of connections, in nats-server

Listed = Session | ClosedConnection


def peer_certificate(der: bytes) -> dict[str, str]:
    """Describe a certificate: its subject, if it has one, and the hashes of its key and of itself.

    Parts that cannot be read are left out.
    """
    shown = {"cert_sha256": hashlib.sha256(der).hexdigest()}
    with suppress(ValueError):
        parts = parts_of(der)
        shown["spki_sha256"] = hashlib.sha256(parts.public_key).hexdigest()
        if subject := subject_text(chain.from_iterable(name_parts(parts.subject))):
            shown["subject"] = subject
    return shown


@dataclass(frozen=True, slots=True)
class JournalState:
    """The journal at one moment."""

    journal: str  # its id; empty: there is none
    store: str  # disk, memory or none
    sync: str
    epoch: int
    figures: Figures


@dataclass(frozen=True, slots=True)
class FeedState:
    """One feed at one moment. `rerequests` is empty if it answers none."""

    name: str
    facts: dict[str, Any]
    figures: Figures
    rerequests: Figures


@dataclass(frozen=True, slots=True)
class BrokerState:
    """The broker as a whole, at one moment."""

    now: float
    figures: Figures
    traffic: Traffic
    sublist: dict[str, int]
    fanouts: tuple[int, float]
    journal: JournalState
    feeds: list[FeedState]
    port: Figures
    staging: Figures
    limits: Figures
    durations: list[TakenDurations]
    slowest: list[SlowClient]
    streams: StreamsState
    cluster: ClusterState | None  # None: a single broker


def take_state(server: Server) -> BrokerState:
    """Take the totals."""
    unsent = [session.pending_bytes for session in server.sessions.values()]
    return BrokerState(
        now=time.time(),
        figures=take(WholeBroker(server, unsent), BROKER),
        traffic=server.traffic(),
        sublist=server.plane.sublist.statistics(),
        fanouts=server.plane.sublist.fanout_sizes(),
        journal=_take_journal(server),
        feeds=[_take_feed(one) for one in server.feeds.outlets] if server.feeds else [],
        port=take(server.cquencer, PORT),
        staging=take(server.staging, STAGING),
        limits=take(server, LIMITS),
        durations=take_durations(server),
        slowest=take_slowest(server, unsent),
        streams=take_streams(server),
        cluster=take_cluster(server),
    )


def _take_journal(server: Server) -> JournalState:
    journal, figures = server.journal, take(server, JOURNAL)
    if journal is None:
        return JournalState("", "none", "never", 0, figures)
    store = "memory" if isinstance(journal, Ring) else "disk"
    sync = server.settings.journal.sync if server.keeper is not None else "never"
    return JournalState(journal.id, store, sync, journal.epoch, figures)


def _take_feed(outlet: "Outlet") -> FeedState:
    names = ("group", "port", "interface", "codec", "subject")
    facts = {name: getattr(outlet.settings, name) for name in names}
    asked: Figures = {}
    if outlet.rerequests is not None:
        asked = take(outlet.rerequests.rerequests, (*REREQUESTS, *REFUSED))
        facts["rerequest_port"] = outlet.rerequests.address[1]
    return FeedState(outlet.settings.label, facts, take(outlet, FEED), asked)


def varz_page(
    server: Server,
    state: BrokerState,
    ports: Mapping[str, int],
    cpu: CpuMeter,
    requests: Mapping[str, int],
) -> dict[str, Any]:
    """/varz: the broker, its limits and its totals.

    `ports` are those of monitoring, `requests` how often each page was asked for.
    """
    settings, limits, traffic = server.settings, server.settings.limits, state.traffic
    figures = state.figures
    host, port = server.addresses[0] if server.addresses else (settings.host, settings.port)
    return {
        "server_id": server.server_id,
        "server_name": server.name,
        "version": SHOWN_VERSION,
        "seriatim": VERSION,
        "proto": 1,
        "git_commit": "",
        "go": PYTHON,
        "build": build(),
        "host": host,
        "port": port,
        "frame": settings.frame,
        "max_connections": limits.max_connections,
        "max_subscriptions": limits.max_subscriptions,
        "max_matches": limits.max_matches,
        "max_matches_per_user": limits.max_matches_per_user,
        "ping_interval": round(limits.ping_interval * SECOND_NS),
        "ping_max": limits.ping_max,
        "http_host": settings.http_host,
        "http_port": ports["http"],
        "http_base_path": "",
        "https_port": ports["https"],
        "tls_required": settings.tls.is_on,
        "tls_verify": settings.tls.is_verifying,
        "tls_timeout": settings.tls.timeout,
        "auth_required": settings.authorization.is_required,
        "auth_timeout": settings.authorization.timeout,
        "max_control_line": limits.max_control_line,
        "max_payload": limits.max_payload,
        "max_pending": limits.max_pending,
        "write_deadline": round(limits.write_deadline * SECOND_NS),
        "start": timestamp(server.started_at),
        "now": timestamp(state.now),
        "uptime": span(state.now - server.started_at),
        "mem": resident_bytes(),
        "cores": os.cpu_count() or 1,
        "cluster": cluster_page(state.cluster),
        "gateway": {},
        "leaf": {},
        "mqtt": {},
        "websocket": _websocket(server),
        "jetstream": jetstream_part(state.streams),
        "gomaxprocs": 1,
        "cpu": cpu.percent(),
        "connections": figures["connections"],
        "total_connections": figures["total_connections"],
        "routes": connected_members(state.cluster),
        "remotes": 0,
        "leafnodes": 0,
        "in_msgs": traffic.in_msgs,
        "in_bytes": traffic.in_bytes,
        "in_client_msgs": traffic.in_msgs,
        "in_client_bytes": traffic.in_bytes,
        "out_msgs": traffic.out_msgs,
        "out_bytes": traffic.out_bytes,
        "out_client_msgs": traffic.out_msgs,
        "out_client_bytes": traffic.out_bytes,
        "slow_consumers": figures["slow_consumers"],
        "slow_consumer_stats": _of_clients(figures["slow_consumers"]),
        "stale_connections": figures["stale_connections"],
        "stale_connection_stats": _of_clients(figures["stale_connections"]),
        "stalled_clients": figures["stalled_clients"],
        "auth_failures": figures["auth_failures"],
        "subscriptions": state.sublist["subscriptions"],
        "http_req_stats": dict(requests),
        "config_load_time": timestamp(server.config_loaded_at),
        "sequence": figures["sequence"],
        "pending_bytes": figures["pending_bytes"],
        "loop_turn_seconds_max": figures["loop_turn_seconds_max"],
        "journal": _journal(state.journal),
        "feeds": [_feed(one) for one in state.feeds],
        "cquencer": _port(server, state.port),
        "staging": state.staging,
        "limits": state.limits,
    }


def _journal(state: JournalState) -> dict[str, Any]:
    """Return the part of /varz about the journal. Times in seconds, sizes in bytes."""
    page: dict[str, Any] = {
        "journal": state.journal,
        "epoch": state.epoch,
        "store": state.store,
        "sync": state.sync,
    }
    for key, value in sorted(state.figures.items()):
        page[key] = value if key.endswith("seconds") else int(value)
    return page | {"full": bool(state.figures["full"])}


def _feed(state: FeedState) -> dict[str, Any]:
    page = {"name": state.name, **state.facts, **state.figures}
    return page | ({"rerequests": state.rerequests} if state.rerequests else {})


def _port(server: Server, figures: Figures) -> dict[str, Any]:
    """Return the part of /varz about the cquencer port; empty if there is none."""
    cquencer, settings = server.cquencer, server.settings.sequencer
    if cquencer is None:
        return {}
    host, port = cquencer.addresses[0]
    where = {"host": host, "port": port, "framing": settings.framing, "subject": settings.subject}
    return where | figures


@dataclass(frozen=True, slots=True)
class TakenSession:
    """One connection's figures, and its subscriptions at that moment."""

    session: Session | ClosedConnection
    now: float
    pending_bytes: int
    traffic: tuple[int, int, int, int]
    last_activity: float
    rtt: float
    tls: tuple[str, str]
    tls_first: bool
    certificates: list[bytes]  # DER; only if asked for
    subscriptions: int
    subs: list[Subscription]
    is_awaiting: bool | None  # None: a single broker


def take_connections(server: Server, query: ConnectionsQuery) -> tuple[int, list[TakenSession]]:
    """Take one page of connections, and how many there are in all."""
    page, now = query.page, time.time()
    found = _matching(server, query)
    total = len(found)
    wanted: Iterable[Listed] = found
    if query.sort != "cid":
        key, most_first = SORTS[query.sort]
        pick = heapq.nlargest if most_first else heapq.nsmallest
        wanted = pick(page.offset + page.limit, found, key=_measure(key, now))
    elif query.has_open and query.has_closed:
        wanted = sorted(found, key=lambda one: one.cid)
    chosen = islice(wanted, min(page.offset, total), min(page.offset + page.limit, total))
    taken, left = [], query.subs_limit if query.subs else 0
    for one in chosen:
        if isinstance(one, ClosedConnection):
            taken.append(_take_closed(one))
        else:
            taken.append(_take_session(server, one, now, query, left))
            left -= len(taken[-1].subs)
    return total, taken


def _matching(server: Server, query: ConnectionsQuery) -> Collection[Listed]:
    """Return the wanted connections, the open ones by rising cid."""
    if query.account not in ("", ACCOUNT):
        return ()
    open_ones: Collection[Session] = server.sessions.values()
    if query.cid:
        known = server.sessions.get(query.cid)
        open_ones = () if known is None else (known,)
    if not (query.has_closed or query.user or query.subject):
        return open_ones  # without a copy
    found: list[Listed] = list(open_ones) if query.has_open else []
    if query.has_closed:
        found += (one for one in server.roster.closed if query.cid in (0, one.cid))
    if query.user:
        found = [one for one in found if one.user_name == query.user]
    if query.subject:
        cids = {cid for cid, _ in server.reached_by(query.subject)}
        found = [one for one in found if one.cid in cids]
    return found


def connections_page(
    server: Server, query: ConnectionsQuery, total: int, taken: list[TakenSession]
) -> dict[str, Any]:
    """/connz: one page of connections."""
    page: dict[str, Any] = {
        "server_id": server.server_id,
        "now": timestamp(time.time()),
        "num_connections": len(taken),
        "total": total,
        "offset": query.page.offset,
        "limit": query.page.limit,
    }
    if query.subs:
        page |= {"subs_offset": query.subs_offset, "subs_limit": query.subs_limit}
        page["subs_cut"] = any(_is_cut(one, query) for one in taken)
    page["connections"] = (_connection(one, query) for one in taken)
    return page


@dataclass(frozen=True, slots=True)
class TakenCaller:
    """One client of the cquencer port, and its figures at that moment."""

    client: "CquencerClient"
    heard: int  # ns since 1970; 0: nothing received yet
    pending_bytes: int
    figures: tuple[int, int, int, int]  # messages, bytes, queries, errors


def take_callers(server: Server, page: Page) -> tuple[int, list[TakenCaller]]:
    """Take one page of the port's clients, oldest first, and how many there are in all."""
    clients = {} if server.cquencer is None else server.cquencer.clients
    chosen = islice(clients.values(), page.offset, page.offset + page.limit)
    return len(clients), [
        TakenCaller(
            client=client,
            heard=client.heard,
            pending_bytes=client.pending_bytes,
            figures=(client.messages, client.bytes, client.queries, client.errors),
        )
        for client in chosen
    ]


def callers_page(
    server: Server, page: Page, now: float, total: int, taken: list[TakenCaller]
) -> dict[str, Any]:
    """/portz: one page of the clients of the cquencer port."""
    return {
        "server_id": server.server_id,
        "now": timestamp(now),
        "num_connections": len(taken),
        "total": total,
        "offset": page.offset,
        "limit": page.limit,
        "connections": [_caller(one, now) for one in taken],
    }


def take_subscriptions(
    server: Server, query: SubscriptionsQuery
) -> tuple[BrokerState, list[tuple[int, Subscription]]]:
    """Take the route table's figures, and a page of subscriptions (or all, for `test`)."""
    state = take_state(server)
    if not query.subs and not query.test:
        return state, []
    if query.test:
        return state, list(server.reached_by(query.test))
    first, left = query.page.offset, query.page.limit
    taken: list[tuple[int, Subscription]] = []
    for session in server.sessions.values():
        subs = session.connection.subs
        if first < len(subs) and left:
            some = _some(subs.values(), first, left)
            taken += [(session.cid, sub) for sub in some]
            left -= len(some)
        first = max(first - len(subs), 0)
    return state, taken


def subscriptions_page(
    server: Server,
    query: SubscriptionsQuery,
    state: BrokerState,
    taken: list[tuple[int, Subscription]],
) -> dict[str, Any]:
    """/subsz: the route table, and subscriptions if asked for."""
    sublist, lookups = state.sublist, state.traffic.in_msgs  # one for every message
    hits = max(0, lookups - sublist["misses"])
    total = sublist["subscriptions"]
    if query.test:
        total = len(taken)
        taken.sort(key=lambda one: (one[0], len(one[1].sid), one[1].sid))
        taken = taken[query.page.offset : query.page.offset + query.page.limit]
    page: dict[str, Any] = {
        "server_id": server.server_id,
        "now": timestamp(state.now),
        "num_subscriptions": sublist["subscriptions"],
        "num_cache": sublist["routes"],
        "num_inserts": sublist["inserts"],
        "num_removes": sublist["removes"],
        "num_matches": lookups,
        "cache_hit_rate": hits / lookups if lookups else 0.0,
        "max_fanout": state.fanouts[0],
        "avg_fanout": state.fanouts[1],
        "route_table": sublist,
        "total": total,
        "offset": query.page.offset,
        "limit": query.page.limit,
    }
    if query.subs or query.test:
        page["subscriptions_list"] = (_subscription(cid, sub) for cid, sub in taken)
    return page


def leafs_page(server: Server, now: float) -> dict[str, Any]:
    """/leafz: there are no leaf nodes."""
    return {**heading(server, now), "leafnodes": 0, "leafs": []}


def gateways_page(server: Server, now: float) -> dict[str, Any]:
    """/gatewayz: there are no gateways."""
    return {**heading(server, now), "outbound_gateways": {}, "inbound_gateways": {}}


def accounts_page(server: Server, now: float) -> dict[str, Any]:
    """/accountz: there are no accounts."""
    return {**heading(server, now), "accounts": []}


def account_statistics_page(server: Server, now: float) -> dict[str, Any]:
    """/accstatz: there are no accounts, so no statistics."""
    return {**heading(server, now), "account_statz": []}


def heading(server: Server, now: float) -> dict[str, Any]:
    """Return how such pages begin."""
    return {"server_id": server.server_id, "now": timestamp(now)}


def _of_clients(count: float) -> Figures:
    """Return a count by kind of connection: all are clients."""
    return {**dict.fromkeys(KINDS, 0), "clients": count}


def _websocket(server: Server) -> dict[str, Any]:
    """Return the WebSocket listener in nats-server's fields; empty if there is none."""
    address, settings = server.listening.websocket, server.settings
    if address is None:
        return {}
    web = settings.websocket
    page: dict[str, Any] = {
        "host": address[0],
        "port": address[1],
        "handshake_timeout": round(web.handshake_timeout * SECOND_NS),
    }
    if web.no_tls or not settings.tls.is_on:
        page["no_tls"] = True
    if web.same_origin:
        page["same_origin"] = True
    if web.allowed_origins:
        page["allowed_origins"] = list(web.allowed_origins)
    return page


def timestamp(seconds: float) -> str:
    """Format a time as RFC 3339, as Go does."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def span(seconds: float) -> str:
    """Format a duration as nats-server does: 2s, 1m3s, 4d0h0m1s."""
    left = max(0, int(seconds))
    text = ""
    for unit, size in (("y", 31_536_000), ("d", 86_400), ("h", 3_600), ("m", 60)):
        count, left = divmod(left, size)
        if count or text:
            text += f"{count}{unit}"
    return f"{text}{left}s"


def round_trip(seconds: float) -> str:
    """Format a round trip time as a duration in Go."""
    if seconds >= 1:
        return f"{round(seconds, 3):g}s"
    if seconds >= 0.001:
        return f"{round(seconds * 1e3, 3):g}ms"
    return f"{seconds * 1e6:.0f}µs"


def _measure(key: str, now: float) -> Callable[[Listed], Any]:
    """Return the function that gives the value to sort by."""
    if key == "subscriptions":
        return lambda one: _figures(one)[0]
    if key in TRAFFIC:
        at = 1 + TRAFFIC.index(key)
        return lambda one: _figures(one)[at]
    if key == "pending_bytes":
        return lambda one: 0 if isinstance(one, ClosedConnection) else one.pending_bytes
    if key == "uptime":
        return lambda one: _until(one, now) - one.started_at
    return lambda one: getattr(one, key)


def _until(one: Listed, now: float) -> float:
    return one.stopped_at if isinstance(one, ClosedConnection) else now


def _figures(one: Listed) -> tuple[int, ...]:
    """Return the number of subscriptions, and the figures in `TRAFFIC`."""
    if isinstance(one, ClosedConnection):
        return (one.subscriptions, *(getattr(one, name) for name in TRAFFIC))
    connection = one.connection
    return (len(connection.subs), *(getattr(connection, name) for name in TRAFFIC))


def _take_closed(one: ClosedConnection) -> TakenSession:
    return TakenSession(
        session=one,
        now=one.stopped_at,
        pending_bytes=0,
        traffic=(one.in_msgs, one.out_msgs, one.in_bytes, one.out_bytes),
        last_activity=one.last_activity,
        rtt=one.rtt,
        tls=one.tls,
        tls_first=one.tls_first,
        certificates=[],
        subscriptions=one.subscriptions,
        subs=[],
        is_awaiting=None,
    )


def _take_session(
    server: Server, session: Session, now: float, query: ConnectionsQuery, most: int
) -> TakenSession:
    connection, cluster = session.connection, server.cluster
    return TakenSession(
        session=session,
        now=now,
        pending_bytes=session.pending_bytes,
        traffic=(
            connection.in_msgs,
            connection.out_msgs,
            connection.in_bytes,
            connection.out_bytes,
        ),
        last_activity=session.last_activity,
        rtt=session.rtt,
        tls=session.tls,
        tls_first=session.tls_first,
        certificates=session.certificates() if query.auth else [],
        subscriptions=len(connection.subs),
        subs=_some(connection.subs.values(), query.subs_offset, most),
        is_awaiting=cluster.is_awaiting(connection) if cluster is not None else None,
    )


def _some(items: Collection[Subscription], first: int, most: int) -> list[Subscription]:
    """Return `most` items from `first` on."""
    return list(islice(items, min(first, len(items)), min(first + most, len(items))))


def _is_cut(taken: TakenSession, query: ConnectionsQuery) -> bool:
    """True if the connection has more subscriptions than are listed."""
    if isinstance(taken.session, ClosedConnection):
        return False  # its subscriptions have ended
    return query.subs_offset + len(taken.subs) < taken.subscriptions


def _connection(taken: TakenSession, query: ConnectionsQuery) -> dict[str, Any]:
    session = taken.session
    entry: dict[str, Any] = {
        "cid": session.cid,
        "kind": "Client",
        "type": session.kind,
        "ip": session.ip,
        "port": session.port,
        **_life(taken),
        "pending_bytes": taken.pending_bytes,
    }
    entry |= zip(TRAFFIC, taken.traffic, strict=True)
    entry["subscriptions"] = taken.subscriptions
    for name in ("name", "lang", "version"):
        if getattr(session, name):
            entry[name] = getattr(session, name)
    if taken.tls[0]:
        entry["tls_version"], entry["tls_cipher_suite"] = taken.tls
    if taken.certificates:
        entry["tls_peer_certs"] = [peer_certificate(one) for one in taken.certificates]
    if taken.tls_first:
        entry["tls_first"] = True
    if query.auth and session.user_name:
        entry["authorized_user"] = session.user_name
    entry["frame"] = session.frame
    if taken.is_awaiting is not None:
        entry["awaits_commit"] = taken.is_awaiting
    if query.subs and _is_cut(taken, query):
        entry["subscriptions_cut"] = True
    if query.subs == "names" and taken.subs:
        entry["subscriptions_list"] = (_text(sub.subject) for sub in taken.subs)
    if query.subs == "detail" and taken.subs:
        entry["subscriptions_list_detail"] = (_subscription(session.cid, s) for s in taken.subs)
    return entry


def _life(taken: TakenSession) -> dict[str, str]:
    """Return when the connection began, was last active, and ended."""
    session = taken.session
    life = {
        "start": timestamp(session.started_at),
        "last_activity": timestamp(taken.last_activity),
    }
    if isinstance(session, ClosedConnection):
        life |= {"stop": timestamp(session.stopped_at), "reason": session.reason}
    if taken.rtt:
        life["rtt"] = round_trip(taken.rtt)
    return life | {
        "uptime": span(taken.now - session.started_at),
        "idle": span(taken.now - taken.last_activity),
    }


def _caller(taken: TakenCaller, now: float) -> dict[str, Any]:
    client = taken.client
    heard = taken.heard / SECOND_NS or client.started_at
    entry: dict[str, Any] = {
        "cid": client.cid,
        "ip": client.ip,
        "port": client.port,
        "start": timestamp(client.started_at),
        "last_activity": timestamp(heard),
        "uptime": span(now - client.started_at),
        "idle": span(now - heard),
        "pending_bytes": taken.pending_bytes,
    }
    names = ("in_msgs", "in_bytes", "queries", "errors")
    return entry | dict(zip(names, taken.figures, strict=True))


def _subscription(cid: int, sub: Subscription) -> dict[str, Any]:
    entry: dict[str, Any] = {"subject": _text(sub.subject)}
    if sub.queue:
        entry["qgroup"] = _text(sub.queue)
    entry |= {"sid": _text(sub.sid), "msgs": sub.delivered, "cid": cid}
    if sub.limit:
        entry["max"] = sub.limit
    return entry


def _text(name: bytes) -> str:
    """Subjects are arbitrary bytes, but JSON is text."""
    return name.decode("utf-8", "backslashreplace")
