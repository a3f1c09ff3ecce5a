"""Blocks by transformWithState, without a JVM: the same tables as by the fold."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.streaming.tws_tester import TwsTester

from cardinal.schema import Tracking
from cardinal.simulation import SCHEMA, Plan
from pyspark_seriatim.jobs.cardinal import cardinal_tables
from pyspark_seriatim.jobs.cardinal.assembly import Assembly, Engine
from pyspark_seriatim.jobs.cardinal.cardinal_tables import SCHEMAS
from pyspark_seriatim.jobs.cardinal.fold import EventRow, WholeBlock
from pyspark_seriatim.jobs.cardinal.packed import pack
from pyspark_seriatim.jobs.cardinal.state import COLUMNS, Blocks, whole_of
from tests.pyspark_seriatim.jobs.cardinal.streams import (
    BEGIN,
    JOURNAL,
    assembly,
    check,
    cut,
    hashes_of,
    raw,
    reorganised,
    simulated,
    state_of,
    table,
    take,
)

PREFIX = "cardinal.chain."


class Keyed(Blocks):
    """The tester has keys of one column only, so it puts a key of two into one."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        return super().handleInputRows(key[0], rows, timerValues)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[pd.DataFrame]:
        return super().handleExpiredTimer(key[0], timerValues, expiredTimerInfo)


