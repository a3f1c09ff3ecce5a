"""`$SEQ.READ`: a range of messages for programs, in chunks, as fast as the client takes them.

The payload of the request is JSON; all keys but `from` are optional:

    {"from": 1, "to": 5000, "subject": "orders.>", "format": "columns",
     "columns": ["number", "subject"], "max_bytes": 8388608, "chunk_bytes": 131072}

`subject` may be a list of up to 64 subjects. `columns` are the columns of the chunks. `to` is the
last number wanted; without it, or if it is null or too large, the last number given. The answer is
one or more messages on the reply subject: columns (drawn in sequencer/journal/chunk.py), or frames
one after another. Their headers:

    Seriatim-Rows    messages in it            Seriatim-First   the number of the first of them
    Seriatim-Next    where to continue         Seriatim-Last    1, in the last one
    Seriatim-Lost    5-7,9-9: numbers that were requested and are lost
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from broker.dataplane.connection import Connection
from broker.dataplane.guard import Guard
from broker.dataplane.outcomes import BAD, ENDED, FULL, MORE
from broker.replay.cursor import Cursor
from broker.replay.memory import ANSWERED, SHORT
from broker.replay.requests import BadRequest, quote_value
from sequencer.journal import chunk
from sequencer.journal.columns import Collector
from sequencer.journal.protocols import SegmentView
from sequencer.netstring import encode_frame
from sequencer.sequencer import NUMBER_MAX
from sublist.subject import covers, is_pattern

if TYPE_CHECKING:
    from broker.replay.replays import Replays

KIB, MIB = 1 << 10, 1 << 20
ROWS_MAX: Final = 1 << 15  # in one chunk
SCAN_MAX: Final = 64 * MIB  # bytes read before an answer is sent, even without rows
FORMATS: Final = ("columns", "frames", "times")
EVERY: Final = ">"
SLICE: Final = 16 * KIB  # of a buffer, between checks of the filters' work
WORK_MAX: Final = 256 * KIB  # in one step, counted as bytes consumed
SUBJECT_WORK: Final = 64
FILTER_WORK: Final = 16
FILTERS_MAX: Final = 64
# Key: default, smallest, largest.
SIZES: Final = {
    "max_bytes": (8 * MIB, 1, 1 << 40),
    "chunk_bytes": (128 * KIB, 4 * KIB, 16 * MIB),  # larger chunks allocate new memory each time
}
KEYS: Final = ("from", "to", "subject", "format", "columns", *SIZES)


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A request: numbers `first` to `last` of the subjects that one of `filters` matches."""

    first: int
    last: int
    filters: tuple[bytes, ...]
    format: str
    max_bytes: int
    chunk_bytes: int
    absent: int = 0  # unwanted columns, as flags of a chunk


def read_request(payload: bytes, head: int) -> ReadRequest:
    """Read a request; `head` is the last number given. Raises `BadRequest`."""
    try:
        raw = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise BadRequest('the payload is not JSON; write {"from": 1}') from error
    if not isinstance(raw, dict):
        raise BadRequest('the payload is not a JSON object; write {"from": 1}')
    for key in raw:
        if key not in KEYS:
            raise BadRequest(
                f"{quote_value(key)} is not a valid key; the keys are {', '.join(KEYS)}"
            )
    if "from" not in raw:
        raise BadRequest('"from" is missing, the first number wanted; write {"from": 1}')
    first = _whole(raw, "from", 1, NUMBER_MAX)
    last = NUMBER_MAX if raw.get("to") is None else _whole(raw, "to", 1, NUMBER_MAX)
    if last < first:
        raise BadRequest(f'"to" is {last}, which is below "from"')
    filters = _filters(raw.get("subject", EVERY))
    format = raw.get("format", FORMATS[0])
    if format not in FORMATS:
        raise BadRequest(
            f"{quote_value(format)} is not a valid format; the formats are {', '.join(FORMATS)}"
        )
    sizes = {key: raw.get(key, default) for key, (default, _, _) in SIZES.items()}
    max_bytes, chunk_bytes = (_whole(sizes, key, *SIZES[key][1:]) for key in SIZES)
    chunk_bytes = min(chunk_bytes, max_bytes)
    absent = _absent(raw, format)
    return ReadRequest(first, min(last, head), filters, format, max_bytes, chunk_bytes, absent)


