"""Notes that a follower cannot take yet: a PREPARE whose stages are not here, and what follows it.

Missing parts of a stage are fetched from the coordinator, one after the other. The parts of
a SNAPSHOT wait for its last one: they replace the log in one step.
"""

from collections.abc import Callable
from typing import Final

from sequencer.replica import member_messages as m
from sequencer.replica.member_state import MemberState
from sequencer.replica.notes.note_state import NoteState
from sequencer.replica.replicated_log import StageKey

REST_BYTES: Final = 4 << 20  # of a stage, sent at a time: more would fill the connection's buffer


class HeldNotes:
    """The notes of one connection to a coordinator, in their order."""

    def __init__(
        self,
        member: MemberState,
        note_state: NoteState,
        fetch: Callable[[StageKey, int], None],
        give_up: Callable[[str], None],
    ) -> None:
        """Call `fetch` for a stage from an offset on, and `give_up` with a reason to disconnect."""
        self.member = member
        self.note_state = note_state
        self._fetch_stage = fetch
        self._give_up = give_up
        self._held: list[m.Note] = []
        self._told = 0  # the coordinator's watermark of notes
        self._fetch_at = 0.0
        self._fetching = 0  # bytes that were asked for

    def clear(self) -> None:
        """Forget the notes: another connection brings them again."""
        self._held = []
        self._told = 0
        self._fetch_at = 0.0
        self.note_state.in_common = None

    def add(self, notes: tuple[m.Note, ...], watermark: int) -> None:
        self._held += notes
        self._told = watermark
        self._take_held()

    def look_again(self, watermark: int = 0) -> None:
        """Try again: stages may be synced now, and pieces that do not come are asked for again."""
        self._told = max(self._told, watermark)
        if self._held:
            self._take_held()

    def came(self, size: int) -> None:
        """Count bytes of a stage that were written."""
        self._fetching -= size
        if self._fetching <= 0:
            self._fetch_at = 0.0  # what was asked for has come: ask for more
        self.look_again()

    def is_here(self, note: m.Note) -> bool:
        """Return whether a note can be taken: a PREPARE needs its stages, synced.

        A promise that is kept already needs none: no member has the stages after its DONE.
        """
        fields, stages = note.fields, self.note_state.stages
        if note.kind != "PREPARE" or self._is_kept(fields["origin"]):
            return True
        if stages is None:
            return False
        return stages.keep(fields["application"], fields["batch"], fields["stages"])

    def _is_kept(self, origin: int) -> bool:
        """Return whether a promise is kept already: its DONE is committed."""
        return any(
            note.kind == "DONE" and note.fields["origin"] == origin and note.number <= self._told
            for note in self._held
        )

    def _take_held(self) -> None:
        """Take notes in order, as far as what they promise is here."""
        notes = self.member.notes
        while self._held:
            note = self._held[0]
            if note.kind == "SNAPSHOT" and self.note_state.last < note.fields["until"]:
                if not self._take_snapshot(note.fields["until"]):
                    return
                continue
            if note.number != notes.last + 1:
                self._give_up(f"note {note.number} comes where {notes.last + 1} was to come")
                return
            if not self.is_here(note):
                self._fetch(note)
                return
            self.note_state.append(note)
            self._held.pop(0)

    def _take_snapshot(self, until: int) -> bool:
        """Replace the notes by those up to `until`, when all of them are here."""
        if self._held[-1].number < until:
            return False
        first = self._held[0].number
        made, self._held = self._held[: until + 1 - first], self._held[until + 1 - first :]
        self.note_state.replace(tuple(made), until)
        return True

    def _fetch(self, note: m.Note) -> None:
        """Ask for missing parts of its stages, one after the other: that limits what is sent."""
        fields, stages = note.fields, self.note_state.stages
        if stages is None or self.member.now < self._fetch_at:
            return
        for name, size, _ in fields["stages"]:
            key = fields["application"], fields["batch"], name
            have = stages.size(key)
            if have < size:
                self._fetch_stage(key, have)
                self._fetch_at = self.member.now + self.member.settings.fetch
                self._fetching = min(size - have, REST_BYTES)
                return
