"""The coordinator's counts of takers of queue groups: what members say, written as notes."""

import json
from typing import Any, Final

from sequencer.replica import member_messages as m
from sequencer.replica.coordinator_state import CoordinatorState
from sequencer.replica.in_sync import InSync
from sequencer.replica.notes.note_state import NoteState
from sequencer.replica.notes.queue_weights import GroupKey, Weights, changes

NOTE_BYTES: Final = 128 << 10  # 64 notes fit a frame; what is left comes with the next note


class GroupCounts:
    """The counts that a coordinator has heard in its epoch."""

    def __init__(
        self, coordinator: CoordinatorState, in_sync: InSync, note_state: NoteState
    ) -> None:
        self.coordinator = coordinator
        self.in_sync = in_sync
        self.note_state = note_state
        self.said: dict[str, dict[GroupKey, int]] = {}  # by members that were heard in this epoch
        self._is_due = True
        self._counted: tuple[set[str], set[str]] = (set(), set())  # who counted at the last note

    def hear(self, member: str, message: m.Takers) -> None:
        """Replace what a member said before."""
        said = {
            (pattern.decode("latin-1"), group.decode("latin-1")): weight
            for pattern, group, weight in message.groups
            if weight
        }
        if self.said.get(member) != said:
            self.said[member] = said
            self._is_due = True

    def write(self) -> None:
        """Write what has changed; it is in force for the numbers given from now on."""
        member, notes = self.coordinator.member, self.note_state
        counted = self._here(), set(self.in_sync.view.members)
        if not self.coordinator.is_taking or not (self._is_due or counted != self._counted):
            return
        if member.note_trouble:  # no number after this note could be committed
            return
        member.numbering.sequencer.release()
        changed = changes(notes.weights.newest, self._wanted(*counted))
        some = _fitting(changed)
        if some:
            fields = {"after": member.log.last, "groups": some}
            notes.append(m.Note(member.notes.last + 1, self.coordinator.epoch, "GROUPS", fields))
        self._is_due = len(some) < len(changed)
        self._counted = counted

    def _here(self) -> set[str]:
        links = self.coordinator.links.values()
        return {link.member for link in links} | {self.coordinator.member.id}

    def _wanted(self, here: set[str], members: set[str]) -> dict[GroupKey, Weights]:
        """Return the wanted weights: of members connected, or in the view and not yet heard."""
        waited_for = members - self.said.keys()
        wanted: dict[GroupKey, Weights] = {}
        for key, weights in self.note_state.weights.newest.items():
            for name, weight in weights.items():
                if name in waited_for:
                    wanted.setdefault(key, {})[name] = weight
        for name in here & self.said.keys():
            for key, weight in self.said[name].items():
                wanted.setdefault(key, {})[name] = weight
        return wanted


def _fitting(changed: list[Any]) -> list[Any]:
    """Return as many of the changes, from the first on, as fit one note."""
    size = 0
    for at, one in enumerate(changed):
        size += len(json.dumps(one))
        if size > NOTE_BYTES and at:
            return changed[:at]
    return changed
