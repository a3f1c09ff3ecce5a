"""A replay: publishes an archive again in its order, each message once, even if it is killed.

    archive --cut--> chunks of numbers --tasks: ordered rows, staged in steps--> steps
    --driver: COMMIT, one step after the other, at the rate--> the broker

A step is some rows and the range of numbers they cover. It is committed as the batch whose number
is the last one it covers, and only `after` the batch before it. So the broker knows how far the
replay has come, and a restarted one continues from there, with steps of any length. If two replays
of one application run at once, or one was killed while it committed, that `after` refuses the
second commit.

While the steps of one chunk are committed, the next chunk is staged. Memory of a task: that of
`Ordered` and a step. Of the driver: one line for each step of two chunks.
"""

import contextlib
import json
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_seriatim.client import Client
from pyspark_seriatim.errors import BrokerError, RowError
from pyspark_seriatim.jobs.archive.rows import ArchivePart, subject_pattern
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog.files import Files
from pyspark_seriatim.jobs.replay.ordered import Ordered
from pyspark_seriatim.jobs.replay.replay_options import Range, ReplayOptions
from pyspark_seriatim.operation_publishing import (
    BATCH,
    Committed,
    OperationPublisher,
    Transaction,
    WholeStage,
)
from pyspark_seriatim.operations import Layout, operations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHUNK_ROWS: Final = 200_000  # per task: a second or so
STEP_BYTES: Final = 32 << 20
AHEAD_SECONDS: Final = 10  # of one round of all tasks, staged while the previous round is published
STEP_SECONDS: Final = 0.1  # with a rate: how often something is published
COMMITTING_SECONDS: Final = 60  # how long a commit of another replay may take
LOOK_SECONDS: Final = 0.2
STEP_DDL: Final = (
    "chunk bigint, first bigint, last bigint, stage string, bytes bigint, crc32 bigint,"
    " rows bigint, doubled bigint, skipped bigint, example string"
)
STEPS: Final = pa.schema(
    [
        *((name, pa.int64()) for name in ("chunk", "first", "last")),
        ("stage", pa.string()),
        *((name, pa.int64()) for name in ("bytes", "crc32", "rows", "doubled", "skipped")),
        ("example", pa.string()),
    ]
)
# Headers with a message's original position, for --origin-headers.
ORIGIN_NUMBER, ORIGIN_TIME = "Nats-Origin-Sequence", "Nats-Origin-Time-Stamp"
ROW: Final = re.compile(r": 400 Row (\d+) of stage \S+: (.*)", re.DOTALL)
Make = Callable[[pa.RecordBatch], Iterable[Any]]


# Stages rows of an archive, and finds those that no broker, or not this one, would publish.
#
#     rows --make--> operations         rows that fail are found by bisection
#     operations --> a stage            the broker names a row it refuses: it is staged without that
#
# Without `skip` the first such row ends the replay; the error has its number in the archive. With
# it, such rows are left out and reported. Publishable rows cost nothing extra: they are made and
# staged at once.


@dataclass(frozen=True, slots=True)
class Unpublishable:
    """A message of the archive that the broker would refuse."""

    number: int
    why: str

    def __str__(self) -> str:
        return f"number {self.number}: {self.why}"

    @property
    def error(self) -> JobError:
        """The error that ends a replay without `skip`."""
        return JobError(
            f"{self}; --skip-unpublishable leaves out messages that cannot be published"
        )


def stage(
    publisher: OperationPublisher,
    transaction: Transaction,
    rows: pa.RecordBatch,
    make: Make,
    skip: bool,
) -> tuple[WholeStage, list[Unpublishable]]:
    """Stage rows with a column `sequence`; return those left out, or raise `JobError` for them."""
    made, left_out = sifted(rows, make, skip)
    rows = _without(rows, left_out)
    while True:
        try:
            return publisher.stage(transaction, uuid.uuid4().hex, made), left_out
        except (BrokerError, RowError) as error:
            refused = refused_by(error, rows)
            if not refused:
                raise
            if not skip:
                raise refused[0].error from error
        left_out += refused
        rows = _without(rows, refused)
        made = [*make(rows)]


def sifted(rows: pa.RecordBatch, make: Make, skip: bool) -> tuple[list[Any], list[Unpublishable]]:
    """The operations for the rows, and the rows for which there is none. Raises `JobError`."""
    try:
        return [*make(rows)], []
    except RowError as error:
        if rows.num_rows == 1:
            found = Unpublishable(rows.column("sequence")[0].as_py(), str(error))
            if not skip:
                raise found.error from error
            return [], [found]
    half = rows.num_rows // 2
    first, wrong = sifted(rows.slice(0, half), make, skip)
    second, more = sifted(rows.slice(half), make, skip)
    return first + second, wrong + more


