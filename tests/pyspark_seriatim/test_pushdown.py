"""Filters that are pushed down, against a real broker: the same rows as without push-down.

The journal is an old one: it has subjects that nobody can subscribe to.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as ds
from pyspark.sql.types import StructType

from pyspark_seriatim.options import Options
from pyspark_seriatim.reading import TYPES
from pyspark_seriatim.source import BatchReader, PushdownReader
from sequencer.journal.record import RecordBatch
from tests.support.depth import examples
from tests.support.processes import SeriatimServer
from tests.support.stores import give, open_store

COUNT = 300
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BEGIN_NS = 1_767_225_600_000_000_000  # 2026-01-01
STEP_NS = 400  # several of a microsecond
ODD = [
    b"orders..eu",
    b"orders.",
    b".orders",
    b"orders",
    b"..",
    b"orders.*",
    b"orders.>",
    b">",
    b"*",
]
PLAIN = [b"orders.eu", b"orders.EU", b"orders.eu.x", b"Orders.eu", b"x,y", "ö.é".encode(), b"a.b"]
WRONG = [b"orders.\xff", b"\xff", "orders.\ufffd".encode(), "orders.a\u00a0b".encode()]
SUBJECTS = ODD + PLAIN + WRONG
NAMES = ("sequence", "subject", "timestamp")
SCHEMA = StructType().add("sequence", TYPES["sequence"]).add("subject", TYPES["subject"])
SCHEMA = SCHEMA.add("timestamp", TYPES["timestamp"])
BINARY: dict[type[Any], Any] = {
    ds.EqualTo: lambda left, right: left == right,
    ds.EqualNullSafe: lambda left, right: left == right,
    ds.GreaterThan: lambda left, right: left > right,
    ds.GreaterThanOrEqual: lambda left, right: left >= right,
    ds.LessThan: lambda left, right: left < right,
    ds.LessThanOrEqual: lambda left, right: left <= right,
    ds.In: lambda left, right: left in right,
    ds.StringStartsWith: lambda left, right: left.startswith(right),
    ds.StringEndsWith: lambda left, right: left.endswith(right),
    ds.StringContains: lambda left, right: right in left,
}
COMPARED = [kind for kind in BINARY if kind is not ds.In and "String" not in kind.__name__]
OF_TEXT = [ds.StringStartsWith, ds.StringEndsWith, ds.StringContains]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker whose journal has all these subjects; its address."""
    path: Path = tmp_path_factory.mktemp("old") / "journal"
    store = open_store(path, BEGIN_NS)
    random = Random(7)
    for number in range(1, COUNT + 1):
        batch = RecordBatch(store.salt, store.epoch)
        subject = random.choice(SUBJECTS)
        time = BEGIN_NS + number * STEP_NS
        batch.append_message(number, time, subject, b"", b"", b"%d" % number)
        give(store, batch)
    store.close()
    with SeriatimServer("netstring", store=path) as server:
        yield f"127.0.0.1:{server.port}"


def passes(filter: ds.Filter, row: dict[str, Any]) -> bool:
    """What Spark makes of a filter."""
    if isinstance(filter, ds.Not):
        return not passes(filter.child, row)
    if isinstance(filter, ds.IsNull | ds.IsNotNull):
        return isinstance(filter, ds.IsNotNull)
    found: bool = BINARY[type(filter)](row[filter.attribute[0]], filter.value)  # type: ignore[attr-defined]
    return found


def read(reader: BatchReader) -> list[dict[str, Any]]:
    found = []
    for part in reader.partitions():
        for batch in reader.read(part):
            found += batch.to_pylist()
    return found


texts = st.one_of(
    st.sampled_from([subject.decode(errors="replace") for subject in SUBJECTS]),
    st.sampled_from(["orders.", "orders.e", "ord", "", ".", "no subject", "o.*", "x" * 20_000]),
)
numbers = st.one_of(st.integers(-3, COUNT + 3), st.sampled_from([-(1 << 63), (1 << 63) - 1]))
moments = st.one_of(
    st.integers(-3, COUNT * STEP_NS // 1000 + 3).map(
        lambda micros: EPOCH + timedelta(microseconds=BEGIN_NS // 1000 + micros)
    ),
    st.sampled_from([datetime(1, 1, 1, tzinfo=UTC), EPOCH, datetime(9999, 12, 31, tzinfo=UTC)]),
)
VALUES: dict[str, Any] = {"sequence": numbers, "subject": texts, "timestamp": moments}


def filters() -> Any:
    def of(name: str) -> Any:
        column, values = (name,), VALUES[name]
        made = [
            st.builds(lambda kind, value: kind(column, value), st.sampled_from(COMPARED), values),
            st.builds(lambda some: ds.In(column, tuple(some)), st.lists(values | st.none())),
            st.just(ds.In(column, tuple(f"s{at}" for at in range(70))))
            if name == "subject"
            else None,
            st.sampled_from([ds.IsNull(column), ds.IsNotNull(column)]),
        ]
        if name == "subject":
            kinds = st.sampled_from(OF_TEXT)
            made.append(st.builds(lambda kind, value: kind(column, value), kinds, values))
        return st.one_of(*[one for one in made if one is not None])

    plain = st.sampled_from(NAMES).flatmap(of)
    return st.lists(st.one_of(plain, plain, plain, plain.map(ds.Not)), min_size=1, max_size=3)


@example(wanted=[ds.StringStartsWith(("subject",), "orders.")], subscribe=">")
@settings(max_examples=examples(200))
@given(wanted=filters(), subscribe=st.sampled_from([">", "orders.>", "orders.*,x,y", "a.b,*"]))
def test_given_any_filters_and_subjects_when_pushed_down_then_the_rows_are_the_same(
    old: str, wanted: list[ds.Filter], subscribe: str
) -> None:
    options = Options.parse({"servers": old, "subscribe": subscribe}, "batch")
    plain = read(BatchReader(options, SCHEMA))
    pushed = PushdownReader(options, SCHEMA)
    left = list(pushed.pushFilters(wanted))
    found = [row for row in read(pushed) if all(passes(one, row) for one in left)]
    assert found == [row for row in plain if all(passes(one, row) for one in wanted)]


def test_given_a_prefix_when_pushed_down_then_subjects_with_an_empty_token_are_there(
    old: str,
) -> None:
    reader = PushdownReader(Options.parse({"servers": old}, "batch"), SCHEMA)
    list(reader.pushFilters([ds.StringStartsWith(("subject",), "orders.")]))
    there = {row["subject"] for row in read(reader)}
    assert {"orders..eu", "orders.", "orders.eu", "orders.*"} <= there
