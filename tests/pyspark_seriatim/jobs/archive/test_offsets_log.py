"""Where a batch ends, from the checkpoint of a query."""

from pathlib import Path

import pyspark
import pytest

from pyspark_seriatim.jobs.archive.archiving import UnknownOffsetLog, ending
from pyspark_seriatim.jobs.errors import JobError
from pyspark_seriatim.jobs.filelog.files import Files


def checkpoint(root: Path, *lines: str) -> Files:
    (root / "offsets").mkdir()
    (root / "offsets/3").write_text("\n".join(lines))
    return Files(str(root))


def test_given_the_offset_of_a_batch_when_read_then_it_is_the_number_that_follows(
    tmp_path: Path,
) -> None:
    place = checkpoint(tmp_path, "v1", "{}", '{"journal":"j1","sequence":51}')
    assert ending(place, 3, "j1") == 51
    with pytest.raises(JobError, match="belongs to the journal j1, but the archive to j2"):
        ending(place, 3, "j2")


def test_given_the_second_format_when_read_then_the_number_is_found_as_well(tmp_path: Path) -> None:
    place = checkpoint(tmp_path, "v2", "{}", '0:{"journal":"j1","sequence":51}')
    assert ending(place, 3, "j1") == 51


def test_given_a_format_that_is_not_known_when_read_then_it_and_the_pyspark_are_named(
    tmp_path: Path,
) -> None:
    place = checkpoint(tmp_path, "v3", "{}", '{"journal":"j1","sequence":51}')
    words = f"offsets/3 has the format 'v3', which PySpark {pyspark.__version__} may write"
    with pytest.raises(UnknownOffsetLog, match=words):
        ending(place, 3, "j1")


@pytest.mark.parametrize(
    "lines",
    [(), ("v1", "{}"), ("v1", "{}", "-"), ("v1", "{}", "[]"), ("v1", "{}", '{"sequence":1}')],
)
def test_given_the_checkpoint_of_another_query_when_read_then_the_error_names_it(
    tmp_path: Path, lines: tuple[str, ...]
) -> None:
    place = checkpoint(tmp_path, *lines)
    with pytest.raises(JobError, match="offsets/3 is missing, or not the offset of one Seriatim"):
        ending(place, 3, "j1")
    with pytest.raises(JobError, match="offsets/4 is missing"):
        ending(place, 4, "j1")
