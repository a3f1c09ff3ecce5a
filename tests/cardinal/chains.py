"""Made-up chains for tests: blocks with all features, and the state they lead to."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from cardinal.producer import Messages, Producer, ReorgChannel
from cardinal.schema import Schema

SCHEMA = Schema({"a/": "accounts", "b/[0-9]+/t/": "transactions", "s/": "accounts"}, "blocks")
ID = b"\x07" * 32


@dataclass(frozen=True)
class Made:
    """A block as a producer knows it."""

    number: int
    hash: bytes
    parent: bytes
    weight: int
    updates: dict[str, bytes] = field(default_factory=dict)
    deletes: tuple[str, ...] = ()
    sub_updates: dict[str, bytes] = field(default_factory=dict)


def hash_of(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


GENESIS = Made(0, hash_of("genesis"), bytes(32), 0)


def branch(on: Made, name: str, count: int, size: int = 5) -> list[Made]:
    """So many blocks on another, whose keys and values are their own and each other's."""
    made = []
    for _ in range(count):
        number = on.number + 1
        mark = f"{name}{number}"
        updates = {f"a/{at}": f"{mark}:{at}".encode() for at in range(number % size + 1)}
        updates |= {f"b/{number}/t/{at}": mark.encode() for at in range(size)}
        updates |= {"head": mark.encode(), "empty": b""}
        deletes = (f"a/{(number + 2) % size + size}", f"old/{number}") if number % 3 else ()
        subs = {f"s/{mark}": b"x", f"a/{number % size + size}": mark.encode()}
        weight = on.weight + 10
        on = Made(number, hash_of(mark), on.hash, weight, updates, deletes, subs)
        made.append(on)
    return made


def messages_of(producer: Producer | ReorgChannel, block: Made) -> list[Messages]:
    """What a producer sends for a block: the block, then its sub-batch."""
    batches = {"sub": ID} if block.sub_updates else {}
    sent = [
        producer.block(
            block.number,
            block.hash,
            block.parent,
            block.weight,
            block.updates,
            block.deletes,
            batches,
        )
    ]
    if batches:
        sent.append(producer.sub_batch(block.hash, ID, (), block.sub_updates))
    return sent


def rows_of(sent: Iterable[Messages], first: int = 1) -> list[tuple[str, bytes, bytes, int]]:
    """Messages as a transport gives them, numbered from `first`."""
    flat = [
        (topic, key, value)
        for messages in sent
        for topic, some in messages.items()
        for key, value in some
    ]
    return [(*row, number) for number, row in enumerate(flat, first)]


def state_of(blocks: Iterable[Made]) -> dict[str, bytes]:
    """What is set after these blocks, one upon the other."""
    state: dict[str, bytes] = {}
    for block in blocks:
        for key in block.deletes:
            state.pop(key, None)
        state |= block.updates | block.sub_updates
    return state
