"""The ordered fold: turns messages, in the order of their numbers, into changes of the tables.

    rows of one batch --> Follower --> FoldOutcome: first, all blocks from number `cut` on are
                                       removed, then `added` are added; `reorgs` and `events` are
                                       recorded

Blocks that are added and removed again in one batch appear only in `reorgs`. Numbers increase along
a chain, so the blocks from a number on are always its end.

Rule 1  Rows below `next` were handled before and are skipped: handling a batch again, whole or in
        different pieces, changes nothing.
Rule 2  Time is that of the messages. So the same messages give the same tables, at any time and in
        any batches; only the blocks given up by age may differ by one piece.

Memory: that of the follower, the blocks that a batch adds, and the rows of the batch.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cardinal.assembler import Dropped, Evicted
from cardinal.block import Block
from cardinal.follower import ChainFollower, Event, NotOpen, Step
from cardinal.message_codec import HEAD
from cardinal.messages import Reorg, ReorgComplete
from cardinal.transport.envelope import unpack
from cardinal.transport.errors import BadEnvelope
from cardinal.update import ChainUpdate, Stalled, Unlinked
from pyspark_seriatim.jobs.cardinal.envelopes import split
from pyspark_seriatim.jobs.errors import WrongChain

PIECE: Final = 16_384  # rows that the follower gets at once, with one time for all
COLUMNS: Final = ("sequence", "subject", "payload", "timestamp")


@dataclass(frozen=True, slots=True)
class Added:
    """A block of the chain, and the time of the message that completed it (us since 1970)."""

    block: Block
    time: int


@dataclass(frozen=True, slots=True)
class Reorged:
    """A replacement of blocks; `sequence`, `time` belong to the last message of the added ones."""

    sequence: int
    time: int
    ancestor: bytes
    removed: list[bytes]
    added: list[bytes]
    beyond: bool


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event: something was dropped or given up, found at `sequence`."""

    sequence: int
    time: int
    kind: str
    hash: bytes | None
    number: int | None
    text: str


@dataclass(slots=True)
class FoldOutcome:
    """A batch's changes. `cut`: the number from which on blocks are removed; None: none are."""

    cut: int | None = None
    added: list[Added] = field(default_factory=list)
    reorgs: list[Reorged] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)


class StoredBlocks(Protocol):
    """The blocks in the tables."""

    def behind(self, ancestor: bytes, below: int | None) -> list[tuple[int, bytes]]:
        """Return numbers and hashes of the blocks after `ancestor`, oldest first; all, if it is not
        there. Only those with a number `below`.
        """


@dataclass(frozen=True, slots=True)
class WholeBlock:
    """The result of an assembler elsewhere; its last message is `sequence`, at `time`.

    `topic` is that of a reorg channel, or empty.
    """

    sequence: int
    time: int
    topic: str
    event: Block | Reorg | ReorgComplete | EventRow


