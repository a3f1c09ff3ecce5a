"""Journals written by hand, record by record, for tests that must know every byte."""

from collections.abc import Iterable
from pathlib import Path

from sequencer.journal import Lost, Record
from sequencer.journal.header import START, Head, encode_head, stem
from sequencer.journal.identity import Identity, write_identity
from sequencer.journal.record import RecordBatch, record_size

JOURNAL = "00c0ffee00c0ffee"
SALT = 0x5EA1
SECOND = 1_000_000_000
BEGIN = 1_700_000_000 * SECOND


def time_of(number: int) -> int:
    return BEGIN + number * SECOND


def subject_of(number: int) -> bytes:
    return b"orders.%d" % (number % 3)


def payload_of(number: int) -> bytes:
    return b"message %d" % number


def records(first: int, last: int, salt: int = SALT) -> bytes:
    """The records of these numbers, as they stand in a segment."""
    batch = RecordBatch(salt, 1)
    for number in range(first, last + 1):
        subject, payload = subject_of(number), payload_of(number)
        headers = b"NATS/1.0\r\nA: %d\r\n\r\n" % number if number % 5 == 0 else b""
        reply = b"answers" if number % 7 == 0 else b""
        batch.append_message(number, time_of(number), subject, reply, headers, payload)
    return bytes(batch.view())


def head(first: int, journal: str = JOURNAL) -> bytes:
    return encode_head(Head(SALT, journal, first, BEGIN, 1))


def segment_file(path: Path, first: int) -> Path:
    return path / f"{stem(first)}.segment"


class WrittenStore:
    """A directory that a broker could have written: segments of the numbers asked for."""

    def __init__(self, path: Path, *segments: tuple[int, int], journal: str = JOURNAL) -> None:
        self.path = path
        path.mkdir(exist_ok=True)
        write_identity(str(path), Identity(journal, SALT, 1, BEGIN))
        for first, last in segments:
            self.segment(first).write_bytes(head(first, journal) + records(first, last))

    def segment(self, first: int) -> Path:
        return segment_file(self.path, first)

    def append(self, first: int, data: bytes) -> None:
        """Write at the end of a segment, as a broker does."""
        with self.segment(first).open("ab") as file:
            file.write(data)

    def spoil(self, first: int, number: int, at: int = 60) -> None:
        """Flip a bit of a record, `at` bytes behind its beginning."""
        data = bytearray(self.segment(first).read_bytes())
        data[self.offset(first, number) + at] ^= 1
        self.segment(first).write_bytes(data)

    @staticmethod
    def offset(first: int, number: int) -> int:
        """Where in its segment a record begins."""
        return START + len(records(first, number - 1))


def short(items: Iterable[Record | Lost]) -> list[int | tuple[int, int, bool]]:
    """Items as a line of numbers; a loss is (first, last, whether by damage)."""
    return [
        (item.first, item.last, item.damage is not None) if isinstance(item, Lost) else item.number
        for item in items
    ]


assert record_size(0, 0, 0) == 56
