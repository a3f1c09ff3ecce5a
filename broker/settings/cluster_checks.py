"""Checks that a cluster member's settings fit together, and refuses what a cluster cannot do."""

from collections.abc import Callable, Mapping
from typing import Any

from broker.addresses import EVERYWHERE, is_loopback
from broker.settings.network_kinds import host_and_port

# (smaller, larger, why): the first must be below the second.
RISING = (
    ("cluster.pulse", "cluster.slow", "a member would be removed between two pulses"),
    (
        "cluster.slow",
        "cluster.dead",
        "a follower with a broken link would take over before the coordinator goes on without it",
    ),
    ("cluster.dead", "cluster.stranded", "clients would be sent away before another takes over"),
)
Place = Callable[[str], str]  # how a setting is named where it was set


def cluster_relations(
    values: Mapping[str, Any], shown: Callable[[str], str], place: Place
) -> list[str]:
    """Return every problem of a broker with these settings. `shown` gives a value as text."""
    if not values["cluster.name"]:
        return [
            f"{place(path)}: does nothing without a cluster; give --cluster NAME, or leave it out"
            for path in ("cluster.etcd", "cluster.advertise", "cluster.secret_file")
            if values[path]
        ]
    problems = [
        f"{place(small)}: {shown(small)} is not below {large}, which is {shown(large)}: {why}"
        for small, large, why in RISING
        if values[small] >= values[large]
    ]
    return [*problems, *_missing(values, place), *_refused(values, place)]


def _missing(values: Mapping[str, Any], place: Place) -> list[str]:
    problems = []
    if not values["cluster.etcd"]:
        problems.append(
            f"{place('cluster.etcd')}: is missing; give --etcd http://HOST:2379,... with the"
            " endpoints of the etcd that keeps the cluster's view"
        )
    advertised = _advertised_host(values)
    if advertised in EVERYWHERE:
        problems.append(
            f"{place('cluster.advertise')}: is missing; `host` is {values['host']}, so nobody can"
            " be told where this broker is; give --advertise HOST:PORT"
        )
    if not values["cluster.secret_file"] and not _is_private(values, advertised):
        problems.append(
            f"{place('cluster.secret_file')}: is missing; anyone who reaches this member's port"
            " could join the cluster; make a secret with `openssl rand -hex 32 > FILE`, and give"
            " --cluster_secret FILE to all members"
        )
    if values["cluster.tls"] in ("on", "optional"):
        wanted = values["cluster.tls"]
        problems += [
            f"{place(path)}: is missing; members speak TLS with it (cluster.tls is {wanted})"
            for path in ("tls.cert_file", "tls.ca_file")
            if not values[path]
        ]
    if values["cluster.etcd_user"] and not values["cluster.etcd_password_file"]:
        problems.append(
            f"{place('cluster.etcd_password_file')}: is missing, the password of"
            f" {values['cluster.etcd_user']}"
        )
    if values["cluster.etcd_key"] and not values["cluster.etcd_cert"]:
        problems.append(f"{place('cluster.etcd_cert')}: is missing, the certificate of the key")
    return problems


def _refused(values: Mapping[str, Any], place: Place) -> list[str]:
    """Return problems with settings that only a single broker supports."""
    problems = []
    if not values["journal.enabled"]:
        problems.append(
            f"{place('journal.enabled')}: the members of a cluster keep the journal together;"
            " leave out --no-journal"
        )
    if values["sequencer.exclude"]:
        problems.append(
            f"{place('sequencer.exclude')}: what has no number does not reach the other members;"
            " leave it out in a cluster"
        )
    age = values["journal.retain_age"]
    if age and age < values["journal.dedupe_window"]:
        problems.append(
            f"{place('journal.retain_age')}: is below journal.dedupe_window: a new coordinator"
            " would not know the ids of messages that are deleted"
        )
    return problems


def _advertised_host(values: Mapping[str, Any]) -> str:
    """Return the host that clients are sent to."""
    advertise = values["cluster.advertise"]
    host: str = host_and_port(advertise)[0] if advertise else values["host"]
    return host


def _is_private(values: Mapping[str, Any], advertised: str) -> bool:
    """True if the member is on loopback only: its own port, and the address it advertises."""
    member = values["cluster.member_advertise"]
    told = host_and_port(member)[0] if member else advertised
    return is_loopback(values["cluster.host"] or values["host"]) and is_loopback(told)
