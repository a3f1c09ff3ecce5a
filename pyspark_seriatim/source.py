"""The data source `seriatim`: its columns, what reads it in batches, and what writes it.

    sequence bigint, subject string, payload binary, timestamp timestamp
    [, reply string] [, headers map<string, array<string>>]

A schema of the user's own may have any of these columns in any order: what is not in it is not
made. Readers are pickled to other processes, so they hold options and no connection; those that
ask for one in the same process share a client.
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
    StructField,
    StructType,
    TimestampType,
)

from pyspark_seriatim import arrow, narrowing, offsets
from pyspark_seriatim.api import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark_seriatim.client import CHUNK_BYTES, Chunk, Client, Info
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
SHOWN_MAX: Final = 10  # ranges of lost numbers in one message


class SeriatimDataSource(DataSource):
    """What Spark finds under the name `seriatim`."""

    @classmethod
    def name(cls) -> str:
        return "seriatim"

    def schema(self) -> StructType:
        names = ["sequence", "subject", "payload", "timestamp"]
        names += ["reply"] * Options.flag(self.options, "includeReply")
        names += ["headers"] * Options.flag(self.options, "includeHeaders")
        return StructType([StructField(name, TYPES[name]) for name in names])

    def reader(self, schema: StructType) -> DataSourceReader:
        options = Options.parse(self.options, "batch")
        made = PushdownReader if options.push_down_filters else BatchReader
        return made(options, checked(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from pyspark_seriatim.stream import StreamReader

        return StreamReader(Options.parse(self.options, "stream"), checked(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from pyspark_seriatim.sink import batch_writer

        return batch_writer(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from pyspark_seriatim.sink import stream_writer

        return stream_writer(schema, self.options, overwrite)


def checked(schema: StructType) -> StructType:
    """A schema that can be read. Raises `OptionError` that says which columns there are."""
    for field in schema:
        kind = TYPES.get(field.name)
        if kind is None:
            there = ", ".join(f"{name} {kind.simpleString()}" for name, kind in TYPES.items())
            raise OptionError(f"schema: there is no column {field.name}; there are {there}")
        if field.dataType != kind:
            is_, given = kind.simpleString(), field.dataType.simpleString()
            raise OptionError(f"schema: the column {field.name} is {is_}, not {given}")
        if schema.names.count(field.name) > 1:
            raise OptionError(f"schema: the column {field.name} is there twice; once will do")
    return schema


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema of the batches, just as Spark wants it."""
    fields = [pa.field(field.name, ARROW_TYPES[field.name], field.nullable) for field in schema]
    return pa.schema(fields)


@dataclass(frozen=True)
class NumberRange(InputPartition):
    """What one task reads: numbers `first` to `last`, both included, of the subjects given."""

    journal: str
    first: int
    last: int
    subjects: tuple[str, ...]


class Reading:
    """What readers of batches and of streams have in common."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self.options = options
        self.spark_schema = schema

    def client(self) -> Client:
        return Client.shared(self.options)

    def parts(
        self, info: Info, first: int, end: int, subjects: tuple[str, ...]
    ) -> list[InputPartition]:
        """The numbers before `end`, shared out to tasks."""
        return [
            NumberRange(info.journal, low, high - 1, subjects)
            for low, high in offsets.plan(self.options, first, end)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a part, in the task that reads it."""
        if not isinstance(partition, NumberRange):
            return  # what Spark makes of no partitions
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
        """The chunks of a part; what is lost of it fails, or is logged."""
        options, at = self.options, wanted.first
        chunks = self.client().read(
            wanted.first,
            wanted.last,
            wanted.subjects,
            journal=wanted.journal,
            chunk_bytes=min(options.fetch_bytes, CHUNK_BYTES),
        )
        try:
            for chunk in chunks:
                if chunk.lost:
                    offsets.lose(options, _lost_words(chunk, wanted))
                at = chunk.next
                yield chunk
        except DataLost as error:  # another journal in the middle
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
        f" {wanted.first} to {wanted.last} were asked for"
    )


class BatchReader(Reading, DataSourceReader):
    """Reads a range that is fixed when the query is planned."""

    def partitions(self) -> list[InputPartition]:
        info = self.client().info()
        first, end = self.range(info)
        return self.parts(info, first, end, self.options.subscribe)

    def range(self, info: Info) -> tuple[int, int]:
        """The numbers to read, the end exclusive."""
        client = self.client()
        return offsets.batch_range(
            self.options, info, lambda ns: client.number_at(ns, info.first, info.last)
        )


class PushdownReader(BatchReader):
    """Reads no more than a query's filters leave; Spark wants its own conf for that, too."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self.narrowed = narrowing.Narrowed()

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Note what narrows the range; those that are not wholly kept to here are Spark's."""
        for filter in filters:
            if not self.narrowed.take(filter):
                yield filter

    def partitions(self) -> list[InputPartition]:
        client = self.client()
        info = client.info()
        first, end = self.range(info)
        narrowed = self.narrowed
        first, end = max(first, narrowed.first), min(end, narrowed.end)
        if narrowed.from_ns is not None:
            first = max(first, client.number_at(narrowed.from_ns, info.first, info.last))
        if narrowed.until_ns is not None:
            end = min(end, client.number_at(narrowed.until_ns, info.first, info.last))
        subjects = narrowed.subjects(self.options.subscribe)
        return self.parts(info, first, end, subjects) if subjects else []
