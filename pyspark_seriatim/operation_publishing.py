"""Publishes operations: staged and committed as one transaction, or at once.

    stage(transaction, name, buffers)     one task's rows, in pieces, several in flight
    commit(transaction, stages)           publishes the rows of all stages, in their order, once
    abort(transaction, names)             drops what was staged
    last(application)                     which batch was committed last
    publish(buffers)                      at once: rows may be repeated, none is left out

Every request is idempotent, so unanswered ones are repeated on a new connection: a piece names its
offset, a commit its batch. The same holds while the journal is full. Without progress for
`ackTimeoutMs`, the error says why. A row that the broker will never accept is reported at once,
with its subject. Memory: `publishWindow` unanswered pieces, and the buffers they are cut from.
"""

import json
import os
import re
import time
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from types import EllipsisType
from typing import Any, ClassVar, Final, Self

from pyspark_seriatim.errors import BrokerError, ConnectionLost, RowError
from pyspark_seriatim.operations import taken_apart
from pyspark_seriatim.options import Options
from pyspark_seriatim.spark_connection import SparkConnection
from seriatim.client.bulk_connection import Answer, Data, Request

STAGE, COMMIT, ABORT, BATCH = "$SEQ.STAGE", "$SEQ.COMMIT", "$SEQ.ABORT", "$SEQ.BATCH"
HEADERS_BYTES: Final = 1024  # of a piece at most; they count toward max_payload
CONNECTIONS_MAX: Final = 8  # kept in one process, for writes to different brokers
CONFLICT, BUSY, FULL = 409, 429, 507
UNREADY = (503, 504)  # 503 from brokers of earlier versions
JOURNAL_FULL: Final = "journal is full"
BAD_ROW: Final = re.compile(r": 400 Row (\d+) of stage ")
# By the broker's text before it disconnects for a row that is too long, which a retry would repeat:
# the size of the row that counts, and the text of the error.
TOO_LONG: Final = {
    "maximum control line": (
        attrgetter("arguments"),
        "has a control line of {} bytes: shorten its subject or reply, or set"
        " limits.max_control_line of the broker",
    ),
    "maximum payload": (
        attrgetter("size"),
        "has {} bytes: make it shorter, or set limits.max_payload of the broker",
    ),
}
COMMITTING: Final = "is being committed"  # another batch of the application
AGAIN: Final = "start the query again: it repeats the batch"
SMALLER: Final = "make the batch smaller (maxOffsetsPerTrigger)"
REMEDIES: Final = {
    (STAGE, CONFLICT): "; what was staged before is gone: it expired or was"
    f" aborted. Spark tries the task again; or {AGAIN}",
    (STAGE, 413): f"; set staging.max_bytes of the broker, or {SMALLER}",
    (COMMIT, 404): "; a stage without new data is dropped after staging.expiry: make that"
    f" longer, or {SMALLER}. Then {AGAIN}",
    (COMMIT, FULL): f"; nothing was published. Make room, and {AGAIN}",
}


@dataclass(frozen=True, slots=True)
class Transaction:
    """A batch of an application. If not remembered, it cannot be repeated after a while."""

    application: str
    batch: int
    remember: bool = True


@dataclass(frozen=True, slots=True)
class WholeStage:
    """A whole stage, as a commit must find it. With 0 bytes it does not exist."""

    stage: str
    bytes: int
    crc32: int
    rows: int


@dataclass(frozen=True, slots=True)
class Committed:
    """A published batch: numbers `first` to `last`, with other publishers' in between."""

    batch: int
    first: int
    last: int
    rows: int
    repeated: bool


class _NotNow(BrokerError):
    """A refusal for the moment: try again."""


