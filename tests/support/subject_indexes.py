"""Messages by subject in stores, and their subject indexes."""

import struct
from pathlib import Path

from sequencer.journal.chunk import END
from sequencer.journal.crc import crc32c
from sequencer.journal.header import SUBJECTS
from sequencer.journal.record import RecordBatch, Walk
from sequencer.journal.segment import Segment
from sequencer.journal.store import Store
from sequencer.journal.subject_builder import SubjectBuilder
from sequencer.journal.subject_index import HEAD, HEAD_SIZE, SubjectIndex
from sequencer.journal.subject_table import SubjectTable

SALT = 5
Lasts = dict[bytes, tuple[int, int]]


def batch_of(subjects: list[bytes], first: int = 1, salt: int = SALT) -> RecordBatch:
    batch = RecordBatch(salt, 1)
    for number, subject in enumerate(subjects, first):
        batch.append_message(number, 1000 + number, subject, b"", b"", b"x" * (number % 50))
    return batch


def lasts_of(table: SubjectTable) -> Lasts:
    return {subject: (number, at) for subject, number, at in table.sorted()}


def fill(store: Store, subjects: list[bytes]) -> None:
    """Write these messages, each as one write."""
    for subject in subjects:
        batch = batch_of([subject], store.last + 1, store.salt)
        number = store.last + 1
        with batch.view() as view:
            store.reserve(len(view))
            store.write(view, number, number, 1000 + number, False)


def sealed(store: Store, subjects: list[bytes]) -> Segment:
    """A sealed segment of these messages."""
    fill(store, subjects)
    segment = store.segments()[-1]
    store.roll(1)
    return segment


def build(store: Store) -> None:
    """Build everything that is missing, as the keeper does."""
    builder = SubjectBuilder(store)
    builder.prepare()
    while builder.step():
        builder.prepare()


def write_version_1(segment: Segment, journal: str) -> None:
    """Rewrite a subject index in the way of version 1, which has no filter."""
    path = Path(segment.path + SUBJECTS)
    data = path.read_bytes()
    fields = list(HEAD.unpack_from(data))
    size, filter_size = fields[-3], fields[-1]
    body = data[HEAD_SIZE : len(data) - size]
    table = data[len(data) - size : len(data) - filter_size]
    fields[1], fields[-3:] = 1, [len(table), crc32c(table), 0]
    head = HEAD.pack(*fields)
    path.write_bytes(head + struct.pack("<I", crc32c(head)) + body + table)


def entries_of(index: SubjectIndex) -> Lasts:
    """All entries, block by block."""
    found: Lasts = {}
    index.hold()
    at = index.start
    while at < index.size:
        buffer = bytearray(index.end_of_block(at) - at)
        assert index.read(at, memoryview(buffer), True) == len(buffer)
        entries = index.entries(at, memoryview(buffer))
        assert entries is not None
        assert index.block_of(entries[0][0]) == index.block_of(entries[-1][0]) == at
        found |= {subject: (number, offset) for subject, number, offset in entries}
        at += len(buffer)
    index.release()
    return found


def lasts_in(segment: Segment, salt: int) -> Lasts:
    """The same by reading all records."""
    buffer = bytearray(segment.size)
    segment.read(segment.start, memoryview(buffer)[segment.start :], True)
    walk, table = Walk(salt), SubjectTable(segment.first)
    walk.attach(buffer, segment.start, len(buffer))
    assert table.add_records(walk, 0, segment.last) == END
    return lasts_of(table)