class Stateful:
    """Spark's part of the query: groups, one state for each, a watermark between batches."""

    def __init__(self, tracking: Tracking | None = None) -> None:
        self.tester = TwsTester(
            Keyed(tracking, JOURNAL),
            timeMode="EventTime",
            eventTimeExtractor=lambda row: int(row.timestamp.timestamp() * 1000),
        )
        self.seen = 0

    def batch(self, rows: pa.Table) -> pa.Table:
        """What becomes of a batch, the groups in an order of their own."""
        messages = []
        for row in rows.to_pylist():
            topic = row["subject"].removeprefix(PREFIX)
            colon = row["payload"].find(b":", 0, 11)
            hash = row["payload"][colon + 2 : colon + 34] if colon > 0 else b""
            time = int(row["timestamp"].timestamp() * 1_000_000)
            key = (topic if topic.startswith("reorg.") else "", hash)
            messages.append((*key, row["sequence"], time, row["payload"]))
            self.seen = max(self.seen, time)
        groups: dict[tuple[str, bytes], list[tuple[datetime, bytes]]] = {}
        for row in packed_rows(messages[::-1]):  # the rows of a group, too
            groups.setdefault((row["topic"], row["hash"]), []).append(
                (row["timestamp"], row["messages"])
            )
        found = []
        for key in sorted(groups):
            frame = pd.DataFrame(groups[key], columns=["timestamp", "messages"])
            found.append(self.tester.testInPandas(key, frame))
        found.append(self.tester.setWatermark(self.seen // 1000 - 600_000))
        return as_arrow(found)


def packed_rows(messages: list[tuple[str, bytes, int, int, bytes]]) -> list[dict[str, Any]]:
    """As `mapInArrow` makes them, of two batches."""
    half = len(messages) // 2
    found: list[dict[str, Any]] = []
    for part in (messages[:half], messages[half:]):
        names = ("topic", "hash", "sequence", "time", "payload")
        columns = zip(*part, strict=True) if part else ([],) * len(names)
        types = (pa.string(), pa.binary(), pa.int64(), pa.int64(), pa.binary())
        arrays = [pa.array(c, kind) for c, kind in zip(columns, types, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, names=list(names))
        for packed in pack([batch]):
            found += packed.to_pylist()
    return found


def as_arrow(frames: list[pd.DataFrame]) -> pa.Table:
    """As Spark hands it to `foreachBatch`."""
    texts, binaries = ("topic", "kind", "text"), ("hash", "weight", "parent", "body")
    types = {name: pa.string() for name in texts} | {name: pa.binary() for name in binaries}
    schema = pa.schema({name: types.get(name, pa.int64()) for name in COLUMNS})
    rows = [row for frame in frames for row in frame.to_dict("records")]
    clean = [{k: None if isinstance(v, float) else v for k, v in row.items()} for row in rows]
    return pa.Table.from_pylist(clean, schema=schema)


def assembled(root: Path, pieces: list[pa.Table], **settings: object) -> Assembly:
    """The tables by way of state."""
    tracking = settings.get("tracking")
    stateful = Stateful(tracking)  # type: ignore[arg-type]
    one = assembly(root, engine=Engine.STATE, **settings)
    take(one, [stateful.batch(piece) for piece in pieces])
    return one


def same_tables(one: Path, other: Path, names: tuple[str, ...] = tuple(SCHEMAS)) -> None:
    first, second = cardinal_tables.open(str(one)), cardinal_tables.open(str(other))
    for name in names:
        assert first.arrow(name).to_pylist() == second.arrow(name).to_pylist(), name


@pytest.mark.parametrize("size", [5000, 60])
@pytest.mark.parametrize("tracking", [None, SCHEMA.track("a/")], ids=["everything", "tracked"])
def test_given_a_chain_when_assembled_by_state_then_the_tables_are_those_of_the_fold(
    tmp_path: Path, size: int, tracking: Tracking | None
) -> None:
    plan = Plan(
        *(11, 40, 6, 5), forks=0.4, producers=2, duplicates=0.2, reorder=0 if size > 60 else 60
    )
    simulation, rows = simulated(plan)
    if tracking is not None:
        topics = [f"{PREFIX}{topic}" for topic in tracking.topics]
        rows = rows.filter(pa.compute.is_in(rows["subject"], pa.array(topics)))
    pieces = cut(rows, [size])
    take(assembly(tmp_path / "fold", tracking=tracking), pieces)
    assembled(tmp_path / "state", pieces, tracking=tracking)
    same_tables(tmp_path / "fold", tmp_path / "state")
    tables = cardinal_tables.open(str(tmp_path / "state"))
    if tracking is None:
        assert check(tables) == hashes_of(simulation.chain)
        assert state_of(tables) == simulation.state


@pytest.mark.parametrize("size", [10_000, 29])
@pytest.mark.parametrize("threshold", [2, 128])
def test_given_a_channel_when_assembled_by_state_then_the_tables_are_those_of_the_fold(
    tmp_path: Path, size: int, threshold: int
) -> None:
    sent, final = reorganised()
    pieces = cut(table(sent), [size])
    take(assembly(tmp_path / "fold", threshold=threshold), pieces)
    assembled(tmp_path / "state", pieces, threshold=threshold)
    same_tables(tmp_path / "fold", tmp_path / "state")
    assert check(cardinal_tables.open(str(tmp_path / "state"))) == hashes_of(final)


def test_given_what_is_wrong_when_assembled_by_state_then_it_is_reported(tmp_path: Path) -> None:
    sent, final = reorganised()
    batches = [at for at, row in enumerate(sent) if row[1][0] == 0]
    lost = sent[: batches[-1]] + sent[batches[-1] + 1 :]
    rows = table([("blocks", b"\x09" + bytes(32), b""), *lost])
    bad = raw(["cardinal.chain.blocks"], [b"3:abc"], rows.num_rows * 2 + 1, 1000)
    late = table([("blocks", b"\xff" + bytes(32), b"")], 10**9 + 1)
    last = table([("blocks", b"\x03" + bytes(32), b"")], 10**9 + 3)
    assembled(tmp_path, [rows, bad, late, last])
    tables = cardinal_tables.open(str(tmp_path))
    assert check(tables) == hashes_of(final[:-1])
    found = {one["kind"]: one for one in tables.arrow("events").to_pylist()}
    assert [*found] == ["Dropped", "Evicted", "BadEnvelope"], "by number, and not as they were told"
    events = [found["Dropped"], found["BadEnvelope"], found["Evicted"]]
    assert all(one["timestamp"].year > 2000 for one in events)
    assert "no message has the type 09" in events[0]["text"]
    assert (events[0]["sequence"], events[0]["block"]) == (1, bytes(32))
    assert events[2]["block"] == final[-1].hash
    assert "missing: its Batch" in events[2]["text"]


def test_given_a_block_that_was_given_when_copies_come_then_they_are_passed_by() -> None:
    sent, _ = reorganised()
    rows, again = table(sent[:40]), table(sent[:40], 1001)
    stateful = Stateful()
    blocks = [one["kind"] for one in stateful.batch(rows).to_pylist()]
    assert blocks
    assert set(blocks) == {"Block"}
    assert stateful.batch(again).num_rows == 0
    much_later = table([("blocks", b"\x03" + bytes(32), b"")], 10**9 + 1)
    assert stateful.batch(much_later).num_rows > 0, "the one that was not whole"
    again = stateful.batch(table(sent[:40], 2 * 10**9))
    assert again["kind"].to_pylist().count("Block") == len(blocks), "all is forgotten by then"


def test_given_wholes_when_written_as_rows_then_they_are_read_again() -> None:
    from cardinal.block import Block
    from cardinal.messages import Reorg, ReorgComplete
    from pyspark_seriatim.jobs.cardinal.state import frame_of

    place = (b"h" * 32, 2**63 - 1, 2**256 - 1, b"p" * 32)
    block = Block(*place, {"a": b"", "ä": b"\0"}, {"z", "y"}, {JOURNAL: 3}, 9)
    event_row = EventRow(8, BEGIN, "Dropped", None, None, "why")
    found = [
        WholeBlock(9, BEGIN, "", block),
        WholeBlock(10, BEGIN, "reorg.x", Reorg(b"r" * 32, 7)),
        WholeBlock(11, BEGIN, "reorg.x", ReorgComplete(b"r" * 32, 7)),
        WholeBlock(8, BEGIN, "", event_row),
    ]
    again = whole_of(as_arrow([frame_of(found)]), JOURNAL)
    assert again == found
    (read, written) = again[0].event, found[0].event
    assert isinstance(read, Block)
    assert isinstance(written, Block)
    assert (read.token, read.last) == (written.token, written.last)
