"""A consumer's state as the note log has it: notes in, and at a start the state out.

    kept.apply(note)     in the order in which they were written
    kept.lower(last)     nothing above the journal's last number was ever delivered
    StreamConsumer.restore     goes on from it

A note has only what changed (`StreamConsumer.note`), but for one that is `whole`. What it keeps of
an unacked message suffices to know its acks again: both sequences, the low bits of its time, and
how often it was delivered. An older state than the true one lets messages come again, and never
leaves one out.
"""

from collections.abc import Mapping
from typing import Any, Final

COLUMNS: Final = 4  # of a new message in a note


class KeptConsumer:
    """The state of one consumer: its last delivery, and what is unacked."""

    def __init__(self) -> None:
        self.number = 0  # consumer sequence of the last delivery
        self.delivered = 0  # stream sequence of the last first one
        self.pending: dict[int, tuple[int, int, int]] = {}  # number, time's low bits, deliveries

    def apply(self, note: Mapping[str, Any]) -> None:
        """Take a note."""
        if note.get("whole"):
            self.pending.clear()
        self.number, self.delivered = note["delivered"]
        sequence = number = 0
        new = note.get("new", ())
        for at in range(0, len(new), COLUMNS):
            sequence += new[at]
            number += new[at + 1]
            self.pending[sequence] = number, new[at + 2], new[at + 3]
        again = note.get("again", ())
        for at in range(0, len(again), 2):
            if again[at] in self.pending:
                self.pending[again[at]] = (*self.pending[again[at]][:2], again[at + 1])
        for one in note.get("gone", ()):
            self.pending.pop(one, None)
        floor = note["floor"][1]
        for one in [one for one in self.pending if one <= floor]:
            del self.pending[one]

    def lower(self, last: int) -> None:
        """Forget what is above the journal's last number; those numbers will be given again."""
        self.delivered = min(self.delivered, last)
        for one in [one for one in self.pending if one > last]:
            del self.pending[one]

    def note(self) -> dict[str, Any]:
        """Return everything as one note."""
        new: list[int] = []
        last = last_number = 0
        rows = sorted(self.pending.items())
        for sequence, (number, time, deliveries) in rows:
            new += [sequence - last, number - last_number, time, deliveries]
            last, last_number = sequence, number
        floor = [self.number, self.delivered]
        if rows:
            floor = [rows[0][1][0] - 1, rows[0][0] - 1]
        return {
            "delivered": [self.number, self.delivered],
            "floor": floor,
            "new": new,
            "whole": True,
        }
