"""docs/journal-format.md: its bytes are those that are written, its tables are the layouts."""

import json
import re
from pathlib import Path

from sequencer.journal import Reader
from sequencer.journal.chunk import END
from sequencer.journal.columns import Collector
from sequencer.journal.header import START, Head, encode_head, stem
from sequencer.journal.identity import CUT, Identity, Underway, read_identity, write_identity
from sequencer.journal.index import HEAD_SIZE, Marks, Summary, write_index
from sequencer.journal.record import RecordBatch, Walk
from sequencer.journal.segment import Segment
from sequencer.journal.subject_index import has_subjects, write_subjects
from sequencer.journal.subject_table import SubjectTable
from seriatim.client.chunk_columns import Columns
from tests.support.places import ROOT

PAGE = (ROOT / "docs" / "journal-format.md").read_text()
DUMP = re.compile(r"^([0-9a-f]{4})((?: {1,2}[0-9a-f]{2}){1,16})(?:   |\s*$)", re.MULTILINE)
SALT, JOURNAL, TIME = 0x1BADCAFE, "00c0ffee00c0ffee", 1_700_000_000 * 10**9
PUBLISHER = 5 << 32 | 9


def dumps() -> list[bytes]:
    """The blocks of bytes on the page, in order; each line is where it says."""
    found: list[bytearray] = []
    for offset, digits in DUMP.findall(PAGE):
        if int(offset, 16) == 0:
            found.append(bytearray())
        assert len(found[-1]) == int(offset, 16)
        found[-1] += bytes.fromhex(digits)
    return [bytes(block) for block in found]


def records() -> bytes:
    batch = RecordBatch(SALT, 1)
    batch.append_message(7, TIME, b"orders.new", b"", b"", b"hello world", PUBLISHER, 1)
    headers = b"NATS/1.0\r\nNats-Msg-Id: a\r\n\r\n"
    batch.append_message(
        8, TIME + 1000, b"orders.new", b"_INBOX.1", headers, b"", PUBLISHER, 2, flags=1
    )
    return bytes(batch.view())


def test_given_the_page_when_its_segment_is_written_then_it_is_those_bytes() -> None:
    assert dumps()[0] == encode_head(Head(SALT, JOURNAL, 7, TIME, 1)) + records()


def test_given_the_page_when_its_index_is_written_then_it_is_those_bytes(tmp_path: Path) -> None:
    marks = Marks()
    marks.add(7, TIME, START)
    marks.note_ids()
    size = START + len(records())
    write_index(str(tmp_path / "index"), Summary(JOURNAL, 7, 8, TIME, TIME + 1000, size), marks, [])
    assert dumps()[1] == (tmp_path / "index").read_bytes()
    assert "Its head has 80 bytes" in PAGE
    assert HEAD_SIZE == 80


def test_given_the_page_when_its_chunk_is_collected_then_it_is_those_bytes() -> None:
    collector = Collector(SALT)
    collector.start_range(7, 8, None)
    collector.collect(records(), 0, len(records()))
    assert dumps()[3] == collector.chunk()


def test_given_the_page_when_its_subject_index_is_written_then_it_is_those_bytes(
    tmp_path: Path,
) -> None:
    segment = Segment(str(tmp_path / stem(7)), 7)
    segment.last, segment.size = 8, START + len(records())
    table, walk = SubjectTable(7), Walk(SALT)
    walk.attach(records(), 0, len(records()))
    assert table.add_records(walk, START, 8) == END
    crc = int.from_bytes(records()[table.last_at - START :][:4], "little")
    write_subjects(segment, JOURNAL, table, crc)
    assert dumps()[2] == (tmp_path / f"{stem(7)}.subjects").read_bytes()
    (tmp_path / f"{stem(7)}.segment").write_bytes(dumps()[0])
    assert has_subjects(segment, JOURNAL)


def test_given_the_bytes_of_the_page_when_read_then_they_are_the_messages(tmp_path: Path) -> None:
    identity = Identity(JOURNAL, SALT, 1, TIME, 2, 6, Underway(CUT, 6, 1), 1 << 26)
    write_identity(str(tmp_path), identity)
    assert read_identity(str(tmp_path)) == identity
    fields = json.loads((tmp_path / "store.json").read_text())
    listed = re.findall(r"^\| `([a-z]+)` \|", PAGE, re.MULTILINE)
    assert listed == list(fields)
    write_identity(str(tmp_path), identity._replace(pending=None, window=0))
    (tmp_path / f"{stem(7)}.segment").write_bytes(dumps()[0])
    (tmp_path / f"{stem(7)}.index").write_bytes(dumps()[1])
    reader = Reader(str(tmp_path))
    assert reader.bounds() == (7, 8)
    assert reader.view.summary(7) is not None, "the index is taken for what it is"
    items = list(reader.records())
    rows = list(Columns(dumps()[3]))
    assert [tuple(item) for item in items] == [tuple(row) for row in rows]
