"""The stream reader without Spark: where batches begin and end, and repeated decisions."""

import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructField, StructType

from pyspark_seriatim import stream
from pyspark_seriatim.client import Client
from pyspark_seriatim.errors import DataLost
from pyspark_seriatim.options import Options
from pyspark_seriatim.reading import TYPES
from pyspark_seriatim.stream import StreamReader
from tests.support.processes import SeriatimServer

Make = Callable[..., Options]
Publish = Callable[..., None]
Begin = Callable[..., StreamReader]
ALL = ReadAllAvailable()


@pytest.fixture
def begin(options: Make, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """A query's reader; what it asks the broker is never old."""
    monkeypatch.setattr(stream, "INFO_AGE_S", 0.0)

    def make(**given: object) -> StreamReader:
        schema = StructType([StructField("sequence", TYPES["sequence"])])
        return StreamReader(options("stream", **given), schema)

    return make


def numbers(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    """What the tasks of a micro-batch read."""
    copy = pickle.loads(pickle.dumps(reader))
    parts = [pickle.loads(pickle.dumps(part)) for part in reader.partitions(start, end)]
    return [n for part in parts for batch in copy.read(part) for n in batch["sequence"].to_pylist()]


def run(reader: StreamReader, start: dict[str, Any] | None = None) -> list[list[int]]:
    """Micro-batches until there is nothing to read, each with what it reads."""
    at, found = start or reader.initialOffset(), []
    while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
        found.append(numbers(reader, at, end))
        at = end
    return found


def test_given_a_start_at_the_latest_when_it_crashes_before_its_first_commit_then_nothing_is_lost(
    begin: Begin, publish: Publish
) -> None:
    publish(b"a", b"old")
    first = begin()
    start = first.initialOffset()
    end = first.latestOffset(start, ALL)
    assert (start, end["sequence"]) == ({"startingOffsets": "latest"}, 2)
    publish(b"a", b"while it was being planned")
    assert numbers(first, start, end) == []
    # It crashed; Spark has kept only `end`, and asks again for what comes before it.
    publish(b"a", b"while it was away")
    again = begin()
    assert again.initialOffset() == start
    assert numbers(again, again.initialOffset(), end) == []
    assert run(again, end) == [[2, 3]]


def test_given_a_query_that_reads_from_the_beginning_when_it_crashes_in_batch_0_then_it_is_the_same(
    begin: Begin, publish: Publish
) -> None:
    publish(b"a", *[b"x"] * 5)
    reader = begin(startingOffsets="earliest", maxOffsetsPerTrigger=3)
    start = reader.initialOffset()
    publish(b"a", *[b"x"] * 5)
    batches = run(reader)
    assert [number for batch in batches for number in batch] == list(range(1, 11))
    end = reader.latestOffset(start, ReadMaxRows(3))
    again = begin(startingOffsets="earliest", maxOffsetsPerTrigger=3)
    assert numbers(again, again.initialOffset(), end) == numbers(reader, start, end)


@pytest.mark.parametrize(
    ("given", "batches"),
    [
        ({"startingOffsets": 1}, [[1, 2, 3, 4, 5]]),
        ({"startingOffsets": 4}, [[4, 5]]),
        ({"startingOffsets": 6}, []),
        ({"startingOffsets": 1, "maxOffsetsPerTrigger": 2}, [[1, 2], [3, 4], [5]]),
        ({"startingTimestamp": 0}, [[], [1, 2, 3, 4, 5]]),
        ({"startingTimestamp": 9_000_000_000_000}, [[]]),
        ({}, [[]]),
    ],
)
def test_given_a_start_when_a_stream_is_read_then_these_are_its_batches(
    begin: Begin, publish: Publish, given: dict[str, Any], batches: list[list[int]]
) -> None:
    publish(b"a", *[b"x"] * 5)
    assert run(begin(**given)) == batches


def test_given_a_start_that_is_not_there_yet_when_a_stream_begins_then_the_error_names_the_option(
    begin: Begin, publish: Publish
) -> None:
    publish(b"a", b"x")
    reader = begin(startingOffsets=500)
    with pytest.raises(DataLost, match="startingOffsets is at 500, but the last number given is 1"):
        reader.latestOffset(reader.initialOffset(), ALL)


def test_given_nothing_new_when_asked_then_the_offset_is_the_very_same(
    begin: Begin, publish: Publish
) -> None:
    publish(b"a", b"x")
    reader = begin(startingOffsets=1)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert reader.latestOffset(end, ALL) is end
    assert list(end) == ["journal", "sequence"], "Spark compares offsets as text"
    assert reader.partitions(end, end) == []
    reader.commit(end)
    reader.stop()


def test_given_a_limit_when_asked_then_it_is_the_default_one_and_what_spark_says_wins(
    begin: Begin, publish: Publish
) -> None:
    publish(b"a", *[b"x"] * 10)
    reader = begin(startingOffsets=1, maxOffsetsPerTrigger=3)
    start = reader.initialOffset()
    assert reader.getDefaultReadLimit() == ReadMaxRows(3)
    assert isinstance(begin().getDefaultReadLimit(), ReadAllAvailable)
    assert reader.latestOffset(start, ReadMaxRows(3))["sequence"] == 4
    assert reader.latestOffset(start, ALL)["sequence"] == 11
    assert reader.latestOffset()["sequence"] == 11, "as Spark 4.1 asks"
    assert reader.reportLatestOffset()["sequence"] == 11


def test_given_available_now_when_more_is_published_meanwhile_then_it_ends_where_it_was(
    begin: Begin, publish: Publish
) -> None:
    publish(b"a", *[b"x"] * 10)
    reader = begin(startingOffsets=1, maxOffsetsPerTrigger=4, minOffsetsPerTrigger=4)
    reader.prepareForTriggerAvailableNow()
    publish(b"a", *[b"x"] * 10)
    assert run(reader) == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    assert reader.reportLatestOffset()["sequence"] == 21, "the lag is that of the journal"
    late = begin(startingOffsets="latest")
    late.prepareForTriggerAvailableNow()
    publish(b"a", b"x")
    assert run(late) == [[]]


def test_given_foreign_messages_when_a_subject_is_read_then_they_make_no_batches(
    begin: Begin, publish: Publish
) -> None:
    reader = begin(startingOffsets=1, subscribe="a.>", maxOffsetsPerTrigger=3)
    start = reader.initialOffset()
    publish(b"b", *[b"x"] * 10)
    assert reader.latestOffset(start, ReadMaxRows(3)) is start
    publish(b"a.x", b"x")
    publish(b"b", b"x")
    end = reader.latestOffset(start, ReadMaxRows(3))
    assert end["sequence"] == 13, "what is foreign before the first match counts for no limit"
    assert numbers(reader, start, end) == [11]
    assert reader.latestOffset(end, ReadMaxRows(3)) is end


@pytest.mark.parametrize("given", [{"subscribe": "a,c"}, {"subscribePattern": "a|c"}])
def test_given_many_foreign_messages_when_a_subject_is_read_then_the_offset_goes_on_at_last(
    begin: Begin, publish: Publish, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    monkeypatch.setattr(stream, "FOREIGN_MAX", 10)
    reader = begin(startingOffsets=1, **given)
    start = reader.initialOffset()
    publish(b"b", *[b"x"] * 9)
    assert reader.latestOffset(start, ALL) is start
    publish(b"b", b"x")
    end = reader.latestOffset(start, ALL)
    assert (end["sequence"], numbers(reader, start, end)) == (11, [])
    publish(b"b", b"x")
    publish(b"c", b"x")
    assert run(reader, end) == [[12]]


def test_given_a_journal_that_deletes_when_only_foreign_comes_then_the_offset_is_not_left_behind(
    begin: Begin, publish: Publish, broker: SeriatimServer
) -> None:
    reader = begin(startingOffsets=1, subscribe="mine")
    at = reader.initialOffset()
    publish(b"foreign", *[b"x"] * 10)
    assert reader.latestOffset(at, ALL) is at, "there is time"
    broker.stop()
    broker.command += ["--retain_count", "500"]
    broker.start(broker.port)
    publish(b"mine", b"x")
    at = reader.latestOffset(at, ALL)
    batches = 0
    for _ in range(100):
        publish(b"foreign", *[b"x"] * 10)
        end = reader.latestOffset(at, ALL)
        batches += end != at
        at = end
    head = reader.reportLatestOffset()["sequence"]
    assert head == 1012
    assert head // 2 < at["sequence"] < head, "what is deleted is of the older half"
    assert batches < 5, "few are empty"
    once = begin(subscribe="mine")
    once.prepareForTriggerAvailableNow()
    assert once.latestOffset(at, ALL)["sequence"] == head, "the next run may be far"


def test_given_more_than_is_looked_through_in_one_go_when_read_then_it_goes_on_in_steps(
    begin: Begin, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "FOREIGN_MAX", 10)
    monkeypatch.setattr(stream, "SCAN_MAX", 10)
    publish(b"b", *[b"x"] * 25)
    publish(b"a", b"x")
    reader = begin(startingOffsets=1, subscribePattern="a")
    reader.prepareForTriggerAvailableNow()
    assert run(reader) == [[], [], [26]]


def test_given_what_was_looked_through_when_asked_again_then_it_is_not_looked_through_again(
    begin: Begin, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = begin(startingOffsets=1, subscribe="a")
    looked: list[tuple[int, int]] = []
    first_match = Client.first_match

    def noting(self: Client, first: int, last: int, *more: Any) -> tuple[int, int]:
        looked.append((first, last))
        return first_match(self, first, last, *more)

    monkeypatch.setattr(Client, "first_match", noting)
    start = reader.initialOffset()
    for _ in range(2):
        publish(b"b", *[b"x"] * 5)
        for _ in range(3):
            assert reader.latestOffset(start, ALL) is start
    assert looked == [(1, 5), (6, 10)]


def test_given_a_least_number_when_less_is_there_then_it_is_waited_for_but_not_for_ever(
    begin: Begin, publish: Publish, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    reader = begin(startingOffsets=1, minOffsetsPerTrigger=5, maxTriggerDelay="1m")
    publish(b"a", b"x")
    first = reader.latestOffset(reader.initialOffset(), ALL)
    assert first["sequence"] == 2, "the first batch waits for nothing, as Kafka's"
    publish(b"a", *[b"x"] * 4)
    assert reader.latestOffset(first, ALL) is first
    publish(b"a", b"x")
    second = reader.latestOffset(first, ALL)
    assert second["sequence"] == 7
    publish(b"a", b"x")
    assert reader.latestOffset(second, ALL) is second
    now += 60
    assert reader.latestOffset(second, ALL)["sequence"] == 8


def test_given_many_polls_when_nothing_happens_then_the_broker_is_seldom_asked(
    options: Make, monkeypatch: pytest.MonkeyPatch, publish: Publish
) -> None:
    monkeypatch.setattr(stream, "INFO_AGE_S", 3600.0)
    publish(b"a", b"x")
    reader = StreamReader(options("stream", startingOffsets=1), StructType([]))
    at = reader.latestOffset(reader.initialOffset(), ALL)
    publish(b"a", b"x")
    assert all(reader.latestOffset(at, ALL) is at for _ in range(100))


def test_given_a_journal_that_is_new_when_gone_on_then_it_is_lost_or_read_from_its_beginning(
    broker: SeriatimServer, begin: Begin, publish: Publish, tmp_path: Path
) -> None:
    publish(b"a", *[b"x"] * 10)
    reader = begin(startingOffsets=1)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    broker.stop()
    (tmp_path / "journal").rename(tmp_path / "old")
    broker.start(broker.port)
    publish(b"b", b"x", b"y")
    with pytest.raises(DataLost, match=f"the checkpoint is at 11 of journal {end['journal']}, but"):
        begin(startingOffsets=1).latestOffset(end, ALL)
    with pytest.raises(DataLost, match=f"a batch ends at 11 of journal {end['journal']}, but"):
        begin().partitions({"startingOffsets": "latest"}, end)
    lenient = begin(startingOffsets=1, failOnDataLoss="false")
    assert run(lenient, end) == [[1, 2]]


def test_given_a_checkpoint_that_is_ahead_when_gone_on_then_it_is_lost_or_waits_at_the_head(
    begin: Begin, publish: Publish
) -> None:
    publish(b"a", *[b"x"] * 10)
    journal = begin().reportLatestOffset()["journal"]
    ahead = {"journal": journal, "sequence": 500}
    with pytest.raises(DataLost, match="is at 500, but the last number given is 10"):
        begin().latestOffset(ahead, ALL)
    reader = begin(startingOffsets=500)
    with pytest.raises(DataLost, match="is at 500, but the last number given is 10"):
        reader.latestOffset(reader.initialOffset(), ALL)
    lenient = begin(failOnDataLoss="false")
    assert run(lenient, ahead) == [[]]
    at = lenient.latestOffset(ahead, ALL)
    publish(b"a", b"new")
    assert run(lenient, at) == [[11]]


def test_given_a_broker_that_restarts_when_polled_then_the_query_lives(
    broker: SeriatimServer, begin: Begin, publish: Publish
) -> None:
    publish(b"a", b"x")
    reader = begin(startingOffsets=1)
    at = reader.latestOffset(reader.initialOffset(), ALL)
    broker.kill()
    broker.start(broker.port)
    publish(b"a", b"y")
    assert run(reader, at) == [[2]]
