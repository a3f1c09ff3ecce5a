"""What the core asks of the program around it: a log, a log of notes, and its own memory.

The driver has them on disk (broker/cluster); the simulation has them in memory, and loses what a
power cut takes.
"""

from typing import Protocol

from sequencer.replica.member_messages import Epochs, Note, Records
from sequencer.replica.view import View


class ReplicatedLog(Protocol):
    """A journal. It is also the `WritableJournal` of the coordinator's sequencer."""

    @property
    def salt(self) -> int: ...
    @property
    def first(self) -> int: ...  # the first number that is here; last + 1 if nothing is
    @property
    def last(self) -> int: ...
    @property
    def synced(self) -> int: ...  # a power cut takes nothing up to here
    @property
    def epoch(self) -> int: ...  # of the records that `write` appends
    def epochs(self) -> Epochs:
        """(epoch, first number here of it), oldest first; epoch 0 is before the cluster."""

    def epoch_of(self, number: int) -> int:
        """The epoch of `number`, which is here, or is `first - 1`."""

    def begin_epoch(self, epoch: int) -> None:
        """What the coordinator writes from now on is of this epoch."""

    def append(self, records: Records, time: int, last_time: int, ids: bool) -> None:
        """Append what the coordinator sent, after `last`. OSError: nothing is appended."""

    def read(self, after: int, most: int) -> Records | None:
        """Records from `after` + 1 on, of one epoch: `most` bytes, or one record if it is longer.

        Only up to `last`, which is higher than `after`. None: they are not in memory. Then the
        driver calls `Member.readable` as soon as they are.
        """

    def truncate(self, number: int) -> None:
        """Remove everything above `number`, and sync that."""

    def begin_anew(self, number: int, epoch: int, salt: int) -> None:
        """Remove everything; go on after `number`, which has this epoch elsewhere. Synced."""


class NoteLog(Protocol):
    """The second log, which is always synced. It holds what batches and queue groups need."""

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    def epochs(self) -> Epochs: ...
    def at(self, number: int) -> Note: ...
    def append(self, note: Note) -> None:
        """Append and sync. Raises `OSError`."""

    def truncate(self, number: int) -> None: ...
    def begin_anew(self, notes: tuple[Note, ...]) -> None:
        """Replace everything by a SNAPSHOT and what comes after it."""


class MemberMemory(Protocol):
    """What a member remembers of itself: cluster/member.json."""

    @property
    def member(self) -> str: ...  # its id, 16 hex digits
    @property
    def epoch(self) -> int: ...  # the highest that it has heard of
    @property
    def revision(self) -> int: ...
    @property
    def view(self) -> View | None: ...  # the last one heard of
    def learn(self, epoch: int, revision: int, view: View) -> None:
        """Remember these. On the disk when it returns, if the epoch is a new one."""
