"""What of a folder's files is in memory, as the system itself says."""

import mmap
import os
from pathlib import Path

from benchmarks.page_cache import cached_bytes

PAGES = 64


def test_given_files_when_written_then_their_pages_are_in_the_cache(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one").write_bytes(bytes(PAGES * mmap.PAGESIZE))
    (tmp_path / "two").write_bytes(b"a")
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    assert cached_bytes(tmp_path) == (PAGES + 1) * mmap.PAGESIZE


def test_given_a_file_when_nobody_has_touched_it_then_nothing_of_it_is_in_the_cache(
    tmp_path: Path,
) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(PAGES * mmap.PAGESIZE)
    assert cached_bytes(tmp_path) == 0
