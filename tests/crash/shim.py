"""Builds disk.c and preloads it into a program: operations on a directory are recorded, or fail.

faults = Faults(tmp_path)
env = preload(store, log=tmp_path / "log", faults=faults)      for subprocess or a broker
with faults.on("write 28"): ...                                 28 is ENOSPC, 5 is EIO
with faults.on("fdatasync 5 .segment"): ...                     only of files with this ending
"""

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("disk.c")
COMPILER = shutil.which("gcc") or shutil.which("cc")
WHY_NOT = "no C compiler to build tests/crash/disk.c with"


@cache
def library(source: Path = SOURCE) -> Path:
    """A shim, compiled once a run."""
    assert COMPILER is not None, WHY_NOT
    folder = Path(tempfile.mkdtemp(prefix="seriatim-disk-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    built = folder / f"{source.stem}.so"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([COMPILER, *flags, "-o", str(built), str(source), "-lpthread"], check=True)
    return built


class Faults:
    """The file that tells disk.c what fails now. One writer: the test."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "faults"

    def set(self, *lines: str) -> None:
        """From now on exactly these fail, each `operation fault`, or `fdatasync fault end`."""
        whole = self.path.with_suffix(".new")
        whole.write_text("".join(f"{line}\n" for line in lines))
        os.replace(whole, self.path)

    @contextmanager
    def on(self, *lines: str) -> Iterator[None]:
        self.set(*lines)
        try:
            yield
        finally:
            self.set()


def preload(folder: Path, log: Path | None = None, faults: Faults | None = None) -> dict[str, str]:
    """The environment in which a program's work in `folder` is recorded, or fails."""
    env = {"LD_PRELOAD": str(library()), "DISK_DIR": str(folder.resolve())}
    if log is not None:
        env["DISK_LOG"] = str(log)
    if faults is not None:
        env["DISK_FAULTS"] = str(faults.path)
    return env
