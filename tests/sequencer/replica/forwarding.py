"""Messages, records and a log in memory, for tests of what a member forwards and numbers."""

from collections.abc import Iterable
from typing import NamedTuple

from sequencer.journal.layout import ID_FLAG, RECORD, SCOPE_FLAG
from sequencer.journal.record import RecordBatch, Walk

SALT = 0x5EA1
EPOCH = 7
RUN, OTHER_RUN = 5, 6


class Published(NamedTuple):
    """A publish of a client."""

    origin: int
    sequence: int
    payload: bytes = b"hello"
    message_id: bytes = b""
    subject: bytes = b"orders.new"
    scoped: bool = False  # its client has permissions

    @property
    def flags(self) -> int:
        if not self.message_id:
            return 0
        return ID_FLAG | SCOPE_FLAG if self.scoped else ID_FLAG

    @property
    def headers(self) -> bytes:
        if not self.message_id:
            return b""
        return b"NATS/1.0\r\nNats-Msg-Id: " + self.message_id + b"\r\n\r\n"


def origin_of(client: int, run: int = RUN) -> int:
    return run << 32 | client


def record_of(
    one: Published, number: int = 0, time: int = 0, epoch: int = 0, salt: int = SALT
) -> bytes:
    """The record; a forwarded one if it has no number."""
    batch = RecordBatch(salt, epoch, checked=number > 0)
    parts = (one.subject, b"", one.headers, one.payload)
    batch.append_message(number, time, *parts, one.origin, one.sequence, one.flags)
    return bytes(batch.view())


def message_of(one: Published) -> Walk:
    """A message as the data plane would pass it on: with a stale number and time."""
    return walk_of(record_of(one, 99, 99, 3))


def walk_of(record: bytes) -> Walk:
    walk = Walk(SALT, False)
    walk.attach(record, 0, len(record))
    assert walk.next() == RECORD
    return walk


def read(data: bytes) -> list[tuple[int, Published]]:
    """Number and publish of each record."""
    walk = Walk(SALT, False)
    walk.attach(data, 0, len(data))
    found = []
    while walk.next() == RECORD:
        headers = data[walk.body : walk.payload]
        message_id = headers.partition(b"Nats-Msg-Id: ")[2].partition(b"\r\n")[0]
        payload = data[walk.payload : walk.payload + walk.payload_size]
        subject = data[walk.subject : walk.subject + walk.subject_size]
        scoped = bool(walk.flags & SCOPE_FLAG)
        one = Published(walk.origin, walk.origin_sequence, payload, message_id, subject, scoped)
        found.append((walk.number, one))
    assert walk.after == len(data)
    return found


class MemoryJournal:
    """What a coordinator's sequencer writes; it may have only so much room."""

    checked = True
    salt = SALT

    def __init__(self, records: Iterable[bytes] = (), room: int = 1 << 40) -> None:
        self.records = list(records)
        self.newest_time = 0
        self.epoch = EPOCH
        self.room = room
        self.broken = False

    @property
    def last(self) -> int:
        return len(self.records)

    def begin_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def reserve(self, need: int) -> None:
        if need > self.room:
            raise OSError(28, "No space left on device")

    def write(self, view: memoryview, first: int, last: int, time: int, ids: bool) -> None:
        if self.broken:
            raise OSError(5, "Input/output error")
        data = bytes(view)
        walk = Walk(SALT)
        walk.attach(data, 0, len(data))
        while walk.next() == RECORD:
            self.records.append(data[walk.at : walk.after])
            assert walk.number == self.last
        assert walk.after == len(data)
        self.newest_time = time
        self.room -= len(data)
