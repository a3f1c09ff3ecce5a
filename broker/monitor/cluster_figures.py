"""Figures of the cluster that this broker is a member of: its metrics, and the page /routez."""

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from broker.cluster_state import ClusterState, MemberFigures
from broker.server import Server

PREFIX = "seriatim_cluster_"

# (key, description); the metric is PREFIX and the key.
GAUGES = (
    ("epoch", "The epoch: one more for each coordinator."),
    ("view_members", "Members in sync, as the view says."),
    ("min_in_sync", "Members that must have a message before anyone is shown it."),
    ("members_answering", "Of the members in sync, those that this member hears."),
    ("in_sync", "1 if this member is in sync."),
    ("is_coordinator", "1 if this member coordinates."),
    ("healthy", "1 if /healthz says so."),
    ("watermark", "The highest number that this member knows to be committed."),
    ("log_last", "The newest number in this member's journal, committed or not."),
    ("forward_bytes", "Bytes of this member's clients that are not committed yet."),
    ("engine_up", "1 if etcd has answered the last time."),
)
COUNTERS = (
    ("forwarded", "Messages sent to the coordinator, those sent again included."),
    ("forwarded_again", "Of these, sent again, after a connection broke."),
    ("found_in_log", "Messages not sent again, because the journal had them already."),
    ("ids_answered", "Messages whose id had a number already, as the coordinator answered."),
    ("cut_records", "Records removed from this journal's end: they were never committed."),
    ("views", "Changes of the view that this member has seen."),
    ("takeovers", "Times that this member began to coordinate."),
    ("stalled_seconds", "Seconds in which clients here waited, and nothing was committed."),
)
# (field of MemberFigures, description)
BY_MEMBER = (
    ("lag_bytes", "Bytes that a member has not acknowledged; the coordinator knows."),
    ("lag_seconds", "For how long it has not acknowledged the oldest of them."),
    (
        "clock_seconds",
        "Seconds by which a member's clock is ahead of the coordinator's, which knows.",
    ),
    ("pulse_seconds", "Seconds since the last sign of life of a member that should give some."),
)


def take_cluster(server: Server) -> ClusterState | None:
    """Take the figures; None for a single broker."""
    return server.cluster.state() if server.cluster is not None else None


def cluster_metrics(state: ClusterState) -> Iterator[Metric]:
    """Yield all metrics of a member."""
    for key, about in GAUGES:
        yield GaugeMetricFamily(PREFIX + key, about, value=state.figures[key])
    for key, about in COUNTERS:
        yield CounterMetricFamily(PREFIX + key, about, value=state.figures[key])
    swaps = CounterMetricFamily(
        PREFIX + "engine_swaps",
        "Changes of the view that this member asked etcd for.",
        labels=["result"],
    )
    for result, count in state.swaps.items():
        swaps.add_metric([result], count)
    yield swaps
    for key, about in BY_MEMBER:
        family = GaugeMetricFamily(PREFIX + key, about, labels=["member"])
        for member in state.members:
            value = getattr(member, key)
            if value is not None:
                family.add_metric([member.id], value)
        yield family
    info = GaugeMetricFamily(
        PREFIX + "info",
        "1, with what this member is as labels.",
        labels=["cluster", "member", "role"],
    )
    info.add_metric([state.cluster, state.member, state.role], 1)
    yield info


def cluster_page(state: ClusterState | None) -> dict[str, Any]:
    """The part of /varz about the cluster; empty for a single broker, as in nats-server."""
    if state is None:
        return {}
    facts = {
        "name": state.cluster,
        "member": state.member,
        "role": state.role,
        "coordinator": state.coordinator,
        "status": state.unhealthy or "ok",
        "tls": state.members_tls,
        "tls_required": state.members_tls == "on",
        "tls_verify": state.members_tls != "off",
    }
    whole = {key: value if key.endswith("seconds") else int(value) for key, value in _all(state)}
    return facts | whole | {"engine_swaps": state.swaps}


def connected_members(state: ClusterState | None) -> int:
    """Count the other members that are connected to this one."""
    if state is None:
        return 0
    return sum(one.is_connected for one in state.members if one.id != state.member)


def routes_page(server: Server, now: str, state: ClusterState | None) -> dict[str, Any]:
    """/routez: the other members of the cluster, connected to this one or not."""
    page: dict[str, Any] = {
        "server_id": server.server_id,
        "server_name": server.name,
        "now": now,
    }
    if state is None:
        return page | {"num_routes": 0, "routes": []}
    others = [one for one in state.members if one.id != state.member]
    page |= {"cluster": cluster_page(state), "num_routes": connected_members(state)}
    return page | {"routes": [_route(one) for one in others]}


def _route(member: MemberFigures) -> dict[str, Any]:
    host, _, port = member.address.rpartition(":")
    entry: dict[str, Any] = {
        "remote_id": member.id,
        "remote_name": member.name or member.id,
        "ip": host.strip("[]"),
        "port": int(port or 0),
        "role": member.role or "absent",
        "in_sync": member.in_sync,
        "connected": member.is_connected,
        "clients": list(member.clients),
        "http": member.http,
        "version": member.version,
    }
    if member.tls_version:
        entry["tls_version"] = member.tls_version
        entry["tls_cipher_suite"] = member.tls_cipher
        entry["tls_names"] = list(member.tls_names)
    for key in ("last", "lag_bytes", "lag_seconds", "pulse_seconds", "clock_seconds"):
        value = getattr(member, key)
        if value is not None:
            entry[key] = value
    return entry


def _all(state: ClusterState) -> list[tuple[str, float]]:
    return sorted(state.figures.items())
