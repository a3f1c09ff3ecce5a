"""Turns blocks into messages by topic, with the counts that tell a consumer when one is complete.

    block      -> {topic: [(key, value), ...]}   an Update or a Delete for each key that the schema
                                                 counts, in its topic; then, in the default topic,
                                                 the Batch with all others and with the counts
    sub_batch  -> the same                       its header; one message with all deletes, if there
                                                 are any; one message for each update, by key
    reorg      -> a ReorgChannel                 for a reorg that is deeper than the threshold of
                                                 the application

Nothing is sent here, no clock is read. Two producers make the same bytes from the same blocks,
whatever the order of the keys, unless the deletes of a sub-batch are a list. The producer remembers
the sub-batches that were announced but not sent, at most `batches_max`.

Two cases are refused here that the reference accepts silently: a key of the Batch that is both set
and deleted (there, the value is lost), and one id for two sub-batches of a block.
"""

from collections.abc import Iterable, Mapping, Set

from cardinal.errors import (
    BrokenReorg,
    InvalidBatch,
    NotEncodable,
    PrefixConflict,
    TooManyBatches,
    UnknownBatch,
)
from cardinal.message_codec import encode, encode_batch, encode_sub_batch_message, encode_text
from cardinal.messages import (
    HASH_SIZE,
    NO_ID,
    Batch,
    Entry,
    Reorg,
    ReorgComplete,
    SubBatchHeader,
    SubBatchMessage,
)
from cardinal.schema import REORG_TOPIC, Schema

Messages = dict[str, list[tuple[bytes, bytes]]]  # keys and values by topic, to be sent in order

# an Ethereum block announces one; a producer with so many outstanding is stuck
BATCHES_MAX = 65_536


class Producer:
    """The maker of one stream's messages. Several may work redundantly."""

    def __init__(self, schema: Schema, batches_max: int = BATCHES_MAX) -> None:
        self.schema = schema
        self.batches_max = batches_max
        self._announced: dict[tuple[bytes, bytes], str] = {}  # by hash and id: the topic

    @property
    def announced(self) -> list[tuple[bytes, bytes]]:
        """Hash and id of the sub-batches still to be sent, the oldest first."""
        return list(self._announced)

    def block(
        self,
        number: int,
        hash: bytes,
        parent: bytes,
        weight: int,
        updates: Mapping[str, bytes] | None = None,
        deletes: Iterable[str] = (),
        batches: Mapping[str, bytes] | None = None,
    ) -> Messages:
        """The messages of a block. `batches` are prefixes and ids of sub-batches to follow.

        A consumer applies the deletes first. Raises `PrefixConflict`, `InvalidBatch`,
        `TooManyBatches`, `NotEncodable`; then nothing is announced.
        """
        batches = batches or {}
        if not isinstance(hash, bytes) or len(hash) != HASH_SIZE:
            raise NotEncodable(f"the hash {hash!r:.80} is not {HASH_SIZE} bytes")
        messages: Messages = {}
        entries: dict[str, Entry] = {}
        counts = self._counted(hash, updates or {}, deletes, messages, entries)
        self._check_batches(batches, counts, entries)
        for prefix, id in batches.items():
            entries[prefix] = Entry(sub_batch=id)
        for prefix, count in counts.items():
            if prefix in entries:
                raise PrefixConflict(f"{prefix!r} is a key of the Batch and a counted prefix")
            entries[prefix] = Entry(b"", count)
        ordered = dict(sorted(entries.items()))  # the same bytes from every producer
        batch = encode_batch(Batch(hash, number, weight, parent, ordered))
        default = self.schema.default
        messages[default] = [*messages.pop(default, []), batch]  # the last topic, and last in it
        for prefix, id in batches.items():
            self._announced[hash, id] = self.schema.match(prefix)[0]
        return messages

    def _counted(
        self,
        hash: bytes,
        updates: Mapping[str, bytes],
        deletes: Iterable[str],
        messages: Messages,
        entries: dict[str, Entry],
    ) -> dict[str, int]:
        """Fill in the messages and the Batch's own keys; return the counts of the prefixes."""
        counts: dict[str, int] = {}
        match, head = self.schema.match, b"\x03" + hash
        try:
            for key, value in updates.items():
                topic, prefix = match(key)
                if prefix is None:
                    entries[key] = Entry(value)
                    continue
                if type(value) is not bytes:
                    raise NotEncodable(f"the value {value!r:.60} is not bytes")
                counts[prefix] = counts.get(prefix, 0) + 1
                if topic in messages:
                    messages[topic].append((head + key.encode(), value))
                else:
                    messages[topic] = [(head + key.encode(), value)]
            head = b"\x04" + hash
            for key in dict.fromkeys(deletes):
                topic, prefix = match(key)
                if prefix is None:
                    if key in entries:
                        raise PrefixConflict(
                            f"{key!r} is both set and deleted; the Batch can express only one"
                        )
                    entries[key] = Entry(delete=True)
                    continue
                counts[prefix] = counts.get(prefix, 0) + 1
                messages.setdefault(topic, []).append((head + key.encode(), b""))
        except (TypeError, UnicodeEncodeError):
            encode_text(key)  # raises the exact error
            raise
        return counts

    def _check_batches(
        self, batches: Mapping[str, bytes], counts: dict[str, int], entries: dict[str, Entry]
    ) -> None:
        for prefix, id in batches.items():
            if id == NO_ID:
                raise InvalidBatch(f"the id of the sub-batch {prefix!r} is zero")
            if prefix in counts or prefix in entries:
                other = "a counted prefix" if prefix in counts else "a key of the Batch"
                raise PrefixConflict(f"{prefix!r} is a sub-batch and {other}")
        if len(set(batches.values())) < len(batches):
            raise InvalidBatch("two sub-batches of one block have the same id")
        if len(self._announced) + len(batches) > self.batches_max:
            raise TooManyBatches(
                f"{len(self._announced)} sub-batches were announced and not sent; the limit is "
                f"{self.batches_max}; send them, empty ones too, or forget their blocks"
            )

    def sub_batch(
        self,
        hash: bytes,
        id: bytes,
        deletes: Iterable[str] = (),
        updates: Mapping[str, bytes] | None = None,
    ) -> Messages:
        """The messages of a sub-batch that the block `hash` announced; only once for each."""
        topic = self._announced.get((hash, id))
        if topic is None:
            raise UnknownBatch(f"no block announced the sub-batch {id!r:.80}, or it was sent")
        if isinstance(deletes, Set):
            deletes = sorted(deletes, key=encode_text)
        deletes, updates = list(dict.fromkeys(deletes)), updates or {}
        messages = [SubBatchMessage(hash, id, 0, deletes, {})] if deletes else []
        for index, key in enumerate(sorted(updates, key=encode_text), len(messages)):
            messages.append(SubBatchMessage(hash, id, index, [], {key: updates[key]}))
        made = [encode(SubBatchHeader(hash, id, len(messages)))]
        made += map(encode_sub_batch_message, messages)
        del self._announced[hash, id]
        return {topic: made}

    def forget(self, hash: bytes) -> None:
        """Forget the sub-batches announced by this block: they will not be sent."""
        for one in [one for one in self._announced if one[0] == hash]:
            del self._announced[one]

    def reorg(self, number: int, hash: bytes, weight: int, head: bytes) -> "ReorgChannel":
        """A channel for the blocks that replace all after the ancestor with this number and hash.

        `weight` is that of the heaviest replaced block, `head` the hash of the last block to be
        sent.
        """
        return ReorgChannel(self.schema, number, hash, weight, head)


