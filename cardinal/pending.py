"""One block that is not whole yet: what came of it, and what is still missing.

Updates and Deletes are kept as they came, key to value, until the count of them says that nothing
may be missing; only then are they looked at, all at once (`settle`). A message so costs one entry
of a dict when it arrives, whether its Batch is known or not, and a copy of it one look-up.

Each counts for the longest prefix of the Batch that its key begins with and of which a message is
still missing. What counts for nothing is given back with the reason and forgotten, so that it
does not stand in the way of a right one. Sub-batches are decoded as they come: a damaged copy must
not hide a whole one.

Values of one key from several places, whatever the order they came in: an Update wins over a
sub-batch, a later message of a sub-batch over an earlier one, the sub-batch with the higher id over
one with a lower, and a sub-batch over what the Batch itself says.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, SupportsIndex

from cardinal.avro import write_long
from cardinal.block import Block
from cardinal.errors import (
    BadText,
    CardinalError,
    IndexTooHigh,
    NotAnnounced,
    NotCounted,
)
from cardinal.message_codec import HEAD, WITH_ID, text
from cardinal.messages import NO_ID, UPDATE, Batch, Entry, SubBatchHeader

EMPTY = Entry()
# What is kept takes besides its bytes, as CPython 3.11 was measured: objects, places in dicts and
# sets. Where a key is kept twice, raw and as text, its bytes are counted twice.
EACH_BYTES = 160  # an Update or a Delete
BLOCK_BYTES = 1600  # a block before anything of it
ENTRY_BYTES = 220  # an entry of a Batch, of whatever kind
SUB_BATCH_BYTES = 450  # a sub-batch before any message of it
MESSAGE_BYTES = 360  # a message of a sub-batch
CHANGE_BYTES = 130  # a key that it deletes or sets
NEVER = 1 << 62
FOREVER = -NEVER  # the count of a prefix that is not tracked

Content = tuple[
    Collection[str], Mapping[str, bytes]
]  # what a message of a sub-batch deletes and sets
Refused = tuple[bytes, CardinalError | None]  # a key, and what is wrong; None: it is not tracked


class SubBatch:
    """What came of one sub-batch; `count` is -1 before its header."""

    __slots__ = ("count", "kept_bytes", "keys", "messages")

    def __init__(self) -> None:
        self.count = -1
        self.keys: set[bytes] = set()  # the ends of the keys, to know a copy without decoding it
        self.messages: dict[int, Content] = {}
        self.kept_bytes = SUB_BATCH_BYTES

    @property
    def whole(self) -> bool:
        return len(self.messages) == self.count


@dataclass(frozen=True, slots=True)
class Missing:
    """What a block lacks: its Batch, or so many messages of prefixes and sub-batches."""

    batch: bool = False
    prefixes: dict[str, int] = field(default_factory=dict)
    headers: list[bytes] = field(default_factory=list)
    sub_batches: dict[bytes, int] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.batch:
            return "its Batch"
        parts = [f"{count} of {prefix!r}" for prefix, count in self.prefixes.items()]
        parts += [f"the header of sub-batch {_short(id)}" for id in self.headers]
        parts += [f"{count} of sub-batch {_short(id)}" for id, count in self.sub_batches.items()]
        return ", ".join(parts) or "nothing"


def _not_announced(id: bytes) -> NotAnnounced:
    return NotAnnounced(f"the block has no sub-batch {_short(id)}")


def _too_high(index: int, count: int) -> IndexTooHigh:
    return IndexTooHigh(f"index {index} in a sub-batch of {count} messages")


def _why_not(key: bytes) -> CardinalError:
    """Why an Update or a Delete counts for nothing."""
    try:
        name = text(key, HEAD)
    except BadText as error:
        return error
    return NotCounted(f"the block is not missing anything that {name!r:.80} could be")


def _short(id: bytes) -> str:
    return "0x" + (id.lstrip(b"\0").hex() or "00")


class Pending(dict[bytes, bytes]):
    """Updates and Deletes by their raw keys, and all else that is known of a block.

    `want` is the least length at which the block may be whole. Written by the assembler alone.
    """

    __slots__ = (
        *("awaited", "batch", "batch_bytes", "deletes", "ends", "hash", "inline", "left", "open"),
        *("settled", "since", "sub_batches", "token", "untracked", "updates", "want"),
    )

    def __init__(self, hash: bytes, since: float) -> None:
        super().__init__()
        self.hash = hash
        self.since = since
        self.token: dict[str, int] = {}
        self.batch: Batch | None = None
        self.batch_bytes = 0
        self.want = NEVER
        self.settled = 0  # so many of the entries were counted
        self.awaited = 0  # messages of tracked prefixes that are missing
        self.left: dict[bytes, int] = {}  # of each prefix
        self.ends: list[int] = []  # of prefixes in a key, the longest first
        self.open = 0  # sub-batches that are not whole
        self.untracked: set[bytes] = set()  # sub-batches that the Batch has and nobody wants
        self.sub_batches: dict[bytes, SubBatch] = {}
        self.inline: dict[str, bytes] = {}
        self.updates: dict[str, bytes] = {}
        self.deletes: set[str] = set()

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Pickled, `DONE` stays what it is: others know it by its identity."""
        return "DONE" if self is DONE else super().__reduce_ex__(protocol)

    @property
    def whole(self) -> bool:
        return not self.awaited and not self.open and self.batch is not None

    def measure(self) -> int:
        """The bytes of memory that it takes, about: those of its messages, and of the objects."""
        own = 2 * sum(map(len, self)) + sum(map(len, self.values())) + EACH_BYTES * len(self)
        subs = sum(sub.kept_bytes for sub in self.sub_batches.values())
        return BLOCK_BYTES + own + self.batch_bytes + subs

    def count(self) -> int:
        """How many messages it holds."""
        held = sum(len(sub.messages) + (sub.count >= 0) for sub in self.sub_batches.values())
        return len(self) + held + (self.batch is not None)

    def begin(
        self, batch: Batch, size: int, tracked: Callable[[str], bool] | None
    ) -> list[Refused]:
        """The Batch has come, of `size` bytes. Returns what had come and does not belong to it."""
        self.batch = batch
        announced: set[bytes] = set()
        for key, entry in batch.entries.items():
            wanted = tracked is None or tracked(key)
            if entry.count:
                self.left[key.encode()] = entry.count if wanted else FOREVER
                self.awaited += entry.count if wanted else 0
            if entry.sub_batch != NO_ID:
                (announced if wanted else self.untracked).add(entry.sub_batch)
            if wanted and entry.delete:
                self.deletes.add(key)
            if wanted and (entry.value or entry == EMPTY):
                self.inline[key] = entry.value
        self.batch_bytes = size + ENTRY_BYTES * len(batch.entries) + sum(map(len, self.left))
        self.ends = sorted({HEAD + len(prefix) for prefix in self.left}, reverse=True)
        self._count_under_tracked()
        for id in announced:
            self.sub_batches.setdefault(id, SubBatch())
        self.open = sum(not self.sub_batches[id].whole for id in announced)
        self.want = self.awaited or NEVER
        return self._forget_others(announced)

    def _count_under_tracked(self) -> None:
        """Let an untracked prefix be counted where it would else count for a shorter, tracked one.

        Below zero, so that it is not awaited.
        """
        assert self.batch is not None
        tracked = [prefix for prefix, left in self.left.items() if left > 0]
        if len(tracked) == len(self.left):
            return
        ends = {len(prefix) for prefix in tracked}
        known = set(tracked)
        for prefix, left in self.left.items():
            if left < 0 and any(prefix[:end] in known for end in ends):
                self.left[prefix] = -self.batch.entries[prefix.decode()].count

    def _forget_others(self, announced: set[bytes]) -> list[Refused]:
        refused: list[Refused] = []
        for id in [id for id in self.sub_batches if id not in announced]:
            other = self.sub_batches.pop(id)
            error = None if id in self.untracked else _not_announced(id)
            if other.count >= 0:
                refused.append((b"\x01" + self.hash + id, error))
            refused += [(b"\x02" + self.hash + id + end, error) for end in other.keys]
        return refused

    def settle(self) -> tuple[list[Refused], int]:
        """Count what came since the last time.

        Returns what counts for nothing, and the bytes that were counted for it.
        """
        fresh = list(islice(reversed(self.items()), len(self) - self.settled))
        fresh.reverse()
        left, ends, updates, deletes = self.left, self.ends, self.updates, self.deletes
        refused: list[Refused] = []
        for key, value in fresh:
            for end in ends:
                prefix = key[HEAD:end]
                count = left.get(prefix)
                if count:
                    break
            else:
                refused.append((key, _why_not(key)))
                continue
            if count < 0:
                if count > FOREVER:
                    left[prefix] = count + 1  # and it is kept, to know copies of it
                else:
                    refused.append((key, None))
                continue
            try:
                name = key[HEAD:].decode()
            except UnicodeDecodeError:
                refused.append((key, _why_not(key)))
                continue
            left[prefix] = count - 1
            self.awaited -= 1
            if key[0] == UPDATE:
                updates[name] = value
            else:
                deletes.add(name)
        freed = sum(2 * len(key) + len(self.pop(key)) + EACH_BYTES for key, _ in refused)
        self.settled = len(self)
        self.want = self.settled + self.awaited if self.awaited else NEVER
        return refused, freed

    def add_header(self, header: SubBatchHeader) -> tuple[list[Refused], int] | None:
        """Returns what had come with too high an index, and the bytes to be counted for this.

        None if this header is a copy. Raises `NotAnnounced`.
        """
        sub, taken = self._sub_batch(header.id)
        if sub.count >= 0:
            return None
        sub.count = header.count
        high = [index for index in sub.messages if index >= header.count]
        for index in high:
            del sub.messages[index]
        if self.batch is not None and sub.whole:
            self.open -= 1
        start = b"\x02" + self.hash + header.id
        return [(start + write_long(i), _too_high(i, header.count)) for i in high], taken

    def add_message(self, key: bytes, index: int, content: Content, size: int) -> int:
        """Returns the bytes to be counted for it, 0 if it is a copy.

        Raises `IndexTooHigh`, `NotAnnounced`.
        """
        sub, taken = self._sub_batch(key[HEAD:WITH_ID])
        if index in sub.messages:
            return 0
        if 0 <= sub.count <= index:
            raise _too_high(index, sub.count)
        sub.keys.add(key[WITH_ID:])
        sub.messages[index] = content
        size += MESSAGE_BYTES + CHANGE_BYTES * (len(content[0]) + len(content[1]))
        sub.kept_bytes += size
        if self.batch is not None and sub.whole:
            self.open -= 1
        return taken + size

    def _sub_batch(self, id: bytes) -> tuple[SubBatch, int]:
        """A sub-batch, and the bytes to be counted if it is a new one."""
        sub = self.sub_batches.get(id)
        if sub is not None:
            return sub, 0
        if self.batch is not None:
            raise _not_announced(id)
        sub = self.sub_batches[id] = SubBatch()
        return sub, SUB_BATCH_BYTES

    def missing(self) -> Missing:
        """What is missing, of what was counted so far."""
        if self.batch is None:
            return Missing(batch=True)
        return Missing(
            prefixes={prefix.decode(): left for prefix, left in self.left.items() if left > 0},
            headers=[id for id, sub in sorted(self.sub_batches.items()) if sub.count < 0],
            sub_batches={
                id: sub.count - len(sub.messages)
                for id, sub in sorted(self.sub_batches.items())
                if sub.count > len(sub.messages)
            },
        )

    def block(self, last: int, size: int) -> Block:
        """The block, now that the message at offset `last` has made it whole."""
        assert self.batch is not None
        assert self.whole
        batch, updates, deletes = self.batch, self.updates, self.deletes
        if self.inline or self.sub_batches:
            updates = dict(self.inline)
            for deleted, updated in self._contents():
                deletes.update(deleted)
                updates.update(updated)
            updates.update(self.updates)
        place = (self.hash, batch.number, batch.weight, batch.parent)
        return Block(*place, updates, deletes, self.token, last, size)

    def _contents(self) -> Iterable[Content]:
        for _, sub in sorted(self.sub_batches.items()):
            for _, content in sorted(sub.messages.items()):
                yield content


DONE = Pending(b"", 0.0)  # stands where a block was that has been given