class OperationPublisher:
    """One connection for writing, renewed whenever it breaks. Not for two threads."""

    _shared: ClassVar[dict[tuple[int, Options], "OperationPublisher"]] = {}

    def __init__(self, options: Options) -> None:
        self._options = options
        self._connection: SparkConnection | None = None

    @classmethod
    def shared(cls, options: Options) -> "OperationPublisher":
        """The process's publisher for these options: Spark's workers run many tasks.

        After a fork it is another one.
        """
        # these differ between batches
        alike = replace(options, subject="", txn_app_id="", txn_version=-1)
        key = (os.getpid(), alike)
        publisher = cls._shared.get(key)
        if publisher is None:
            if len(cls._shared) >= CONNECTIONS_MAX:
                cls._shared.pop(next(iter(cls._shared))).close()
            publisher = cls._shared[key] = cls(alike)
        return publisher

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def max_payload(self) -> int:
        """The largest message the broker accepts, headers included."""
        patience = _Patience(self._options)
        while True:
            try:
                return self._open().max_payload
            except ConnectionLost as error:
                patience.wait(error)

    def stage(self, transaction: Transaction, name: str, buffers: Iterable[Data]) -> WholeStage:
        """Stage buffers of operations under a new name. Raises `BrokerError`.

        Raises `RowError` for a row that the broker refuses, and any error of the iterable; then the
        stage must be aborted.
        """
        size = min(self._options.publish_batch_bytes, self.max_payload() - HEADERS_BYTES)
        pieces = _Pieces(buffers, max(size, 1))
        stage = _Stage(transaction, name, pieces)
        patience = _Patience(self._options)
        while True:
            try:
                connection = self._open()
                # One at a time, so that even a short-lived connection makes progress.
                again = connection.ask(stage.unanswered(), 1)
                others = connection.ask(stage.others(patience), self._options.publish_window)
                for answer in chain(again, others):
                    stage.on_answer(answer)
                    patience.renew()
                return WholeStage(name, pieces.bytes, pieces.crc32, stage.rows)
            except (ConnectionLost, _NotNow) as error:
                self.close()  # this also drops pending answers
                patience.wait(error)
            except BaseException:
                self.close()
                raise

    def commit(
        self,
        transaction: Transaction,
        stages: Sequence[WholeStage],
        after: int | EllipsisType | None = ...,
    ) -> Committed:
        """Publish the stages, in this order, unless already done. Raises `BrokerError`.

        If `after` is given, only if that is the application's last batch (None: it has none).
        """
        wanted = [
            {"stage": one.stage, "bytes": one.bytes, "crc32": one.crc32}
            for one in stages
            if one.bytes
        ]
        words: dict[str, Any] = {
            "application": transaction.application,
            "batch": transaction.batch,
            "stages": wanted,
            "remember": transaction.remember,
        }
        if after is not ...:
            words["after"] = after
        return _committed(self._request(COMMIT, words))

    def abort(self, transaction: Transaction, names: Sequence[str] | None = None) -> int:
        """Drop stages, or all of the batch if no names are given; return how many there were."""
        words: dict[str, Any] = {
            "application": transaction.application,
            "batch": transaction.batch,
        }
        if names is not None:
            words["stages"] = list(names)
        return int(self._request(ABORT, words)["dropped"])

    def last(self, application: str) -> Committed | None:
        """The last batch that was committed; None if none is remembered."""
        found = self._request(BATCH, {"application": application})
        return None if found["batch"] is None else _committed(found)

    def publish(self, buffers: Iterable[Data]) -> None:
        """Publish buffers of whole operations, in their order; return when all were processed.

        Sends operations again that may not have been processed. Raises `BrokerError`, `RowError`.
        """
        group_bytes = self._options.publish_batch_bytes * self._options.publish_window
        group: list[Data] = []
        held = 0
        for buffer in buffers:
            group.append(buffer)
            held += memoryview(buffer).nbytes
            if held >= group_bytes:
                self._publish(group)
                group, held = [], 0
        if group:
            self._publish(group)

    def _publish(self, group: Sequence[Data]) -> None:
        patience = _Patience(self._options)
        while True:
            try:
                connection = self._open()
                for buffer in group:
                    connection.send(buffer)
                connection.flush()
                return
            except ConnectionLost as error:
                self.close()
                _check_lengths(group, error)
                patience.wait(error)
            except BrokerError as error:
                self.close()
                if JOURNAL_FULL not in str(error):
                    raise
                patience.wait(error)

    def _open(self) -> SparkConnection:
        """The connection, renewed if necessary. Raises `BrokerError`."""
        if self._connection is None or not self._connection.is_fresh():
            self.close()
            self._connection = SparkConnection.open(self._options)
        return self._connection

    def _request(self, subject: str, words: dict[str, Any]) -> dict[str, Any]:
        """Repeat a request until there is an answer. Raises `BrokerError`."""
        patience = _Patience(self._options)
        payload = json.dumps(words).encode()
        while True:
            try:
                return _read(subject, self._open().request(subject, payload))
            except (ConnectionLost, _NotNow) as error:
                self.close()
                patience.wait(error)


class _Patience:
    """The patience for repeating a request without progress."""

    def __init__(self, options: Options) -> None:
        self._timeout_ms = options.ack_timeout_ms
        self._pause_s = options.retry_interval_ms / 1000
        self.renew()

    def renew(self) -> None:
        self._until = time.monotonic() + self._timeout_ms / 1000

    def wait(self, error: BrokerError) -> None:
        """Pause before a retry, or raise the error with its reason."""
        left = self._until - time.monotonic()
        if left <= 0:
            why = f"no progress for {self._timeout_ms} ms (ackTimeoutMs): {error}"
            raise type(error)(why, error.status) from error
        time.sleep(min(self._pause_s, left))


