"""Checks whether a member is healthy, and says why not in words for an operator."""

from broker.cluster.driver import Driver
from broker.cluster.storage.store_log import StoreLog
from sequencer.replica.member import Member

KIB = 1024
S = 1000.0  # milliseconds in a second


def unhealthy(driver: Driver) -> str:
    """Return why this member is not healthy; empty if it is.

    A follower is healthy if it is in sync and hears its coordinator; a coordinator, if it commits.
    For both, another member must be able to take over.
    """
    why = fault(driver)
    if not why and is_learning(driver):
        return f"learning, {behind(driver.member, driver.journal)} behind"
    return why


def is_learning(driver: Driver) -> bool:
    """True while this member still copies what it is missing."""
    member = driver.member
    return member.coordinator is None and (member.role == "learner" or not driver.serving.is_set())


def fault(driver: Driver) -> str:
    """Return what an operator may have to fix; empty if nothing. Learning is not a fault."""
    member = driver.member
    view, settings = member.view, member.settings
    if member.engine_is_older:
        return "engine's epoch is older than ours"
    if view is None:
        return "the cluster has no view"
    if driver.engine_has_lost:
        return "etcd has lost the view: no other member can take over"
    if member.is_leaving:
        return "leaving the cluster"
    answering = member.answering
    if member.coordinator is not None:
        if answering < view.min_in_sync:
            return f"{answering} of {view.min_in_sync} members in sync"
        if not driver.serving.is_set():
            return "taking over"
        if member.stalled_for > settings.patience:
            return f"nothing was committed for {member.stalled_for / S:.0f} s"
        return ""
    if member.follower.why:
        return f"the coordinator refuses this member: {member.follower.why}"
    if member.coordinator_silent_for > settings.dead:
        return f"no coordinator for {member.coordinator_silent_for / S:.0f} s"
    if not is_learning(driver) and len(view.members) < view.min_in_sync:
        return f"{len(view.members)} of {view.min_in_sync} members in sync"
    return ""


def behind(member: Member, journal: StoreLog) -> str:
    """Return how much a learner is missing: bytes, estimated from those it has, or messages."""
    missing = max(member.follower.target - journal.last, 0)
    have = journal.last - journal.first + 1
    if not have or not missing:
        return f"{missing} messages"
    return f"about {size_text(missing * journal.store.bytes // have)}"


def size_text(count: int) -> str:
    """Format a number of bytes for people: 1.2 GiB."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < KIB:
            break
        size, unit = size / KIB, larger
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
