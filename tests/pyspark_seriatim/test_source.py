"""The data source without Spark: its columns, the parts of a batch, what is lost while reading."""

import logging
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, InputPartition
from pyspark.sql.types import IntegerType, StructField, StructType

import pyspark_seriatim
from pyspark_seriatim.client import Chunk, Client
from pyspark_seriatim.errors import DataLost, OptionError
from pyspark_seriatim.options import Options
from pyspark_seriatim.reading import TYPES, NumberRange
from pyspark_seriatim.source import BatchReader, PushdownReader, SeriatimDataSource
from tests.support.processes import SeriatimServer

Make = Callable[..., Options]
Publish = Callable[..., None]
SCHEMA = StructType([StructField(name, kind) for name, kind in TYPES.items()])
NUMBERS = StructType([StructField("sequence", TYPES["sequence"])])
SMALL = ["--segment_bytes", "64KiB", "--retain_bytes", "256KiB"]


def read(reader: Any, parts: list[InputPartition] | None = None) -> list[dict[str, Any]]:
    """All rows, read as tasks do: by a copy of the reader, and of each part."""
    copy = pickle.loads(pickle.dumps(reader))
    found = []
    for part in reader.partitions() if parts is None else parts:
        for batch in copy.read(pickle.loads(pickle.dumps(part))):
            found += batch.to_pylist()
    return found


def numbers(reader: Any, parts: list[InputPartition] | None = None) -> list[int]:
    return [row["sequence"] for row in read(reader, parts)]


def test_given_the_package_when_spark_looks_then_it_has_the_source() -> None:
    assert pyspark_seriatim.DefaultSource is SeriatimDataSource
    assert SeriatimDataSource.name() == "seriatim"
    assert not hasattr(pyspark_seriatim, "anything else")


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, "sequence subject payload timestamp"),
        ({"includereply": "true"}, "sequence subject payload timestamp reply"),
        ({"includeHeaders": "TRUE"}, "sequence subject payload timestamp headers"),
        (
            {"includeHeaders": "true", "includeReply": "true"},
            "sequence subject payload timestamp reply headers",
        ),
    ],
)
def test_given_options_when_the_schema_is_asked_for_then_it_has_these_columns(
    given: dict[str, str], names: str
) -> None:
    schema = SeriatimDataSource(given).schema()
    assert schema.names == names.split()
    assert all(field.nullable and field.dataType == TYPES[field.name] for field in schema)


@pytest.mark.parametrize(
    ("field", "why"),
    [
        (
            StructField("key", TYPES["subject"]),
            "schema: there is no column key; there are sequence",
        ),
        (StructField("sequence", IntegerType()), "the column sequence is bigint, not int"),
    ],
)
def test_given_a_schema_that_cannot_be_when_read_then_it_says_which_columns_there_are(
    field: StructField, why: str
) -> None:
    source = SeriatimDataSource({"servers": "a"})
    with pytest.raises(OptionError, match=why):
        source.reader(StructType([field]))
    with pytest.raises(OptionError, match=why):  # not before: Spark would hide it
        source.streamReader(StructType([field])).initialOffset()


def test_given_a_schema_that_has_a_column_twice_when_read_then_it_is_refused() -> None:
    twice = StructType([StructField("subject", TYPES["subject"])] * 2)
    with pytest.raises(OptionError, match="the column subject occurs twice"):
        SeriatimDataSource({"servers": "a"}).reader(twice)


def test_given_a_reader_when_pickled_before_any_broker_is_there_then_no_connection_is_in_it() -> (
    None
):
    source = pickle.loads(pickle.dumps(SeriatimDataSource({"servers": "127.0.0.1:1"})))
    for reader in (source.reader(SCHEMA), source.streamReader(SCHEMA)):
        assert pickle.loads(pickle.dumps(reader)).options == reader.options


def test_given_messages_when_read_then_rows_have_all_columns(
    options: Make, publish: Publish
) -> None:
    publish(b"a.x", b"one", headers=b"NATS/1.0\r\nA: 1\r\n\r\n", reply=b"re")
    publish(b"\xff", b"two")
    first, second = read(BatchReader(options(), SCHEMA))
    times = [row.pop("timestamp") for row in (first, second)]
    assert times == sorted(times)
    assert first == {
        "sequence": 1,
        "subject": "a.x",
        "payload": b"one",
        "reply": "re",
        "headers": [("A", ["1"])],
    }
    assert second == {
        "sequence": 2,
        "subject": "\ufffd",
        "payload": b"two",
        "reply": None,
        "headers": [],
    }


