"""Debian's packages, installed now if they are missing."""

import fcntl
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.support.places import ROOT


def need(is_there: Callable[[], object], *packages: str) -> None:
    """Install packages, unless what they bring is there."""
    with open(Path(tempfile.gettempdir()) / "seriatim-need.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # apt-get runs once at a time
        if not is_there():
            subprocess.run([ROOT / ".ci" / "need", *packages], check=True)
    assert is_there(), f"{' '.join(packages)}: what is needed of them is not where it should be"


@functools.cache
def program(name: str, package: str = "") -> str:
    """The path of a program; `package` has it, if it is not called so itself."""
    need(lambda: shutil.which(name), package or name)
    found = shutil.which(name)
    assert found is not None
    return found