class Bulk(Cursor):
    """The cursor of one request, until its last chunk is sent or the client stops listening."""

    __slots__ = (
        *("_chunk", "_collector", "_guard", "_left", "_lost", "_need", "_replays", "_reply"),
        *("_request", "_scanned", "over"),
    )

    def __init__(
        self, replays: "Replays", connection: Connection, reply: bytes, request: ReadRequest
    ) -> None:
        super().__init__(connection, request.first)
        self._replays = replays
        self._reply = reply
        self._request = request
        self._collector: Collector | None = None  # while it has memory for a chunk
        self._guard: Guard | None = None  # the rights in its filter, which a reload may change
        self._chunk = 0  # the chunk size that this memory is for
        self._need = 0  # the size of a longer record
        self._lost: list[bytes] = []
        self._left = request.max_bytes
        self._scanned = 0
        self.over = False

    @property
    def lingers(self) -> bool:
        return True

    def ready(self) -> bool:
        if self._collector is None:  # then the last answer has left the outbox
            reads = self._replays.memory.reads
            reads.hold(self, 0)
            self._chunk = reads.grant(self, self._request.chunk_bytes, self._need)
            if self._chunk == 0:
                return False
            self._gather(self._chunk)
        return True

    def lacks(self, segment: SegmentView) -> bool:
        return self._replays.lacks(segment, self._request.filters)

    def allows(self, size: int) -> bool:
        if size <= max(self._chunk, SHORT):
            return True
        assert self._collector is not None, "it has gathered a chunk"
        self._need = size
        if self._collector.rows:
            self._answer(last=False)
        self._collector = None
        return False

    def _gather(self, size: int) -> Collector:
        """Begin a chunk of about this size."""
        collector, own = self._replays.memory.reads.reuse(size, self)
        if collector is None:
            journal = self._replays.journal
            collector = Collector(journal.salt, ROWS_MAX, size, journal.checked)
        if own and self.connection.guard is self._guard:
            collector.clear()
        else:
            request = self._request
            collector.start_range(self.number, request.last, self._judge(), request.absent)
        self._collector = collector
        return collector

    def _judge(self) -> Callable[[bytes], bool] | None:
        """Return a filter for subjects; None if all subjects are wanted."""
        filters, guard = self._request.filters, self.connection.guard
        self._guard = guard
        cut = guard is not None and any(
            guard.denied_to(filter) or not guard.may_subscribe(filter) for filter in filters
        )
        if EVERY.encode() in filters and not cut:
            return None
        cost = SUBJECT_WORK + FILTER_WORK * len(filters)

        def judge(subject: bytes) -> bool:
            self.work += cost
            if cut and guard is not None and not guard.may_receive(subject):
                return False
            return any(covers(filter, subject) for filter in filters)

        return judge

    def play(self, buffer: bytearray, stop: int) -> int:
        """Gather the records in `buffer[:stop]`, and answer when a chunk is full."""
        collector, at = self._collector, 0
        assert collector is not None, "it is ready"
        if collector.next < self.number:
            collector.skip(self.number)
        end = min(stop, SLICE) if len(self._request.filters) > 1 else stop
        while True:
            state = collector.collect(buffer, at, end)
            at = collector.at
            if state == chunk.GAP:
                self.report_lost(collector.next, collector.found - 1)
                collector.skip(collector.found)
            elif state == MORE and end < stop and (at == 0 or self.work < WORK_MAX):
                end = min(stop, end + SLICE)
            else:
                break
        self.number = collector.next
        self._scanned += at
        self.outcome = MORE
        if state == chunk.END:
            self.outcome = ENDED
        elif state == chunk.FULL or self._scanned >= SCAN_MAX:
            self.outcome = FULL
            self._answer(last=False)
        elif state == BAD:
            self.outcome = BAD
        return at

    def report_lost(self, first: int, last: int) -> None:
        self._lost.append(b"%d-%d" % (first, min(last, self._request.last)))

    def is_done(self) -> bool:
        if not self.over and not self._replays.plane.listens(self.connection, self._reply):
            self.over = True  # the client no longer listens
        if not self.over and self.number > self._request.last:
            self._answer(last=True)
        return self.over

    def reached_head(self, number: int) -> bool:
        return True

    def free(self) -> None:
        reads = self._replays.memory.reads
        self._lost.clear()
        self._collector = None
        reads.release(self)
        reads.free_collector(self)

    def _answer(self, last: bool) -> None:
        """Send the gathered rows; this is the last answer if no further chunk is allowed."""
        plane = self._replays.plane
        reads = self._replays.memory.reads
        granted = self._collector is not None
        collector = self._collector or self._gather(SHORT)
        columns = collector.chunk()
        body = self._body(columns)
        self._collector = None
        self._need = 0
        reads.hold(self, ANSWERED * len(body))
        self._left -= len(columns)  # not `body`: frames and times may be empty
        self.over = last or self._left < self._request.chunk_bytes
        headers = b"NATS/1.0\r\nSeriatim-Rows: %d\r\n" % collector.rows
        if collector.rows:
            headers += b"Seriatim-First: %d\r\n" % collector.first
        beyond = max(self._request.first, self._request.last + 1)  # a loss may reach further
        headers += b"Seriatim-Next: %d\r\n" % min(self.number, beyond)
        if self._lost:
            headers += b"Seriatim-Lost: %b\r\n" % b",".join(self._lost)
        if self.over:
            headers += b"Seriatim-Last: 1\r\n"
        plane.answer(self.connection, self._reply, body, headers + b"\r\n")
        if granted and len(columns) <= 2 * SHORT:  # else a long record has made the collector large
            reads.keep(self._chunk, self, collector)
        self._lost.clear()
        self._scanned = 0

    def _body(self, columns: bytes) -> bytes:
        if self._request.format == "columns":
            return columns
        numbers, times, *_, offsets, payloads = chunk.sections(columns)
        if self._request.format == "times":
            return bytes(numbers) + bytes(times)
        ends = pairwise(offsets.cast("i"))
        return b"".join(
            encode_frame(number, bytes(payloads[start:end]))
            for number, (start, end) in zip(numbers.cast("q"), ends, strict=True)
        )


