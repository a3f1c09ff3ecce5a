"""Files that appear complete or not at all."""

import os
from pathlib import Path

import pytest

from sequencer.journal.disk import pwrite_all, replace, replacing


def test_given_a_file_when_replaced_then_it_is_whole_at_any_moment(tmp_path: Path) -> None:
    target = tmp_path / "file"
    replace(str(target), b"old")
    with replacing(str(target)) as fd:
        pwrite_all(fd, b"ne", 0)
        assert target.read_bytes() == b"old"
        pwrite_all(fd, b"w", 2)
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("kind", [OSError, ValueError, KeyboardInterrupt])
def test_given_what_fails_before_the_end_then_the_file_is_as_it_was(
    tmp_path: Path, kind: type[BaseException]
) -> None:
    def fail(path: Path) -> None:
        with replacing(str(path)) as fd:
            pwrite_all(fd, b"half", 0)
            raise kind

    target = tmp_path / "file"
    target.write_bytes(b"old")
    with pytest.raises(kind):
        fail(target)
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_given_what_another_has_left_beside_then_nothing_is_written_through_it(
    tmp_path: Path,
) -> None:
    other, target = tmp_path / "other", tmp_path / "file"
    other.write_bytes(b"another's")
    (tmp_path / "file.tmp").symlink_to(other)
    with replacing(str(target), mode=0o600) as fd:
        pwrite_all(fd, b"secret", 0)
    assert other.read_bytes() == b"another's"
    assert not target.is_symlink()
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"secret", 0o600)
