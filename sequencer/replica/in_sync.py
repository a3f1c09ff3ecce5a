"""The members in sync: which must have a number before it is committed, which go, which come.

It keeps rules 4, 5 and 13 (sequencer/replica/__init__.py).
"""

from dataclasses import dataclass
from typing import Final

from sequencer.replica import member_messages as m
from sequencer.replica.coordinator_state import CoordinatorState, MemberLink
from sequencer.replica.view import View

DELAYS: Final = 4.0  # as many times its usual delay a member may be silent


@dataclass
class Removal:
    """A removal of a member's process for slowness: it may come again, but not at once."""

    wait: float
    until: float

    @property
    def remembered_until(self) -> float:
        """When it is forgotten: a removal before that makes the next wait twice as long."""
        return self.until + 2 * self.wait


class InSync:
    """The members that count in one epoch, as its coordinator sees them."""

    def __init__(self, coordinator: CoordinatorState) -> None:
        self.coordinator = coordinator
        self.member = coordinator.member
        self.proposals: list[View] = []  # on this revision: any of them may have been accepted
        self.joining = ""  # it counts before the engine has it
        self.dismissed: set[str] = set()  # an operator wants these removed
        self.heard: dict[str, float] = {}  # when the pulse was sent that it echoed last
        self.spoke: dict[str, float] = {}  # when it echoed a pulse, whether or not this one slept
        self.stalled: dict[str, float] = {}  # since when it has acknowledged nothing, but should
        self.delays: dict[str, float] = {}  # its latest answer to a pulse, less with each later one
        self.missing: dict[str, float] = {}  # those that hung up, and when to look for them
        self.gone: set[str] = set()  # of these: their machines refuse connections
        self.removals: dict[tuple[str, int], Removal] = {}  # by member and run
        self._began = self._coordinates_since = self.member.now
        self._swap_at = self.member.now

    @property
    def view(self) -> View:
        view = self.member.view
        assert view is not None, "a coordinator has a view"
        return view

    # Members that must have a number

    def required(self) -> set[str]:
        """All members that may come to coordinate after this one (rule 4)."""
        names = set(self.view.members)
        for proposal in self.proposals:
            names.update(proposal.members)
        if self.joining:
            names.add(self.joining)
        return names

    def is_enough(self) -> bool:
        """True if there are as many members in the view as a commit requires (rule 5)."""
        return len(self.view.members) >= self.view.min_in_sync

    def view_changed(self) -> None:
        """Take another view of this epoch from the engine: earlier proposals are decided."""
        self.proposals = []
        self._swap_at = self.member.now
        if self.joining in self.view.members:
            self.joining = ""

    # Silent members

    def came(self, name: str) -> None:
        self.heard[name] = self.spoke[name] = self.member.now
        self.stalled.pop(name, None)
        self.missing.pop(name, None)
        self.gone.discard(name)

    def hung_up(self, name: str) -> None:
        """Note that a member's connection has ended: if its process has, so much the sooner."""
        self.missing[name] = self.member.now

    def refused(self, name: str) -> None:
        """Note that a machine refuses connections: no process of that member is there."""
        if name in self.missing:
            self.gone.add(name)
            self.review()

    def echoed(self, name: str, sent: float) -> None:
        """Note that a member answered the pulse that was sent at `sent`."""
        now, settings = self.member.now, self.member.settings
        self.heard[name] = sent
        self.spoke[name] = now
        fading = 0.5 ** (settings.pulse / settings.calm)
        self.delays[name] = max(now - sent, self._delay(name) * fading)

    def acknowledged(self, name: str, is_more: bool, owes: bool) -> None:
        """Note an ACK. `is_more`: it is further than before; `owes`: it is less than was sent."""
        if is_more or not owes:
            self.stalled.pop(name, None)
        else:
            self.stalled.setdefault(name, self.member.now)

    def was_late(self, late: float) -> None:
        """Discount `late` milliseconds in which this process got no time, and heard no member."""
        now = self.member.now
        self._began = min(self._began + late, now)
        self.heard = {name: min(at + late, now) for name, at in self.heard.items()}
        self.stalled = {name: min(since + late, now) for name, since in self.stalled.items()}

    def is_silent(self, name: str) -> bool:
        member = self.member
        stalled = member.now - self.stalled.get(name, member.now)
        return self.silent_for(name) > self.allowed(name) or stalled > member.settings.stuck

    def allowed(self, name: str) -> float:
        """Return the ms for which a member may be silent.

        Less than `slow` if publishing waits for it, and its answers have come soon until now. A
        process that was removed for slowness gets all of `slow` for a while.
        """
        settings, link = self.member.settings, self.coordinator.link_of(name)
        removal = None if link is None else self.removals.get((name, link.run))
        if removal is not None and self.member.now < removal.remembered_until:
            return settings.slow
        number, note = self.coordinator.level(name)
        if number >= self.member.log.last and note >= self.member.notes.last:
            return settings.slow
        usual = 2 * settings.pulse + DELAYS * self._delay(name)
        return min(max(usual, settings.slow_least), settings.slow)

    def _delay(self, name: str) -> float:
        """Return how late a member answers; one that is not known yet may be slow."""
        return self.delays.get(name, self.member.settings.slow / DELAYS)

    def speaking(self) -> int:
        """Return how many members of the view have spoken lately, this one included."""
        since = self.member.now - self.member.settings.slow
        return sum(
            one == self.member.id or self.spoke.get(one, self._coordinates_since) >= since
            for one in self.view.members
        )

    def silent_for(self, name: str) -> float:
        """Return the ms since that member answered a pulse, as far as this one would know."""
        return self.member.now - max(self.heard.get(name, 0.0), self._began)

    def look_for_missing(self) -> None:
        """Connect to the members that hung up: one that is there only makes a new connection."""
        member = self.member
        for name, at in list(self.missing.items()):
            if name not in self.view.members or self.is_unfit(name):
                del self.missing[name]
            elif member.now >= at:
                self.missing[name] = member.now + member.settings.probe
                member.say(m.Dial(name))

    # Members that go, and that come

    def review(self) -> None:
        """Propose which members go and come. A proposal stays one until the revision has moved."""
        member, view = self.member, self.view
        if member.now < self._swap_at:
            return
        going = {one for one in view.members if one != member.id and self.is_unfit(one)}
        staying = tuple(one for one in view.members if one not in going)
        joined = self._joiner(view)
        proposed = staying + joined
        if len(proposed) < min(self.least(view), len(view.members)):
            proposed = view.members + joined  # rule 5: too few would be left
        protocol = self._protocol(proposed)
        wanted = view._replace(members=proposed, protocol=protocol)
        if wanted != view:
            self._swap_at = member.now + member.settings.engine
            self.propose(wanted)
            self._note_removals(going - set(proposed))

    def least(self, view: View) -> int:
        return view.min_in_sync

    def propose(self, wanted: View) -> None:
        """Ask for a view. From now on its members count, whether or not that is answered."""
        if wanted not in self.proposals:
            self.proposals.append(wanted)
        self.member.propose(wanted)
        self.member.say(m.ReadView())

    def is_unfit(self, name: str) -> bool:
        """True if that member is to go."""
        link = self.coordinator.link_of(name)
        is_leaving = name in self.dismissed or (link is not None and link.is_leaving)
        return is_leaving or name in self.gone or self.is_silent(name)

    def _joiner(self, view: View) -> tuple[str, ...]:
        """Return the member that comes, if it has all that is committed by now (rule 13)."""
        if self.joining and (
            self.is_silent(self.joining) or not self.coordinator.link_of(self.joining)
        ):
            self.joining = ""  # proposals that name it still count
        if not self.joining:
            for link in self.coordinator.links.values():
                if link.member not in view.members and self._may_join(link):
                    self.joining = link.member
                    break
        return (self.joining,) if self.joining and self.has_everything(self.joining) else ()

    def has_everything(self, name: str) -> bool:
        """True if that member has all that is committed, by this coordinator or before."""
        number, note = self.coordinator.level(name)
        needed = max(self.member.watermark, self.coordinator.inherited[0])
        return number >= needed and note >= self._notes_needed

    @property
    def _notes_needed(self) -> int:
        return max(self.member.note_watermark, self.coordinator.inherited[1])

    def _may_join(self, link: MemberLink) -> bool:
        """True if a learner was close to the head for long enough."""
        member, settings = self.member, self.member.settings
        behind = link.bytes + self.coordinator.journal.written - link.level_at
        is_near = link.level_at >= 0 and behind <= settings.near_bytes
        # A promise whose stages are gone can be taken only when it is known to be kept.
        has_notes = self.coordinator.level(link.member)[1] >= self._notes_needed
        is_known = link.member in self.coordinator.acked and not link.is_leaving
        is_fit = is_near and has_notes and is_known
        near_for = link.near_for(member.now, is_fit)
        removal = self.removals.get((link.member, link.run))
        return (
            is_fit
            and near_for >= settings.near_time
            and not self.is_silent(link.member)
            and (removal is None or member.now >= removal.until or self._is_short())
        )

    def _is_short(self) -> bool:
        """True if fewer than rule 5 asks for would be left, if all went that are to go.

        Publishing waits for them then. So a member that was slow comes at once: that costs less.
        """
        fit = [one for one in self.view.members if one == self.member.id or not self.is_unfit(one)]
        return len(fit) < self.view.min_in_sync

    def _note_removals(self, removed: set[str]) -> None:
        """Make slow members that are connected wait before they come again: longer each time."""
        member, settings = self.member, self.member.settings
        for name in removed:
            link = self.coordinator.link_of(name)
            if link is None or link.is_leaving:
                continue
            key = name, link.run
            before = self.removals.get(key)
            if before is not None and member.now < before.until:
                continue  # the same removal is proposed again
            if before is not None and member.now < before.remembered_until:
                wait = min(2 * before.wait, settings.rejoin_max)
            else:
                wait = settings.rejoin
            self.removals[key] = Removal(wait, member.now + wait)

    def _protocol(self, members: tuple[str, ...]) -> int:
        """Return the highest protocol that all of these speak; it never falls."""
        view, highest = self.view, [self.member.settings.protocols[1]]
        for name in members:
            if name != self.member.id:
                link = self.coordinator.link_of(name)
                if link is None:
                    return view.protocol
                highest.append(link.protocols[1])
        return max(view.protocol, min(highest))