def test_given_an_empty_journal_when_read_then_there_is_nothing(options: Make) -> None:
    assert BatchReader(options(), SCHEMA).partitions() == []
    assert list(BatchReader(options(), SCHEMA).read(InputPartition(None))) == []


def test_given_parts_when_read_then_together_they_are_the_range(
    options: Make, publish: Publish
) -> None:
    publish(b"a", *[b"x"] * 100)
    made = options(maxRecordsPerPartition=7, startingOffsets=11, endingOffsets=90, fetchRows=3)
    reader = BatchReader(made, NUMBERS)
    assert len(reader.partitions()) == 12
    assert numbers(reader) == list(range(11, 90))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"subscribe": "a.*"}, [1, 2, 5]),
        ({"subscribe": "a.x,b"}, [1, 3, 5]),
        ({"subscribe": "nobody"}, []),
        ({"subscribePattern": "[ab].*"}, [1, 2, 3, 5]),
        ({"subscribePattern": ".*y", "subscribe": "a.>"}, [2]),
        ({"subscribe": "b", "startingOffsets": 4}, []),
        ({"startingOffsets": "latest"}, []),
        ({"startingTimestamp": 0, "endingOffsets": 3}, [1, 2]),
        ({"endingTimestamp": 0}, []),
    ],
)
def test_given_subjects_when_read_then_only_what_matches_is_there(
    options: Make, publish: Publish, given: dict[str, Any], found: list[int]
) -> None:
    for subject in (b"a.x", b"a.y", b"b", b"c", b"a.x"):
        publish(subject, b"p")
    assert numbers(BatchReader(options(**given), NUMBERS)) == found


def test_given_messages_longer_than_a_batch_when_read_then_each_comes_by_itself(
    options: Make, publish: Publish
) -> None:
    publish(b"a", b"s", b"x" * 300_000, b"y" * 900_000, b"t")
    reader = BatchReader(options(fetchBytes="4k"), SCHEMA)
    (part,) = reader.partitions()
    sizes = [[len(payload) for payload in b["payload"].to_pylist()] for b in reader.read(part)]
    assert sizes == [[1], [300_000], [900_000], [1]]


def test_given_times_when_read_then_it_is_what_was_published_in_between(
    options: Make, publish: Publish, client: Client
) -> None:
    publish(b"a", b"1", b"2")
    middle = client.info().newest + 2
    while client.info().newest < middle:
        publish(b"b", b"x")
    last = client.info().last
    made = BatchReader(options(endingTimestamp=middle), NUMBERS)
    assert numbers(made) == list(range(1, last))
    made = BatchReader(options(startingTimestamp=middle), NUMBERS)
    assert numbers(made) == [last]


@pytest.fixture
def trimmed(tmp_path: Path) -> Any:
    """A broker that has deleted the beginning of what it was given, and deletes no more."""
    with SeriatimServer("none", store=tmp_path / "small", arguments=SMALL) as server:
        options = Options.parse({"servers": f"127.0.0.1:{server.port}"}, "batch")
        client = Client(options)
        with client.connection() as connection:
            while client.info().first == 1:
                connection.send(b"PUB a 1000\r\n%b\r\n" % (b"x" * 1000) * 300)
                connection.flush()
        server.stop()
        server.command = server.command[: -len(SMALL)]
        server.start(server.port)
        yield client
        client.close()


def test_given_what_was_deleted_when_read_then_it_is_lost(
    trimmed: Client, caplog: pytest.LogCaptureFixture
) -> None:
    there = trimmed.info()
    servers = {"servers": ",".join(map(str, trimmed._options.servers)), "startingOffsets": "1"}
    strict = BatchReader(Options.parse(servers, "batch"), NUMBERS)
    with pytest.raises(DataLost, match=f"1 to {there.first - 1} are lost .failOnDataLoss=false"):
        strict.partitions()
    # Planned when it was still there, deleted before the task read it.
    part = NumberRange(there.journal, 1, there.first + 1, (">",))
    with pytest.raises(DataLost, match=f"^1 to {there.first - 1} of journal .* are lost: deleted"):
        numbers(strict, [part])
    lenient = BatchReader(Options.parse({**servers, "failOnDataLoss": "false"}, "batch"), NUMBERS)
    with caplog.at_level(logging.WARNING):
        assert numbers(lenient, [part]) == [there.first, there.first + 1]
        assert numbers(lenient) == list(range(there.first, there.last + 1))
    assert f"1 to {there.first - 1} are lost" in caplog.text
    earliest = BatchReader(Options.parse({"servers": servers["servers"]}, "batch"), NUMBERS)
    assert numbers(earliest) == list(range(there.first, there.last + 1))


