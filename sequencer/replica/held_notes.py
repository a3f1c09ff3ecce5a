"""Notes that a follower cannot take yet: a PREPARE whose stages are not here, and what follows it.

What is missing of a stage is fetched from the coordinator, one part after the other. The parts of
a SNAPSHOT wait for its last one: they replace the log in one step.
"""

from typing import TYPE_CHECKING

from sequencer.replica import member_messages as m
from sequencer.replica.stage_pieces import REST_BYTES

if TYPE_CHECKING:
    from sequencer.replica.promises import Promises


class HeldNotes:
    """Of one connection to a coordinator."""

    def __init__(self, promises: "Promises") -> None:
        self.promises = promises
        self.member = promises.member
        self._held: list[m.Note] = []
        self._told = 0  # the coordinator's watermark of notes
        self._fetch_at = 0.0
        self._fetching = 0  # bytes that were asked for
        self.in_common: int | None = None  # until a SNAPSHOT has replaced what is here; None: all

    def forget(self) -> None:
        """Another connection brings them again."""
        self._held = []
        self._told = 0
        self._fetch_at = 0.0
        self.in_common = None

    @property
    def last(self) -> int:
        """The newest note that is here, and the coordinator's."""
        last = self.member.notes.last
        return last if self.in_common is None else min(last, self.in_common)

    def take(self, notes: tuple[m.Note, ...], watermark: int) -> None:
        self._held += notes
        self._told = watermark
        self._take_held()

    def look_again(self, watermark: int = 0) -> None:
        """Stages may be synced now; pieces that do not come are asked for again."""
        self._told = max(self._told, watermark)
        if self._held:
            self._take_held()

    def came(self, size: int) -> None:
        """So much of a stage was written."""
        self._fetching -= size
        if self._fetching <= 0:
            self._fetch_at = 0.0  # what was asked for has come: ask for more
        self.look_again()

    def is_kept(self, origin: int) -> bool:
        """Whether a promise is kept already: its DONE is committed."""
        return any(
            note.kind == "DONE" and note.fields["origin"] == origin and note.number <= self._told
            for note in self._held
        )

    def _take_held(self) -> None:
        """Write notes in order, as far as what they promise is here."""
        notes = self.member.notes
        while self._held:
            note = self._held[0]
            if note.kind == "SNAPSHOT" and self.last < note.fields["until"]:
                if not self._take_snapshot(note.fields["until"]):
                    return
                continue
            if note.number != notes.last + 1:
                self.give_up(f"note {note.number} comes where {notes.last + 1} was to come")
                return
            if not self.promises.is_here(note):
                self._fetch(note)
                return
            try:
                self.promises.append(note)
            except OSError as error:
                self.give_up(f"the notes cannot be written: {error}")
                return
            self._held.pop(0)

    def _take_snapshot(self, until: int) -> bool:
        """Replace the notes by those up to `until`, when all of them are here."""
        if self._held[-1].number < until:
            return False
        first = self._held[0].number
        made, self._held = self._held[: until + 1 - first], self._held[until + 1 - first :]
        try:
            self.member.notes.begin_anew(tuple(made))
        except OSError as error:
            self.give_up(f"the notes cannot be written: {error}")
            return False
        self.in_common = None
        self.member.note_watermark = max(self.member.note_watermark, until)
        self.promises.open.clear()
        for note in made:
            self.promises.count(note)
        return True

    def _fetch(self, note: m.Note) -> None:
        member, fields, stages = self.member, note.fields, self.promises.stages
        if stages is None or member.now < self._fetch_at:
            return
        follower = member.follower
        for name, size, _ in fields["stages"]:
            have = stages.size((fields["application"], fields["batch"], name))
            if have < size:  # one after the other, so that what is under way has a limit
                fetch = m.StageFetch(
                    follower.epoch, fields["application"], fields["batch"], name, have
                )
                member.actions.append(m.Send(follower.connection, fetch))
                self._fetch_at = member.now + member.settings.fetch
                self._fetching = min(size - have, REST_BYTES)
                return

    def give_up(self, why: str) -> None:
        self.member.complaint = why
        self.member.follower.leave()
