"""The messages of Cardinal Streams: one record for each kind.

    kind  record            key                           value
    00    Batch             00 hash                       number, weight, parent, entries (Avro)
    01    SubBatchHeader    01 hash id                    count of its messages
    02    SubBatchMessage   02 hash id index              keys deleted, values set (Avro)
    03    Update            03 hash key                   the value set
    04    Delete            04 hash key                   nothing
    05    Reorg             05 hash of the ancestor       its number
    06    ReorgComplete     06 hash of the ancestor       its number
    ff    Ping              ff sender                     time (Go's binary format)

Hashes and ids are 32 bytes, keys are text, values are bytes. `message_codec.py` encodes and decodes
them. Code that reads many messages never builds an Update or a Delete: all of their fields can be
sliced from the key (`key[0]`, `key[1:33]`, `key[33:]`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

HASH_SIZE = 32
NO_ID = bytes(HASH_SIZE)  # in an entry: no sub-batch

BATCH, SUB_BATCH_HEADER, SUB_BATCH_MESSAGE, UPDATE, DELETE, REORG, REORG_COMPLETE = range(7)
PING = 0xFF

INT_MAX = 2**31 - 1  # an Avro int: counts and indexes
NUMBER_MAX = 2**63 - 1  # an Avro long: numbers of blocks
WEIGHT_MAX = 2**256 - 1


class Entry(NamedTuple):
    """A Batch's entry for one key: at most one of the four is set; none means an empty value.

    `value`: the key is set to it. `count`: the number of Updates and Deletes to follow whose keys
    begin with this one. `delete`: the key is deleted. `sub_batch`: the id of one to follow.
    """

    value: bytes = b""
    count: int = 0  # type: ignore[assignment]  # tuple.count is not missed
    delete: bool = False
    sub_batch: bytes = NO_ID


@dataclass(frozen=True, slots=True)
class Batch:
    """The head of a block: its identity, and the counts of messages that complete it."""

    hash: bytes
    number: int
    weight: int
    parent: bytes
    entries: Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class SubBatchHeader:
    """The number of messages of a sub-batch."""

    hash: bytes
    id: bytes
    count: int


@dataclass(frozen=True, slots=True)
class SubBatchMessage:
    """One of the messages of a sub-batch; the deletes are applied before the updates."""

    hash: bytes
    id: bytes
    index: int
    deletes: Sequence[str]
    updates: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Update:
    """One key of a block and its value."""

    hash: bytes
    key: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    """One key that a block deletes."""

    hash: bytes
    key: str


@dataclass(frozen=True, slots=True)
class Reorg:
    """The beginning of another branch on the channel; the branch follows this block."""

    hash: bytes
    number: int


@dataclass(frozen=True, slots=True)
class ReorgComplete:
    """The end of the other branch: back to the ordinary channel."""

    hash: bytes
    number: int


@dataclass(frozen=True, slots=True)
class Ping:
    """A keep-alive of the reference's producers; consumers ignore it."""

    producer: bytes
    time: bytes


Message = Batch | SubBatchHeader | SubBatchMessage | Update | Delete | Reorg | ReorgComplete | Ping
