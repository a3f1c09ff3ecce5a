"""Assembles blocks by transformWithState: each on its own, on the executor that has its hash.

    messages, packed by (channel, hash) --> Blocks --> whole blocks, reorgs, dropped messages
                                      (`whole_of` reads them again, for `Fold.take_whole`)

For each block there is one blob of state: the messages that arrived, or a mark that it was emitted.
The blob lives until messages arrive that are `AGE_MAX_SECONDS` younger than the block's first. An
incomplete block is then given up and reported. Further messages of an emitted block are skipped
until it is forgotten.

Time is that of the messages, which never decreases in a journal. So Spark's watermark, which lags
by as long as a block may wait, drops nothing. It also stops when the messages stop, whereas Spark's
processing time would cause one empty batch after another.

Memory of a worker: the messages of the groups of one Arrow batch. The state store is on disk.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from cardinal.assembler import AGE_MAX_SECONDS, Assembler, Dropped, Event, Evicted
from cardinal.block import Block
from cardinal.message_codec import HEAD
from cardinal.messages import REORG, REORG_COMPLETE, Reorg, ReorgComplete
from cardinal.pending import BLOCK_BYTES, EACH_BYTES, Pending
from cardinal.schema import REORG_TOPIC, Tracking
from cardinal.transport.envelope import LENGTH_DIGITS_MAX
from pyspark_seriatim.jobs.cardinal import snapshot
from pyspark_seriatim.jobs.cardinal.envelopes import split
from pyspark_seriatim.jobs.cardinal.fold import EventRow, WholeBlock, wrong
from pyspark_seriatim.jobs.cardinal.packed import PACKED, pack, unpack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REORGS: Final = (bytes([REORG]), bytes([REORG_COMPLETE]))  # kinds that belong to no block
# True if the block was emitted; the time of its timer, in ms; then its pending messages.
BLOB: Final = struct.Struct(">?q")
SCHEMA: Final = (
    "sequence long, time long, topic string, kind string, hash binary, number long, weight binary,"
    " parent binary, first long, body binary, text string"
)
COLUMNS: Final = [column.split()[0] for column in SCHEMA.split(",")]

# The position of the colon in a payload; the key follows it: its kind, then the hash.
KEY: Final = f"instr(cast(substring(payload, 1, {LENGTH_DIGITS_MAX + 1}) as string), ':')"
HASH: Final = f"if({KEY} > 1, substring(payload, {KEY} + 2, 32), X'')"
NO_PING: Final = f"{KEY} <= 1 or substring(payload, {KEY} + 1, 1) <> X'FF'"


def assembled(
    messages: "DataFrame", prefix: str, tracking: Tracking | None, source: str
) -> "DataFrame":
    """The results of each batch, from messages as the source has them."""
    from pyspark.sql import functions as f

    topic = f.substr("subject", f.lit(len(prefix) + 1))
    channel = (topic == REORG_TOPIC) | topic.startswith(f"{REORG_TOPIC}.")
    return (
        messages.where(NO_PING)
        .select(
            f.when(channel, topic).otherwise("").alias("topic"),
            f.expr(HASH).alias("hash"),
            "sequence",
            f.unix_micros("timestamp").alias("time"),
            "payload",
        )
        .mapInArrow(pack, PACKED)
        .withWatermark("timestamp", f"{int(AGE_MAX_SECONDS)} seconds")
        .groupBy("topic", "hash")
        .transformWithStateInPandas(
            Blocks(tracking, source),
            outputStructType=SCHEMA,
            outputMode="append",
            timeMode="EventTime",
        )
    )


class Blocks(StatefulProcessor):
    """One block of one channel (or of none) per key."""

    def __init__(self, tracking: Tracking | None, source: str) -> None:
        self._tracking = tracking
        self._source = source

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called once per task."""
        self._handle = handle
        self._kept = handle.getValueState("block", "blob binary")

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Handle all messages of one block in this batch."""
        del timerValues
        topic = key[0]
        sequences, moments, payloads = unpack(blob for frame in rows for blob in frame["messages"])
        times = dict(zip(sequences.tolist(), moments.tolist(), strict=True))
        kept = self._kept.get()
        given, timer, assembler = self._opened(kept, topic)
        found, messages = [], []
        keys, values, bad = split(payloads)
        for at, sequence in enumerate(times):
            row = (keys[at], values[at], sequence)
            if bad and at in bad:
                words = wrong(payloads[at].as_py())
                event_row = EventRow(sequence, times[sequence], "BadEnvelope", None, None, words)
                found.append(WholeBlock(sequence, times[sequence], topic, event_row))
            elif row[0][:1] in REORGS:
                for event in assembler.feed([row], self._source):
                    found.append(self._whole(event, sequence, times, topic))
            elif not given:
                messages.append(row)
        for event in assembler.feed(messages, self._source):
            given |= isinstance(event, Block)
            found.append(self._whole(event, messages[-1][2], times, topic))
        pending = next(iter(assembler.pending.values()), None)
        if given or pending is not None or kept is not None:
            self._keep(kept, given, timer, pending, times[sequence] // 1000)
        if found:
            yield frame_of(found)

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[pd.DataFrame]:
        """Handle a block whose timer has expired."""
        del timerValues, expiredTimerInfo
        _, timer, assembler = self._opened(self._kept.get(), key[0])
        self._kept.clear()
        pending = list(assembler.pending.values())
        events = assembler.give_up("age")
        if events:
            last = max(pending[0].token.values())
            times = {last: timer * 1000}  # that of its first message
            yield frame_of([self._whole(event, last, times, key[0]) for event in events])

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _opened(self, kept: Any, topic: str) -> tuple[bool, int, Assembler]:
        """Unpack a block's state: whether it was emitted, its timer's time, and its messages."""
        assembler = Assembler(self._tracking, age_max=float("inf"), channel=bool(topic))
        if kept is None:
            return False, 0, assembler
        blob = bytes(kept[0])
        given, timer = BLOB.unpack_from(blob)
        if not given:
            assembler.adopt(snapshot.loads(blob[BLOB.size :]))
        return given, timer, assembler

    def _keep(self, kept: Any, given: bool, timer: int, pending: Pending | None, now: int) -> None:
        """Store the state of the block; `now` in ms."""
        if kept is not None and BLOB.unpack_from(bytes(kept[0]))[0]:
            return  # it was emitted and stored before
        if kept is not None and (given or pending is None):
            self._handle.deleteTimer(timer)
        if not given and pending is None:  # too large, so it was given up
            self._kept.clear()
            return
        if kept is None or given:
            timer = now
            self._handle.registerTimer(timer)
        body = b"" if given else snapshot.dumps(pending)
        self._kept.update((BLOB.pack(given, timer) + body,))

    def _whole(self, event: Event, sequence: int, times: dict[int, int], topic: str) -> WholeBlock:
        if isinstance(event, Dropped):
            sequence = event.offset
            hash = event.key[1:HEAD] if len(event.key) >= HEAD else None
            event_row = EventRow(sequence, 0, "Dropped", hash, None, str(event))
            return WholeBlock(sequence, times.get(sequence, 0), topic, event_row)
        if isinstance(event, Evicted):
            event_row = EventRow(sequence, 0, "Evicted", event.hash, event.number, str(event))
            return WholeBlock(sequence, times.get(sequence, 0), topic, event_row)
        if isinstance(event, Block):
            sequence = event.last
        return WholeBlock(sequence, times[sequence], topic, event)


def frame_of(found: Sequence[WholeBlock]) -> pd.DataFrame:
    """Convert results to rows of `SCHEMA`."""
    return pd.DataFrame([_row(one) for one in found], columns=COLUMNS, dtype=object)


def _row(one: WholeBlock) -> tuple[Any, ...]:
    event, head = one.event, (one.sequence, one.time, one.topic)
    if isinstance(event, Block):
        body = snapshot.dumps((event.deletes, event.updates))
        weight, first = event.weight.to_bytes(32, "big"), min(event.token.values())
        place = (event.hash, event.number, weight, event.parent, first)
        return (*head, "Block", *place, body, None)
    nothing = (None,) * 4
    if isinstance(event, EventRow):
        return (*head, event.kind, event.hash, event.number, *nothing, event.text)
    return (*head, type(event).__name__, event.hash, event.number, *nothing, None)


def whole_of(rows: pa.Table, source: str) -> list[WholeBlock]:
    """Convert rows of `SCHEMA` back to results."""
    return [_read(row, source) for row in rows.to_pylist()]


def _read(row: dict[str, Any], source: str) -> WholeBlock:
    event: Block | Reorg | ReorgComplete | EventRow
    sequence, time, kind = row["sequence"], row["time"], row["kind"]
    hash, number = row["hash"], row["number"]
    if kind == "Block":
        deletes, updates = snapshot.loads(row["body"])
        token, weight = {source: row["first"]}, int.from_bytes(row["weight"], "big")
        place = (hash, number, weight, row["parent"])
        size = len(row["body"]) + BLOCK_BYTES + EACH_BYTES * (len(updates) + len(deletes))
        event = Block(*place, updates, deletes, token, sequence, size)
    elif kind in ("Reorg", "ReorgComplete"):
        event = (Reorg if kind == "Reorg" else ReorgComplete)(hash, number)
    else:
        event = EventRow(sequence, time, kind, hash, number, row["text"])
    return WholeBlock(sequence, time, row["topic"], event)
