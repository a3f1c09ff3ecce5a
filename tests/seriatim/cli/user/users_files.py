"""The commands of `seriatim user` on a users' file, as a person or a script runs them."""

import subprocess
import tomllib
from pathlib import Path
from typing import Any

from seriatim.cli.errors import FAILED
from seriatim.settings.usage import USAGE
from tests.seriatim.cli.command import seriatim

Run = subprocess.CompletedProcess[bytes]


def user(*arguments: str, stdin: str = "") -> Run:
    return seriatim("user", *arguments, stdin=stdin.encode())


def done(*arguments: str, stdin: str = "") -> tuple[str, list[str]]:
    """What it prints for somebody, and what it says that it did; it must do it."""
    run = user(*arguments, stdin=stdin)
    said = run.stderr.decode().splitlines()
    assert run.returncode == 0, said
    assert all(line.startswith("seriatim: ") for line in said)
    return run.stdout.decode(), [line.removeprefix("seriatim: ") for line in said]


def refused(*arguments: str, stdin: str = "") -> str:
    """Why it does nothing, after the name of the program."""
    run = user(*arguments, stdin=stdin)
    said = run.stderr.decode()
    assert run.returncode in (FAILED, USAGE), said
    assert run.stdout == b""
    assert "Traceback" not in said
    assert said.startswith("seriatim: ")
    return said.removeprefix("seriatim: ").rstrip("\n")


def add(path: Path, name: str, *arguments: str, password: str = "s3same") -> list[str]:
    """Add a user, with a hash that is quick to make."""
    given = ("--file", str(path), "--password-stdin", "--cost", "8", *arguments)
    return done("add", name, *given, stdin=password)[1]


def tables(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())
