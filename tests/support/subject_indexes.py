"""Messages by subject in stores, and their subject indexes."""

from sequencer.journal.chunk import END
from sequencer.journal.record import RecordBatch, Walk
from sequencer.journal.segment import Segment
from sequencer.journal.store import Store
from sequencer.journal.subject_builder import SubjectBuilder
from sequencer.journal.subject_index import SubjectIndex
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
    builder.wanted = True
    for _ in range(2 * len(store.segments()) + 2):
        builder.prepare()
        builder.step()
    builder.prepare()


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