class _Pieces:
    """Buffers, cut and joined into pieces of one size; answered bytes are counted."""

    def __init__(self, buffers: Iterable[Data], size: int) -> None:
        self.bytes = 0
        self.crc32 = 0
        self._kept: deque[Data] = deque()  # not answered yet, or not entirely
        self._kept_from = 0
        self._cut = _cut(self._keep(buffers), size)

    def __iter__(self) -> Iterator[tuple[int, Data]]:
        """Pieces with their offsets, continuing where the previous iteration stopped."""
        for piece in self._cut:
            offset = self.bytes
            self.bytes += len(piece)
            self.crc32 = zlib.crc32(piece, self.crc32)
            yield offset, piece

    def _keep(self, buffers: Iterable[Data]) -> Iterator[Data]:
        for buffer in buffers:
            self._kept.append(buffer)
            yield buffer

    def release(self, answered: int) -> None:
        """Release the buffers within the first `answered` bytes, which are staged."""
        while self._kept:
            end = self._kept_from + memoryview(self._kept[0]).nbytes
            if end > answered:
                return
            self._kept.popleft()
            self._kept_from = end

    def subject_of(self, row: int, answered: int, rows: int) -> str:
        """The subject of a refused row; `answered` bytes contained so many whole rows.

        Empty if the row is not among those kept.
        """
        at, found = self._kept_from, list(taken_apart(self._kept))
        for one in found:
            at += one.size
            if at > answered:
                break
            rows -= 1
        which = row - rows - 1
        return found[which].subject if 0 <= which < len(found) else ""


class _Stage:
    """The part of a stage that is in flight, to be sent again when the connection breaks."""

    def __init__(self, transaction: Transaction, name: str, pieces: _Pieces) -> None:
        self.rows = 0
        self._bytes = 0
        self._pieces = pieces
        self._unanswered: deque[tuple[int, Data]] = deque()
        self._headers = {
            "Seriatim-Application": transaction.application,
            "Seriatim-Batch": str(transaction.batch),
            "Seriatim-Stage": name,
        }

    def unanswered(self) -> Iterator[Request]:
        """Yield again the pieces sent before, on another connection."""
        for offset, piece in list(self._unanswered):
            yield self._request(offset, piece)

    def others(self, patience: _Patience) -> Iterator[Request]:
        """Yield the pieces not sent yet. Waiting for rows does not count against the broker."""
        for offset, piece in self._pieces:
            patience.renew()
            self._unanswered.append((offset, piece))
            yield self._request(offset, piece)

    def on_answer(self, answer: Answer) -> None:
        """Handle the answer to the oldest unanswered piece.

        Raises `BrokerError`, `RowError`.
        """
        offset, piece = self._unanswered[0]
        try:
            found = _read(STAGE, answer)
        except BrokerError as error:
            refused = BAD_ROW.search(str(error))
            row = int(refused[1]) if refused else 0
            subject = self._pieces.subject_of(row, self._bytes, self.rows) if row else ""
            if not subject:
                raise
            raise RowError(f"a row of subject {subject}: {error}") from None
        if found["bytes"] < offset + len(piece):
            raise BrokerError(
                f"{STAGE}: the broker has {found['bytes']} bytes, fewer than were sent"
            )
        self.rows, self._bytes = found["rows"], found["bytes"]
        self._unanswered.popleft()
        self._pieces.release(self._bytes)

    def _request(self, offset: int, piece: Data) -> Request:
        return STAGE, piece, {**self._headers, "Seriatim-Offset": str(offset)}


def _cut(buffers: Iterable[Data], size: int) -> Iterator[Data]:
    """Pieces of `size` bytes, the last one shorter; only pieces across two buffers are copied."""
    parts: list[memoryview] = []
    held = 0
    for buffer in buffers:
        rest = memoryview(buffer)
        while held + len(rest) >= size:
            parts.append(rest[: size - held])
            rest = rest[size - held :]
            yield parts[0] if len(parts) == 1 else b"".join(parts)
            parts, held = [], 0
        if len(rest):
            parts.append(rest)
            held += len(rest)
    if parts:
        yield parts[0] if len(parts) == 1 else b"".join(parts)


def _check_lengths(group: Iterable[Data], error: BrokerError) -> None:
    """Raise `RowError` for the longest row of a group, if the broker refused its length."""
    for words, (length, why) in TOO_LONG.items():
        if words in str(error).lower():
            row = max(taken_apart(group), key=length)
            raise RowError(f"a row of subject {row.subject} {why.format(length(row))} ({error})")


def _read(subject: str, answer: Answer) -> dict[str, Any]:
    """The JSON object of an answer. Raises `_NotNow`, `BrokerError`."""
    if _passes(subject, answer):
        raise _NotNow(f"{subject}: {answer.status} {answer.description}", answer.status)
    try:
        answer.check(subject)
    except BrokerError as error:
        remedy = REMEDIES.get((subject, error.status))
        if remedy is None:
            raise
        raise BrokerError(f"{error}{remedy}", error.status) from None
    try:
        found = json.loads(bytes(answer.payload))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BrokerError(
            f"{subject}: not a valid answer of Seriatim: {bytes(answer.payload[:60])!r}"
        )
    return found


def _passes(subject: str, answer: Answer) -> bool:
    """True if repeating the request may help."""
    if answer.status == CONFLICT:
        return subject == COMMIT and COMMITTING in answer.description
    if answer.status in UNREADY:
        return bool(answer.description)  # without one, it does not come from a Seriatim broker
    return answer.status == BUSY or (answer.status == FULL and subject == STAGE)


def _committed(found: dict[str, Any]) -> Committed:
    return Committed(
        batch=found["batch"],
        first=found["first"],
        last=found["last"],
        rows=found["rows"],
        repeated=found.get("repeated", True),
    )
