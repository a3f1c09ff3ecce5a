"""The tasks of an audit without Spark: what they record about an archive's rows."""

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from pyspark_seriatim.jobs.archive.rows import open_archive
from pyspark_seriatim.jobs.audit.auditing import CountArchive
from pyspark_seriatim.jobs.audit.findings import Tally
from tests.support.parquet_folders import rows, write

REPLACED = "\ufffd"


def noted(root: str, compare: tuple[int, int] | None) -> Tally:
    """What a task notes of the first file."""
    count = CountArchive(open_archive(root), 5, (1, 9), None, compare)
    indexes = pa.RecordBatch.from_pydict({"id": [0]})
    *_, last = (row for batch in count([indexes]) for row in batch.to_pylist())
    found = pickle.loads(last["notes"])
    assert isinstance(found, Tally)
    return found


@pytest.mark.parametrize(("compare", "count"), [((1, 9), 3), ((2, 8), 2), ((3, 3), 0), (None, 0)])
def test_given_subjects_that_were_no_utf_8_when_compared_then_those_of_the_range_are_counted(
    compare: tuple[int, int] | None, count: int, tmp_path: Path
) -> None:
    subjects = ["a", f"a.{REPLACED}", "b", f"{REPLACED}.x", f"x{REPLACED}y"]
    root = write(tmp_path, {"a.parquet": rows([1, 2, 3, 4, 9], subject=subjects)})
    assert noted(root, compare).replaced == count


def test_given_tallies_when_joined_then_their_replaced_subjects_add_up() -> None:
    one, other = Tally(5, replaced=2), Tally(5, replaced=3)
    one.append(other)
    assert one.replaced == 5
