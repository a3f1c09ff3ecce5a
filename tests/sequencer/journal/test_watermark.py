"""Readers of a cluster member's files: they see what is committed, and wait for the rest."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sequencer.journal import Reader, Record
from sequencer.journal.watermark import FOLDER, Watermark, WatermarkFile, read_watermark
from seriatim.client.chunk_columns import Columns
from tests.support.replica_stores import append, open_replica, said_in
from tests.support.stores import SECOND

MEMBER = "00000000000000aa"


class OwnStore:
    """A member's store, and its watermark."""

    def __init__(self, path: Path) -> None:
        self.store = open_replica(path, segment_bytes=4096)
        (path / FOLDER).mkdir()
        self.file = WatermarkFile(str(path))
        self.commit(0)

    def commit(self, number: int) -> None:
        self.file.write(Watermark(self.store.id, MEMBER, number, 1))

    def append(self, count: int, epoch: int) -> None:
        for _ in range(count):
            append(self.store, [SECOND], epoch)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnStore]:
    own = OwnStore(tmp_path)
    yield own
    own.file.close()
    own.store.close()


def said(reader: Reader) -> dict[int, bytes]:
    """All that a new reader finds."""
    found = list(reader.records())
    assert all(isinstance(item, Record) for item in found), "nothing is lost"
    return {item.number: bytes(item.payload) for item in found if isinstance(item, Record)}


def test_given_records_above_the_watermark_when_read_then_they_are_not_there(
    own: OwnStore, tmp_path: Path
) -> None:
    reader = Reader(str(tmp_path))
    own.append(60, 1)  # several segments
    assert said(reader) == {}
    assert reader.bounds() == (1, 0)

    for watermark in (1, 7, 30, 59, 60):
        own.commit(watermark)
        assert reader.bounds() == (1, watermark)
        assert said(reader) == {n: said_in(1, n) for n in range(1, watermark + 1)}
        rows = [one for one in reader.columns() if isinstance(one, bytes)]
        assert sum(len(Columns(one)) for one in rows) == watermark


def test_given_cuts_above_the_watermark_when_followed_then_each_number_comes_once(
    own: OwnStore, tmp_path: Path
) -> None:
    reader = Reader(str(tmp_path))
    follower = reader.follow()
    seen: dict[int, bytes] = {}
    for epoch in range(1, 6):
        first = own.store.last
        own.append(20, epoch)
        own.commit(first + 10)
        while items := follower.poll():
            for item in items:
                assert isinstance(item, Record), "nothing is lost"
                assert item.number not in seen
                seen[item.number] = bytes(item.payload)
        assert max(seen) == first + 10
        own.store.truncate(first + 15)
        own.store.truncate(first + 10)
    follower.close()
    assert seen == {n: said_in(1 + (n - 1) // 10, n) for n in range(1, 51)}


@pytest.mark.parametrize("at", range(0, 48, 5))
def test_given_a_damaged_watermark_when_read_then_it_is_not_believed(
    own: OwnStore, tmp_path: Path, at: int
) -> None:
    own.commit(7)
    file = tmp_path / FOLDER / "watermark"
    data = bytearray(file.read_bytes())
    if at >= len(data):
        del data[-1]
    else:
        data[at] ^= 1
    file.write_bytes(data)
    assert read_watermark(str(tmp_path)) is None
