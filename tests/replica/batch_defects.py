"""Defects in what batches and queue groups need, each planted alone."""

from typing import Any

from sequencer.replica import member_messages as m
from sequencer.replica.held_notes import HeldNotes
from sequencer.replica.member import Member
from sequencer.replica.promises import Promises
from sequencer.replica.queue_weights import QueueWeights
from sequencer.replica.reign import Reign
from sequencer.replica.stage_pieces import StagePieces

BATCH_DEFECTS: dict[str, dict[str, Any]] = {}


def defective(**parts: Any) -> dict[str, Any]:
    """A member with other parts than it should have."""
    sync = parts.pop("in_sync_kind", None)
    if sync is not None:
        parts["reign_kind"] = type("Reigning", (Reign,), {"in_sync_kind": sync})
    return {"member": type("Defective", (Member,), parts)}


# Rows of a batch are published when the coordinator has its promise


class Promising(Promises):
    def is_promised(self, commit: Any) -> bool:
        return True


BATCH_DEFECTS["rows before the promise is everywhere"] = defective(promises_kind=Promising)


# A member takes a promise without having the stage


class Hollow(Promises):
    def is_here(self, note: m.Note) -> bool:
        return True

    def go_on(self) -> None:
        whole, files = self.running, self.stages.files  # type: ignore[union-attr]
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


BATCH_DEFECTS["a promise without its stage"] = defective(promises_kind=Hollow)


# A new coordinator publishes a batch again from its first row


class Again(Promises):
    def count_row(self, commit: Any, number: int) -> None:
        pass


BATCH_DEFECTS["a batch is begun again"] = defective(promises_kind=Again)


# DONE before the rows are committed


class Early(Promises):
    def is_safe(self, commit: Any) -> bool:
        return True


BATCH_DEFECTS["a batch is done before its rows are"] = defective(promises_kind=Early)


# A piece of a stage is answered when the coordinator has it


class Boasting(StagePieces):
    def must_wait(self, missing: int) -> bool:
        return False


class Careless(Promises):
    pieces_kind = Boasting


BATCH_DEFECTS["a stage is answered before all have it"] = defective(promises_kind=Careless)


# Rows that the disk has refused count as published


class Oblivious(Promises):
    def forget_above(self, number: int) -> None:
        pass


BATCH_DEFECTS["rows that were not written count"] = defective(promises_kind=Oblivious)


# A SNAPSHOT takes the place of promises that are not kept yet


class Unkept(Promises):
    def apply(self, note: m.Note) -> None:
        whole, self.open = self.open, {}
        super().apply(note)
        if note.kind == "DONE":
            whole.pop(note.fields["origin"], None)
        self.open = whole


BATCH_DEFECTS["a snapshot replaces a promise"] = defective(promises_kind=Unkept)


# Retention deletes rows of a batch that is not done: they would be published again


class Tidy(Promises):
    @property
    def keep_after(self) -> int:
        return self.member.log.last


BATCH_DEFECTS["retention deletes what a promise needs"] = defective(promises_kind=Tidy)


# Notes that are not the coordinator's count as had, although a SNAPSHOT is to replace them


class Trusting(HeldNotes):
    @property
    def last(self) -> int:
        return self.member.notes.last


class Believer(Promises):
    def __init__(self, member: Any, stages: Any) -> None:
        super().__init__(member, stages)
        self.held = Trusting(self)


BATCH_DEFECTS["notes that diverge outlive a snapshot"] = defective(promises_kind=Believer)


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