class ReorgChannel:
    """A topic of its own, with a fixed order: Reorg, blocks oldest first, ReorgComplete.

    Its name contains the ancestor and the new head: redundant producers use the same name, and two
    different reorgs never do.
    """

    def __init__(self, schema: Schema, number: int, hash: bytes, weight: int, head: bytes) -> None:
        self._begin = encode(Reorg(hash, number))
        self._end = encode(ReorgComplete(hash, number))
        encode(Reorg(head, number))
        self.topic = f"{REORG_TOPIC}.{hash.hex()[:16]}-{head.hex()[:16]}"
        self.weight, self.last, self.head = weight, hash, head
        self._heaviest = -1
        self._producer = Producer(schema)

    def begin(self) -> Messages:
        """The message that begins the reorg."""
        return {self.topic: [self._begin]}

    def block(
        self,
        number: int,
        hash: bytes,
        parent: bytes,
        weight: int,
        updates: Mapping[str, bytes] | None = None,
        deletes: Iterable[str] = (),
        batches: Mapping[str, bytes] | None = None,
    ) -> Messages:
        """The next block, like `Producer.block`. Raises `BrokenReorg` too."""
        if parent != self.last:
            raise BrokenReorg(f"block {number} has another parent than the block before it")
        if self.last == self.head:
            raise BrokenReorg(f"block {number} comes after the head of the reorg")
        made = self._producer.block(number, hash, parent, weight, updates, deletes, batches)
        self.last, self._heaviest = hash, max(self._heaviest, weight)
        return self._here(made)

    def sub_batch(
        self,
        hash: bytes,
        id: bytes,
        deletes: Iterable[str] = (),
        updates: Mapping[str, bytes] | None = None,
    ) -> Messages:
        """A sub-batch, like `Producer.sub_batch`."""
        return self._here(self._producer.sub_batch(hash, id, deletes, updates))

    def complete(self) -> Messages:
        """The message that completes the reorg. Raises `BrokenReorg` if it is not complete."""
        if self.last != self.head:
            raise BrokenReorg("the head of the reorg was not sent")
        if self._heaviest <= self.weight:
            raise BrokenReorg("no block is heavier than those it replaces")
        if self._producer.announced:
            raise BrokenReorg(f"{len(self._producer.announced)} sub-batches were not sent")
        return {self.topic: [self._end]}

    def _here(self, messages: Messages) -> Messages:
        return {self.topic: [one for some in messages.values() for one in some]}
