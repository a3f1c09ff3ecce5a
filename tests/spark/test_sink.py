"""Rows that Spark writes: what arrives, in which order, and what cannot be written."""

import time
from collections.abc import Callable

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from pyspark_seriatim.client import Client
from pyspark_seriatim.options import Options
from seriatim.client.chunk_columns import Row
from tests.support.processes import SeriatimServer

NUMBERED = "concat('n.', id % 7) subject", "cast(cast(id as string) as binary) payload"


def rows_of(port: int) -> list[Row]:
    """All that was published, in its order."""
    client = Client(Options.parse({"servers": f"127.0.0.1:{port}"}, "batch"))
    last = client.info().last
    chunks = client.read(1, last) if last else []
    found = [row for chunk in chunks for row in chunk.columns]
    client.close()
    return found


def payloads(port: int) -> list[bytes]:
    return [bytes(row.payload) for row in rows_of(port)]


def to(broker: SeriatimServer, df: DataFrame, **options: object) -> DataFrameWriter:
    writer = (
        df.write.format("seriatim").mode("append").option("servers", f"localhost:{broker.port}")
    )
    for name, value in options.items():
        writer = writer.option(name, str(value))
    return writer


def staged_files(broker: SeriatimServer) -> list[str]:
    return [path.name for path in broker.store.rglob("*.stage")]


def test_given_rows_when_written_then_they_come_in_the_order_of_the_partitions(
    spark: SparkSession, broker: SeriatimServer
) -> None:
    df = spark.range(0, 30_000, 1, 3).selectExpr(*NUMBERED)
    to(broker, df).save()
    found = rows_of(broker.port)
    assert [row.number for row in found] == list(range(1, 30_001))
    assert [bytes(row.payload) for row in found] == [b"%d" % n for n in range(30_000)]
    assert [bytes(row.subject) for row in found] == [b"n.%d" % (n % 7) for n in range(30_000)]
    assert staged_files(broker) == []
    to(broker, df.limit(5)).save()
    to(broker, df.limit(5)).save()
    assert len(rows_of(broker.port)) == 30_010, "each write is one of its own"


def test_given_columns_of_all_kinds_when_written_then_nothing_of_them_is_lost(
    spark: SparkSession, broker: SeriatimServer
) -> None:
    rows = [
        ("a.b", bytearray(b"\x00\r\n\xff"), "back.1", {"k": ["1", "2"], "l": ["x y"]}),
        ("c", bytearray(), None, None),
        ("d", bytearray(b"z" * 9000), "", {"m": [], "n": ["ü"]}),
    ]
    types = "subject string, payload binary, reply string, headers map<string,array<string>>"
    df = spark.createDataFrame(rows, types).coalesce(1)
    to(broker, df, publishBatchBytes="1k", publishWindow=2).save()
    to(broker, df.selectExpr("'text ä' as payload"), subject="all.of.them").save()
    to(broker, spark.range(0).selectExpr(*NUMBERED)).save()
    to(broker, spark.range(0, 9, 1, 4).where("id = 5").selectExpr(*NUMBERED)).save()
    found = rows_of(broker.port)
    assert [bytes(row.subject) for row in found] == [
        *(b"a.b", b"c", b"d"),
        *(b"all.of.them",) * 3,
        b"n.5",
    ]
    assert [bytes(row.payload) for row in found] == [
        *(bytes(row[1]) for row in rows),
        *("text ä".encode(),) * 3,
        b"5",
    ]
    assert [bytes(row.reply) for row in found[:3]] == [b"back.1", b"", b""]
    heads = [bytes(row.headers) for row in found[:4]]
    assert heads[1:] == [b"", "NATS/1.0\r\nn: ü\r\n\r\n".encode(), b""]
    assert sorted(heads[0].split(b"\r\n")) == [b"", b"", b"NATS/1.0", b"k: 1", b"k: 2", b"l: x y"]