def refused_by(error: BrokerError | RowError, rows: pa.RecordBatch) -> list[Unpublishable]:
    """The row that the broker names; if its subject is at fault, all rows of that subject."""
    found = ROW.search(str(error))
    if found is None or not 0 < int(found[1]) <= rows.num_rows:
        return []
    row, why = int(found[1]) - 1, f"the broker refuses it: {found[2]}"
    numbers = rows.column("sequence").slice(row, 1)
    if found[2].startswith('"'):
        subjects = rows.column("subject")
        numbers = rows.column("sequence").filter(pc.equal(subjects, subjects[row]))
    return [Unpublishable(number, why) for number in numbers.to_pylist()]


def _without(rows: pa.RecordBatch, left_out: Sequence[Unpublishable]) -> pa.RecordBatch:
    if not left_out:
        return rows
    gone = pa.array([one.number for one in left_out], pa.int64())
    return rows.filter(pc.invert(pc.is_in(rows.column("sequence"), gone)))


@dataclass(frozen=True, slots=True)
class ReplayStep:
    """Staged rows: those of the numbers `first` to `last`."""

    first: int
    last: int
    staged: WholeStage
    doubled: int
    skipped: int = 0  # rows that cannot be published
    example: str = ""  # the first of them


@dataclass(slots=True)
class Replayed:
    """Published rows: those of the archive up to number `upto`, as numbers `first` to `last`."""

    rows: int = 0
    doubled: int = 0
    skipped: int = 0
    example: str = ""  # of what was skipped
    first: int = 0
    last: int = 0
    upto: int = 0
    seconds: float = 0.0

    def add(self, step: ReplayStep, got: Committed) -> None:
        """Add a step, and what its commit has published."""
        self.rows += got.rows
        self.doubled += step.doubled
        self.skipped += step.skipped
        self.example = self.example or step.example
        self.first = self.first or got.first
        self.last = got.last or self.last
        self.upto = step.last


def cut(parts: Sequence[ArchivePart], span: Range, rows: int) -> Iterator[Range]:
    """`span` in pieces of about this many rows, as if a file's numbers were spread evenly."""
    firsts = np.array([part.first for part in parts], np.int64)
    lasts = np.array([part.last for part in parts], np.int64)
    density = np.array([part.rows for part in parts]) / (lasts - firsts + 1.0)

    def rows_in(begin: int, end: int) -> float:
        inside = np.minimum(lasts, end) - np.maximum(firsts, begin) + 1
        return float((np.maximum(inside, 0) * density).sum())

    begin, last = span
    while begin <= last:
        low, high = begin, last
        while low < high:  # the lowest end with at least so many rows
            middle = (low + high) // 2
            if rows_in(begin, middle) >= rows:
                high = middle
            else:
                low = middle + 1
        yield begin, low
        begin = low + 1


