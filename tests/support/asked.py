"""What answers to requests need of a broker: a plane that notes what is said, and one piece.

store = OnePiece(records)      a store of records in one buffer, with any numbers missing
serve(cursor, store)           move a cursor over it to its end, a few bytes at a time
"""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from broker.dataplane.outcomes import BAD, MORE
from broker.replay.cursor import Cursor
from broker.replay.lookup import NEAR
from broker.replay.memory import Memory
from sequencer.journal.layout import RECORD
from sequencer.journal.record import RecordBatch, Walk
from sequencer.message import Message

SALT = 77


@dataclass(frozen=True, slots=True)
class Kept:
    """One message as the journal keeps it."""

    number: int
    subject: bytes = b"orders"
    payload: bytes = b"hello"
    headers: bytes = b""
    time: int = 1_767_225_600_000_000_005


class OnePiece:
    """A store that is one buffer, and its only piece."""

    salt, epoch, id = SALT, 1, "00c0ffee00c0ffee"
    checked = True
    start = 0
    following = None
    gone = False

    def __init__(self, records: list[Kept]) -> None:
        batch = RecordBatch(SALT, 1)
        for kept in records:
            batch.append_message(
                kept.number, kept.time, kept.subject, b"", kept.headers, kept.payload
            )
        self.data = bytearray(batch.view())
        self.first = records[0].number if records else 1
        self.last = records[-1].number if records else 0
        self.bytes = len(self.data)
        self.oldest_time = records[0].time if records else 0
        self.newest_time = records[-1].time if records else 0

    def next_good(self, offset: int) -> tuple[int, int]:
        """The first good record behind a place, and its number."""
        walk = Walk(SALT)
        for at in range(offset, len(self.data), 8):
            walk.attach(self.data, at, len(self.data))
            if walk.next() == RECORD:
                return at, walk.number
        return len(self.data), self.last + 1

    def locate(self, number: int) -> tuple["OnePiece", int]:
        assert self.first <= number <= self.last + 1
        return self, 0


@dataclass
class NotedPlane:
    """Notes what is answered and said; who asks listens, unless `deaf`."""

    number: int
    deaf: bool = False
    unavailable: bytes = b""
    answers: list[tuple[bytes, bytes, bytes]] = field(default_factory=list)
    said: list[bytes] = field(default_factory=list)

    @property
    def sequencer(self) -> Any:
        return SimpleNamespace(
            number=self.number,
            now=0,
            full=False,
            release=lambda: None,
            waiting_bytes=lambda: 0,
        )

    @property
    def gate(self) -> Any:
        return SimpleNamespace(is_in_trouble=lambda: False)

    def listens(self, asker: Any, reply: bytes) -> bool:
        return not self.deaf

    def answer(self, asker: Any, reply: bytes, payload: bytes, headers: bytes) -> None:
        self.answers.append((reply, payload, headers))

    def send_control(self, connection: Any, text: bytes) -> bool:
        self.said.append(text)
        return True

    def charge_work(self, work: int) -> None:
        assert work > 0


class Turns:
    """`broker.replay.replays` as far as a cursor sees it: goes where the cursor says."""

    def __init__(self, plane: NotedPlane, journal: OnePiece) -> None:
        self.plane: Any = plane
        self.journal = journal
        self.begun: list[Cursor] = []
        self.memory = Memory(1 << 29, self.begun.append)

    def serve_requests(self, cursor: Cursor) -> None:
        self.begun.append(cursor)

    def asked_by(self, connection: Any) -> list[Cursor]:
        return [
            cursor for cursor in self.begun if cursor.connection is connection and not cursor.ended
        ]

    def lacks(self, segment: object, patterns: object) -> bool:
        return False  # without an index, that is not known

    @property
    def near_records(self) -> Any:
        """The records that are in memory: none, so each has to be read by a cursor."""
        return SimpleNamespace(
            find=lambda number: None,
            place=lambda number: (*cast(Any, self.journal).locate(number), NEAR),
        )

    def withdraw(self, cursor: Cursor) -> None:
        cursor.segment = None

    def move(self, cursor: Cursor) -> None:
        cursor.segment, cursor.offset = cursor.locate(cast(Any, self.journal))


class Asker:
    """The connection that asks, as far as answers look at it."""

    session = SimpleNamespace(label="asker")

    def __init__(self, headers: bool, frame: str, verbose: bool) -> None:
        self.headers, self.frame, self.verbose = headers, frame, verbose
        self.guard = None
        self.writable = True

    def held(self) -> int:
        """The bytes that it has not taken."""
        return 0


def question(payload: bytes = b"") -> Message:
    """A message with this payload, as the data plane hands one over."""
    batch, walk = RecordBatch(SALT, 1), Walk(SALT)
    batch.append_message(1, 0, b"$SEQ.", b"r", b"", payload)
    records = bytearray(batch.view())
    walk.attach(records, 0, len(records))
    assert walk.next() == RECORD
    return walk


def asker(*, headers: bool = True, frame: str = "netstring", verbose: bool = False) -> Any:
    """A connection that has not asked yet."""
    return Asker(headers, frame, verbose)


def serve(cursor: Cursor, turns: Turns, buffer_size: int = 1 << 16) -> int:
    """Serve a cursor to its end; in how many reads. What is damaged is lost."""
    reads, size = 0, buffer_size
    while not cursor.is_done():
        assert cursor.ready()
        if cursor.segment is None:
            turns.move(cursor)
        buffer = turns.journal.data[cursor.offset : cursor.offset + size]
        assert buffer, "it ends before the records do"
        consumed = cursor.play(bytearray(buffer), len(buffer))
        assert consumed <= len(buffer)
        cursor.offset += consumed
        size = 2 * size if cursor.outcome == MORE and consumed == 0 else buffer_size
        if cursor.outcome == BAD:
            cursor.offset, following = turns.journal.next_good(cursor.offset)
            cursor.skip_to(following)
        reads += 1
    return reads
