"""`df.write` and `df.writeStream`, format "seriatim": rows to a broker, exactly once.

    a task     stages its rows under (application, batch, "<partition>-<attempt>-<random>")
    driver     commit: the broker publishes the stages of the successful tasks, in the order of the
               partitions, and records the batch; a batch recorded before publishes nothing
               abort: the staged rows are dropped

In a stream, the application is the query's id and the batch the micro-batch's. So a batch that
Spark repeats after a crash is published once, whatever the number and order of its partitions then.
A batch write is its own application, unless `txnAppId` and `txnVersion` are given.

Options and columns are checked when the writer is made, on the driver. It opens no socket, because
it is pickled to the tasks; the processes that write keep the publishers.
"""

import logging
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from pyspark_seriatim.api import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark_seriatim.errors import BrokerError, OptionError
from pyspark_seriatim.operation_publishing import (
    Committed,
    OperationPublisher,
    Transaction,
    WholeStage,
)
from pyspark_seriatim.operations import Layout, layout_of, operations
from pyspark_seriatim.options import Options
from seriatim.client.bulk_connection import Data

log = logging.getLogger("pyspark_seriatim")

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
ABORT_MS: Final = 5_000  # the caller already has a failed task
APPLICATION: Final = re.compile(r"[!-~](?:[ -~]{0,253}[!-~])?")
Messages = Sequence[WriterCommitMessage | None]


@dataclass(frozen=True, slots=True)
class StageResult(WriterCommitMessage):
    """A task's stage, and its transaction."""

    transaction: Transaction
    staged: WholeStage
    query: str = ""  # a stream's id


@dataclass(frozen=True, slots=True)
class Published(WriterCommitMessage):
    """The result of a task that has published all of its rows."""


@dataclass(frozen=True, slots=True)
class SinkTarget:
    """The destination of rows; the common part of batch and stream writers."""

    options: Options
    layout: Layout

    @property
    def is_staged(self) -> bool:
        return self.options.delivery_guarantee == "exactly-once"

    def write(
        self, batches: Iterator[pa.RecordBatch], transaction: Callable[[], Transaction]
    ) -> WriterCommitMessage:
        """Write one task's rows. Raises `RowError`, `BrokerError`, `OptionError`."""
        publisher = OperationPublisher.shared(self.options)
        if not self.is_staged:
            publisher.publish(self._operations(batches, publisher))
            return Published()
        wanted = transaction()
        name = _stage_name()
        try:
            staged = publisher.stage(wanted, name, self._operations(batches, publisher))
        except Exception:
            self.drop(wanted, [name])
            raise
        return StageResult(wanted, staged, _local(QUERY_ID) or "")

    def commit(self, transaction: Transaction, results: Sequence[StageResult]) -> Committed:
        """Publish the stages of all tasks, in the order of the partitions."""
        publisher = OperationPublisher.shared(self.options)
        done = publisher.commit(transaction, [one.staged for one in results])
        if done.repeated:
            log.warning(
                "batch %d of %s was published before, and is not published again",
                *(transaction.batch, transaction.application),
            )
        return done

    def abort(self, messages: Messages) -> None:
        """Drop the stages of all tasks that succeeded."""
        results = _results(messages)
        if results:
            names = [one.staged.stage for one in results if one.staged.bytes]
            self.drop(results[0].transaction, names)

    def _operations(
        self, batches: Iterator[pa.RecordBatch], publisher: OperationPublisher
    ) -> Iterator[Data]:
        max_payload = publisher.max_payload()
        for batch in batches:
            for buffer in operations(batch, self.layout, max_payload):
                yield memoryview(buffer)

    def drop(self, transaction: Transaction, names: Sequence[str] | None) -> None:
        """Drop stages, or all of the batch for None, if possible now: the rest expires."""
        if names is not None and not names:
            return
        most_ms = min(self.options.ack_timeout_ms, ABORT_MS)
        hurried = replace(self.options, ack_timeout_ms=most_ms, request_timeout_ms=most_ms)
        try:
            with OperationPublisher(hurried) as publisher:
                publisher.abort(transaction, names)
        except BrokerError as error:
            log.warning("what was staged is left to its expiry: %s", error)