@dataclass(frozen=True, slots=True)
class StageChunks:
    """For mapInArrow: turns indexes of chunks into the steps in which their rows were staged."""

    options: ReplayOptions
    chunks: tuple[Range, ...]
    step_rows: int

    def __call__(self, indexes: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in indexes:
            for index in batch.column(0).to_pylist():
                for step in self._steps(self.chunks[index]):
                    row = {"chunk": index, "first": step.first, "last": step.last}
                    staged = step.staged
                    row |= {"stage": staged.stage, "bytes": staged.bytes, "crc32": staged.crc32}
                    row |= {"rows": staged.rows, "doubled": step.doubled}
                    row |= {"skipped": step.skipped, "example": step.example}
                    yield pa.RecordBatch.from_pylist([row], schema=STEPS)

    def _steps(self, chunk: Range) -> Iterator[ReplayStep]:
        """The steps of one chunk: each ends where the next begins, the last at the chunk's end."""
        options = self.options
        archive = options.archive
        columns = [name for name in COLUMNS if name in archive.columns]
        pattern = subject_pattern(options.subject)
        ordered = Ordered(Files(archive.root), archive.within(*chunk), columns, chunk, pattern)
        publisher = OperationPublisher.shared(options.connection)
        begin, doubled = chunk[0], 0
        for rows, is_last in _with_end(_pieces(ordered.batches(), self.step_rows)):
            last = chunk[1] if is_last else rows.column(0)[-1].as_py()
            transaction = Transaction(options.application, last)
            make = partial(self._operations, publisher=publisher)
            staged, skipped = stage(publisher, transaction, rows, make, options.skip)
            example = str(skipped[0]) if skipped else ""
            yield ReplayStep(begin, last, staged, ordered.doubled - doubled, len(skipped), example)
            begin, doubled = last + 1, ordered.doubled

    def _operations(self, rows: pa.RecordBatch, publisher: OperationPublisher) -> Iterator[Any]:
        options = self.options
        columns = {name: rows.column(name) for name in rows.schema.names}
        columns["subject"] = options.renaming.apply(columns["subject"])
        if options.origin:
            columns["headers"] = with_origin(rows)
        wanted = {name: columns[name] for name in PUBLISHED if name in columns}
        layout = Layout(None, "reply" in wanted, "headers" in wanted)
        made = pa.RecordBatch.from_pydict(wanted)
        return operations(made, layout, publisher.max_payload())


COLUMNS: Final = ("sequence", "timestamp", "subject", "payload", "reply", "headers")
PUBLISHED: Final = ("subject", "payload", "reply", "headers")


def _pieces(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of at most this many rows, and bytes; small ones are joined."""
    waiting: list[pa.RecordBatch] = []
    held_rows = held_bytes = 0
    for batch in batches:
        each = max(min(rows, STEP_BYTES * batch.num_rows // max(batch.nbytes, 1)), 1)
        at = 0
        while at < batch.num_rows:
            some = batch.slice(at, min(each, rows - held_rows))
            at += some.num_rows
            waiting.append(some)
            held_rows, held_bytes = held_rows + some.num_rows, held_bytes + some.nbytes
            if held_rows >= rows or held_bytes >= STEP_BYTES:
                yield pa.concat_batches(waiting)
                waiting, held_rows, held_bytes = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


def _with_end(pieces: Iterator[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Each item, and whether it is the last one."""
    before = next(pieces, None)
    while before is not None:
        following = next(pieces, None)
        yield before, following is None
        before = following


def with_origin(rows: pa.RecordBatch) -> pa.MapArray:
    """The headers of rows, followed by their original numbers and times."""
    count = rows.num_rows
    times = pc.strftime(rows.column("timestamp"), "%Y-%m-%dT%H:%M:%SZ")
    values = [rows.column("sequence").cast(pa.string()), times]
    keys = pa.array(np.repeat([ORIGIN_NUMBER, ORIGIN_TIME], count).tolist(), pa.string())
    new = np.arange(count + 1, dtype=np.int32) * 2
    ones = pa.array(np.arange(2 * count + 1, dtype=np.int32))
    added = pa.ListArray.from_arrays(ones, pa.concat_arrays(values))
    # Row by row: its entries, then its number, then its time.
    order = np.empty(2 * count, np.int64)
    order[0::2], order[1::2] = np.arange(count), np.arange(count) + count
    if "headers" not in rows.schema.names:
        entries = pa.array(order)
        return pa.MapArray.from_arrays(pa.array(new), keys.take(entries), added.take(entries))
    column = rows.column("headers")
    column = column.take(pa.array(np.arange(count)))  # without the values under nulls
    ends = np.asarray(column.offsets)
    base, old = ends - ends[0], int(ends[-1] - ends[0])
    row_of = np.repeat(np.arange(count), np.diff(base))
    order_all = np.empty(old + 2 * count, np.int64)
    order_all[np.arange(old) + 2 * row_of] = np.arange(old)
    order_all[base[1:] + new[:-1]] = old + np.arange(count)
    order_all[base[1:] + new[:-1] + 1] = old + count + np.arange(count)
    entries = pa.array(order_all)
    old_keys = column.keys.slice(int(ends[0]), old).cast(pa.string())
    old_items = column.items.slice(int(ends[0]), old).cast(added.type)
    return pa.MapArray.from_arrays(
        pa.array((base + new).astype(np.int32)),
        pa.concat_arrays([old_keys, keys]).take(entries),
        pa.concat_arrays([old_items, added]).take(entries),
    )


class ReplayRun:
    """One replay in a Spark session."""

    def __init__(self, spark: "SparkSession", options: ReplayOptions) -> None:
        self._spark = spark
        self._options = options
        self._publisher = OperationPublisher(options.connection)
        self._tasks = spark.sparkContext.defaultParallelism
        ahead = int(options.rate * AHEAD_SECONDS / self._tasks)
        self._chunk_rows = min(CHUNK_ROWS, max(ahead, 1)) if options.rate else CHUNK_ROWS
        paced = max(int(options.rate * STEP_SECONDS), 1)
        self._step_rows = min(paced, self._chunk_rows) if options.rate else CHUNK_ROWS

    def run(self, came: Callable[[Replayed], None] = lambda done: None) -> Replayed:
        """Publish the remaining messages; call `came` with the progress.

        Raises `JobError`, `BrokerError`; the messages published before stay published.
        """
        options, begun = self._options, time.monotonic()
        after = self.position()
        first = options.span[0] if after is None else max(options.span[0], after + 1)
        done = Replayed(upto=after or 0)
        chunks = cut(options.archive.parts, (first, options.span[1]), self._chunk_rows)
        with ThreadPoolExecutor(1) as stager, contextlib.closing(self._publisher):
            staging = stager.submit(self._stage, tuple(islice(chunks, self._tasks)))
            following: tuple[Range, ...] | None = None
            while following is None or following:
                steps = staging.result()
                following = tuple(islice(chunks, self._tasks))
                staging = stager.submit(self._stage, following)
                try:
                    while steps:
                        self._wait(done, begun)
                        after = self._commit(steps[0], after, done)
                        steps.pop(0)
                        came(done)
                except BaseException:
                    self._drop([*steps, *_result(staging)])
                    raise
        done.seconds = time.monotonic() - begun
        return done

    def position(self) -> int | None:
        """Return the last number replayed before. Waits for the end of a commit in progress."""
        payload = json.dumps({"application": self._options.application}).encode()
        until = time.monotonic() + COMMITTING_SECONDS
        while True:
            with contextlib.closing(Client(self._options.connection)) as client:
                answer = client.call(lambda on: on.request(BATCH, payload).check(BATCH))
            found = json.loads(bytes(answer.payload))
            if found.get("committing") is None:
                return None if found["batch"] is None else int(found["batch"])
            if time.monotonic() > until:
                raise JobError(f"another replay of {self._options.application!r} is publishing")
            time.sleep(LOOK_SECONDS)

    def _stage(self, chunks: tuple[Range, ...]) -> list[ReplayStep]:
        """The steps of some chunks, in the order of their numbers."""
        if not chunks:
            return []
        task = StageChunks(self._options, chunks, self._step_rows)
        frame = self._spark.range(0, len(chunks), 1, len(chunks)).mapInArrow(task, STEP_DDL)
        steps = [
            ReplayStep(
                row["first"],
                row["last"],
                WholeStage(row["stage"], row["bytes"], row["crc32"], row["rows"]),
                row["doubled"],
                row["skipped"],
                row["example"],
            )
            for row in frame.collect()
        ]
        return sorted(steps, key=lambda step: step.first)

    def _wait(self, done: Replayed, begun: float) -> None:
        """Wait until the rate allows the rows published so far."""
        if self._options.rate:
            time.sleep(max(begun + done.rows / self._options.rate - time.monotonic(), 0))

    def _commit(self, step: ReplayStep, after: int | None, done: Replayed) -> int:
        transaction = Transaction(self._options.application, step.last)
        try:
            got = self._publisher.commit(transaction, [step.staged], after=after)
        except BrokerError as error:
            if error.status != 409:
                raise
            raise JobError(
                f"another replay of {self._options.application!r} is running ({error});"
                " wait until it has finished"
            ) from error
        if got.repeated and step.staged.rows and not got.rows:
            raise JobError(
                f"another replay of {self._options.application!r} is already past {step.last};"
                " let it end, or start this one again to continue from there"
            )
        done.add(step, got)
        return step.last

    def _drop(self, steps: Sequence[ReplayStep]) -> None:
        """Drop stages that will not be committed, instead of letting them expire."""
        hurried = replace(self._options.connection, ack_timeout_ms=2000, request_timeout_ms=2000)
        with contextlib.suppress(BrokerError), OperationPublisher(hurried) as publisher:
            for step in steps:
                publisher.abort(
                    Transaction(self._options.application, step.last), [step.staged.stage]
                )


def _result(staging: Any) -> list[ReplayStep]:
    """Return the steps staged meanwhile; none if staging failed."""
    try:
        found: list[ReplayStep] = staging.result()
        return found
    except Exception:  # the error that ended the replay has been reported
        return []