class Fold:
    """The fold of one chain, from batch to batch; one writer."""

    def __init__(self, follower: ChainFollower, source: str, prefix: str) -> None:
        """`source` is the id of the journal; subjects are `prefix` and a topic."""
        self.follower = follower
        self.source = source
        self.next = 0  # all numbers below were handled
        self.counts: Counter[str] = Counter()  # since this object was created
        self._prefix = prefix
        self._times: dict[bytes, int] = {}  # of whole blocks that are not added yet
        self._outcome = FoldOutcome()

    def parts(self) -> dict[str, Any]:
        """The state to keep between batches."""
        return {"next": self.next, "times": self._times, "follower": self.follower}

    def resume(self, parts: dict[str, Any]) -> None:
        """Resume from what `parts` returned."""
        self.next, self._times = parts["next"], parts["times"]
        self.follower = parts["follower"]

    def fold_batch(self, rows: pa.Table, stored: StoredBlocks) -> FoldOutcome:
        """Handle the messages of a batch: columns `COLUMNS`, rows in any order."""
        self._outcome = FoldOutcome()
        rows = self._fresh(rows.select(COLUMNS))
        if rows.num_rows:
            numbers = rows["sequence"].to_numpy()
            times = rows["timestamp"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
            first = int(numbers[0])

            def clock(block: Block) -> int:
                if block.last < first:
                    return self._times[block.hash]
                return int(times[np.searchsorted(numbers, block.last)])

            for batch in rows.to_batches(max_chunksize=PIECE):
                self._piece(batch, clock, stored)
            self._end(int(numbers[-1]) + 1, rows.num_rows, clock)
        return self._outcome

    def take_whole(self, found: Sequence[WholeBlock], stored: StoredBlocks) -> FoldOutcome:
        """Handle the results of assemblers elsewhere for a batch, in any order."""
        self._outcome = FoldOutcome()
        found = sorted(found, key=lambda one: one.sequence)
        times = {one.sequence: one.time for one in found}

        def clock(block: Block) -> int:
            return self._times[block.hash] if block.hash in self._times else times[block.last]

        for one in found:
            if not isinstance(one.event, EventRow):
                now = one.time / 1e6
                events = self.follower.follow(one.event, one.topic, self.source, now)
                self._apply(events, one.sequence, one.time, clock, stored)
            elif one.event.kind != "Evicted" or not self._knows(one.event.hash):
                # A known block is not missing: only a copy of it was given up.
                self._outcome.events.append(one.event)
        if found:
            self._end(max(self.next, found[-1].sequence + 1), len(found), clock)
        return self._outcome

    def _knows(self, hash: bytes | None) -> bool:
        return hash is not None and self.follower.knows(hash)

    def _end(self, next: int, messages: int, clock: Callable[[Block], int]) -> None:
        self._times = {block.hash: clock(block) for block in self.follower.retained}
        self.next = next
        self.counts["messages"] += messages
        self.counts["added"] += len(self._outcome.added)
        self.counts["reorgs"] += len(self._outcome.reorgs)
        self.counts.update(one.kind for one in self._outcome.events)

    def _fresh(self, rows: pa.Table) -> pa.Table:
        """The rows that were not handled yet, in the order of their numbers."""
        numbers = rows["sequence"].to_numpy()
        if len(numbers) and (np.diff(numbers) <= 0).any():
            rows = rows.sort_by("sequence")
            numbers = rows["sequence"].to_numpy()
        return rows.slice(int(np.searchsorted(numbers, self.next)))

    def _piece(
        self, batch: pa.RecordBatch, clock: Callable[[Block], int], stored: StoredBlocks
    ) -> None:
        numbers = batch["sequence"].to_pylist()
        time = batch["timestamp"].cast(pa.timestamp("us")).cast(pa.int64())[-1].as_py()
        keys, values, bad = split(batch["payload"])
        subjects = pc.dictionary_encode(batch["subject"])
        names = [one.removeprefix(self._prefix) for one in subjects.dictionary.to_pylist()]
        topics = [names[at] for at in subjects.indices.to_pylist()]
        rows = list(zip(topics, keys, values, numbers, strict=True))
        for at in reversed(bad):
            del rows[at]
            text = f"{batch['subject'][at]}: {wrong(batch['payload'][at].as_py())}"
            self._outcome.events.append(
                EventRow(numbers[at], time, "BadEnvelope", None, None, text)
            )
        events = self.follower.take(rows, self.source, time / 1e6)
        self._apply(events, numbers[-1], time, clock, stored)

    def _apply(
        self,
        events: Sequence[Event],
        sequence: int,
        time: int,
        clock: Callable[[Block], int],
        stored: StoredBlocks,
    ) -> None:
        for event in events:
            if isinstance(event, Step):
                self._move(event.update, clock, stored)
            else:
                self._outcome.events.append(_event_row(event, sequence, time))

    def _move(
        self, update: ChainUpdate, clock: Callable[[Block], int], stored: StoredBlocks
    ) -> None:
        """Apply an update of the chain to this batch's changes."""
        outcome, out = self._outcome, self._outcome.added
        if update.beyond or update.unlinked:
            removed = self._take_back_behind(update.ancestor, stored)
        else:
            removed = [block.hash for block in update.removed]
            kept = max(len(out) - len(removed), 0)
            here = len(out) - kept
            if [one.block.hash for one in out[kept:]] != removed[len(removed) - here :]:
                raise WrongChain(
                    f"a reorg onto 0x{update.ancestor.hex()} removes blocks other than the last"
                    f" {here} of this batch; nothing of the batch is in the tables. Start the job"
                    " again; if this error repeats, assemble into another directory"
                )
            del out[kept:]
            if len(removed) > here:  # numbers rise, so this is below all earlier cuts
                outcome.cut = update.removed[0].number
        added = [Added(block, clock(block)) for block in update.added]
        out += added
        hashes = [one.block.hash for one in added]
        if update.beyond or not set(removed) <= set(hashes):  # otherwise the block below came late
            last = max(added, key=lambda one: one.block.last)
            outcome.reorgs.append(
                Reorged(last.block.last, last.time, update.ancestor, removed, hashes, update.beyond)
            )

    def _take_back_behind(self, ancestor: bytes, stored: StoredBlocks) -> list[bytes]:
        """Remove all blocks after `ancestor`, whose number the follower no longer knows."""
        outcome, out = self._outcome, self._outcome.added
        here = [one.block.hash for one in out]
        if ancestor in here:
            kept = here.index(ancestor) + 1
            del out[kept:]
            return here[kept:]
        out.clear()
        found = stored.behind(ancestor, outcome.cut)
        if found:
            outcome.cut = found[0][0]
        return [hash for _, hash in found] + here


def wrong(payload: bytes) -> str:
    """Explain why a payload is not an envelope."""
    try:
        unpack(payload)
    except BadEnvelope as error:
        return str(error)
    return "it is not an envelope"


def _event_row(event: Event, sequence: int, time: int) -> EventRow:
    kind, text = type(event).__name__, str(event)
    if isinstance(event, Dropped):
        hash = event.key[1:HEAD] if len(event.key) >= HEAD else None
        return EventRow(event.offset, time, kind, hash, None, text)
    if isinstance(event, Evicted | Unlinked | NotOpen):
        return EventRow(sequence, time, kind, event.hash, event.number, text)
    assert not isinstance(event, Step)
    if isinstance(event, Stalled):
        return EventRow(sequence, time, kind, None, event.number, text)
    text = f"channel {event.topic} given up: {event.why}"
    return EventRow(sequence, time, kind, None, None, text)