class BatchWriter(DataSourceArrowWriter):
    """`df.write`. The driver makes one, for all tasks and for the commit."""

    def __init__(self, target: SinkTarget) -> None:
        options = target.options
        self._target = target
        self._is_named = bool(options.txn_app_id)
        if self._is_named != (options.txn_version >= 0):
            there, missing = "txnAppId", "txnVersion"
            if not self._is_named:
                there, missing = missing, there
            raise OptionError(f"{missing}: it is missing; {there} alone has no effect")
        if self._is_named:
            self._transaction = Transaction(options.txn_app_id, options.txn_version)
        else:
            self._transaction = Transaction(f"write-{secrets.token_hex(16)}", 0, remember=False)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._target.write(iterator, self._checked)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._target.is_staged:
            self._target.commit(self._transaction, _results(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._is_named:
            self._target.abort(messages)
        elif self._target.is_staged:
            self._target.drop(self._transaction, None)

    def _checked(self) -> Transaction:
        """The transaction. Raises `OptionError` if a repeated micro-batch would be doubled."""
        if not self._is_named and _local(BATCH_ID) is not None:
            raise OptionError(
                "txnAppId: in foreachBatch, set it (say to the query's name) and txnVersion (to "
                "the batch's id): Spark may repeat a micro-batch, which would then be published "
                "twice. Or set deliveryGuarantee to at-least-once"
            )
        return self._transaction


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`. Each micro-batch has new ones, in other processes: they share nothing."""

    def __init__(self, target: SinkTarget) -> None:
        self._target = target
        if target.options.txn_version >= 0:
            raise OptionError("txnVersion: not allowed in a stream, where Spark counts the batches")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._target.write(iterator, self._current)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if not self._target.is_staged:
            return
        results = _results(messages)
        if not results:  # only tasks know the batch's application; Spark runs at least one
            raise BrokerError(f"Spark reports no task of batch {batchId}: nothing is published")
        application = results[0].transaction.application
        if batchId == 0 and self._target.options.txn_app_id:
            self._claim(application, results[0].query)
        done = self._target.commit(Transaction(application, batchId), results)
        if done.repeated:
            self._check_repeated(application, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._target.abort(messages)

    def _claim(self, application: str, query: str) -> None:
        """Record that a query uses a name. Raises `OptionError` if another query uses it already.

        The record precedes the name's first batch: a batch without a record is another query's.
        """
        publisher = OperationPublisher.shared(self._target.options)
        note = Transaction(f"{query}-named", 0)
        if publisher.last(application) is None:
            publisher.commit(note, [])
        elif publisher.last(note.application) is None:
            self._check_repeated(application, -1)

    def _check_repeated(self, application: str, batch: int) -> None:
        """Raise `OptionError` if a batch would wrongly be taken for a repetition.

        Spark repeats only the last batch, so a query that is further ahead is a different one.
        """
        last = OperationPublisher.shared(self._target.options).last(application)
        if last is not None and last.batch > batch:
            raise OptionError(
                f"txnAppId: {application} has published batch {last.batch} already, and this "
                f"query is at batch {max(batch, 0)}: nothing of it would be published. Is its "
                "checkpoint a new one, or an old copy, or is another query of the same name at "
                "work? Then give it a txnAppId of its own"
            )

    def _current(self) -> Transaction:
        """The micro-batch of this task."""
        query, batch = _local(QUERY_ID), _local(BATCH_ID)
        if query is None or batch is None:
            raise BrokerError("Spark does not say which micro-batch this task is of")
        return Transaction(self._target.options.txn_app_id or query, int(batch))


def batch_writer(schema: StructType, given: Mapping[str, str], overwrite: bool) -> BatchWriter:
    """The writer of a batch. Raises `OptionError`, `ColumnError`."""
    if overwrite:
        raise OptionError("mode: overwrite would replace the journal; use append")
    return BatchWriter(_target(schema, given))


def stream_writer(schema: StructType, given: Mapping[str, str], overwrite: bool) -> StreamWriter:
    """The writer of a stream. Raises `OptionError`, `ColumnError`."""
    if overwrite:
        raise OptionError("outputMode: complete would replace the journal; use append or update")
    return StreamWriter(_target(schema, given))


def _target(schema: StructType, given: Mapping[str, str]) -> SinkTarget:
    options = Options.parse(given, "write")
    if options.txn_app_id and not APPLICATION.fullmatch(options.txn_app_id):
        raise OptionError("txnAppId: printable ASCII, 1 to 255 characters, no blank at an end")
    if options.txn_app_id and options.delivery_guarantee == "at-least-once":
        log.warning("option txnAppId has no effect with at-least-once, and is ignored")
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    return SinkTarget(options, layout_of(types, options.subject or None))


def _stage_name() -> str:
    """A name that no other attempt has, not even one of another run of the same batch."""
    context = TaskContext.get()
    partition, attempt = (context.partitionId(), context.attemptNumber()) if context else (0, 0)
    return f"{partition}-{attempt}-{secrets.token_hex(8)}"


def _local(name: str) -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def _results(messages: Messages) -> list[StageResult]:
    """The results of successful tasks, in the order of their partitions."""
    return [one for one in messages if isinstance(one, StageResult)]
