"""Small programs in C that check a header of ours, under the sanitizers."""

import shutil
import subprocess
from pathlib import Path

import pytest

needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")


def status_of(program: str, header: Path, folder: Path) -> int:
    """Build the program in `folder`, and run it; its exit status."""
    source, built = folder / "program.c", folder / "program"
    source.write_text(program)
    command = ["gcc", "-O1", "-Wall", "-Werror", "-fsanitize=undefined,address", "-I"]
    subprocess.run([*command, header.parent, source, "-o", built], check=True)
    return subprocess.run([built], check=False).returncode
