"""The common part of batch and stream readers: columns, ranges of numbers, and reading a range.

Readers are pickled to other processes, so they hold options and no connection. Readers in the same
process share a client.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from pyspark_seriatim import arrow, offsets
from pyspark_seriatim.api import InputPartition
from pyspark_seriatim.client import CHUNK_BYTES, Chunk, Client, JournalInfo
from pyspark_seriatim.errors import DataLost, OptionError
from pyspark_seriatim.options import Options

log = logging.getLogger("pyspark_seriatim")

HEADERS: Final = MapType(StringType(), ArrayType(StringType()))
TYPES: Final[dict[str, DataType]] = {
    "sequence": LongType(),
    "subject": StringType(),
    "payload": BinaryType(),
    "timestamp": TimestampType(),
    "reply": StringType(),
    "headers": HEADERS,
}
ARROW_TYPES: Final = {
    "sequence": pa.int64(),
    "subject": pa.string(),
    "payload": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "reply": pa.string(),
    "headers": pa.map_(pa.string(), pa.list_(pa.field("element", pa.string()))),
}
# The columns with another name in the broker's chunks.
IN_CHUNKS: Final = {"sequence": "number", "timestamp": "time"}
SHOWN_MAX: Final = 10  # ranges of lost numbers in one message


def checked(schema: StructType) -> StructType:
    """A valid schema. Raises `OptionError` that lists the columns."""
    for field in schema:
        kind = TYPES.get(field.name)
        if kind is None:
            there = ", ".join(f"{name} {kind.simpleString()}" for name, kind in TYPES.items())
            raise OptionError(f"schema: there is no column {field.name}; there are {there}")
        if field.dataType != kind:
            is_, given = kind.simpleString(), field.dataType.simpleString()
            raise OptionError(f"schema: the column {field.name} is {is_}, not {given}")
        if schema.names.count(field.name) > 1:
            raise OptionError(f"schema: the column {field.name} occurs twice; name it once")
    return schema


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema of the batches, exactly as Spark expects it."""
    fields = [pa.field(field.name, ARROW_TYPES[field.name], field.nullable) for field in schema]
    return pa.schema(fields)


@dataclass(frozen=True)
class NumberRange(InputPartition):
    """The range for one task: numbers `first` to `last`, both included, of the given subjects."""

    journal: str
    first: int
    last: int
    subjects: tuple[str, ...]


class RangeReader:
    """The base of batch and stream readers."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.spark_schema = schema

    def client(self) -> Client:
        return Client.shared(self.options)

    def parts(
        self, info: JournalInfo, first: int, end: int, subjects: tuple[str, ...]
    ) -> list[InputPartition]:
        """The numbers before `end`, divided among tasks."""
        return [
            NumberRange(info.journal, low, high - 1, subjects)
            for low, high in offsets.plan(self.options, first, end)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a part, in the task that reads it."""
        if not isinstance(partition, NumberRange):
            return  # Spark passes such an object if there are no partitions
        options = self.options
        match = arrow.SubjectMatch(options.subscribe_pattern) if options.subscribe_pattern else None
        yield from arrow.batches(
            self._chunks(partition),
            arrow_schema(self.spark_schema),
            options.fetch_rows,
            options.fetch_bytes,
            match,
        )

    def _chunks(self, wanted: NumberRange) -> Iterator[Chunk]:
        """Yield the chunks of a part; lost messages raise, or are logged."""
        options, at = self.options, wanted.first
        columns = {IN_CHUNKS.get(name, name) for name in self.spark_schema.names}
        if options.subscribe_pattern:
            columns.add("subject")
        chunks = self.client().read(
            wanted.first,
            wanted.last,
            wanted.subjects,
            journal=wanted.journal,
            chunk_bytes=min(options.fetch_bytes, CHUNK_BYTES),
            columns=columns,
        )
        try:
            for chunk in chunks:
                if chunk.lost:
                    offsets.lose(options, _lost_words(chunk, wanted))
                at = chunk.next
                yield chunk
        except DataLost as error:  # the journal changed while it was read
            if options.fail_on_data_loss:
                raise
            log.warning("%s", error)
            return
        if at <= wanted.last:
            offsets.lose(
                options,
                f"{at} to {wanted.last} of journal {wanted.journal} are lost: the journal was cut",
            )


def _lost_words(chunk: Chunk, wanted: NumberRange) -> str:
    shown = [f"{first} to {last}" for first, last in chunk.lost[:SHOWN_MAX]]
    more = f" and {len(chunk.lost) - SHOWN_MAX} more" * (len(chunk.lost) > SHOWN_MAX)
    return (
        f"{', '.join(shown)}{more} of journal {wanted.journal} are lost: deleted, or damaged;"
        f" {wanted.first} to {wanted.last} were requested"
    )
