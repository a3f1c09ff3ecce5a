"""A changed byte of an archive is an error or does not matter, wherever it is in a file."""

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyspark_seriatim.jobs.archive.compaction import Compactor
from pyspark_seriatim.jobs.archive.rows import batches, open_archive
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog import DataFile, FileLog
from pyspark_seriatim.jobs.filelog.files import Files
from pyspark_seriatim.jobs.filelog.pages import footer_sum, has_sums, opened, read_through
from pyspark_seriatim.jobs.replay.ordered import Ordered
from tests.support.archives import COLUMNS, put, rows

FLIPS = 400
COUNT = 300


@pytest.fixture
def archive(tmp_path: Path) -> tuple[FileLog, DataFile]:
    log = FileLog.open(str(tmp_path / "archive"))
    numbers = [*range(1, COUNT + 1)]
    (file,) = put(log, rows(numbers, [f"orders.{number % 3}" for number in numbers]))
    return log, file


def read(log: FileLog, file: DataFile) -> pa.Table:
    return pa.Table.from_batches(batches(log.place, file.path, COLUMNS, footer=file.footer))


def test_given_any_byte_that_has_changed_when_read_then_it_is_reported_or_the_rows_are_the_same(
    archive: tuple[FileLog, DataFile],
) -> None:
    log, file = archive
    path, random = Path(log.root, file.path), Random(5)
    whole, before = path.read_bytes(), read(log, file)
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    told = 0
    for at in range(FLIPS):
        begin = len(whole) - footer if at % 2 else 0
        where = random.randrange(begin, len(whole))
        flipped = bytearray(whole)
        flipped[where] ^= 1 << random.randrange(8)
        path.write_bytes(flipped)
        try:
            found = read(log, file)
        except JobError as error:
            told += str(path) in str(error)
        else:
            assert found.equals(before), f"byte {where} of {len(whole)}"
    path.write_bytes(whole)
    assert told > FLIPS * 9 // 10, "all but what no reader looks at"


def test_given_a_payload_that_has_changed_when_merged_or_replayed_then_it_is_refused(
    archive: tuple[FileLog, DataFile],
) -> None:
    log, file = archive
    put(log, rows([COUNT + 1], ["orders.x"]))
    _flip_payload(Path(log.root, file.path))
    with pytest.raises(JobError, match="CRC checksum verification failed"):
        Compactor(lambda merge, groups: [merge(group) for group in groups]).compact(log)
    parts = open_archive(log.root).parts
    with pytest.raises(JobError, match="CRC checksum verification failed"):
        list(Ordered(log.place, parts, ["payload"], (1, COUNT)).batches())


def test_given_a_column_that_is_not_read_when_read_through_then_its_pages_are_verified(
    archive: tuple[FileLog, DataFile],
) -> None:
    log, file = archive
    read_through(log.place, file.path, opened(log.place, file.path, file.footer), ["sequence"])
    _flip_payload(Path(log.root, file.path))
    found = opened(log.place, file.path, file.footer)
    read_through(log.place, file.path, found, ["payload"])
    with pytest.raises(JobError, match=r"token=orders/.* CRC checksum verification failed"):
        read_through(log.place, file.path, found, ["sequence"])


@pytest.mark.parametrize("is_summed", [True, False])
def test_given_a_file_then_it_is_known_whether_its_pages_have_checksums(
    tmp_path: Path, is_summed: bool
) -> None:
    table = pa.table({"sequence": [1, 2, 3], "payload": [b"a", b"b", b"c"]})
    for dictionary in (True, False):
        path = tmp_path / f"{dictionary}.parquet"
        pq.write_table(table, path, write_page_checksum=is_summed, use_dictionary=dictionary)
        place = Files(str(tmp_path))
        metadata = pq.read_metadata(path)
        assert has_sums(place, path.name, metadata) is is_summed
        assert footer_sum(place, path.name) == footer_sum(place, path.name) != ""
    (tmp_path / "none").write_bytes(b"PAR1")
    assert footer_sum(Files(str(tmp_path)), "none") == ""


def _flip_payload(path: Path) -> None:
    """Change a bit in the middle of the payloads."""
    group = pq.read_metadata(path).row_group(0)
    column = group.column(2)
    assert column.path_in_schema == "payload"
    data = bytearray(path.read_bytes())
    data[column.data_page_offset + column.total_compressed_size - 20] ^= 1
    path.write_bytes(data)
