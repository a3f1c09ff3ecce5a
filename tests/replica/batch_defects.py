"""Defects in what batches and queue groups need, each planted alone."""

from typing import Any

from sequencer.replica import member_messages as m
from sequencer.replica.batches.batch_commits import BatchCommits
from sequencer.replica.batches.stage_pieces import StagePieces
from sequencer.replica.coordinator_role import CoordinatorRole
from sequencer.replica.follower_role import FollowerRole
from sequencer.replica.member import Member
from sequencer.replica.notes.held_notes import HeldNotes
from sequencer.replica.notes.note_state import NoteState
from sequencer.replica.notes.queue_weights import QueueWeights

BATCH_DEFECTS: dict[str, dict[str, Any]] = {}


def defective(**parts: Any) -> dict[str, Any]:
    """A member with other parts than it should have."""
    of_coordinator: dict[str, Any] = {
        kind: parts.pop(kind) for kind in ("in_sync_kind", "batches_kind") if kind in parts
    }
    if of_coordinator:
        parts["coordinator_kind"] = type("Coordinating", (CoordinatorRole,), of_coordinator)
    if "held_kind" in parts:
        parts["follower_kind"] = type(
            "Following", (FollowerRole,), {"held_kind": parts.pop("held_kind")}
        )
    return {"member": type("Defective", (Member,), parts)}


# Rows of a batch are published when the coordinator has its promise


class Promising(BatchCommits):
    def is_promised(self, commit: Any) -> bool:
        return True


BATCH_DEFECTS["rows before the promise is everywhere"] = defective(batches_kind=Promising)


# A member takes a promise without having the stage


class Hollow(HeldNotes):
    def is_here(self, note: m.Note) -> bool:
        return True


class Lenient(BatchCommits):
    def go_on(self) -> None:
        whole, files = self.running, self.stages.files
        self.running = {
            name: one
            for name, one in whole.items()
            if all(
                (name, one.note.fields["batch"], stage) in files
                for stage, _, _ in one.note.fields["stages"]
            )
        }
        super().go_on()
        self.running = whole


BATCH_DEFECTS["a promise without its stage"] = defective(held_kind=Hollow, batches_kind=Lenient)


# A new coordinator publishes a batch again from its first row


class Again(BatchCommits):
    def count_row(self, commit: Any, row: int, number: int) -> None:
        pass


BATCH_DEFECTS["a batch is begun again"] = defective(batches_kind=Again)


# DONE before the rows are committed


class Early(BatchCommits):
    def is_safe(self, commit: Any) -> bool:
        return True


BATCH_DEFECTS["a batch is done before its rows are"] = defective(batches_kind=Early)


# A piece of a stage is answered when the coordinator has it


class Boasting(StagePieces):
    def must_wait(self, missing: int) -> bool:
        return False


class Careless(BatchCommits):
    pieces_kind = Boasting


BATCH_DEFECTS["a stage is answered before all have it"] = defective(batches_kind=Careless)


# Rows that the disk has refused count as published


class Oblivious(BatchCommits):
    def forget_above(self, number: int) -> None:
        pass


BATCH_DEFECTS["rows that were not written count"] = defective(batches_kind=Oblivious)


# A SNAPSHOT takes the place of promises that are not kept yet


class Unkept(NoteState):
    def apply(self, note: m.Note) -> None:
        whole, self.open = self.open, {}
        super().apply(note)
        if note.kind == "DONE":
            whole.pop(note.fields["origin"], None)
        self.open = whole


BATCH_DEFECTS["a snapshot replaces a promise"] = defective(notes_kind=Unkept)


# Retention deletes rows of a batch that is not done: they would be published again


class Tidy(NoteState):
    @property
    def keep_after(self) -> int:
        return self.member.log.last


BATCH_DEFECTS["retention deletes what a promise needs"] = defective(notes_kind=Tidy)


# Notes that are not the coordinator's count as had, although a SNAPSHOT is to replace them


class Trusting(NoteState):
    @property
    def last(self) -> int:
        return self.member.notes.last


BATCH_DEFECTS["notes that diverge outlive a snapshot"] = defective(notes_kind=Trusting)


# Notes count as soon as they are in the log, and not when they are on the disk


class Impatient(NoteState):
    @property
    def synced(self) -> int:
        return self.last


class Assuming(CoordinatorRole):
    def level(self, name: str) -> tuple[int, int]:
        number, note = super().level(name)
        return number, self.member.notes.last if name == self.member.id else note


BATCH_DEFECTS["notes are acknowledged before they are synced"] = defective(
    notes_kind=Impatient, coordinator_kind=Assuming
)


# A member goes on while the notes that it has cut are still on its disk


class Uncut(NoteState):
    is_cut = True


class Unwaiting(FollowerRole):
    @property
    def must_wait(self) -> bool:
        return self._welcome is not None


BATCH_DEFECTS["notes are cut in memory alone"] = defective(
    notes_kind=Uncut, follower_kind=Unwaiting
)


# Weights of queue groups count as soon as they come


class Prompt(QueueWeights):
    def add(self, note: m.Note) -> None:
        super().add(note._replace(fields={**note.fields, "after": 0}))


BATCH_DEFECTS["weights count when they come"] = defective(weights_kind=Prompt)


# A number may be shown before the weights for it are everywhere


class Unlimited(QueueWeights):
    def limit(self, note_watermark: int) -> int | None:
        return None


BATCH_DEFECTS["numbers are committed before their weights"] = defective(weights_kind=Unlimited)
