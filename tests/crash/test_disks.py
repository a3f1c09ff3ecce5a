"""The disks for the other tests: they get full, and a power cut takes what was not synced."""

import errno
import os
import subprocess

import pytest

from tests.crash.disks import PowerDisk, fill, mounted, why_no_cut, why_not


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_given_a_small_disk_when_filled_then_it_is_full_until_there_is_room(
    kind: str,
) -> None:
    if why_not(kind):
        pytest.skip(why_not(kind))
    with mounted(kind, 16 << 20) as disk:
        filler = fill(disk, 1 << 20)
        with pytest.raises(OSError, match="No space left") as caught:
            (disk / "file").write_bytes(bytes(2 << 20))
        assert caught.value.errno == errno.ENOSPC
        filler.unlink()
        (disk / "file").write_bytes(bytes(2 << 20))


def test_given_a_power_cut_then_what_was_synced_is_there_and_the_rest_is_not() -> None:
    if why_no_cut():
        pytest.skip(why_no_cut())
    with PowerDisk() as disk:
        with (disk.folder / "file").open("wb", 0) as file:
            file.write(b"synced")
            os.fsync(file.fileno())
            folder = os.open(disk.folder, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
            file.write(b" not synced")
            (disk.folder / "other").write_text("never synced")
            disk.cut()
            with pytest.raises(OSError, match="Input/output error"):
                os.fsync(file.fileno())
        disk.restore()
        assert (disk.folder / "file").read_bytes() == b"synced"
        assert not (disk.folder / "other").exists()


def test_given_a_namespace_that_holds_a_disk_when_its_power_is_back_then_it_is_read_again() -> None:
    """As that of a browser does, which was started beside this test."""
    if why_no_cut():
        pytest.skip(why_no_cut())
    command = ["unshare", "--mount", "sh", "-c", "echo; read _"]
    with PowerDisk() as disk:
        (disk.folder / "file").write_text("x")
        os.sync()
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "\n", "it holds what is mounted"
            disk.cut()
            disk.restore()
            assert (disk.folder / "file").read_text() == "x"
            holder.communicate("\n")
