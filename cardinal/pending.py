"""An incomplete block: the messages that arrived, and the counts of missing ones.

Updates and Deletes are kept as they came, key to value, until enough have arrived for the block to
be complete; only then are they examined, all at once (`settle`). So an arriving message costs one
entry of a dict, whether its Batch is known or not, and a copy of it one lookup.

Each message counts for the longest prefix of the Batch that its key begins with and that still
lacks a message. A message that counts for nothing is returned with the reason and forgotten, so
that it does not block a correct one. Sub-batches are decoded as they come: a damaged copy must not
hide an intact one.

If one key has several values, these win, in any order of arrival: an Update over a sub-batch, a
later message of a sub-batch over an earlier one, the sub-batch with the higher id over one with a
lower, and a sub-batch over the Batch itself.
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
# Overhead besides the bytes themselves, as measured on CPython 3.11: objects, slots of dicts and
# sets. Where a key is kept twice, raw and as text, its bytes are counted twice.
EACH_BYTES = 160  # an Update or a Delete
BLOCK_BYTES = 1600  # an empty block
ENTRY_BYTES = 220  # an entry of a Batch, of any kind
SUB_BATCH_BYTES = 450  # an empty sub-batch
MESSAGE_BYTES = 360  # a message of a sub-batch
CHANGE_BYTES = 130  # a key that it deletes or sets
NEVER = 1 << 62
FOREVER = -NEVER  # the count of a prefix that is not tracked

# The deletes and updates of a sub-batch's message.
Content = tuple[Collection[str], Mapping[str, bytes]]
Refused = tuple[bytes, CardinalError | None]  # a key, and the error; None: it is not tracked


class SubBatch:
    """The messages that arrived of one sub-batch; `count` is -1 before its header."""

    __slots__ = ("count", "kept_bytes", "keys", "messages")

    def __init__(self) -> None:
        self.count = -1
        # the ends of the keys, to recognise a copy without decoding it
        self.keys: set[bytes] = set()
        self.messages: dict[int, Content] = {}
        self.kept_bytes = SUB_BATCH_BYTES

    @property
    def whole(self) -> bool:
        return len(self.messages) == self.count


@dataclass(frozen=True, slots=True)
class Missing:
    """The missing part of a block: its Batch, or counts of messages by prefix and sub-batch."""

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
    return IndexTooHigh(f"index {index}, but the sub-batch has {count} messages")


def _why_not(key: bytes) -> CardinalError:
    """Return the reason why an Update or a Delete counts for nothing."""
    try:
        name = text(key, HEAD)
    except BadText as error:
        return error
    return NotCounted(f"{name!r:.80} matches no missing message of the block")


def _short(id: bytes) -> str:
    return "0x" + (id.lstrip(b"\0").hex() or "00")


class Pending(dict[bytes, bytes]):
    """Updates and Deletes by their raw keys, and everything else known about a block.

    `want` is the smallest length at which the block may be complete. Only the assembler changes it.
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
        self.settled = 0  # how many of the entries were counted
        self.awaited = 0  # missing messages of tracked prefixes
        self.left: dict[bytes, int] = {}  # by prefix
        self.ends: list[int] = []  # lengths of prefixes, the longest first
        self.open = 0  # incomplete sub-batches
        self.untracked: set[bytes] = set()  # sub-batches in the Batch that are not tracked
        self.sub_batches: dict[bytes, SubBatch] = {}
        self.inline: dict[str, bytes] = {}
        self.updates: dict[str, bytes] = {}
        self.deletes: set[str] = set()

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Pickle `DONE` by name, so that it stays itself: it is compared by identity."""
        return "DONE" if self is DONE else super().__reduce_ex__(protocol)

    @property
    def whole(self) -> bool:
        return not self.awaited and not self.open and self.batch is not None

    def measure(self) -> int:
        """Return the block's approximate size in memory: messages and objects."""
        own = 2 * sum(map(len, self)) + sum(map(len, self.values())) + EACH_BYTES * len(self)
        subs = sum(sub.kept_bytes for sub in self.sub_batches.values())
        return BLOCK_BYTES + own + self.batch_bytes + subs

    def count(self) -> int:
        """Return the number of messages held."""
        held = sum(len(sub.messages) + (sub.count >= 0) for sub in self.sub_batches.values())
        return len(self) + held + (self.batch is not None)

    def open_batch(
        self, batch: Batch, size: int, tracked: Callable[[str], bool] | None
    ) -> list[Refused]:
        """Take the Batch, of `size` bytes. Returns earlier messages that do not fit it."""
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
        """Count an untracked prefix if its messages would else count for a shorter, tracked one.

        Its count starts below zero, so that it is not awaited.
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
        """Count the messages since the last call.

        Returns the messages that count for nothing, and the bytes that were counted for them.
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
                    left[prefix] = count + 1  # and it is kept, to recognise copies of it
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
        """Take a header; return earlier messages with too high an index, and the bytes to count."""
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
        """Take a message; return the bytes to count for it, 0 for a copy."""
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
        """A sub-batch, and the bytes to count if it is new."""
        sub = self.sub_batches.get(id)
        if sub is not None:
            return sub, 0
        if self.batch is not None:
            raise _not_announced(id)
        sub = self.sub_batches[id] = SubBatch()
        return sub, SUB_BATCH_BYTES

    def missing(self) -> Missing:
        """Return the missing part, by the messages counted so far."""
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
        """The block, completed by the message at offset `last`."""
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


DONE = Pending(b"", 0.0)  # marks a block that has been reported
