"""Requests to a broker, for its numbers and for the messages of a range.

    Client.shared(options)             one per process and broker: Spark reuses its workers
    info(max_age_s)                    the journal and its numbers
    read(first, last, subjects)        chunks of columns, in the order of the numbers
    first_match(first, last, subjects) the first number that matches a subject filter
    number_at(time_ns)                 the first number at or after a time
    call(work)                         anything else on a connection, retried if it breaks

After a broken connection there are `fetchOffset.numRetries` retries, counted again after every
answer; a read then continues at the exact number. Memory: one chunk at a time. Idle connections are
kept for reuse, up to a small number.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pyspark_seriatim.errors import BrokerError, ConnectionLost, DataLost
from pyspark_seriatim.options import SETTINGS, Options
from pyspark_seriatim.spark_connection import SparkConnection
from pyspark_seriatim.values import NUMBER_MAX
from seriatim.client.bulk_connection import Answer
from seriatim.client.chunk_columns import COLUMNS, ChunkError, Columns
from seriatim.client.protocol import read_number

log = logging.getLogger("pyspark_seriatim")

# Larger chunks would cost the broker new memory each time: 2.5 times slower.
CHUNK_BYTES: Final = 128 << 10
CHUNK_BYTES_MIN: Final = 4 << 10
READ_BYTES: Final = 1 << 40  # for all answers together: only the range limits a read
IDLE_MAX: Final = 4
SHARED_MAX: Final = 64  # brokers, or sets of options for one, that a process remembers
EVERY: Final = (">",)
Range = tuple[int, int]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class JournalInfo:
    """The broker's numbers `first` to `last` (`first` is `last` + 1 for none); times in ms."""

    journal: str
    epoch: int
    first: int
    last: int
    messages: int
    bytes: int
    oldest: int
    newest: int
    store: str
    max_payload: int
    trims: bool  # whether old messages are ever deleted
    restricted: bool = False  # whether permissions keep some messages from us
    full: float = 0.0  # how near a deletion is: 1 means due, 0 means that everything is kept


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some messages of a range; reading continues at `next`, `lost` are missing numbers."""

    columns: Columns
    next: int
    lost: tuple[Range, ...]
    size: int  # in bytes


class Client:
    """One broker, reachable by one or several addresses. Threads may share it."""

    _shared: dict[tuple[Any, ...], "Client"] = {}  # noqa: RUF012

    def __init__(self, options: Options) -> None:
        self._options = options
        self._idle: list[SparkConnection] = []
        self._info: tuple[float, JournalInfo] | None = None

    @classmethod
    def shared(cls, options: Options) -> "Client":
        """The process's client for these options; another one after a fork."""
        key = (os.getpid(), *(getattr(options, name) for name in CONNECTION_FIELDS))
        found = cls._shared.get(key)
        if found is None:
            while len(cls._shared) >= SHARED_MAX:
                cls._shared.pop(next(iter(cls._shared))).close()
            found = cls._shared[key] = cls(options)
        return found

    @contextmanager
    def connection(self) -> Iterator[SparkConnection]:
        """Yield a connection for exclusive use; keep it for reuse if it is still good."""
        made = self._take() or SparkConnection.open(self._options)
        good = False
        try:
            yield made
            good = True
        except BrokerError:
            good = made.is_open
            raise
        finally:
            if good and made.is_open and len(self._idle) < IDLE_MAX:
                self._idle.append(made)
            else:
                made.close()

    def _take(self) -> SparkConnection | None:
        while self._idle:
            made = self._idle.pop()
            if made.is_fresh():
                return made
            made.close()
        return None

    def call(self, work: Callable[[SparkConnection], Result]) -> Result:
        """Return the result of `work`, which is repeated when the connection breaks."""
        failures = 0
        while True:
            try:
                with self.connection() as connection:
                    return work(connection)
            except ConnectionLost as error:
                failures += 1
                self._pause(failures, error)

    def _pause(self, failures: int, error: ConnectionLost) -> None:
        """Wait before a retry. Raises the error after too many."""
        options = self._options
        if failures > options.num_retries:
            if not options.num_retries:
                raise error
            tried = f"after {options.num_retries} retries (fetchOffset.numRetries)"
            raise ConnectionLost(f"{error}; given up {tried}") from None
        log.info("%s; trying again in %d ms", error, options.retry_interval_ms)
        time.sleep(options.retry_interval_ms / 1000)

    def close(self) -> None:
        """Close the connections that are not in use."""
        while self._idle:
            self._idle.pop().close()

    # The broker's numbers

    def info(self, max_age_s: float = 0.0) -> JournalInfo:
        """Return the broker's journal. Raises `BrokerError` if it keeps none."""
        if self._info is not None and time.monotonic() - self._info[0] < max_age_s:
            return self._info[1]
        found = self.call(_ask_info)
        self._info = (time.monotonic(), found)
        return found

    def number_at(self, time_ns: int, first: int, last: int) -> int:
        """The first number of `first` to `last` at or after a time, or `last` + 1.

        Times never decrease, so this is a binary search; each step reads one message.
        """
        low, high = first, last + 1
        while low < high:
            middle = (low + high) // 2
            columns = self._one(middle, high - 1, EVERY).columns
            if not len(columns) or columns.times[0] >= time_ns:
                high = middle
            else:
                low = columns.numbers[0] + 1
        return low

    def first_match(
        self, first: int, last: int, subjects: tuple[str, ...], scan_max: int = NUMBER_MAX
    ) -> Range:
        """The first number that matches, and where the search ended.

        The number is 0 if none matches up to there. The search ends after `last`, or earlier after
        `scan_max` numbers.
        """
        at = first
        while at <= last and at - first < scan_max:
            chunk = self._one(at, last, subjects)
            if len(chunk.columns):
                return chunk.columns.numbers[0], chunk.columns.numbers[0]
            if chunk.next <= at:
                break
            at = chunk.next
        return 0, at

    def _one(self, first: int, last: int, subjects: tuple[str, ...]) -> Chunk:
        """Return the first message of a range, or none and the end of the broker's search."""
        asked = _read_request(first, last, subjects, ("number", "time"), max_bytes=1)
        return self.call(lambda on: _chunk(on.request(READ, asked).check(READ), first, last))

    # Messages

    def read(
        self,
        first: int,
        last: int,
        subjects: tuple[str, ...] = EVERY,
        *,
        journal: str = "",
        chunk_bytes: int = CHUNK_BYTES,
        columns: Collection[str] = COLUMNS,
    ) -> Iterator[Chunk]:
        """The matching messages of numbers `first` to `last`, of this journal if one is given.

        The broker sends only `columns`, and the numbers, by which every answer is checked.
        Ends before `last` only if `last` was not assigned yet: see the last chunk's `next`. Raises
        `DataLost` if the broker has another journal.
        """
        size = max(chunk_bytes, CHUNK_BYTES_MIN)
        at, failures = first, 0
        while at <= last:
            begun = at
            try:
                with self.connection() as connection:
                    if journal:
                        _check_journal(connection, journal)
                    asked = _read_request(
                        at, last, subjects, columns, max_bytes=READ_BYTES, chunk_bytes=size
                    )
                    with closing(connection.stream(READ, asked)) as answers:
                        for answer in answers:
                            chunk = _chunk(answer, at, last)
                            at, failures = chunk.next, 0
                            yield chunk
            except ConnectionLost as error:
                failures += 1
                self._pause(failures, error)
                continue
            if at == begun:
                return