def test_given_a_journal_that_was_cut_when_read_then_what_is_missing_is_lost(
    options: Make, publish: Publish, client: Client
) -> None:
    publish(b"a", *[b"x"] * 10)
    part = NumberRange(client.info().journal, 5, 20, (">",))
    with pytest.raises(DataLost, match=r"11 to 20 of journal .* are lost: the journal was cut"):
        numbers(BatchReader(options(), NUMBERS), [part])
    lenient = BatchReader(options(failOnDataLoss="false"), NUMBERS)
    assert numbers(lenient, [part]) == list(range(5, 11))


def test_given_another_journal_when_a_task_reads_then_nothing_is_taken_for_what_it_is_not(
    options: Make, publish: Publish
) -> None:
    publish(b"a", *[b"x"] * 10)
    part = NumberRange("0badcafe0badcafe", 5, 10, (">",))
    with pytest.raises(DataLost, match="the numbers belong to 0badcafe0badcafe"):
        numbers(BatchReader(options(), NUMBERS), [part])
    assert numbers(BatchReader(options(failOnDataLoss="false"), NUMBERS), [part]) == []


@pytest.mark.parametrize(
    ("names", "given", "sent"),
    [
        ("", {}, ("number",)),
        ("sequence", {}, ("number",)),
        ("sequence", {"subscribePattern": "a.*"}, ("number", "subject")),
        ("timestamp subject", {}, ("number", "time", "subject")),
        ("headers payload", {}, ("number", "headers", "payload")),
        (
            "sequence subject payload timestamp reply headers",
            {},
            ("number", "time", "subject", "reply", "headers", "payload"),
        ),
    ],
)
def test_given_a_schema_when_a_task_reads_then_the_broker_sends_only_what_it_needs(
    options: Make,
    publish: Publish,
    monkeypatch: pytest.MonkeyPatch,
    names: str,
    given: dict[str, str],
    sent: tuple[str, ...],
) -> None:
    publish(b"ab", *[b"x"] * 10)
    chunks: list[Chunk] = []
    read_of_client = Client.read

    def noting(*wanted: Any, **more: Any) -> Iterator[Chunk]:
        for chunk in read_of_client(*wanted, **more):
            chunks.append(chunk)
            yield chunk

    monkeypatch.setattr(Client, "read", noting)
    schema = StructType([StructField(name, TYPES[name]) for name in names.split()])
    reader = BatchReader(options(**given), schema)
    rows = [batch.num_rows for part in reader.partitions() for batch in reader.read(part)]
    assert sum(rows) == 10
    assert [chunk.columns.names for chunk in chunks] == [sent]


def test_given_filters_of_a_query_when_pushed_then_less_is_read(
    options: Make, publish: Publish
) -> None:
    for subject in (b"a", b"b", b"a", b"b", b"a"):
        publish(subject, b"p")
    source = SeriatimDataSource({"servers": "a", "pushDownFilters": "true"})
    assert isinstance(source.reader(NUMBERS), PushdownReader)
    assert not hasattr(BatchReader, "pushFilters") or not isinstance(
        SeriatimDataSource({"servers": "a"}).reader(NUMBERS), PushdownReader
    )
    reader = PushdownReader(options(), SCHEMA)
    number = GreaterThanOrEqual(("sequence",), 2)
    same = EqualTo(("subject",), "a")
    assert list(reader.pushFilters([number, same])) == [same]
    assert numbers(reader) == [3, 5]
    fourth = read(BatchReader(options(), SCHEMA))[3]
    reader = PushdownReader(options(), SCHEMA)
    list(reader.pushFilters([EqualTo(("timestamp",), fourth["timestamp"])]))
    assert 4 in numbers(reader)
    assert len(numbers(reader)) < 5
    reader = PushdownReader(options(subscribe="b"), SCHEMA)
    list(reader.pushFilters([same]))
    assert reader.partitions() == []
