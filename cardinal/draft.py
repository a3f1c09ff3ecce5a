"""A block before it is sent: a producer's input, with the sub-batches."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from cardinal.messages import NO_ID
from cardinal.producer import Messages, Producer, ReorgChannel


@dataclass(frozen=True, slots=True)
class SubBatchDraft:
    """The keys that a sub-batch deletes and sets; the deletes are applied first."""

    id: bytes
    updates: dict[str, bytes] = field(default_factory=dict)
    deletes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Draft:
    """One block; `batches` are its sub-batches by prefix."""

    number: int
    hash: bytes
    parent: bytes
    weight: int
    updates: dict[str, bytes] = field(default_factory=dict)
    deletes: list[str] = field(default_factory=list)
    batches: dict[str, SubBatchDraft] = field(default_factory=dict)

    def messages(self, producer: Producer | ReorgChannel) -> Iterator[Messages]:
        """Yield the block's messages by topic, in parts to be sent in this order.

        Raises the errors of `Producer.block`, before the first part.
        """
        ids = {prefix: batch.id for prefix, batch in self.batches.items()}
        yield producer.block(
            *(self.number, self.hash, self.parent, self.weight, self.updates, self.deletes, ids)
        )
        for batch in self.batches.values():
            yield producer.sub_batch(self.hash, batch.id, set(batch.deletes), batch.updates)


@dataclass(frozen=True, slots=True)
class ReorgDraft:
    """A reorg on a channel of its own; the blocks descend from the ancestor.

    `weight` is that of the heaviest block it replaces.
    """

    number: int
    hash: bytes
    weight: int
    blocks: list[Draft]

    def messages(self, producer: Producer) -> Iterator[Messages]:
        """Yield the reorg's messages, in the channel's order. Raises `BrokenReorg`."""
        head = self.blocks[-1].hash if self.blocks else NO_ID
        channel = producer.reorg(self.number, self.hash, self.weight, head)
        yield channel.begin()
        for block in self.blocks:
            yield from block.messages(channel)
        yield channel.complete()


def apply(state: dict[str, bytes], block: Draft) -> None:
    """Apply this block to a state of keys and values, to check a consumer."""
    for key in block.deletes:
        state.pop(key, None)
    for batch in block.batches.values():
        for key in batch.deletes:
            state.pop(key, None)
    for batch in sorted(block.batches.values(), key=lambda batch: batch.id):
        state.update(batch.updates)
    state.update(block.updates)