def _filters(subject: object) -> tuple[bytes, ...]:
    """Return the filters, from one subject or a list. Raises `BadRequest`."""
    given: list[Any] = subject if isinstance(subject, list) else [subject]
    if not 0 < len(given) <= FILTERS_MAX:
        raise BadRequest(f'"subject" is a list of {len(given)}; give 1 to {FILTERS_MAX}')
    for one in given:
        if not isinstance(one, str) or not is_pattern(one.encode("utf-8", "replace")):
            raise BadRequest(f"{quote_value(one)} is not a subject that can be subscribed to")
    return tuple(one.encode("utf-8", "replace") for one in given)


def _absent(raw: dict[str, Any], format: str) -> int:
    """Return the unwanted columns, as flags of a chunk. Raises `BadRequest`."""
    if "columns" not in raw:
        return 0
    if format != "columns":
        raise BadRequest(f'"columns" goes with the format columns, not with {format}')
    given = raw["columns"]
    names = ", ".join(chunk.COLUMNS)
    if not isinstance(given, list) or not given:
        raise BadRequest(f'"columns" must be a list of one or more of {names}')
    for one in given:
        if one not in chunk.COLUMNS:
            raise BadRequest(f"{quote_value(one)} is not a column; the columns are {names}")
    return chunk.left_out(given)


def _whole(raw: dict[str, Any], key: str, low: int, high: int) -> int:
    value = raw[key]
    if type(value) is not int:
        raise BadRequest(f'"{key}" must be a whole number, not {quote_value(value)}')
    if not low <= value <= high:
        raise BadRequest(f'"{key}" is {quote_value(value)}; give {low} to {high}')
    return value
