"""Notices changes in the cluster: logs them, and informs the clients concerned.

Called a few dozen times a second, so a member's answer that is late by that much counts as on time.
Each change that an operator must understand gets a line in the log.
"""

import logging
from collections.abc import Callable
from typing import Final

from broker.cluster.driver import Driver
from broker.cluster_side import MemberHost
from sequencer.replica.clock_difference import APART_S, clock_words
from sequencer.replica.view import View

log = logging.getLogger("seriatim")

S = 1000.0  # milliseconds in a second
STALL: Final = 100.0  # milliseconds without a commit: longer than a busy disk and network need


class ClusterWatch:
    """The watch over changes in the cluster. One per member, for its one thread."""

    def __init__(
        self,
        driver: Driver,
        guide: MemberHost,
        client_addresses: Callable[[], list[str]],
        name_of: Callable[[str], str],
        stranded: float,
    ) -> None:
        """`stranded`: after so many milliseconds alone, this member sends its clients away."""
        self.stalled_seconds = 0.0
        self.is_stranded = False
        self._driver = driver
        self._member = driver.member
        self._guide = guide
        self._client_addresses = client_addresses
        self._name_of = name_of
        self._stranded = stranded
        self._addresses: list[str] | None = None
        self._view: View | None = None
        self._is_lost = False  # the coordinator's silence was logged
        self._is_enough: bool | None = None  # enough members answer this coordinator
        self._looked = self._member.now
        self._was_stalled = False
        self._apart: set[str] = set()  # members whose wrong clocks were logged

    def look(self) -> None:
        """Notice what has changed since the last time."""
        self._count_stall()
        self._look_at_view()
        self._look_for_coordinator()
        self._look_whether_enough()
        self._look_whether_stranded()
        self._look_at_clocks()
        addresses = self._client_addresses()
        if addresses != self._addresses:
            if self._addresses is not None:
                self._guide.addresses_changed()
            self._addresses = addresses

    def _count_stall(self) -> None:
        member = self._member
        stalled = member.stalled_for
        if stalled > STALL:
            more = min(stalled, member.now - self._looked) if self._was_stalled else stalled
            self.stalled_seconds += more / S
        self._was_stalled = stalled > STALL
        self._looked = member.now

    def _look_at_view(self) -> None:
        """Log which members came and went, and which one coordinates."""
        member, before, view = self._member, self._view, self._member.view
        if view is None or view is before:
            return
        self._view = view
        old = before.members if before is not None else ()
        for one in view.members:
            if one not in old and before is not None:
                self._tell(logging.INFO, "member %s is in sync", one)
        for one in old:
            if one not in view.members:
                self._tell(logging.WARNING, "member %s is no longer in sync", one)
        coordinator = before.coordinator if before is not None else ""
        if view.coordinator != coordinator and view.coordinator != member.id:
            self._tell(logging.INFO, "member %s coordinates", view.coordinator)

    def _look_for_coordinator(self) -> None:
        member = self._member
        is_lost = member.coordinator_silent_for > member.settings.dead
        if member.view is None or is_lost == self._is_lost:
            return
        self._is_lost = is_lost
        if is_lost:
            self._tell(
                logging.WARNING, "coordinator %s is not heard any more", member.view.coordinator
            )
        elif member.coordinator is None:
            self._tell(logging.INFO, "coordinator %s is heard again", member.view.coordinator)

    def _look_whether_enough(self) -> None:
        """Log when this coordinator can no longer commit, and when it can again."""
        member, view = self._member, self._member.view
        if member.coordinator is None or view is None:
            self._is_enough = None
            return
        answering = member.answering
        is_enough = answering >= view.min_in_sync
        if is_enough == self._is_enough:
            return
        counts = member.cluster, answering, view.min_in_sync
        if not is_enough:
            log.warning("Cluster %s: %d of %d members in sync: nothing is published", *counts)
        elif self._is_enough is not None:
            log.info("Cluster %s: %d of %d members in sync: publishing goes on", *counts)
        self._is_enough = is_enough

    def _look_whether_stranded(self) -> None:
        """Send clients to other members, once each time that this one is cut off alone."""
        member = self._member
        is_stranded = self._alone_for() > self._stranded and self._driver.serving.is_set()
        if is_stranded == self.is_stranded or member.is_leaving:
            return
        self.is_stranded = is_stranded
        if is_stranded:
            self._guide.send_away(f"this member is alone for {self._stranded / S:g} s")
        else:
            self._guide.welcome_back()

    def _look_at_clocks(self) -> None:
        """Log members whose clocks differ from this coordinator's: one of the two is wrong."""
        role = self._member.coordinator
        clocks = role.clocks if role is not None else {}
        for one, ahead in clocks.items():
            if abs(ahead) > APART_S and one not in self._apart:
                self._apart.add(one)
                text = f"the clock of member %s is {clock_words(ahead)} this coordinator's: set it"
                self._tell(logging.WARNING, text, one)
            elif abs(ahead) <= APART_S and one in self._apart:
                self._apart.discard(one)
                self._tell(logging.INFO, "the clock of member %s agrees again", one)
        self._apart &= clocks.keys()

    def _alone_for(self) -> float:
        """Return the milliseconds since it heard a member that could serve its clients instead."""
        member, role = self._member, self._member.coordinator
        if role is None:
            return member.coordinator_silent_for
        others = [one for one in role.in_sync.view.members if one != member.id]
        if not others or not self._driver.views.problem:
            return 0.0  # it reaches etcd, so no other member coordinates
        return min(role.in_sync.silent_for(one) for one in others)

    def _tell(self, level: int, text: str, name: str) -> None:
        member, view = self._member, self._member.view
        assert view is not None, "changes are those of a view"
        text = f"Cluster %s: {text}, epoch %d"
        log.log(level, text, member.cluster, self._name_of(name), view.epoch)
