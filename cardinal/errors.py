"""What can be wrong with a message, a schema or a block, one class for each rule.

    CardinalError                 base of all; a ValueError
    |-- MalformedMessage          bytes that are no message: `part`, `offset`, `reason`
    |   |-- ShortKey, LongKey, UnknownType    of the key: ends too early or late, or is no kind
    |   |-- TruncatedMessage, TrailingFieldBytes   of the value: it ends in a field, or goes on
    |   |-- BadAvroNumber         no Avro number, or one outside of what the field may hold
    |   |-- BadCount              a count or size of a block of entries that cannot be true
    |   |-- BadText, BadFlag      a key that is not UTF-8, a boolean that is neither 0 nor 1
    |   `-- RepeatedKey           a map has one key twice
    |-- MisplacedMessage          a message that has no place in its block, or on its topic
    |   |-- NotCounted            nothing is missing that its key could be
    |   |-- NotAnnounced          the Batch has no such sub-batch
    |   |-- IndexTooHigh          its sub-batch has fewer messages
    |   `-- NotOnChannel          a Reorg, or its end, on an ordinary topic
    |-- NotEncodable              a field of a message to be sent is not what it must be
    |-- LineError                 a line of JSON that is no block
    |-- SchemaError               prefixes and topics that cannot be used, each with its reason
    `-- ProducerError             a block or a sub-batch that cannot be sent
        |-- PrefixConflict        one key stands for two things in the same block
        |-- InvalidBatch, UnknownBatch, TooManyBatches    a sub-batch that cannot be
        `-- BrokenReorg           a block on a reorg's channel that does not belong there

An offset counts bytes from the beginning of the `part` it is in, "key" or "value".
"""


class CardinalError(ValueError):
    """Base of all; catch this to catch every fault of bytes, schemas and blocks."""


class MalformedMessage(CardinalError):
    """Bytes that are no message of Cardinal Streams: where, and what is wrong there."""

    def __init__(self, offset: int, reason: str, part: str = "value") -> None:
        super().__init__(offset, reason, part)
        self.offset = offset
        self.reason = reason
        self.part = part

    def __str__(self) -> str:
        return f"{self.part}, byte {self.offset}: {self.reason}"


class ShortKey(MalformedMessage):
    """The key ends inside its hash, its id or its index."""


class LongKey(MalformedMessage):
    """The key goes on behind its last field."""


class UnknownType(MalformedMessage):
    """The first byte of the key names no kind of message."""


class TruncatedMessage(MalformedMessage):
    """The value ends inside a field."""


class TrailingFieldBytes(MalformedMessage):
    """The value goes on behind its last field."""


class BadAvroNumber(MalformedMessage):
    """No Avro number, or one outside of what its field may hold."""


class BadCount(MalformedMessage):
    """The count or the size of a block of entries cannot be true."""


class BadText(MalformedMessage):
    """A key that is not UTF-8."""


class BadFlag(MalformedMessage):
    """A boolean that is neither 0 nor 1."""


class RepeatedKey(MalformedMessage):
    """A map has one key twice."""


class MisplacedMessage(CardinalError):
    """A message that has no place in its block, or on its topic."""


class NotCounted(MisplacedMessage):
    """Nothing is missing in its block that its key could be."""


class NotAnnounced(MisplacedMessage):
    """The Batch of its block has no such sub-batch."""


class IndexTooHigh(MisplacedMessage):
    """Its sub-batch has fewer messages than its index says."""


class NotOnChannel(MisplacedMessage):
    """A Reorg or a ReorgComplete that came on an ordinary topic."""


class NotEncodable(CardinalError):
    """A field of a message to be sent is not what it must be."""


class LineError(CardinalError):
    """A line of JSON that is no block; the text names the field."""


class SchemaError(CardinalError):
    """Prefixes and topics that cannot be used: every problem, in the order of the schema."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


class ProducerError(CardinalError):
    """A block or a sub-batch that cannot be sent."""


class PrefixConflict(ProducerError):
    """One key stands for two things in the same block."""


class InvalidBatch(ProducerError):
    """The id of a sub-batch is all zero, which on the wire says that there is none."""


class UnknownBatch(ProducerError):
    """No block announced this sub-batch, or it was sent already."""


class TooManyBatches(ProducerError):
    """So many sub-batches were announced and not sent that one more is refused."""


class BrokenReorg(ProducerError):
    """What is to be sent on the channel of a reorg does not belong there."""
