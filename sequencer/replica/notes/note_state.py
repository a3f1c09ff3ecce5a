"""The state that the notes of the second log give: batches promised and finished, weights.

A note counts three times: when it is in the log (`count`), when it is on the disk (`synced`: only
then it is acknowledged), and when it is committed (`apply`). The two logs are committed together,
because a note governs the numbers after it (`advance_commit`):

    notes    ... 41 GROUPS after=57   42 PREPARE        numbers   56  57 | 58 ...
                    '--- no member may show number 58 before it has note 41 ---'
"""

from collections.abc import Container
from typing import Any

from sequencer.replica.member_messages import Note
from sequencer.replica.member_state import BrokerLogs
from sequencer.replica.notes.note_snapshots import KEPT, SPARE, SPARE_BYTES, shorten, size_of
from sequencer.replica.notes.queue_weights import QueueWeights
from sequencer.replica.replicated_log import StageStore


class NoteState:
    """The second log of one member, in either role, or of a broker that is alone."""

    # How many notes may be replaced by a SNAPSHOT before that is done, and how many stay.
    spare = SPARE
    kept = KEPT

    def __init__(
        self, member: BrokerLogs, stages: StageStore | None, weights: QueueWeights
    ) -> None:
        self.member = member
        self.stages = stages
        self.weights = weights  # who takes a number of a queue group
        self.applications: dict[str, dict[str, Any]] = {}  # the DONE of their last batch
        self.open: dict[int, Note] = {}  # by origin: promises without a committed DONE
        self.group_bytes = 0  # of GROUPS notes since the log was shortened
        # The notes here are the coordinator's only up to this one, until a SNAPSHOT has replaced
        # the rest; None: all of them are.
        self.in_common: int | None = None
        for number in range(member.notes.first, member.notes.last + 1):
            self.count(member.notes.at(number))

    @property
    def last(self) -> int:
        """The newest note that is here, and the coordinator's."""
        last = self.member.notes.last
        return last if self.in_common is None else min(last, self.in_common)

    @property
    def synced(self) -> int:
        """The newest note that is the coordinator's, and that a crash here does not take."""
        return min(self.member.notes.synced, self.last)

    @property
    def is_cut(self) -> bool:
        """True if a crash leaves no note here that is not the coordinator's (rule 10)."""
        return self.in_common is None and not self.member.notes.has_removed

    @property
    def keep_after(self) -> int:
        """Retention keeps the numbers above this one: rows of open promises may be there."""
        after = (note.fields["after"] for note in self.open.values())
        return min(after, default=self.member.log.last)

    # The log

    def append(self, note: Note) -> None:
        """Append a note: it counts when it is synced."""
        self.member.notes.append(note)
        self.count(note)

    def count(self, note: Note) -> None:
        """Count a note that is in the log: committed, or not yet."""
        if note.kind == "PREPARE":
            self.open[note.fields["origin"]] = note
        elif note.kind == "VOID":
            self.open.pop(note.fields["origin"], None)
        elif note.kind == "GROUPS":
            self.group_bytes += size_of(note.fields["groups"])
            self.weights.add(note)
        elif note.kind == "SNAPSHOT":  # what was committed before it was written
            until = note.fields["until"]
            self.open = {key: one for key, one in self.open.items() if one.number > until}
            for done in note.fields["applications"]:
                self._know(done)
            self.weights.reset_to(note)

    def replace(self, notes: tuple[Note, ...], until: int) -> None:
        """Replace the log by a coordinator's SNAPSHOT, which ends at `until`."""
        self.member.notes.replace(notes)
        self.in_common = None
        self.member.note_watermark = max(self.member.note_watermark, until)
        self.open.clear()
        for note in notes:
            self.count(note)

    def cut(self, number: int) -> None:
        """Remove the notes above this one: they are not the coordinator's."""
        notes = self.member.notes
        if number < notes.first - 1:
            self.in_common = number  # a SNAPSHOT comes, which replaces them all
            return
        gone = {
            note.fields["origin"]
            for note in map(notes.at, range(number + 1, notes.last + 1))
            if note.kind == "PREPARE" and self.open.pop(note.fields["origin"], None) is not None
        }
        for note in map(notes.at, range(notes.first, number + 1) if gone else ()):
            if note.kind == "PREPARE" and note.fields["origin"] in gone:
                self.open[note.fields["origin"]] = note  # it was written again
        if number < notes.last:
            notes.truncate(number)
            self.weights.forget_above(number)

    # The commit positions

    def know_committed(self, watermark: int) -> None:
        """Take over what an earlier process knew to be committed. Called before the first event.

        The notes that had to be committed before these numbers are so, too. Others must have them
        before they show the numbers: if this member comes to coordinate, it tells them both.
        """
        watermark = max(watermark, self.member.watermark)
        notes = self.weights.newest_before(watermark), self._newest_kept()
        self.advance_commit(watermark, max(notes))

    def advance_commit(self, watermark: int, note_watermark: int) -> None:
        """Advance both commit positions. Notes take effect before the numbers they govern.

        Only what is synced here takes effect: a process that starts again must know the notes of
        all numbers that this one has shown.
        """
        member, synced = self.member, self.synced
        while member.note_watermark < min(note_watermark, synced):
            member.note_watermark += 1
            self.apply(member.notes.at(member.note_watermark))
        limit = self.weights.limit(member.note_watermark)
        if synced >= note_watermark:
            member.advance(watermark if limit is None else min(watermark, limit))

    def apply(self, note: Note) -> None:
        """Take a committed note into effect; then shorten the log if it has grown."""
        if note.kind == "DONE":
            self.open.pop(note.fields["origin"], None)
            self._know(note.fields)
        if note.kind in ("DONE", "GROUPS"):
            self._shorten()

    def _shorten(self) -> None:
        """Replace what no member needs any more."""
        member, notes = self.member, self.member.notes
        oldest = min((note.number for note in self.open.values()), default=notes.last + 1)
        end = min(oldest - 1, member.note_watermark)
        done, is_large = self.applications.values(), self.group_bytes > SPARE_BYTES
        if shorten(notes, end, done, member.log.first, is_large, self.spare, self.kept):
            self.group_bytes = 0

    def forget_applications(self, known: Container[str]) -> None:
        """Forget the batches of applications that are no longer known: they have expired."""
        for name in [one for one in self.applications if one not in known]:
            del self.applications[name]

    def _know(self, done: dict[str, Any]) -> None:
        """Note the last batch of an application."""
        self.applications.pop(done.get("instead", ""), None)
        self.applications[done["application"]] = done
        if self.stages is not None:
            self.stages.committed(done)

    def _newest_kept(self) -> int:
        """The newest DONE that is known to be committed when a process starts; 0: none.

        Stages are dropped when their DONE is committed, and not before.
        """
        notes, stages = self.member.notes, self.stages
        newest, prepared = 0, {}
        for number in range(notes.first, notes.last + 1):
            note = notes.at(number)
            fields = note.fields
            if note.kind == "PREPARE":
                prepared[fields["origin"]] = fields["stages"]
            elif note.kind == "DONE" and stages is not None:
                batch = fields["application"], fields["batch"]
                known = prepared.get(fields["origin"], ())
                if any(size and not stages.size((*batch, name)) for name, size, _ in known):
                    newest = number
        return newest
