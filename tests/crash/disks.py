"""Small disks that can be filled, and one whose power can be cut. They need root and `mount`.

    with mounted("tmpfs", 4 << 20) as folder: ...
    with PowerDisk() as disk: disk.cut()

The kernel does the cut: ext4's shutdown ioctl stops all writes on their way to the disk, as in
xfstests, and nothing that no sync had forced out arrives any more. Mounted again, the file system
recovers as after a real power cut.
"""

import fcntl
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.places import ROOT

SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
NO_LOG_FLUSH = struct.pack("I", 2)
IMAGE_BYTES = 1 << 30  # a sparse file
KINDS = ("tmpfs", "ext4", "btrfs", "xfs", "overlay", "ramfs")
PACKAGES = {"mkfs.ext4": "e2fsprogs", "mkfs.btrfs": "btrfs-progs", "mkfs.xfs": "xfsprogs"}
LEAST = {"btrfs": 128 << 20, "xfs": 300 << 20}  # bytes; mkfs makes no smaller one


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def place() -> Path:
    """A folder to mount on. Not pytest's, which could not delete what a killed run leaves."""
    folder = Path(tempfile.mkdtemp(prefix="seriatim-disk-")) / "disk"
    folder.mkdir()
    return folder


def leave(folder: Path) -> None:
    run("umount", "--lazy", str(folder))
    shutil.rmtree(folder.parent, ignore_errors=True)


@contextmanager
def mounted(kind: str, size: int) -> Iterator[Path]:
    """A folder on a file system of its own: one of KINDS, in an image beside it if it needs one."""
    folder = place()
    if kind in ("tmpfs", "ramfs"):
        run("mount", "-t", kind, "-o", f"size={size}", "seriatim", str(folder))
    elif kind == "overlay":
        with mounted("ext4", size) as disk:
            layers = [disk / name for name in ("lower", "upper", "work")]
            for layer in layers:
                layer.mkdir()
            options = "lowerdir={},upperdir={},workdir={}".format(*layers)
            run("mount", "-t", "overlay", "-o", options, "seriatim", str(folder))
            try:
                yield folder
            finally:
                leave(folder)
        return
    else:
        mount_image(new_image(folder.with_suffix(".image"), size, kind), folder)
    try:
        yield folder
    finally:
        leave(folder)


def new_image(image: Path, size: int, kind: str = "ext4") -> Path:
    """An empty file system; ext4 without the blocks that only root may use."""
    image.write_bytes(b"")
    os.truncate(image, max(size, LEAST.get(kind, 0)))
    options = ("-q", "-F", "-m", "0") if kind == "ext4" else ("-q",)
    run(f"mkfs.{kind}", *options, str(image))
    return image


def mount_image(image: Path, folder: Path) -> None:
    # Not by `mount -o loop`, which takes the device that the image has: another namespace, such as
    # that of a browser beside this test, may hold the file system there, which has no power now.
    device = run("losetup", "--find", "--show", str(image)).strip()
    try:
        run("mount", device, str(folder))
    finally:
        run("losetup", "--detach", device)  # when it is unmounted
    # What is not synced stays in memory for longer than any test takes.
    with suppress(OSError):  # ext4 and btrfs know it
        run("mount", "-o", "remount,commit=600", str(folder))


class PowerDisk:
    """An ext4 of its own, mounted on `folder`."""

    def __init__(self) -> None:
        self.folder = place()
        self.image = self.folder.with_suffix(".image")

    def __enter__(self) -> Self:
        mount_image(new_image(self.image, IMAGE_BYTES), self.folder)
        return self

    def cut(self) -> None:
        """From now on nothing reaches the disk; whoever syncs gets an error.

        Nobody may be in the middle of a sync: Linux 6 tells that one, wrongly, that all is well.
        """
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, NO_LOG_FLUSH)
        finally:
            os.close(fd)

    def restore(self) -> None:
        """Power is back; nobody has a file open there any more."""
        run("umount", str(self.folder))
        mount_image(self.image, self.folder)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        leave(self.folder)


@cache
def why_not(kind: str) -> str:
    """Why no such disk can be had here; empty if it can."""
    if os.geteuid() != 0:
        return "only root can mount a disk of its own"
    made_by = f"mkfs.{'ext4' if kind == 'overlay' else kind}"
    if kind not in ("tmpfs", "ramfs") and shutil.which(made_by) is None:
        subprocess.run([ROOT / ".ci" / "need", PACKAGES[made_by]], check=False, capture_output=True)
        if shutil.which(made_by) is None:
            return f"there is no {made_by}"
    try:
        with mounted(kind, 8 << 20) as folder:
            (folder / "file").write_text("x")
    except OSError as error:
        return f"no disk of its own can be mounted here: {error}"
    return ""


@cache
def why_no_cut() -> str:
    """Why no power can be cut here; empty if it can."""
    if why_not("ext4"):
        return why_not("ext4")
    with PowerDisk() as disk:
        try:
            disk.cut()
        except OSError as error:
            return f"ext4 cannot be shut down here: {error}"
    return ""


def fill(folder: Path, leave: int, name: str = "filler") -> Path:
    """A file that takes all room but so many bytes; delete it to have the room back."""
    filler = folder / name
    room = os.statvfs(folder)
    size = room.f_bavail * room.f_bsize - leave
    with filler.open("wb") as file, suppress(OSError):
        os.posix_fallocate(file.fileno(), 0, size)
    return filler
