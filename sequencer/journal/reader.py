"""Reads a journal that a broker writes, or has written, from another process.

    reader = Reader("/var/lib/seriatim")
    for item in reader.records(first=5):
        if isinstance(item, Lost): ...          # item.first to item.last are not there
        else: item.number, item.time, item.subject, item.reply, item.headers, item.payload

Rules.
1. A reader takes no lock and writes nothing: the broker does not notice it.
2. Numbers come in order, and none is left out: missing numbers are reported as `Lost`.
3. A record that is still being written, or not yet committed in a cluster, is not there yet; `tail`
   and `poll` find it later.

Headers and payload are views of the chunk that was read and keep it alive. If you keep few of
many messages, copy them: `bytes(item.payload)`. Memory: one chunk, and what you keep.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from sequencer.journal.chunk import COLUMNS, END, FULL, GAP, left_out
from sequencer.journal.columns import BYTES_MAX, NUMBER_MAX, ROWS_MAX, Collector
from sequencer.journal.journal_tail import CHUNK_BYTES, JournalTail, Lost
from sequencer.journal.layout import BAD, RECORD
from sequencer.journal.record import Walk
from sequencer.journal.store_view import StoreView

Wanted = Callable[[bytes], bool]
NOTHING = memoryview(b"")
KNOWN_MAX = 1 << 14
WAIT_SECONDS = 1.0


class Record(NamedTuple):
    """One message. `time` is ns since 1970. While `subject` does not change, it is one object."""

    number: int
    time: int
    subject: bytes
    reply: bytes
    headers: memoryview
    payload: memoryview


class Reader:
    """A reader of a store. Raises `StoreError` if there is none.

    `first` 0 means the oldest number there is; `last` None means no end. `wanted` is a callable
    that accepts or refuses a subject; it is called once for each subject.
    """

    def __init__(self, path: str, chunk_bytes: int = CHUNK_BYTES) -> None:
        assert chunk_bytes >= 4096, "a chunk must hold more than the head of a record"
        self.view = StoreView(path)
        self.chunk_bytes = chunk_bytes

    @property
    def journal(self) -> str:
        """The id of the journal; with another id, the numbers mean other messages."""
        return self.view.journal

    @property
    def epoch(self) -> int:
        """The count of openings for writing, as far as this reader has seen."""
        return self.view.epoch

    def bounds(self) -> tuple[int, int]:
        """The first and the last number there is; (last + 1, last) if there are none."""
        firsts = self.view.segments()
        if not firsts:
            return 1, 0
        last = self._last(firsts[-1])
        if self.view.is_member and not self.view.is_committed(last):
            last = max(self.view.watermark, firsts[0] - 1)
        return firsts[0], last

    def number_at(self, time: int) -> int:
        """The first number of a message at this time (ns since 1970) or later; or last + 1."""
        follower = Follower(self, self.view.number_before(time), NUMBER_MAX, None)
        try:
            while items := follower.poll():
                for item in items:
                    if isinstance(item, Record) and item.time >= time:
                        return item.number
            return follower.next
        finally:
            follower.close()

    def records(
        self, first: int = 0, last: int | None = None, wanted: Wanted | None = None
    ) -> Iterator[Record | Lost]:
        """Yield everything from `first` to `last`, or to the end of the store."""
        return self.follow(first, last, wanted).drain()

    def tail(
        self,
        idle: Callable[[], bool | None] | None = None,
        first: int = 0,
        last: int | None = None,
        wanted: Wanted | None = None,
    ) -> Iterator[Record | Lost]:
        """Like `records`, but wait for new ones at the end.

        Or call `idle` there, to wait as you like; it may return False to stop.
        """
        follower = self.follow(first, last, wanted)
        try:
            while not follower.done:
                items = follower.poll()
                yield from items
                if items or follower.done:
                    continue
                if idle is None:
                    follower.wait()
                elif idle() is False:
                    return
        finally:
            follower.close()

    def follow(
        self, first: int = 0, last: int | None = None, wanted: Wanted | None = None
    ) -> "Follower":
        """Return a position in the store to `poll`, for callers with a loop of their own."""
        return Follower(self, self._begin(first), NUMBER_MAX if last is None else last, wanted)

    def columns(
        self,
        first: int = 0,
        last: int | None = None,
        wanted: Wanted | None = None,
        rows_max: int = ROWS_MAX,
        bytes_max: int = BYTES_MAX,
        idle: Callable[[], bool | None] | None = None,
        columns: Iterable[str] = COLUMNS,
        live: bool = False,
    ) -> Iterator[bytes | Lost]:
        """Like `records`, but in chunks of columns: millions of rows a second; they are drawn
        in chunk.py.

        With `live` it waits at the end, as `tail` does; with `idle` it calls that instead. It
        yields what it has before it waits.
        `columns` names the wanted ones. ValueError if one is unknown, or none is given.
        """
        follower = self.follow_columns(first, last, wanted, rows_max, bytes_max, columns)
        return _drain(follower, idle, live)

    def follow_columns(
        self,
        first: int = 0,
        last: int | None = None,
        wanted: Wanted | None = None,
        rows_max: int = ROWS_MAX,
        bytes_max: int = BYTES_MAX,
        columns: Iterable[str] = COLUMNS,
    ) -> "ColumnFollower":
        """Return a position in the store to `poll` for chunks of columns."""
        absent = left_out(columns)
        end = NUMBER_MAX if last is None else last
        collector = Collector(self.view.salt, rows_max, bytes_max)
        return ColumnFollower(self, collector, self._begin(first), end, wanted, absent)

    def _begin(self, first: int) -> int:
        if first:
            return first
        firsts = self.view.segments()
        return firsts[0] if firsts else 1

    def _last(self, first: int) -> int:
        """The last number of a segment; `first - 1` if it is empty."""
        summary = self.view.summary(first)
        begin = first if summary is None else summary.last + 1  # the window may have more
        follower = ColumnFollower(
            self, Collector(self.view.salt), begin, NUMBER_MAX, lambda subject: False
        )
        for _ in _drain(follower):
            pass
        return follower.next - 1


def _drain(
    follower: "ColumnFollower", idle: Callable[[], bool | None] | None = None, live: bool = False
) -> Iterator[bytes | Lost]:
    """Yield chunks and losses, to the end; there, `idle` or a wait for more may follow."""
    try:
        while True:
            found = follower.poll()
            if found is not None:
                yield found
            elif follower.done or (not live and idle is None):
                return
            elif idle is None:
                follower.wait()
            elif idle() is False:
                return
    finally:
        follower.close()


class ColumnFollower:
    """A position in a store, moved by `poll`, which returns columns. Written by its caller.

    `absent` are the flags of the columns that are not wanted (chunk.py). No chunk has rows from
    both sides of a loss.
    """

    def __init__(
        self,
        reader: Reader,
        collector: Collector,
        first: int,
        last: int,
        wanted: Wanted | None,
        absent: int = 0,
    ) -> None:
        collector.start_range(first, last, wanted, absent)
        self._collector = collector
        self._lost: Lost | None = None  # comes after the chunk that was returned
        self._tail = JournalTail(reader.view, True, reader.chunk_bytes)

    @property
    def next(self) -> int:
        """The number after the last one seen, wanted or not."""
        return int(self._collector.next)

    @property
    def done(self) -> bool:
        """True once `last` was reached."""
        return self._lost is None and self.next > self._collector.last

    def poll(self) -> bytes | Lost | None:
        """Return the next chunk, or a loss; None if there is nothing new."""
        collector, tail = self._collector, self._tail
        if self._lost is not None:
            lost, self._lost = self._lost, None
            return lost
        while True:
            state = collector.collect(tail.buffer, tail.at, tail.stop)
            tail.at = collector.at
            found: bool | Lost = True
            if state == GAP:
                found = tail.gap(collector.next, collector.found)
            elif state not in (FULL, END):
                found = tail.more(collector.next, state == BAD)
            chunk = b""
            if collector.rows and (found is not True or state in (FULL, END)):
                chunk = collector.chunk()
                collector.clear()
            if isinstance(found, Lost):
                self._lost = next(found.within(collector.last), None)
                collector.skip(min(found.last, collector.last) + 1)
            if chunk:
                return chunk
            if self._lost is not None:
                lost, self._lost = self._lost, None
                return lost
            if state == END or found is False:
                tail.remember(collector.next)
                return None

    def wait(self, seconds: float = WAIT_SECONDS) -> None:
        """Wait until there may be something new, for at most `seconds`: see `Follower.wait`."""
        self._tail.wait(self.next, seconds)

    def close(self) -> None:
        """Close the files. Chunks that were returned stay valid."""
        self._tail.close()


class Follower:
    """A position in a store, moved by `poll`. Written by the caller of `poll`."""

    def __init__(self, reader: Reader, first: int, last: int, wanted: Wanted | None) -> None:
        self.next = first
        self.last = last
        self._wanted = wanted
        self._known: dict[bytes, bool] = {}
        self._tail = JournalTail(reader.view, False, reader.chunk_bytes)
        self._walk = Walk(reader.view.salt)
        self._bad = False
        self._subject = b""

    @property
    def done(self) -> bool:
        """True once `last` was reached."""
        return self.next > self.last

    def close(self) -> None:
        """Close the file. Records that were read stay valid."""
        self._tail.close()

    def wait(self, seconds: float = WAIT_SECONDS) -> None:
        """Wait until there may be something new, for at most `seconds`, without polling.

        While no broker runs, and in the store of a cluster's member, it returns soon.
        """
        self._tail.wait(self.next, seconds)

    def drain(self) -> Iterator[Record | Lost]:
        """Yield everything that is there now."""
        try:
            while not self.done and (items := self.poll()):
                yield from items
        finally:
            self.close()

    def poll(self) -> list[Record | Lost]:
        """Return what is new, at most one chunk of it; empty if there is nothing new."""
        while not self.done:
            found = self._tail.more(self.next, self._bad)
            self._bad = False
            if found is False:
                break
            items = self._lost(found) if isinstance(found, Lost) else self._records()
            if items:
                return items
        return []

    def _lost(self, lost: Lost) -> list[Record | Lost]:
        items: list[Record | Lost] = list(lost.within(self.last))
        self.next = lost.last + 1
        return items

    def _records(self) -> list[Record | Lost]:
        """Return the records in the bytes that were read."""
        walk, tail = self._walk, self._tail
        buffer, view = tail.buffer, memoryview(tail.buffer)
        items: list[Record | Lost] = []
        walk.attach(buffer, tail.at, tail.stop)
        state = RECORD
        while not self.done and (state := walk.next()) == RECORD:
            number = walk.number
            if number < self.next:
                continue
            if number > self.next:
                items += self._lost(tail.gap(self.next, number, walk.at))
                if self.done:
                    break
            self.next = number + 1
            headers, payload = walk.body, walk.payload
            subject = buffer[walk.subject : walk.reply]
            if subject != self._subject:
                self._subject = bytes(subject)
            if self._wanted is not None and not self._is_wanted():
                continue
            items.append(
                Record(
                    number,
                    walk.time,
                    self._subject,
                    bytes(buffer[walk.reply : headers]),
                    view[headers:payload] if payload > headers else NOTHING,
                    view[payload : payload + walk.payload_size],
                )
            )
        tail.at = walk.after
        self._bad = state == BAD
        return items

    def _is_wanted(self) -> bool:
        """True if the filter accepts the current subject. It is asked once for each subject."""
        assert self._wanted is not None, "there is a filter"
        taken = self._known.get(self._subject)
        if taken is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            taken = self._known[self._subject] = bool(self._wanted(self._subject))
        return taken
