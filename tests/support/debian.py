"""Programs of Debian's packages, installed now if they are missing."""

import fcntl
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.places import ROOT


@functools.cache
def program(name: str, package: str = "") -> str:
    """The path of a program; `package` has it, if it is not called so itself."""
    with open(Path(tempfile.gettempdir()) / "seriatim-need.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # apt-get runs once at a time
        if shutil.which(name) is None:
            subprocess.run([ROOT / ".ci" / "need", package or name], check=True)
    found = shutil.which(name)
    assert found is not None, f"{package or name} installs {name}"
    return found
