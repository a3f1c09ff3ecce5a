"""The assembler: collects messages of any topics, in any order and with copies, into whole blocks.

In: rows of key, value and offset, any number per call; the offset is the place of a message in its
source, where a reader can resume. Out: events, in the order they happened.

    Block                  everything of it that is tracked has arrived
    Reorg, ReorgComplete   announced by a producer
    Dropped                a malformed message, or one that does not belong in its block
    Evicted                a block given up, too old or one of too many, and its missing part

Rule 1  No row raises an exception: bad messages are dropped, counted and reported.
Rule 2  A block is reported once, as long as its hash is among the last `remember`; copies of its
        messages are counted and dropped.
Rule 3  No clock: the caller gives the time.

Memory: at most `blocks_max` pending blocks, with at most `bytes_max` of messages together; the
overhead of objects is included (`pending.py`). Beyond that, and after `age_max` seconds, the oldest
block is evicted. During one call it may be twice as much, plus the call's Updates and Deletes. An
evicted block is collected again when its messages come again.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from cardinal import message_codec
from cardinal.block import Block
from cardinal.errors import CardinalError, NotAnnounced, NotOnChannel
from cardinal.message_codec import HEAD, WITH_ID
from cardinal.messages import (
    BATCH,
    DELETE,
    PING,
    REORG,
    REORG_COMPLETE,
    SUB_BATCH_HEADER,
    SUB_BATCH_MESSAGE,
    UPDATE,
    Reorg,
    ReorgComplete,
)
from cardinal.pending import BLOCK_BYTES, DONE, EACH_BYTES, Content, Missing, Pending, Refused

BLOCKS_MAX = 1024  # an Ethereum consumer has a dozen; the search through this many is still fast
BYTES_MAX = 256 << 20  # a block of Ethereum mainnet is about 1 MB
AGE_MAX_SECONDS = 600.0  # a restarted producer sends its outstanding messages long before that
REMEMBER = 1024  # four times as many as the reference, at 300 bytes each

Row = tuple[bytes, bytes, int]  # key, value, offset


@dataclass(frozen=True, slots=True)
class Dropped:
    """A message that was not used, and the reason."""

    error: CardinalError
    key: bytes
    source: str
    offset: int

    def __str__(self) -> str:
        where = f"{self.source} {self.offset}".strip()
        return f"{where}: {type(self.error).__name__}: {self.error}"


@dataclass(frozen=True, slots=True)
class Evicted:
    """A block that was given up before it was complete.

    `why` is "age", "count" or "bytes"; or "channel", which was closed before the block was
    complete.
    """

    hash: bytes
    number: int | None
    why: str
    missing: Missing
    messages: int
    bytes: int
    token: Mapping[str, int]

    def __str__(self) -> str:
        block = f"block {self.hash.hex()}" if self.number is None else f"block {self.number}"
        had = f"{block} given up ({self.why}), with {self.messages} of its messages"
        return f"{had}; missing: {self.missing}"


Event = Block | Reorg | ReorgComplete | Dropped | Evicted


class Assembler:
    """The assembler of one set of topics whose messages belong together; one writer."""

    def __init__(
        self,
        tracked: Callable[[str], bool] | None = None,
        *,
        blocks_max: int = BLOCKS_MAX,
        bytes_max: int = BYTES_MAX,
        age_max: float = AGE_MAX_SECONDS,
        remember: int = REMEMBER,
        skip: Mapping[str, Container[int]] | None = None,
        channel: bool = True,
    ) -> None:
        """`tracked` is asked for each key of a Batch; None: all are. `skip`: offsets to ignore.

        `channel`: whether these may be the topics of a reorg's channel. If not, a Reorg or
        ReorgComplete is dropped.
        """
        self.blocks_max = blocks_max
        self.bytes_max = bytes_max
        self.age_max = age_max
        self.remember = remember
        self.duplicates = self.untracked = self.dropped = 0
        self.pending: dict[bytes, Pending] = {}  # by hash, the oldest first
        self.pending_bytes = 0
        self._tracked = tracked
        self._skip = skip or {}
        self._channel = channel
        self._done: dict[bytes, None] = {}  # the hashes of blocks that were reported, oldest first
        # For each source: kind and hash to the block, for Updates and Deletes of blocks of which a
        # message has come from there before.
        self._heads: dict[str, dict[bytes, Pending]] = {}
        self._last: dict[str, int] = {}
        self._highest: dict[str, int] = {}
        self._events: list[Event] = []

    def feed(self, rows: Sequence[Row], source: str = "", now: float = 0.0) -> list[Event]:
        """Handle messages of one source; return the resulting events. `now` is in seconds."""
        if source in self._skip:
            rows = [row for row in rows if row[2] not in self._skip[source]]
        heads = self._heads.setdefault(source, {})
        block_of, done = heads.get, DONE
        last = self._last.get(source, -1)
        duplicates = arrived = 0
        for key, value, offset in rows:
            if offset < last:
                self._step_back(source, last)
            last = offset
            block = block_of(key[:HEAD])
            if block is None:
                self._other(key, value, source, offset, now)
            elif key in block or block is done:
                duplicates += 1
            else:
                block[key] = value
                arrived += 2 * len(key) + len(value) + EACH_BYTES
                if len(block) >= block.want:
                    self._settle(block, source, offset)
        self.duplicates += duplicates
        self.pending_bytes += arrived
        self._last[source] = last
        self._highest[source] = max(last, self._highest.get(source, -1))
        self._evict_over()
        return self.expire(now)

    def expire(self, now: float) -> list[Event]:
        """Give up blocks older than `age_max`; return all events."""
        while self.pending:
            oldest = next(iter(self.pending.values()))
            if oldest.since + self.age_max >= now:
                break
            self._evict(oldest, "age")
        return self._take_events()

    def give_up(self, why: str) -> list[Event]:
        """Give up all pending blocks; return all events."""
        while self.pending:
            self._evict(next(iter(self.pending.values())), why)
        return self._take_events()

    def rewind(self, source: str, first: int) -> None:
        """Go back: the source reuses the offsets from `first` on for other messages."""
        self._heads.get(source, {}).clear()
        for known in (self._last, self._highest):
            if source in known:
                known[source] = min(known[source], first - 1)
        for block in self.pending.values():
            if block.token.get(source, 0) > first:
                block.token[source] = first

    def adopt(self, block: Pending) -> None:
        """Take over a block that was pending in another assembler."""
        self.pending[block.hash] = block
        self.pending_bytes += block.measure()
        for source in block.token:
            self._heads.setdefault(source, {})

    def missing(self, hash: bytes) -> Missing | None:
        """Return the missing part of a pending block, or None if it is not pending."""
        block = self.pending.get(hash)
        if block is None:
            return None
        if block.batch is not None:
            self._count(block, "", -1)
        return block.missing()

    def floor(self, source: str) -> int:
        """The lowest offset that a pending block needs, or the next one if none does."""
        lowest, following = self.lowest(source), self.following(source)
        return following if lowest is None else min(lowest, following)

    def lowest(self, source: str) -> int | None:
        """The lowest offset that a pending block needs, or None if none needs any."""
        tokens = (block.token for block in self.pending.values())
        return min((token[source] for token in tokens if source in token), default=None)

    def following(self, source: str) -> int:
        """The offset after the highest one seen."""
        return self._highest.get(source, -1) + 1

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _step_back(self, source: str, last: int) -> None:
        """Forget which blocks are known from this source, because its offsets went back.

        The first message of each block then records its offset again (`_find`): as long as offsets
        rise, a block's lowest offset is that of its first message.
        """
        self._heads[source].clear()
        self._highest[source] = max(last, self._highest.get(source, -1))

    def _other(self, key: bytes, value: bytes, source: str, offset: int, now: float) -> None:
        """Handle anything but an Update or a Delete of a block known from this source."""
        kind = key[0] if key else -1
        hash = key[1:HEAD]
        if kind == PING:
            return
        try:
            if kind in (REORG, REORG_COMPLETE):
                reorg = message_codec.decode_reorg(key, value)
                if not self._channel:
                    name = type(reorg).__name__
                    raise NotOnChannel(
                        f"a {name} of block {reorg.number} on an ordinary topic, where it changes"
                        " nothing: it belongs on a topic reorg.*"
                    )
                self._events.append(reorg)
            elif not BATCH <= kind <= DELETE or len(key) < HEAD:
                message_codec.decode(key, value)  # raises the exact error
            elif hash in self._done:
                self.duplicates += 1
                if kind in (UPDATE, DELETE):
                    self._heads[source][key[:HEAD]] = DONE
            elif kind in (UPDATE, DELETE):
                self._first(key, value, source, offset, now)
            elif kind == SUB_BATCH_MESSAGE:
                self._sub_batch_message(key, value, source, offset, now)
            elif kind == SUB_BATCH_HEADER:
                self._sub_batch_header(key, value, source, offset, now)
            else:
                self._batch(key, value, source, offset, now)
        except CardinalError as error:
            self._drop(error, key, source, offset)
        if self.pending_bytes > 2 * self.bytes_max:  # a decoded Batch may be twenty times as large
            self._evict_over()

    def _first(self, key: bytes, value: bytes, source: str, offset: int, now: float) -> None:
        """Handle the first Update or the first Delete from this source for its block."""
        block = self._find(key[1:HEAD], source, offset, now)
        self._heads[source][key[:HEAD]] = block
        if key in block:
            self.duplicates += 1
            return
        block[key] = value
        self.pending_bytes += 2 * len(key) + len(value) + EACH_BYTES
        if len(block) >= block.want:
            self._settle(block, source, offset)

    def _batch(self, key: bytes, value: bytes, source: str, offset: int, now: float) -> None:
        block = self.pending.get(key[1:HEAD])
        if block is not None and block.batch is not None:
            self.duplicates += 1
            return
        batch = message_codec.decode_batch(key, value)
        block = self._find(batch.hash, source, offset, now)
        before = block.measure()
        refused = block.open_batch(batch, len(key) + len(value), self._tracked)
        self.pending_bytes += block.measure() - before
        self._refuse(refused, source, offset)
        if len(block) >= block.want or block.whole:
            self._settle(block, source, offset)

    def _sub_batch_header(
        self, key: bytes, value: bytes, source: str, offset: int, now: float
    ) -> None:
        header = message_codec.decode_sub_batch_header(key, value)
        block = self._find(header.hash, source, offset, now)
        added = block.add_header(header)
        if added is None:
            self.duplicates += 1
            return
        refused, taken = added
        self.pending_bytes += taken
        self._refuse(refused, source, offset)
        if block.whole:
            self._settle(block, source, offset)

    def _sub_batch_message(
        self, key: bytes, value: bytes, source: str, offset: int, now: float
    ) -> None:
        block = self.pending.get(key[1:HEAD])
        if block is not None:
            sub = block.sub_batches.get(key[HEAD:WITH_ID])
            if sub is not None and key[WITH_ID:] in sub.keys:
                self.duplicates += 1
                return
        if len(key) == WITH_ID + 1 and not key[WITH_ID] & 0x81:
            index = key[WITH_ID] >> 1
            content: Content = message_codec.sub_batch_content(value)
        elif len(key) == WITH_ID + 2 and key[WITH_ID] & 0x81 == 0x80 and key[-1] < 0x80:
            index = (key[WITH_ID] & 0x7F | key[-1] << 7) >> 1
            content = message_codec.sub_batch_content(value)
        else:
            message = message_codec.decode_sub_batch_message(key, value)
            index, content = message.index, (message.deletes, message.updates)
        block = self._find(key[1:HEAD], source, offset, now)
        taken = block.add_message(key, index, content, len(key) + len(value))
        if not taken:
            self.duplicates += 1
            return
        self.pending_bytes += taken
        if block.whole:
            self._settle(block, source, offset)

    def _find(self, hash: bytes, source: str, offset: int, now: float) -> Pending:
        """The pending block with this hash, created if needed, with its token updated."""
        block = self.pending.get(hash)
        if block is None:
            block = self.pending[hash] = Pending(hash, now)
            self.pending_bytes += BLOCK_BYTES
            block.token[source] = offset
        elif offset < block.token.get(source, offset + 1):
            block.token[source] = offset
        return block

    def _settle(self, block: Pending, source: str, offset: int) -> None:
        """Count what arrived for a block; report it if it is complete now."""
        self._count(block, source, offset)
        if not block.whole:
            return
        size = block.measure()
        self._events.append(block.block(offset, size))
        self._remove(block, size)
        self._done[block.hash] = None
        for name in block.token:
            self._heads[name].update(dict.fromkeys(_heads_of(block.hash), DONE))
        if len(self._done) > self.remember:
            oldest = next(iter(self._done))
            del self._done[oldest]
            self._forget(oldest, self._heads)

    def _count(self, block: Pending, source: str, offset: int) -> None:
        refused, freed = block.settle()
        self.pending_bytes -= freed
        self._refuse(refused, source, offset)

    def _refuse(self, refused: Sequence[Refused], source: str, offset: int) -> None:
        for key, error in refused:
            if error is None:
                self.untracked += 1
            else:
                self._drop(error, key, source, offset)

    def _drop(self, error: CardinalError, key: bytes, source: str, offset: int) -> None:
        if isinstance(error, NotAnnounced):
            block = self.pending.get(key[1:HEAD])
            if block is not None and key[HEAD:WITH_ID] in block.untracked:
                self.untracked += 1
                return
        self.dropped += 1
        self._events.append(Dropped(error, key, source, offset))

    def _evict_over(self) -> None:
        while len(self.pending) > self.blocks_max:
            self._evict(next(iter(self.pending.values())), "count")
        while self.pending_bytes > self.bytes_max:
            self._evict(next(iter(self.pending.values())), "bytes")

    def _evict(self, block: Pending, why: str) -> None:
        if block.batch is not None:
            self._count(block, "", -1)
        number = None if block.batch is None else block.batch.number
        size = block.measure()
        self._events.append(
            Evicted(block.hash, number, why, block.missing(), block.count(), size, block.token)
        )
        self._remove(block, size)

    def _remove(self, block: Pending, size: int) -> None:
        del self.pending[block.hash]
        self.pending_bytes -= size
        self._forget(block.hash, block.token)

    def _forget(self, hash: bytes, sources: Iterable[str]) -> None:
        for source in sources:
            for head in _heads_of(hash):
                self._heads[source].pop(head, None)


def _heads_of(hash: bytes) -> tuple[bytes, bytes]:
    return b"\x03" + hash, b"\x04" + hash
