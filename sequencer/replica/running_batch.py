"""A batch that is promised, and which of its rows have numbers."""

from dataclasses import dataclass, field
from typing import Any, Final

from sequencer.replica.errors import StageRefused
from sequencer.replica.member_messages import CONFLICT, Note

ABOUT: Final = ("application", "batch", "remember", "origin", "rows", "address", "instead")


@dataclass
class RunningBatch:
    """A PREPARE without a DONE that is committed. Rows count from 1, and get numbers in order."""

    note: Note
    spans: list[tuple[int, int]] = field(default_factory=list)  # first number, rows
    is_done: bool = False  # DONE is in the log
    # Key, connection (0: here), and whether the request names the same stages.
    waiters: list[tuple[int, int, bool]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return int(self.note.fields["rows"])

    @property
    def taken(self) -> int:
        """How many rows have numbers."""
        return sum(count for _, count in self.spans)

    @property
    def first(self) -> int:
        return self.spans[0][0] if self.spans else 0

    @property
    def last(self) -> int:
        return self.spans[-1][0] + self.spans[-1][1] - 1 if self.spans else 0

    def add(self, first: int, count: int) -> None:
        """The next rows have numbers from `first` on."""
        if self.spans and self.last + 1 == first:
            before, rows = self.spans.pop()
            first, count = before, rows + count
        self.spans.append((first, count))

    def forget_above(self, number: int) -> None:
        """What had a higher number was not written."""
        kept = [(first, min(count, number + 1 - first)) for first, count in self.spans]
        self.spans = [(first, count) for first, count in kept if count > 0]

    def done_fields(self, time: int) -> dict[str, Any]:
        """What DONE says of it; `time` in milliseconds."""
        done = {key: self.note.fields[key] for key in ABOUT if key in self.note.fields}
        return done | {"first": self.first, "last": self.last, "time": time}


def check_order(asked: dict[str, Any], last: int | None) -> None:
    """Whether the batch comes after the one that the request names. Raises `StageRefused`."""
    if "after" in asked and asked["after"] != last:
        known = "no batch of it was committed" if last is None else f"its last batch is {last}"
        why = f"{known}, but this one must come after {asked['after']}"
        raise StageRefused(CONFLICT, why)