def test_given_a_named_batch_when_written_again_then_nothing_is_published(
    spark: SparkSession, broker: SeriatimServer
) -> None:
    def write(version: int, first: int) -> None:
        df = spark.range(first, first + 100, 1, 2).selectExpr(*NUMBERED)
        to(broker, df, txnAppId="nightly", txnVersion=version).save()

    write(3, 0)
    write(3, 5000)
    write(2, 5000)
    write(4, 100)
    assert payloads(broker.port) == [b"%d" % n for n in range(200)]


def test_given_at_least_once_when_written_then_all_rows_are_there(
    spark: SparkSession, broker: SeriatimServer
) -> None:
    df = spark.range(0, 20_000, 1, 2).selectExpr(*NUMBERED)
    to(broker, df, deliveryGuarantee="at-least-once").save()
    assert sorted(map(int, payloads(broker.port))) == list(range(20_000))


def test_given_a_row_that_cannot_be_when_written_then_the_error_names_it_and_nothing_is_left(
    spark: SparkSession, broker: SeriatimServer
) -> None:
    bad = "if(id = 19000, 'a b', 'good') subject", "cast('x' as binary) payload"
    # One task: Spark does not wait for the others of a job that fails; one may stage afterwards.
    df = spark.range(0, 20_000, 1, 1).selectExpr(*bad)
    with pytest.raises(PySparkException, match="subject 'a b' cannot be published to"):
        to(broker, df).save()
    assert staged_files(broker) == []
    with pytest.raises(PySparkException, match=r"column 'payload' is null .* subject 'n\.0'"):
        to(broker, spark.range(1).selectExpr(NUMBERED[0], "cast(null as binary) payload")).save()
    assert payloads(broker.port) == []


def test_given_columns_or_options_that_cannot_be_then_no_task_is_begun(
    spark: SparkSession, broker: SeriatimServer
) -> None:
    df = spark.range(1).selectExpr(*NUMBERED)
    with pytest.raises(AnalysisException, match="'payload' is missing; there are: subject, value"):
        to(broker, df.withColumnRenamed("payload", "value")).save()
    broker.stop()
    with pytest.raises(PySparkException, match=rf"localhost:{broker.port}: connection refused"):
        to(broker, df, ackTimeoutMs=100).save()


def test_given_what_was_read_when_written_then_it_is_the_same_under_new_numbers(
    spark: SparkSession, broker: SeriatimServer, publish: Callable[..., None]
) -> None:
    subjects = [b"orders.eu", b"a.*", b">", b"$SEQ", b"\x01\r", b"\nx"]
    for subject in subjects:
        publish([b"one", b"two"], subject)
    read = spark.read.format("seriatim").option("servers", f"127.0.0.1:{broker.port}")
    read = read.option("includeHeaders", "true").option("includeReply", "true")
    to(broker, read.load().coalesce(1)).save()
    found = [(bytes(row.subject), bytes(row.payload)) for row in rows_of(broker.port)]
    assert found == [(s, payload) for s in subjects for payload in (b"one", b"two")] * 2


def test_given_a_subject_that_is_too_long_when_written_then_the_error_names_it_at_once(
    spark: SparkSession, broker: SeriatimServer
) -> None:
    long = "if(id = 7, repeat('long.', 1000) || 'x', 'good') subject", NUMBERED[1]
    df = spark.range(0, 400, 1, 1).selectExpr(*long)
    begun = time.monotonic()
    with pytest.raises(
        PySparkException, match=r"subject 'long\.long\..*: 400 Row 8 of stage .*: 5"
    ):
        to(broker, df).save()
    with pytest.raises(
        PySparkException, match=r"subject 'long\.long\..* control line of 5003 bytes"
    ):
        to(broker, df, deliveryGuarantee="at-least-once").save()
    assert time.monotonic() - begun < 120, "ackTimeoutMs is 120 s for each attempt"
    assert staged_files(broker) == []