READ: Final = "$SEQ.READ"
INFO: Final = "$SEQ.INFO"
CONNECTION_FIELDS: Final = [setting.field for setting in SETTINGS if setting.where == "all"]


def _read_request(
    first: int, last: int, subjects: tuple[str, ...], columns: Collection[str], **sizes: int
) -> bytes:
    """The payload of $SEQ.READ."""
    subject = subjects[0] if len(subjects) == 1 else subjects
    names = [name for name in COLUMNS if name == "number" or name in columns]
    asked = {"from": first, "to": last, "subject": subject, "columns": names, **sizes}
    return json.dumps(asked).encode()


def _chunk(answer: Answer, first: int, last: int) -> Chunk:
    """An answer to $SEQ.READ, checked. Raises `BrokerError` if it is invalid."""
    try:
        columns = Columns(answer.payload)
        numbers = columns.numbers
        following = read_number(answer.headers["Seriatim-Next"])
        words = answer.headers.get("Seriatim-Lost", "").replace(",", " ").split()
        pairs = (word.partition("-") for word in words)
        lost = tuple((read_number(one), read_number(two)) for one, _, two in pairs)
    except (ChunkError, KeyError, ValueError) as error:
        raise BrokerError(f"{READ}: the answer is not a chunk of columns: {error!r}") from None
    if len(columns) and not first <= numbers[0] <= numbers[-1] <= min(last, NUMBER_MAX):
        raise BrokerError(
            f"{READ}: numbers {numbers[0]} to {numbers[-1]} for {first} to {last} were"
        )
    if following < first:
        raise BrokerError(f"{READ}: it continues at {following}, which is before {first}")
    if following > max(first, last + 1) or not all(
        first <= one <= two <= last for one, two in lost
    ):
        raise BrokerError(f"{READ}: the answer has other numbers than {first} to {last}")
    return Chunk(columns, following, lost, len(answer.payload))


def _ask_info(connection: SparkConnection) -> JournalInfo:
    answer = connection.request(INFO).check(INFO)
    try:
        raw = json.loads(bytes(answer.payload))
        keys = ("epoch", "first", "last", "messages", "bytes", "oldest", "newest")
        numbers = {key: int(raw[key]) for key in keys}
        store, journal = str(raw["store"]), str(raw["journal"])
        there = numbers["bytes"], (int(raw["time"]) - numbers["oldest"]) / 1000, numbers["messages"]
        most = [float(raw["limits"][f"retain_{what}"]) for what in ("bytes", "age", "count")]
        full = max(has / limit if limit else 0.0 for has, limit in zip(there, most, strict=True))
    except (ValueError, KeyError, TypeError):
        raise BrokerError(f"{connection.server}: {INFO} has an invalid answer") from None
    if store == "none":
        raise BrokerError(
            f"{connection.server}: this broker keeps no messages, so there is nothing to read;"
            " start it with a journal"
        )
    connection.journal = journal
    return JournalInfo(
        journal=journal,
        store=store,
        max_payload=connection.max_payload,
        trims=any(most),
        restricted=raw.get("restricted") is True,
        full=full if numbers["messages"] else 0.0,
        **numbers,
    )


def _check_journal(connection: SparkConnection, journal: str) -> None:
    """Raise `DataLost` if the broker's journal is not this one."""
    if connection.journal is None:
        _ask_info(connection)
    if connection.journal != journal:
        raise DataLost(
            f"{connection.server}: the journal is {connection.journal}, but the numbers belong to"
            f" {journal}: these are different messages"
        )
