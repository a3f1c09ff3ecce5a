"""The errors of messages, schemas and blocks; one class per rule.

    CardinalError                 base of all; a ValueError
    |-- MalformedMessage          bytes that are not a message: `part`, `offset`, `reason`
    |   |-- ShortKey, LongKey, UnknownType    of the key: too short, too long, or an unknown kind
    |   |-- TruncatedMessage, TrailingFieldBytes   of the value: it ends in a field, or continues
    |   |-- BadAvroNumber         an invalid Avro number, or one out of the field's range
    |   |-- BadCount              an impossible count or size of a block of entries
    |   |-- BadText, BadFlag      a key that is not UTF-8, a boolean that is neither 0 nor 1
    |   `-- RepeatedKey           a map has one key twice
    |-- MisplacedMessage          a message that does not belong in its block, or on its topic
    |   |-- NotCounted            its key matches no missing message
    |   |-- NotAnnounced          the Batch has no such sub-batch
    |   |-- IndexTooHigh          its sub-batch has fewer messages
    |   `-- NotOnChannel          a Reorg or ReorgComplete on an ordinary topic
    |-- NotEncodable              a field with an invalid value, in a message to be sent
    |-- LineError                 a line of JSON that is not a block
    |-- SchemaError               unusable prefixes and topics, each with its reason
    `-- ProducerError             a block or a sub-batch that cannot be sent
        |-- PrefixConflict        one key stands for two things in the same block
        |-- InvalidBatch, UnknownBatch, TooManyBatches    a sub-batch that cannot be sent
        `-- BrokenReorg           a block that does not belong on a reorg's channel

An offset counts bytes from the beginning of its `part`, "key" or "value".
"""


class CardinalError(ValueError):
    """Base of all; catch this for every error of bytes, schemas and blocks."""


class MalformedMessage(CardinalError):
    """Bytes that are not a message of Cardinal Streams, with the place and the reason."""

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
    """The key continues after its last field."""


class UnknownType(MalformedMessage):
    """The first byte of the key is not a known kind of message."""


class TruncatedMessage(MalformedMessage):
    """The value ends inside a field."""


class TrailingFieldBytes(MalformedMessage):
    """The value continues after its last field."""


class BadAvroNumber(MalformedMessage):
    """An invalid Avro number, or one out of its field's range."""


class BadCount(MalformedMessage):
    """The count or the size of a block of entries is impossible."""


class BadText(MalformedMessage):
    """A key that is not UTF-8."""


class BadFlag(MalformedMessage):
    """A boolean that is neither 0 nor 1."""


class RepeatedKey(MalformedMessage):
    """A map has one key twice."""


class MisplacedMessage(CardinalError):
    """A message that does not belong in its block, or on its topic."""


class NotCounted(MisplacedMessage):
    """An Update or a Delete whose key matches no missing message of the block."""


class NotAnnounced(MisplacedMessage):
    """A message of a sub-batch that its block's Batch does not have."""


class IndexTooHigh(MisplacedMessage):
    """An index beyond the number of the sub-batch's messages."""


class NotOnChannel(MisplacedMessage):
    """A Reorg or a ReorgComplete on an ordinary topic."""


class NotEncodable(CardinalError):
    """A field of a message to be sent has an invalid value."""


class LineError(CardinalError):
    """A line of JSON that is not a block; the text names the field."""


class SchemaError(CardinalError):
    """Unusable prefixes and topics: every problem, in the order of the schema."""

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
    """The id of a sub-batch is all zeros, which on the wire means no sub-batch."""


class UnknownBatch(ProducerError):
    """No block announced this sub-batch, or it has been sent already."""


class TooManyBatches(ProducerError):
    """Too many sub-batches were announced but not sent."""


class BrokenReorg(ProducerError):
    """A block or sub-batch that does not belong on this reorg's channel."""
