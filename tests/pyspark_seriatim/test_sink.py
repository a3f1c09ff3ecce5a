"""The sink's writers without Spark: what they refuse when they are made, and pickling."""

import pickle

import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from pyspark_seriatim.errors import ColumnError, OptionError
from pyspark_seriatim.sink import batch_writer, stream_writer

GOOD: dict[str, DataType] = {"subject": StringType(), "payload": BinaryType()}
SERVERS = {"servers": "127.0.0.1:4222"}


def schema(columns: dict[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (
            {"subject": StringType(), "value": BinaryType()},
            {},
            "'payload' is missing; there are: subject, value",
        ),
        ({"payload": BinaryType()}, {}, r"column 'subject' is missing.*the option 'subject'"),
        (
            GOOD | {"x": IntegerType()},
            {},
            "column 'x' is not one of subject, payload, reply, headers",
        ),
        (
            GOOD | {"subject": IntegerType()},
            {},
            "column 'subject' is int; cast it to string or bin",
        ),
        (
            GOOD | {"payload": StructType([StructField("a", IntegerType())])},
            {},
            "column 'payload' is struct<a:int>; cast",
        ),
        (
            GOOD | {"headers": MapType(StringType(), StringType())},
            {},
            "cast it to map<string,array<string>>",
        ),
        ({"payload": BinaryType()}, {"subject": "a.*"}, r'subject: "a\.\*" is not a subject to'),
        (
            {"payload": BinaryType()},
            {"subject": "$SEQ.x"},
            r'subject: "\$SEQ\.x" is not a subject to',
        ),
        (GOOD, {"txnVersion": "5"}, "txnAppId: it is missing; txnVersion alone has no effect"),
        (GOOD, {"txnAppId": "a"}, "txnVersion: it is missing; txnAppId alone has no effect"),
        (GOOD, {"txnAppId": "a", "txnVersion": "-1"}, "txnVersion: "),
        (GOOD, {"txnAppId": "ä", "txnVersion": "1"}, "txnAppId: printable ASCII"),
        (GOOD, {"deliveryGuarantee": "once"}, "deliveryGuarantee: "),
        (GOOD, {"publishBatchBytes": "1"}, "publishBatchBytes: "),
        (GOOD, {"publishWindow": "0"}, "publishWindow: "),
        (GOOD, {"ackTimeoutMs": "soon"}, "ackTimeoutMs: "),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_given_columns_or_options_that_cannot_be_then_the_error_names_them(
    columns: dict[str, DataType], options: dict[str, str], words: str
) -> None:
    with pytest.raises((ColumnError, OptionError), match=words):
        batch_writer(schema(columns), SERVERS | options, False)


def test_given_a_write_that_would_replace_then_it_is_refused() -> None:
    with pytest.raises(OptionError, match="mode: overwrite would replace the journal; use append"):
        batch_writer(schema(GOOD), SERVERS, True)
    with pytest.raises(OptionError, match="outputMode: complete would replace the journal"):
        stream_writer(schema(GOOD), SERVERS, True)


def test_given_a_stream_then_spark_counts_its_batches() -> None:
    with pytest.raises(OptionError, match="txnVersion: not allowed in a stream"):
        stream_writer(schema(GOOD), SERVERS | {"txnVersion": "1"}, False)
    assert stream_writer(schema(GOOD), SERVERS | {"txnAppId": "a"}, False)


def test_given_writers_when_pickled_then_they_are_of_the_same_transaction() -> None:
    writer = batch_writer(schema(GOOD), SERVERS, False)
    other = batch_writer(schema(GOOD), SERVERS, False)
    assert pickle.loads(pickle.dumps(writer))._transaction == writer._transaction
    assert writer._transaction != other._transaction, "each write is one of its own"
    assert not writer._transaction.remember
    named = SERVERS | {"txnAppId": "a", "txnVersion": "7"}
    transaction = batch_writer(schema(GOOD), named, False)._transaction
    assert (transaction.application, transaction.batch, transaction.remember) == ("a", 7, True)
