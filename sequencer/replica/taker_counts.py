"""The coordinator's view of who takes for queue groups: what members say, written as notes."""

import json
from typing import TYPE_CHECKING, Any, Final

from sequencer.replica import member_messages as m
from sequencer.replica.queue_weights import GroupKey, Weights, changes

if TYPE_CHECKING:
    from sequencer.replica.reign import Reign

NOTE_BYTES: Final = 128 << 10  # 64 notes fit a frame; what is left comes with the next note


class TakerCounts:
    """Of one reign, which writes it."""

    def __init__(self, reign: "Reign") -> None:
        self.reign = reign
        self.said: dict[str, dict[GroupKey, int]] = {}  # by members that were heard in this reign
        self._is_due = True
        self._counted: tuple[set[str], set[str]] = (set(), set())  # who counted at the last note

    def hear(self, member: str, message: m.Takers) -> None:
        """What a member says replaces what it said before."""
        said = {
            (pattern.decode("latin-1"), group.decode("latin-1")): weight
            for pattern, group, weight in message.groups
            if weight
        }
        if self.said.get(member) != said:
            self.said[member] = said
            self._is_due = True

    def write(self) -> None:
        """Write what has changed: in force for the numbers that are given from now on."""
        member = self.reign.member
        counted = self._here(), set(self.reign.in_sync.view.members)
        if not self.reign.is_taking or not (self._is_due or counted != self._counted):
            return
        member.numbering.sequencer.release()
        changed = changes(member.weights.newest, self._wanted(*counted))
        if member.numbering.sequencer.number != member.log.last:
            return
        some = _fitting(changed)
        if some:
            fields = {"after": member.log.last, "groups": some}
            note = m.Note(member.notes.last + 1, self.reign.epoch, "GROUPS", fields)
            try:
                member.promises.append(note)
            except OSError as error:
                member.complaint = f"the notes cannot be written: {error}"
                return
        self._is_due = len(some) < len(changed)
        self._counted = counted

    def _here(self) -> set[str]:
        return {link.member for link in self.reign.links.values()} | {self.reign.member.id}

    def _wanted(self, here: set[str], members: set[str]) -> dict[GroupKey, Weights]:
        """A member counts while it is connected, or in the view and not yet heard."""
        waited_for = members - self.said.keys()
        wanted: dict[GroupKey, Weights] = {}
        for key, weights in self.reign.member.weights.newest.items():
            for name, weight in weights.items():
                if name in waited_for:
                    wanted.setdefault(key, {})[name] = weight
        for name in here & self.said.keys():
            for key, weight in self.said[name].items():
                wanted.setdefault(key, {})[name] = weight
        return wanted


def _fitting(changed: list[Any]) -> list[Any]:
    """As many of the changes, from the first on, as one note may say."""
    size = 0
    for at, one in enumerate(changed):
        size += len(json.dumps(one))
        if size > NOTE_BYTES and at:
            return changed[:at]
    return changed
