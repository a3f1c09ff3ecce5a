"""The interfaces that the core needs: a log, notes, stages, and its own memory.

The driver has them on disk (broker/cluster); the simulation has them in memory, and loses what a
power cut takes.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from sequencer.journal.protocols import WritableJournal
from sequencer.message import Message
from sequencer.replica.member_messages import Epochs, Note, Records
from sequencer.replica.view import View

StageKey = tuple[str, int, str]  # application, batch, name
Stages = list[list[Any]]  # [name, bytes, crc32] of each, in the order of publishing
NEW: Final = "0" * 16  # in place of a journal's id


class Inspected(NamedTuple):
    """Sound records from the coordinator: what `ReplicatedLog.append` must know of them."""

    last: int  # the number of the last one
    time: int  # of the first one, ns since 1970
    last_time: int
    ids: bool  # one of them has a Nats-Msg-Id


class LogEnds(Protocol):
    """The ends of a journal: of a member's, or of a broker's that is alone."""

    @property
    def first(self) -> int: ...  # the first number that is here; last + 1 if nothing is
    @property
    def last(self) -> int: ...
    @property
    def synced(self) -> int: ...  # a power cut takes nothing up to here


class EpochJournal(WritableJournal, Protocol):
    """The journal that the coordinator's sequencer writes."""

    def begin_epoch(self, epoch: int) -> None:
        """Begin an epoch: what is written from now on is of it. Raises `OSError`."""


class ReplicatedLog(EpochJournal, LogEnds, Protocol):
    """A journal. It is also the `WritableJournal` of the coordinator's sequencer."""

    @property
    def journal(self) -> str: ...  # its id, 16 hex digits; NEW while the store is new
    @property
    def last(self) -> int: ...
    def epochs(self) -> Epochs:
        """Return (epoch, its first number here), oldest first; epoch 0 is before the cluster."""

    def epoch_of(self, number: int) -> int:
        """Return the epoch of `number`, which is here, or is `first - 1`."""

    def append(self, records: Records, time: int, last_time: int, ids: bool) -> None:
        """Append what the coordinator sent, after `last`. OSError: nothing is appended."""

    def read(self, after: int, most: int) -> Records | None:
        """Return records from `after` + 1 on, of one epoch: `most` bytes, or one longer record.

        Only up to `last`, which is higher than `after`. None: they are not in memory. Then the
        driver calls `Member.readable` as soon as they are.
        """

    def truncate(self, number: int) -> None:
        """Remove everything above `number`, and sync that."""

    def reset_to(self, number: int, epoch: int, salt: int) -> None:
        """Remove everything; go on after `number`, which has this epoch elsewhere. Synced.

        A new store becomes one of the view's journal, with this salt.
        """


class NoteLog(Protocol):
    """The second log: it holds what batches and queue groups need.

    A call changes the memory alone, and cannot fail. The driver brings the disk to the same state
    after it, and then says so (`Member.notes_synced`). A note counts when it is synced.
    """

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    @property
    def synced(self) -> int: ...  # a crash takes nothing up to here
    @property
    def has_removed(self) -> bool: ...  # a crash may bring back what was removed
    def epochs(self) -> Epochs: ...
    def at(self, number: int) -> Note: ...
    def append(self, note: Note) -> None: ...
    def truncate(self, number: int) -> None: ...
    def shorten(self, notes: tuple[Note, ...]) -> None:
        """Put a SNAPSHOT in place of the notes that it sums up: what is synced still counts."""

    def replace(self, notes: tuple[Note, ...]) -> None:
        """Replace everything by another log, which begins with a SNAPSHOT."""


class StageStore(Protocol):
    """The stages of a member: files of rows that wait for their commit.

    `headers` are those of a request: they name its owner: address and connection.
    """

    def size(self, key: StageKey) -> int: ...  # 0: there is none
    def facts(self, key: StageKey) -> dict[str, int]: ...  # the facts for an answer
    def names(self, application: str, batch: int) -> list[str]: ...  # the stages of a batch
    def stage(
        self,
        key: StageKey,
        offset: int,
        data: bytes | bytearray | memoryview,
        headers: dict[str, str],
    ) -> None:
        """Check a piece, as the coordinator, and write it. Raises `OSError` and `StageRefused`."""

    def write(self, key: StageKey, offset: int, data: bytes | bytearray | memoryview) -> int:
        """Append a piece; return the size. Known bytes are skipped. Raises `OSError`.

        A piece that begins after the end is not written.
        """

    def read(self, key: StageKey, offset: int, most: int) -> bytes: ...
    def rows(self, application: str, batch: int, stages: Stages) -> int:
        """Return how many rows these have. Raises `StageRefused`: one is missing, or differs."""

    def claim(self, application: str, headers: dict[str, str]) -> dict[str, Any]:
        """Keep a place for an application, until `committed` or `disown`.

        Returns further fields of PREPARE and DONE: the owner, and the application that is
        forgotten `instead`. Raises `StageRefused`: there are too many.
        """

    def disown(self, application: str) -> None:
        """Release the place: nothing was promised to the application."""

    def committed(self, fields: dict[str, Any]) -> None:
        """Note that a DONE with these fields is committed. Called again for each at a start."""

    def keep(self, application: str, batch: int, stages: Stages) -> bool:
        """Sync them. False: one is missing, or not yet synced; the core asks again later."""

    def publish(self, note: Note, row: int, most: int, take: Callable[[Message], int]) -> int:
        """Number rows from `row` on (from 1), with the note's origin; return how many."""

    def damage(self, note: Note) -> str:
        """Return why the rest of the note's rows cannot be read here; "" if it can."""

    def drop(self, application: str, batch: int, name: str = "") -> None:
        """Remove one stage, or all of this batch and of those before it."""


class MemberMemory(Protocol):
    """A member's memory of itself: cluster/member.json."""

    @property
    def member(self) -> str: ...  # its id, 16 hex digits
    @property
    def epoch(self) -> int: ...  # the highest that it has heard of
    @property
    def revision(self) -> int: ...
    @property
    def view(self) -> View | None: ...  # the last one heard of
    @property
    def stream(self) -> int: ...  # of the view whose coordinator's log is the one here; 0: unknown
    def learn(self, epoch: int, revision: int, view: View) -> None:
        """Remember these. On the disk when it returns, if the epoch is a new one."""

    def follow(self, stream: int) -> None:
        """Note that the log is that of this stream now. On the disk when it returns."""
