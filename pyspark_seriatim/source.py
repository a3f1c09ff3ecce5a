"""The data source `seriatim`: its columns, its batch reader, and its writers.

    sequence bigint, subject string, payload binary, timestamp timestamp
    [, reply string] [, headers map<string, array<string>>]

A user's own schema may contain any of these columns in any order; the others are not created.
"""

from collections.abc import Iterator
from typing import NoReturn

from pyspark.sql.types import StructField, StructType

from pyspark_seriatim import narrowing, offsets
from pyspark_seriatim.api import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark_seriatim.client import JournalInfo
from pyspark_seriatim.errors import OptionError
from pyspark_seriatim.options import Options
from pyspark_seriatim.reading import TYPES, RangeReader, checked
from pyspark_seriatim.sink import batch_writer, stream_writer
from pyspark_seriatim.stream import StreamReader


class SeriatimDataSource(DataSource):
    """The class that Spark finds under the name `seriatim`."""

    def __init__(self, options: dict[str, str]) -> None:
        """Raises `OptionError` for a wrong value, so that `load()` raises it."""
        super().__init__(options)
        Options.check_values(options)

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
        try:
            return StreamReader(Options.parse(self.options, "stream"), checked(schema))
        except OptionError as error:
            return UnusableStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return batch_writer(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return stream_writer(schema, self.options, overwrite)


class UnusableStream(DataSourceStreamReader):
    """A stand-in that raises the reason why there is no stream reader.

    If `streamReader` itself raises, Spark's runner hides the error behind one of its own.
    """

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def initialOffset(self) -> NoReturn:
        raise self._error

    latestOffset = partitions = read = initialOffset  # type: ignore[assignment]


class BatchReader(RangeReader, DataSourceReader):
    """The reader of a range that is fixed when the query is planned."""

    def partitions(self) -> list[InputPartition]:
        info = self.client().info()
        first, end = self.range(info)
        return self.parts(info, first, end, self.options.subscribe)

    def range(self, info: JournalInfo) -> tuple[int, int]:
        """The numbers to read, the end exclusive."""
        client = self.client()
        return offsets.batch_range(
            self.options, info, lambda ns: client.number_at(ns, info.first, info.last)
        )


class PushdownReader(BatchReader):
    """A reader of no more than a query's filters need; Spark has a setting of its own for that."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self.narrowed = narrowing.Narrowed()

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Record filters that narrow the range; yield those that Spark must still apply."""
        for filter in filters:
            if not self.narrowed.record(filter):
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
