"""The state of a cluster for monitoring, as one of its members sees it."""

from collections.abc import Mapping

from broker.cluster.cluster_health import unhealthy
from broker.cluster.cluster_watch import ClusterWatch
from broker.cluster.driver import Driver
from broker.cluster.engine.view_keeper import Presence
from broker.cluster_state import ClusterState, MemberFigures
from sequencer.replica.member import Member

S = 1000.0  # milliseconds in a second
NS = 1_000_000_000


def cluster_state(
    driver: Driver, watch: ClusterWatch, present: Mapping[str, Presence]
) -> ClusterState:
    """Take a snapshot of the whole state, in the broker's loop."""
    member, view = driver.member, driver.member.view
    ids = dict.fromkeys([*(view.members if view is not None else ()), *sorted(present), member.id])
    if member.coordinator is not None:
        ids |= dict.fromkeys(link.member for link in member.coordinator.links.values())
    why = unhealthy(driver)
    return ClusterState(
        cluster=member.cluster,
        member=member.id,
        role=member.role,
        coordinator=view.coordinator if view is not None else "",
        unhealthy=why,
        members=[_member_state(driver, one, present.get(one)) for one in ids],
        figures=_figures(driver, watch) | {"healthy": not why},
        swaps=dict(driver.swaps),
        members_tls=driver.links.tls_use,
    )


def _figures(driver: Driver, watch: ClusterWatch) -> dict[str, float]:
    member, view = driver.member, driver.member.view
    table, counters = member.table, member.counters
    return {
        "epoch": view.epoch if view is not None else 0,
        "view_members": len(view.members) if view is not None else 0,
        "min_in_sync": view.min_in_sync if view is not None else 0,
        "members_answering": member.answering,
        "in_sync": view is not None and member.id in view.members,
        "is_coordinator": member.coordinator is not None,
        "watermark": member.watermark,
        "log_last": driver.journal.last,
        "forward_bytes": table.held_bytes,
        "engine_up": not driver.views.problem,
        "forwarded": table.forwarded,
        "forwarded_again": table.forwarded_again,
        "found_in_log": counters.found_in_log,
        "ids_answered": counters.ids_answered,
        "cut_records": counters.cut_records,
        "views": counters.views,
        "takeovers": counters.takeovers,
        "stalled_seconds": watch.stalled_seconds,
    }


def _member_state(driver: Driver, name: str, presence: Presence | None) -> MemberFigures:
    member, view = driver.member, driver.member.view
    last, lag_bytes, lag_seconds, pulse = _lag(driver, name)
    link = driver.links.with_member(name)
    tls = None if link is None else link.tls
    return MemberFigures(
        id=name,
        name=presence.name if presence is not None else "",
        role=_role(member, name, presence is not None),
        in_sync=view is not None and name in view.members,
        address=presence.cluster if presence is not None else "",
        clients=presence.clients if presence is not None else (),
        http=presence.http if presence is not None else "",
        version=presence.version if presence is not None else "",
        is_connected=_is_connected(member, name),
        tls_version="" if tls is None else tls.version,
        tls_cipher="" if tls is None else tls.cipher,
        tls_names=() if tls is None else tuple(tls.names),
        last=last,
        lag_bytes=lag_bytes,
        lag_seconds=lag_seconds,
        pulse_seconds=pulse,
        clock_seconds=None if member.coordinator is None else member.coordinator.clocks.get(name),
    )


def _role(member: Member, name: str, is_present: bool) -> str:
    """Return a member's role by the view, which is newer than the engine's list."""
    view = member.view
    if name == member.id:
        return member.role
    if view is not None and name == view.coordinator:
        return "coordinator"
    if not is_present:
        return ""
    return "follower" if view is not None and name in view.members else "learner"


def _is_connected(member: Member, name: str) -> bool:
    if member.coordinator is not None:
        return member.coordinator.link_of(name) is not None
    return bool(member.follower.epoch) and member.follower.to == name


def _lag(driver: Driver, name: str) -> tuple[int | None, int | None, float | None, float | None]:
    """Return newest number, lag in bytes and seconds, and seconds of silence, where known."""
    member, role = driver.member, driver.member.coordinator
    if name == member.id:
        return driver.journal.last, None, None, None
    if role is None:
        is_coordinator = member.view is not None and name == member.view.coordinator
        return None, None, None, member.coordinator_silent_for / S if is_coordinator else None
    if role.link_of(name) is None and name not in role.in_sync.view.members:
        return None, None, None, None
    last = role.level(name)[0]
    silent = role.in_sync.silent_for(name) / S
    if not last and role.link_of(name) is None:
        return None, None, None, silent  # it has said nothing in this epoch
    size, time = driver.journal.after(last)
    seconds = max(member.wall - time, 0) / NS if size and time else 0.0
    return last, size, seconds, silent
